"""Triples around a question's topic entities, with what a language model recalls or without."""

from __future__ import annotations

from typing import Any

from evidence_assets import profiles
from evidence_assets.components.knowledge_inputs import facts_of
from evidence_assets.components.models_in_use import encoder
from evidence_assets.components.selector_methods.method import Method
from evidence_assets.components.table_asset import Step
from evidence_assets.systems import background_knowledge
from evidence_assets.systems.selection import Selector


def _prompting(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    graph = facts_of(step)
    recall = str(parameters.get("recall", ""))
    recalled = (
        background_knowledge.stored_background(step.read("chains", f"chains/graph/{recall}", step.partition))
        if recall
        else None
    )
    settings = background_knowledge.BackgroundSettings(
        graph=bool(parameters.get("graph", True)),
        model=bool(recall),
        hops=int(parameters.get("hops", 1)),
        top_k=int(parameters.get("top_k", 10)),
    )
    return background_knowledge.BackgroundKnowledge(
        name, graph.facts, graph.linker, encoder(profiles.load().encoder), settings, recalled
    )


METHODS: dict[str, Method] = {
    "knowledge_prompting": Method(
        _prompting, ("graph",), ("graph", "recall", "hops", "top_k"), background_knowledge.VERSION
    )
}
