"""UGAT-MedQA and its ablations: paths of the benchmark's graph; and no evidence at all, for the closed book."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast, get_args

import torch

from evidence_assets import profiles
from evidence_assets.assets.selector_methods.method import Method, graph_of
from evidence_assets.assets.table_asset import Step
from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.benchmarks.records import option_labels
from evidence_assets.experiment.question_concepts import concepts_from_row
from evidence_assets.experiment.selection import NoEvidence, Selector
from evidence_assets.graphs.attention.scorer import CONTRASTIVE, WALK, AttentionSettings, Variant
from evidence_assets.lake.errors import BadInput
from evidence_assets.systems.ugat.selector import VERSION, GraphPaths
from evidence_assets.systems.ugat.system import UgatSettings

MEASURED = {"contrastive": CONTRASTIVE, "walk": WALK}
SCORERS = (*get_args(Variant), "none")


def settings_of(name: str, parameters: dict[str, Any]) -> UgatSettings:
    """The profile's numbers with what a variant states otherwise: ``scorer``, ``hops``.

    The contrastive scorer and the walk from it have settings of their own, chosen by measurement.
    """
    numbers = profiles.load().ugat
    scorer = str(parameters.get("scorer", "gat"))
    if scorer not in SCORERS:
        raise BadInput(f"selector {name}: there is no node scorer {scorer!r}; known: {', '.join(SCORERS)}")
    attention = AttentionSettings(steps=numbers.steps)
    if scorer in MEASURED:
        attention = MEASURED[scorer]
    elif scorer != "none":
        attention = replace(attention, variant=cast(Variant, scorer))
    return UgatSettings(
        hops=int(parameters.get("hops", numbers.hops)),
        cap=numbers.cap,
        max_nodes=numbers.max_nodes,
        node_filter="none" if scorer == "none" else "scores",
        attention=attention,
        max_length=numbers.path_length,
        passages=numbers.passages,
    )


def _paths(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    graph = graph_of(step)
    number = {node: i for i, node in enumerate(graph.node_ids)}
    questions = step.read("questions", "questions/mcqa", step.partition)
    labels = {q["question_id"]: option_labels(q["task"], q["options"]) for q in questions.iter_rows(named=True)}
    rows = step.read("subgraphs", "subgraphs/mcqa", step.partition)
    linked = {
        row["question_id"]: concepts_from_row(row, labels[row["question_id"]], number)
        for row in rows.iter_rows(named=True)
    }
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return GraphPaths(name, graph, linked, load(), settings_of(name, parameters), device)


def _closed_book(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    return NoEvidence(name, "the closed book is answered from what the model knows")


METHODS: dict[str, Method] = {
    "graph_paths": Method(_paths, ("graph", "subgraphs"), ("scorer", "hops"), VERSION),
    "closed_book": Method(_closed_book, (), (), "1"),
}
