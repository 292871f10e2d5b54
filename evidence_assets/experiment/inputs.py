"""What benchmarks are answered from, opened for a step: graphs with the profile's encoder, and tables."""

from __future__ import annotations

from evidence_assets import profiles
from evidence_assets.benchmarks.records import Table
from evidence_assets.benchmarks.rows import table_of
from evidence_assets.experiment.question_concepts import Expansion, subgraph_rows
from evidence_assets.experiment.selection import asked
from evidence_assets.experiment.step import Made, Step
from evidence_assets.graphs import stored
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.models.in_use import encoder


def open_graph(lake: Lake, name: str) -> KnowledgeGraph:
    """The graph of this name, with vectors of the profile's encoder."""
    return stored.open_graph(lake, name, encoder(profiles.load().encoder))


def graph_of(step: Step) -> KnowledgeGraph:
    """The graph that the partition's benchmark is answered from."""
    if not step.benchmark.graph:
        raise BadInput(f"benchmark {step.benchmark_name} names no graph: declare the one that it is answered from")
    return open_graph(step.lake, step.benchmark.graph)


def tables_of(step: Step) -> dict[str, tuple[Table, str]]:
    """The tables of the partition's benchmark with their content hashes, by id."""
    rows = step.read("tables", "tables", step.benchmark_name)
    return {row["table_id"]: (table_of(row), row["content_hash"]) for row in rows.to_dicts()}


def make_subgraphs(step: Step) -> Made:
    """What each question of the partition names in its benchmark's graph, and the part of the graph around it."""
    name = step.benchmark.graph
    if not name:
        return Made([], [], {"no_subgraphs": f"benchmark {step.benchmark_name} names no graph"})
    numbers = step.profile.ugat
    return subgraph_rows(
        asked(step.read("questions", "questions/mcqa", step.partition)),
        open_graph(step.lake, name),
        Expansion(numbers.D, numbers.cap, numbers.max_nodes),
        step.previous(),
        step.previous_lineage(),
    )
