"""Attention2Query, this project's ranking of paths, and the retrievals they are compared with: how each is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evidence_assets.experiment.inputs import graph_of
from evidence_assets.experiment.selection import Selector
from evidence_assets.experiment.stage import Read
from evidence_assets.experiment.step import Step
from evidence_assets.experiment.system import Method, OwnStages, System
from evidence_assets.graphs.base_rows import definitions_of
from evidence_assets.models.in_use import RELEVANCE_CLASSIFIER, encoder, reranker, tuned_classifier
from evidence_assets.models.protocols import Reranker
from evidence_assets.systems.a2q import VERSION, classifier_tuning, linked_paths
from evidence_assets.systems.a2q import system as a2q


@dataclass(frozen=True)
class A2QVariant(a2q.A2QSettings):
    """The stages, and what they are given: which relevance ``classifier``, and whether a ``taxonomy`` says what terms
    mean."""

    classifier: Literal["reranker", "tuned", "none"] = "reranker"
    taxonomy: bool = True


@dataclass(frozen=True)
class TripleSettings:
    """The ``top_n`` nearest triples of a question, or of each of its ``options``."""

    top_n: int = 10
    options: bool = False


def _classifier(step: Step, settings: A2QVariant) -> Reranker | None:
    if settings.classifier == "none":
        return None
    if settings.classifier == "tuned":
        return tuned_classifier(step.lake)
    return reranker(step.profile.reranker, step.profile.token_encoder)


def _reads_classifier(settings: A2QVariant) -> Sequence[Read]:
    return [Read(RELEVANCE_CLASSIFIER)] if settings.classifier == "tuned" else []


def _a2q(name: str, step: Step, settings: A2QVariant) -> Selector:
    taxonomy = step.benchmark.taxonomy if settings.taxonomy else ""
    return a2q.A2Q(
        name,
        graph_of(step),
        encoder(step.profile.encoder),
        _classifier(step, settings),
        settings,
        definitions_of(step.read("kg_nodes", f"knowledge/{taxonomy}/nodes")) if taxonomy else None,
    )


def _nearest(name: str, step: Step, settings: TripleSettings) -> Selector:
    return a2q.NearestTriples(name, graph_of(step), encoder(step.profile.encoder), settings.top_n, settings.options)


def _linked(name: str, step: Step, settings: TripleSettings) -> Selector:
    return a2q.LinkedTriples(name, graph_of(step), encoder(step.profile.encoder), settings.top_n, settings.options)


def _paths(name: str, step: Step, settings: linked_paths.PathSettings) -> Selector:
    return linked_paths.LinkedPaths(name, graph_of(step), encoder(step.profile.encoder), settings)


SYSTEM = System(
    "a2q",
    VERSION,
    {
        "a2q": Method(
            settings=A2QVariant,
            open=_a2q,
            reads=("graph", "graph_passages", "taxonomy"),
            more_reads=_reads_classifier,
        ),
        "nearest_triples": Method(settings=TripleSettings, open=_nearest, reads=("graph", "graph_passages")),
        "linked_triples": Method(settings=TripleSettings, open=_linked, reads=("graph", "graph_passages")),
        "linked_paths": Method(settings=linked_paths.PathSettings, open=_paths, reads=("graph", "graph_passages")),
        "tuned_classifier": OwnStages(
            settings=classifier_tuning.ClassifierSettings, stages=classifier_tuning.classifier_stages
        ),
    },
)
