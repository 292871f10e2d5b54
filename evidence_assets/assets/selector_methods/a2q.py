"""Attention2Query, this project's ranking of paths, and the retrievals they are compared with: triples of a graph."""

from __future__ import annotations

from typing import Any

from evidence_assets import profiles
from evidence_assets.assets.benchmark import benchmarks
from evidence_assets.assets.inputs import graph_of
from evidence_assets.assets.models_in_use import encoder, reranker, tuned_classifier
from evidence_assets.assets.selector_methods.method import Method, Source
from evidence_assets.assets.table_asset import Step
from evidence_assets.experiment.selection import Selector
from evidence_assets.graphs.base_rows import definitions_of
from evidence_assets.models.protocols import Reranker
from evidence_assets.systems.a2q import linked_paths
from evidence_assets.systems.a2q import system as a2q

_SWITCHES = ("classifier", "taxonomy")


def _a2q(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    profile = profiles.load()
    wanted = parameters.get("classifier", True)
    return _with_classifier(
        name, step, parameters, reranker(profile.reranker, profile.token_encoder) if wanted else None
    )


def _tuned(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    return _with_classifier(name, step, parameters, tuned_classifier(step.lake))


def _with_classifier(name: str, step: Step, parameters: dict[str, Any], classifier: Reranker | None) -> Selector:
    graph, profile = graph_of(step), profiles.load()
    taxonomy = benchmarks()[step.benchmark].taxonomy if parameters.get("taxonomy", True) else ""
    return a2q.A2Q(
        name,
        graph,
        encoder(profile.encoder),
        classifier,
        a2q.A2QSettings(**{name: value for name, value in parameters.items() if name not in _SWITCHES}),
        definitions_of(step.read("kg_nodes", f"knowledge/{taxonomy}/nodes")) if taxonomy else None,
    )


def _nearest(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    graph = graph_of(step)
    return a2q.NearestTriples(name, graph, encoder(profiles.load().encoder), **parameters)


def _linked(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    graph = graph_of(step)
    return a2q.LinkedTriples(
        name,
        graph,
        encoder(profiles.load().encoder),
        **parameters,
    )


def _paths(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    graph = graph_of(step)
    return linked_paths.LinkedPaths(
        name,
        graph,
        encoder(profiles.load().encoder),
        linked_paths.PathSettings(**parameters),
    )


_PARAMETERS = (*_SWITCHES, "paths", "options", "penalty", "layers", "score", "kept_nodes", "top_n")
_READS: tuple[Source, ...] = ("graph", "graph_passages")
METHODS: dict[str, Method] = {
    "a2q": Method(
        _a2q,
        (*_READS, "taxonomy"),
        _PARAMETERS,
        a2q.VERSION,
    ),
    "a2q_tuned": Method(_tuned, (*_READS, "taxonomy", "tuned_classifier"), _PARAMETERS[1:], a2q.VERSION),
    "nearest_triples": Method(_nearest, _READS, ("top_n", "options"), a2q.VERSION),
    "linked_triples": Method(_linked, _READS, ("top_n", "options"), a2q.VERSION),
    "linked_paths": Method(
        _paths, _READS, ("penalty", "bridge", "top_n", "fan", "max_neighbours"), linked_paths.VERSION
    ),
}
