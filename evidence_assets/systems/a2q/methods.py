"""Attention2Query, this project's ranking of paths, and the retrievals they are compared with: how each is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evidence_assets.benchmarks.declared import declared, raw_files
from evidence_assets.experiment.inputs import LINKS, LinkedElsewhere, graph_of
from evidence_assets.experiment.selection import Selector
from evidence_assets.experiment.stage import Read
from evidence_assets.experiment.step import Step
from evidence_assets.experiment.system import Method, OwnStages, System
from evidence_assets.experiment.variants import Variant
from evidence_assets.graphs.base_rows import definitions_of
from evidence_assets.models.in_use import RELEVANCE_CLASSIFIER, encoder, reranker, tuned_classifier
from evidence_assets.models.protocols import Reranker
from evidence_assets.profiles import Kind, Profile
from evidence_assets.systems.a2q import VERSION, classifier_tuning, linked_paths
from evidence_assets.systems.a2q import system as a2q
from evidence_assets.systems.a2q.embeddings import TextVectors, WalkVectors, WordVectors
from evidence_assets.systems.a2q.settings import A2QSettings, ClassifierSettings, PathSettings, TripleSettings

FROM_FILES = ("numberbatch", "word2vec", "glove")
"""Embeddings that are read from files that a user puts there."""


def _classifier(step: Step, settings: A2QSettings) -> Reranker | None:
    if settings.classifier == "none":
        return None
    if settings.classifier == "tuned":
        return tuned_classifier(step.lake)
    return reranker(step.profile.reranker, step.profile.token_encoder)


def _more_reads(variant: Variant, settings: A2QSettings) -> Sequence[Read]:
    files = [Read(f"raw/embeddings/{settings.embedding}")] if settings.embedding in FROM_FILES else []
    return [*files, *([Read(RELEVANCE_CLASSIFIER)] if settings.classifier == "tuned" else [])]


def _tuned_on(profile: Profile) -> Mapping[str, Any]:
    """What the classifier learns from: the train split of CSQA, or where that is not answered the sample's questions."""
    if declared()["csqa"].runs_in():
        return {"benchmark": "csqa", "split": "train"}
    return {"benchmark": "sample_kgqa", "epochs": 4, "rate": 5e-5}


def _models(settings: A2QSettings) -> tuple[Kind, ...]:
    return ("encoder", "reranker") if settings.classifier == "reranker" else ("encoder",)


def _a2q(name: str, step: Step, settings: A2QSettings) -> Selector:
    taxonomy = step.benchmark.taxonomy if settings.taxonomy else ""
    graph, nodes = graph_of(step), None
    definitions = definitions_of(step.read("kg_nodes", f"knowledge/{taxonomy}/nodes")) if taxonomy else None
    if settings.taxonomy and step.benchmark.taxonomy_relation:
        definitions = a2q.meanings(graph, step.benchmark.taxonomy_relation)
    vectors: TextVectors = encoder(step.profile.encoder)
    if settings.embedding == "walks":
        vectors = WalkVectors(graph)
        nodes = vectors.nodes
    elif settings.embedding in FROM_FILES:
        vectors = WordVectors(step.lake.raw_place(raw_files(f"embeddings/{settings.embedding}").paths[0]))
        nodes = vectors.sentences(graph.names.to_list())
    return a2q.A2Q(
        name,
        graph,
        vectors,
        _classifier(step, settings),
        settings,
        definitions,
        nodes,
    )


def _nearest(name: str, step: Step, settings: TripleSettings) -> Selector:
    nearest = a2q.NearestTriples(name, graph_of(step), encoder(step.profile.encoder), settings)
    return LinkedElsewhere(nearest, step, settings.links) if settings.links else nearest


def _links(variant: Variant, settings: TripleSettings) -> Sequence[Read]:
    return [Read(f"raw/{LINKS}")] if settings.links else []


def _paths(name: str, step: Step, settings: PathSettings) -> Selector:
    return linked_paths.LinkedPaths(name, graph_of(step), encoder(step.profile.encoder), settings)


SYSTEM = System(
    "a2q",
    VERSION,
    {
        "a2q": Method(
            settings=A2QSettings,
            open=_a2q,
            reads=("graph", "graph_passages", "taxonomy"),
            more_reads=_more_reads,
            models=_models,
        ),
        "nearest_triples": Method(
            settings=TripleSettings,
            open=_nearest,
            reads=("graph", "graph_passages"),
            more_reads=_links,
            models=lambda settings: ("encoder",),
        ),
        "linked_paths": Method(
            settings=PathSettings, open=_paths, reads=("graph", "graph_passages"), models=lambda settings: ("encoder",)
        ),
        "tuned_classifier": OwnStages(
            settings=ClassifierSettings, stages=classifier_tuning.classifier_stages, defaults=_tuned_on
        ),
    },
)
