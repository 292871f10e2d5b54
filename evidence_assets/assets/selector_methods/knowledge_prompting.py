"""Triples around a question's topic entities, with what a language model recalls or without."""

from __future__ import annotations

from typing import Any

from evidence_assets import profiles
from evidence_assets.assets.inputs import graph_of
from evidence_assets.assets.models_in_use import encoder
from evidence_assets.assets.selector_methods.method import Method
from evidence_assets.assets.table_asset import Step
from evidence_assets.experiment.selection import Selector
from evidence_assets.lake.errors import StaleInput
from evidence_assets.systems.background import system as background_knowledge


def _prompting(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    graph = graph_of(step)
    recall = str(parameters.get("recall", ""))
    recalled = _recalled(step, f"chains/graph/{recall}") if recall else None
    settings = background_knowledge.BackgroundSettings(
        graph=bool(parameters.get("graph", True)),
        model=bool(recall),
        hops=int(parameters.get("hops", 1)),
        top_k=int(parameters.get("top_k", 10)),
    )
    return background_knowledge.BackgroundKnowledge(name, graph, encoder(profiles.load().encoder), settings, recalled)


def _recalled(step: Step, asset: str) -> background_knowledge.StoredBackground:
    """What the asset holds for the partition's questions, each of which it must have a row of, if only a failed one."""
    rows = step.read("chains", asset, step.partition)
    asked = step.read("questions", "questions/graph", step.partition)["question_id"].to_list()
    missing = len(set(asked) - set(rows["question_id"].to_list()))
    if missing:
        raise StaleInput(
            f"{asset} has nothing on {missing} of {len(asked)} questions of {step.partition}: materialize it first"
        )
    return background_knowledge.stored_background(rows)


METHODS: dict[str, Method] = {
    "knowledge_prompting": Method(
        _prompting, ("graph",), ("graph", "recall", "hops", "top_k"), background_knowledge.VERSION
    )
}
