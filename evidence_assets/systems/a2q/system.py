"""Methods: the published selector, this project's path ranking, and the retrieval baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks, all_raw_files
from evidence_assets.experiment.evidence.selection import Selector
from evidence_assets.experiment.evidence.sources import EXTERNAL_LINKS, ExternallyLinkedSelector, open_benchmark_graph
from evidence_assets.experiment.methods import SelectionMethod, StagesMethod
from evidence_assets.experiment.stage import Stage, StageContext, StageInput
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.merge import extract_definitions
from evidence_assets.models.protocols import Reranker
from evidence_assets.models.registry import RELEVANCE_CLASSIFIER_ASSET, get_encoder, get_reranker, get_tuned_classifier
from evidence_assets.profiles import ModelKind, Profile
from evidence_assets.systems.a2q import VERSION
from evidence_assets.systems.a2q.classifier_tuning import ClassifierSettings, classifier_stages
from evidence_assets.systems.a2q.graph_vectors import JoinedVectors, NodeVectors, map_nodes
from evidence_assets.systems.a2q.linked_paths import LinkedPaths, PathSettings
from evidence_assets.systems.a2q.selection import A2Q, A2QSettings, NearestTriples, TripleSettings, define_nodes
from evidence_assets.systems.a2q.word_vectors import WordVectors


def _open_vectors(context: StageContext, graph: KnowledgeGraph, kind: str) -> NodeVectors:
    """Vectors of the text encoder, of the graph itself, or of a user's file."""
    if kind == "text":
        return NodeVectors.of_passages(get_encoder(context.profile.encoder), graph)
    if kind == "graph":
        return NodeVectors.of_edges(graph)
    paths = {files.name: files.paths for files in all_raw_files()}
    return NodeVectors.of_names(WordVectors(context.lake.raw_path(paths[f"embeddings/{kind}"][0])), graph)


class Attention2Query(SelectionMethod[A2QSettings]):
    """Attention2Query: nodes relevant to the question, and their triples."""

    name = "a2q"
    version = VERSION
    settings_class = A2QSettings
    sources = ("graph", "graph_passages", "taxonomy")

    @property
    def model_kinds(self) -> Sequence[ModelKind]:
        return ("encoder", "reranker") if self.settings.classifier == "reranker" else ("encoder",)

    @property
    def extra_inputs(self) -> Sequence[StageInput]:
        names = [name for name in self.settings.embedding.split("+") if name not in ("text", "graph")]
        files = [StageInput(f"raw/embeddings/{name}") for name in names]
        return [*files, *([StageInput(RELEVANCE_CLASSIFIER_ASSET)] if self.settings.classifier == "tuned" else [])]

    def open_selector(self, context: StageContext) -> Selector:
        settings = self.settings
        graph = open_benchmark_graph(context)
        kinds = [_open_vectors(context, graph, kind) for kind in settings.embedding.split("+")]
        encoders = [kind.encoder for kind in kinds]
        encoder = JoinedVectors(*encoders) if len(encoders) > 1 else encoders[0]
        nodes = graph.node_passage_vectors
        if settings.embedding != "text":
            nodes = map_nodes(kinds, graph.arrays.n_nodes, graph.vectors.folder)
        definitions = self._read_definitions(context, graph) if settings.taxonomy else None
        return A2Q(graph, encoder, self._open_classifier(context), settings, definitions, nodes)

    def _open_classifier(self, context: StageContext) -> Reranker | None:
        if self.settings.classifier == "none":
            return None
        if self.settings.classifier == "tuned":
            return get_tuned_classifier(context.lake)
        return get_reranker(context.profile.reranker, context.profile.token_encoder)

    def _read_definitions(self, context: StageContext, graph: KnowledgeGraph) -> Mapping[str, str] | None:
        """Definitions of the benchmark's taxonomy, which is a graph or a relation of the graph."""
        benchmark = context.benchmark
        if benchmark.taxonomy_relation:
            return define_nodes(graph, benchmark.taxonomy_relation)
        if benchmark.taxonomy:
            return extract_definitions(context.read("kg_nodes", f"knowledge/{benchmark.taxonomy}/nodes"))
        return None


class NearestTriplesMethod(SelectionMethod[TripleSettings]):
    """The triples nearest to the question."""

    name = "nearest_triples"
    version = VERSION
    settings_class = TripleSettings
    sources = ("graph", "graph_passages")
    model_kinds = ("encoder",)

    @property
    def extra_inputs(self) -> Sequence[StageInput]:
        return [StageInput(f"raw/{EXTERNAL_LINKS}")] if self.settings.links else []

    def open_selector(self, context: StageContext) -> Selector:
        nearest = NearestTriples(open_benchmark_graph(context), get_encoder(context.profile.encoder), self.settings)
        return ExternallyLinkedSelector(nearest, context, self.settings.links) if self.settings.links else nearest


class LinkedPathsMethod(SelectionMethod[PathSettings]):
    """Paths from the linked names of the question."""

    name = "linked_paths"
    version = VERSION
    settings_class = PathSettings
    sources = ("graph", "graph_passages")
    model_kinds = ("encoder",)

    def open_selector(self, context: StageContext) -> Selector:
        return LinkedPaths(open_benchmark_graph(context), get_encoder(context.profile.encoder), self.settings)


class ClassifierTuning(StagesMethod[ClassifierSettings]):
    """Tunes the relevance classifier."""

    name = "tuned_classifier"
    version = VERSION
    settings_class = ClassifierSettings

    @classmethod
    def read_defaults(cls, profile: Profile) -> Mapping[str, object]:
        """The train split of CSQA, or the sample's questions without CSQA."""
        if all_benchmarks()["csqa"].is_in_profile():
            return {"benchmark": "csqa", "split": "train"}
        return {"benchmark": "sample_kgqa", "epochs": 4, "rate": 5e-5}

    def build_stages(self) -> list[Stage]:
        return classifier_stages(self.variant, self.settings)
