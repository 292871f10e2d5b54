"""Sources of evidence: their assets, and functions that open them for a stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from evidence_assets import profiles
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, benchmarks_of_family
from evidence_assets.benchmarks.json_streams import jsonl_rows
from evidence_assets.benchmarks.records import Table, table_from_row
from evidence_assets.experiment.evidence.question_concepts import subgraph_rows
from evidence_assets.experiment.evidence.selection import Parent, SelectedEvidence, Selector
from evidence_assets.experiment.question_rows import build_questions
from evidence_assets.experiment.stage import StageContext, StageInput, StageOutput
from evidence_assets.graphs import graph_store
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, key_for_model
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.registry import get_encoder, model_key
from evidence_assets.models.vectors import cut_to_ends
from evidence_assets.reasoning.questions import Question
from evidence_assets.retrieval.corpus import IndexedCorpus, index_key, open_corpus
from evidence_assets.text.words import stems

SourceKind = Literal[
    "corpus",
    "tables",
    "graph",
    "joined_graph",
    "graph_passages",
    "subgraphs",
    "token_store",
    "taxonomy",
    "knowledge_base",
    "nodes_and_edges",
]


def missing_source_reason(sources: Sequence[SourceKind], benchmark: Benchmark) -> str:
    """Why a benchmark has no source for a method; empty if it has one.

    A method with a corpus and a graph works with either. ``joined_graph`` is the benchmark's graph or, for a benchmark
    with a corpus, the graph joined to it. A method on tables needs neither: tables belong to the benchmark.
    """
    if "tables" in sources:
        return ""
    declared = {"corpus": benchmark.corpus, "graph": benchmark.graph, "joined_graph": benchmark.joined_graph}
    required = [source for source in declared if source in sources]
    if not required or any(declared[source] for source in required):
        return ""
    return f"benchmark {benchmark.name} names no {' and no '.join(w.removeprefix('joined_') for w in required)}"


_WITH_EDGES = frozenset(("graph", "joined_graph", "knowledge_base", "nodes_and_edges"))


def read_sources(sources: Sequence[SourceKind], benchmark: Benchmark) -> frozenset[str]:
    """Assets of the corpora and graphs that a method with these sources reads for a benchmark: ``corpus/wikipedia``."""
    names: Mapping[SourceKind, tuple[str, str]] = {
        "corpus": ("corpus", benchmark.corpus),
        "token_store": ("corpus", benchmark.corpus),
        "graph": ("knowledge", benchmark.graph),
        "graph_passages": ("knowledge", benchmark.graph),
        "subgraphs": ("knowledge", benchmark.graph),
        "knowledge_base": ("knowledge", benchmark.graph),
        "nodes_and_edges": ("knowledge", benchmark.graph),
        "joined_graph": ("knowledge", benchmark.joined_graph),
        "taxonomy": ("knowledge", benchmark.taxonomy),
    }
    selected = (names[source] for source in sources if source in names)
    return frozenset(f"{kind}/{name}" for kind, name in selected if name)


def source_inputs(family: str, sources: Sequence[SourceKind], encoder: str = "") -> list[StageInput]:
    """Source assets of a method for all benchmarks of the family, with the vectors of this encoder.

    Token vectors always come from the profile's only ``token_encoder``.
    """
    benchmarks = benchmarks_of_family(family)
    corpora = sorted({b.corpus for b in benchmarks if b.corpus})
    graphs = sorted({b.joined_graph if "joined_graph" in sources else b.graph for b in benchmarks} - {""})
    inputs: list[StageInput] = []
    if "corpus" in sources:
        for name in corpora:
            inputs += [StageInput(f"corpus/{name}/chunks", "every"), StageInput(index_key(name, encoder))]
    if "token_store" in sources:
        inputs += [StageInput(f"corpus/{name}/token_store") for name in corpora]
    if not _WITH_EDGES.isdisjoint(sources):
        inputs += [StageInput(f"knowledge/{name}/{part}") for name in graphs for part in ("nodes", "edges", "csr")]
    if "graph" in sources or "joined_graph" in sources:
        inputs += [StageInput(key_for_model(f"knowledge/{name}/node_vectors", encoder)) for name in graphs]
    if "subgraphs" in sources:
        inputs.append(StageInput(key_for_model(f"subgraphs/{family}", encoder)))
    if "graph_passages" in sources or "knowledge_base" in sources:
        passage_graphs = sorted({b.graph for b in benchmarks if b.graph})
        inputs += [StageInput(key_for_model(f"knowledge/{name}/passages", encoder), "every") for name in passage_graphs]
    if "knowledge_base" in sources:
        inputs += [StageInput(key_for_model(f"knowledge/{name}/passage_index", encoder)) for name in graphs]
    if "taxonomy" in sources:
        inputs += [StageInput(f"knowledge/{name}/nodes") for name in sorted({b.taxonomy for b in benchmarks} - {""})]
    if "tables" in sources:
        inputs.append(StageInput("tables", "benchmark"))
    return inputs


# Graphs and tables --------------------------------------------------------------------------------------------------


def open_graph(lake: Lake, name: str, encoder: str = "") -> KnowledgeGraph:
    """Open a graph with the vectors of an encoder of the profile; an empty name means the first."""
    profile = profiles.load().with_models({"encoder": encoder} if encoder else {})
    return graph_store.open_graph(lake, name, get_encoder(profile.encoder), encoder)


def open_benchmark_graph(context: StageContext) -> KnowledgeGraph:
    """Open the graph of the partition's benchmark."""
    name = context.benchmark.graph
    if not name:
        raise BadInput(f"benchmark {context.benchmark_name} names no graph: add `graph` to its declaration")
    return open_graph(context.lake, name, context.encoder)


