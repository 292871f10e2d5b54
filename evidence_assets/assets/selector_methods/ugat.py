"""UGAT-MedQA and its ablations: paths of the benchmark's graph; and no evidence at all, for the closed book."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast, get_args

import torch

from evidence_assets import profiles
from evidence_assets.assets.inputs import graph_of
from evidence_assets.assets.selector_methods.method import Method
from evidence_assets.assets.table_asset import Step
from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.experiment.question_concepts import DEPTH, stored_surroundings
from evidence_assets.experiment.selection import NoEvidence, Selector, asked
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
    hops, deepest = int(parameters.get("hops", numbers.hops)), max(numbers.hops, DEPTH)
    if hops > deepest:
        raise BadInput(
            f"selector {name}: {hops} hops are asked for, but subgraphs reach {deepest}: raise the profile's"
        )
    return UgatSettings(
        hops=hops,
        node_filter="none" if scorer == "none" else "scores",
        attention=attention,
        max_length=numbers.path_length,
        passages=numbers.passages,
    )


def _paths(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    graph = graph_of(step)
    questions = asked(step.read("questions", "questions/mcqa", step.partition))
    around = stored_surroundings(step.read("subgraphs", "subgraphs/mcqa", step.partition), questions, graph)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return GraphPaths(name, graph, around, load(), settings_of(name, parameters), device)


def _closed_book(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    return NoEvidence(name, "the closed book is answered from what the model knows")


METHODS: dict[str, Method] = {
    "graph_paths": Method(_paths, ("graph", "subgraphs"), ("scorer", "hops"), VERSION),
    "closed_book": Method(_closed_book, (), (), "1"),
}
