"""Methods: the published selector, this project's path ranking, and the retrieval baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks, all_raw_files
from evidence_assets.experiment.evidence.selection import Selector
from evidence_assets.experiment.evidence.sources import EXTERNAL_LINKS, ExternallyLinkedSelector, open_benchmark_graph
from evidence_assets.experiment.stage import StageContext, StageInput
from evidence_assets.experiment.system import CustomStages, Method, System
from evidence_assets.experiment.variants import Variant
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.merge import extract_definitions
from evidence_assets.models.protocols import FloatArray, Reranker
from evidence_assets.models.registry import RELEVANCE_CLASSIFIER_ASSET, get_encoder, get_reranker, get_tuned_classifier
from evidence_assets.profiles import ModelKind, Profile
from evidence_assets.systems.a2q import VERSION
from evidence_assets.systems.a2q.classifier_tuning import ClassifierSettings, classifier_stages
from evidence_assets.systems.a2q.graph_vectors import JoinedVectors, NodeMeanVectors, join_vectors
from evidence_assets.systems.a2q.linked_paths import LinkedPaths, PathSettings
from evidence_assets.systems.a2q.selection import A2Q, A2QSettings, NearestTriples, TripleSettings, define_nodes
from evidence_assets.systems.a2q.word_vectors import TextVectors, WordVectors


def _open_classifier(context: StageContext, settings: A2QSettings) -> Reranker | None:
    if settings.classifier == "none":
        return None
    if settings.classifier == "tuned":
        return get_tuned_classifier(context.lake)
    return get_reranker(context.profile.reranker, context.profile.token_encoder)


def _a2q_inputs(variant: Variant, settings: A2QSettings) -> Sequence[StageInput]:
    names = [name for name in settings.embedding.split("+") if name not in ("text", "graph")]
    files = [StageInput(f"raw/embeddings/{name}") for name in names]
    return [*files, *([StageInput(RELEVANCE_CLASSIFIER_ASSET)] if settings.classifier == "tuned" else [])]


def _classifier_defaults(profile: Profile) -> Mapping[str, Any]:
    """Settings of the classifier tuning: the train split of CSQA, or the sample's questions without CSQA."""
    if all_benchmarks()["csqa"].is_in_profile():
        return {"benchmark": "csqa", "split": "train"}
    return {"benchmark": "sample_kgqa", "epochs": 4, "rate": 5e-5}


def _model_kinds(settings: A2QSettings) -> tuple[ModelKind, ...]:
    return ("encoder", "reranker") if settings.classifier == "reranker" else ("encoder",)


def _open_a2q(context: StageContext, settings: A2QSettings) -> Selector:
    taxonomy = context.benchmark.taxonomy if settings.taxonomy else ""
    graph, nodes = open_benchmark_graph(context), None
    definitions = extract_definitions(context.read("kg_nodes", f"knowledge/{taxonomy}/nodes")) if taxonomy else None
    if settings.taxonomy and context.benchmark.taxonomy_relation:
        definitions = define_nodes(graph, context.benchmark.taxonomy_relation)
    vectors: TextVectors = get_encoder(context.profile.encoder)
    kind, _, joined_kind = settings.embedding.partition("+")
    if kind != "text":
        vectors, nodes = _open_vectors(context, graph, kind)
    if joined_kind:
        joined_vectors, joined_nodes = _open_vectors(context, graph, joined_kind)
        nodes = join_vectors(np.asarray(graph.passage_vectors("node")), joined_nodes)
        vectors = JoinedVectors(vectors, joined_vectors)
    return A2Q(graph, vectors, _open_classifier(context, settings), settings, definitions, nodes)


def _open_vectors(context: StageContext, graph: KnowledgeGraph, kind: str) -> tuple[TextVectors, FloatArray]:
    """Vectors of a user's file or of the graph itself, and those of the graph's nodes."""
    if kind == "graph":
        graph_vectors = NodeMeanVectors(graph)
        return graph_vectors, graph_vectors.nodes
    paths = {files.name: files.paths for files in all_raw_files()}
    words = WordVectors(context.lake.raw_path(paths[f"embeddings/{kind}"][0]))
    return words, words.encode_sentences(graph.names.to_list())


def _open_nearest_triples(context: StageContext, settings: TripleSettings) -> Selector:
    nearest = NearestTriples(open_benchmark_graph(context), get_encoder(context.profile.encoder), settings)
    return ExternallyLinkedSelector(nearest, context, settings.links) if settings.links else nearest


SYSTEM = System(
    "a2q",
    VERSION,
    {
        "a2q": Method(
            settings=A2QSettings,
            open_selector=_open_a2q,
            sources=("graph", "graph_passages", "taxonomy"),
            extra_inputs=_a2q_inputs,
            model_kinds=_model_kinds,
        ),
        "nearest_triples": Method(
            settings=TripleSettings,
            open_selector=_open_nearest_triples,
            sources=("graph", "graph_passages"),
            extra_inputs=lambda variant, settings: [StageInput(f"raw/{EXTERNAL_LINKS}")] if settings.links else [],
            model_kinds=("encoder",),
        ),
        "linked_paths": Method(
            settings=PathSettings,
            open_selector=lambda context, settings: LinkedPaths(
                open_benchmark_graph(context), get_encoder(context.profile.encoder), settings
            ),
            sources=("graph", "graph_passages"),
            model_kinds=("encoder",),
        ),
        "tuned_classifier": CustomStages(
            settings=ClassifierSettings, stages=classifier_stages, defaults=_classifier_defaults
        ),
    },
)
