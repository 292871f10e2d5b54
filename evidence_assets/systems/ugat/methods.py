"""UGAT-MedQA and its ablations: how the selector of paths is opened for a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.experiment.inputs import graph_of
from evidence_assets.experiment.question_concepts import DEPTH, stored_surroundings
from evidence_assets.experiment.selection import NoEvidence, Selector, asked
from evidence_assets.experiment.step import Step
from evidence_assets.experiment.system import Method, NoSettings, System
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import with_model
from evidence_assets.profiles import Profile
from evidence_assets.systems.ugat import VERSION
from evidence_assets.systems.ugat.settings import UgatSettings
from evidence_assets.systems.ugat.system import GraphPaths


def _defaults(profile: Profile) -> Mapping[str, Any]:
    return profile.ugat.model_dump(exclude={"cap", "max_nodes"})


def _paths(name: str, step: Step, settings: UgatSettings) -> Selector:
    graph, deepest = graph_of(step), max(step.profile.ugat.D, DEPTH)
    if deepest < settings.D:
        raise BadInput(
            f"variant {name} looks {settings.D} steps around, but subgraphs reach {deepest}: raise the profile's D"
        )
    questions = asked(step.read_here("questions", "questions/mcqa"))
    around = stored_surroundings(
        step.read_here("subgraphs", with_model("subgraphs/mcqa", step.encoder)), questions, graph
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return GraphPaths(name, graph, around, load(), settings, device)


SYSTEM = System(
    "ugat",
    VERSION,
    {
        "ugat": Method(
            settings=UgatSettings,
            open=_paths,
            reads=("graph", "subgraphs"),
            defaults=_defaults,
            models=lambda settings: ("encoder",),
            published="passages",
        ),
        "closed_book": Method(
            settings=NoSettings,
            open=lambda name, step, settings: NoEvidence(name, "the closed book is answered from what the model knows"),
            published="question",
        ),
    },
)
