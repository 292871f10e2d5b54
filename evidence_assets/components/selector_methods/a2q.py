"""Attention2Query and the retrievals it is compared with: triples of a graph."""

from __future__ import annotations

from typing import Any

from evidence_assets import profiles
from evidence_assets.components.knowledge_inputs import facts_of
from evidence_assets.components.models_in_use import encoder, reranker
from evidence_assets.components.selector_methods.method import Method, Source
from evidence_assets.components.table_asset import Step
from evidence_assets.systems import a2q
from evidence_assets.systems.selection import Selector


def _settings(parameters: dict[str, Any]) -> a2q.A2QSettings:
    return a2q.A2QSettings(**{name: value for name, value in parameters.items() if name != "classifier"})


def _a2q(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    graph, profile = facts_of(step), profiles.load()
    classifier = reranker(profile.reranker, profile.token_encoder) if parameters.get("classifier", True) else None
    return a2q.A2Q(
        name,
        graph.facts,
        graph.node_vectors,
        graph.linker,
        encoder(profile.encoder),
        classifier,
        _settings(parameters),
    )


def _nearest(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    graph = facts_of(step)
    return a2q.NearestTriples(
        name, graph.facts, encoder(profiles.load().encoder), graph.edge_vectors, int(parameters.get("top_n", 10))
    )


def _linked(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    graph = facts_of(step)
    return a2q.LinkedTriples(
        name,
        graph.facts,
        graph.linker,
        encoder(profiles.load().encoder),
        graph.edge_vectors,
        int(parameters.get("top_n", 10)),
    )


_READS: tuple[Source, ...] = ("graph", "graph_passages")
METHODS: dict[str, Method] = {
    "a2q": Method(
        _a2q,
        _READS,
        ("classifier", "paths", "options", "penalty", "layers", "score", "kept_nodes", "top_n"),
        a2q.VERSION,
    ),
    "nearest_triples": Method(_nearest, _READS, ("top_n",), a2q.VERSION),
    "linked_triples": Method(_linked, _READS, ("top_n",), a2q.VERSION),
}
