"""The graphs that benchmarks are answered from, opened for a step with the profile's encoder."""

from __future__ import annotations

from evidence_assets import profiles
from evidence_assets.experiment.step import Step
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