def read_tables(context: StageContext) -> dict[str, tuple[Table, str]]:
    """Tables of the partition's benchmark by id, with their content hashes."""
    rows = context.read("tables", "tables", context.benchmark_name)
    return {row["table_id"]: (table_from_row(row), row["content_hash"]) for row in rows.to_dicts()}


def record_encoder(context: StageContext) -> str:
    """Add a row of ``models`` for an encoder other than the first; return its id, or an empty text for the first."""
    if not context.encoder:
        return ""
    model = get_encoder(context.profile.encoder)
    key = model_key(model)
    context.record_model(key, model.model_id, model.revision, "encoder")
    return key


def build_subgraphs(context: StageContext) -> StageOutput:
    """Link each question to its benchmark's graph and expand a subgraph around it."""
    name = context.benchmark.graph
    if not name:
        return StageOutput([], [], {"no_subgraphs": f"benchmark {context.benchmark_name} names no graph"})
    return subgraph_rows(
        build_questions(context.read("questions", "questions/mcqa", context.partition)),
        open_benchmark_graph(context),
        context.profile.ugat,
        context.previous_output,
        record_encoder(context),
    )


EXTERNAL_LINKS = "links"
"""Folder below ``raw`` with the output of other entity linkers, and name of its asset.

``links/<benchmark>/<linker>.jsonl`` has one question per line, by its official id:
``{"id": "12", "entities": ["Paris"]}``.
"""


class ExternallyLinkedSelector:
    """A selector with topic entities from a user's file of another entity linker."""

    def __init__(self, selector: Selector, context: StageContext, linker: str) -> None:
        file = context.lake.raw_path(f"{EXTERNAL_LINKS}/{context.benchmark.base_name}/{linker}.jsonl")
        entities = {row.label("id"): row.texts("entities") for row in jsonl_rows(file)}
        rows = context.read_input("questions")
        self._entities: Mapping[str, tuple[str, ...]] = {
            question: entities.get(source, ())
            for question, source in rows.select("question_id", "source_id").iter_rows()
        }
        self._selector = selector
        self.version = content_id("linked", linker, sorted(self._entities.items()), selector.version)

    def select(self, questions: Sequence[Question]) -> Iterable[list[SelectedEvidence]]:
        linked = [replace(q, topic_entities=self._entities.get(q.question_id, ())) for q in questions]
        return self._selector.select(linked)


# Chunks -------------------------------------------------------------------------------------------------------------


def open_benchmark_corpus(context: StageContext) -> IndexedCorpus:
    """Open the corpus of the partition's benchmark."""
    return open_corpus(context.lake, context.benchmark.corpus, context.encoder)


def chunk_evidence(
    chunks: IndexedCorpus, label: str, positions: Sequence[int], scores: Sequence[float]
) -> list[SelectedEvidence]:
    """Chunks as evidence, in the order of ``positions``."""
    return [
        SelectedEvidence(label, "chunk", (Parent("chunk", chunk_id, chunk_id),), "", text, score)
        for chunk_id, text, score in zip(chunks.ids(positions), chunks.texts(positions), scores, strict=True)
    ]


class Bm25Chunks:
    """The ``k`` chunks with the best BM25 score for question and option."""

    def __init__(self, chunks: IndexedCorpus, k: int, version: str) -> None:
        self._chunks = chunks
        self._k = k
        self._index = chunks.word_index()
        self.version = content_id("bm25", version, k, chunks.version)

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        for question in questions:
            selected = []
            for label, option in question.hypotheses:
                positions, scores = self._index.top_k(stems(question.query(option)), self._k)
                selected += chunk_evidence(self._chunks, label, positions.tolist(), scores.tolist())
            yield selected


class CosineChunks:
    """Selects the ``k`` chunks nearest to the vector of question and option."""

    def __init__(self, chunks: IndexedCorpus, encoder: Encoder, k: int, version: str) -> None:
        self._chunks = chunks
        self._encoder = encoder
        self._k = k
        self.version = content_id("cosine", version, k, chunks.version, encoder.model_id, encoder.revision)

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        queries = [(i, label, q.query(option)) for i, q in enumerate(questions) for label, option in q.hypotheses]
        vectors = self._encoder.encode_sentences(cut_to_ends(self._encoder, [text for _, _, text in queries]))
        evidence: list[list[SelectedEvidence]] = [[] for _ in questions]
        for (i, label, _), scores, positions in zip(queries, *self._chunks.index.search(vectors, self._k), strict=True):
            valid = positions >= 0
            evidence[i] += chunk_evidence(self._chunks, label, positions[valid].tolist(), scores[valid].tolist())
        return evidence
