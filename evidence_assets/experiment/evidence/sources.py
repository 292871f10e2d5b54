"""What benchmarks are answered from: which assets hold it, and how it is opened for a stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from evidence_assets import profiles
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, benchmarks_of_family
from evidence_assets.benchmarks.json_streams import jsonl_rows
from evidence_assets.benchmarks.records import Table, table_from_row
from evidence_assets.experiment.evidence.question_concepts import Expansion, subgraph_rows
from evidence_assets.experiment.evidence.selection import (
    Parent,
    Question,
    SelectedEvidence,
    Selector,
    build_questions,
)
from evidence_assets.experiment.stage import StageContext, StageInput, StageOutput
from evidence_assets.graphs import graph_store
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, key_for_model
from evidence_assets.lake.store import Lake
from evidence_assets.models.registry import get_encoder, model_key
from evidence_assets.retrieval.bm25 import lowercase_words
from evidence_assets.retrieval.corpus import IndexedCorpus, index_key, open_corpus

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
]


def missing_source_reason(reads: Sequence[SourceKind], benchmark: Benchmark) -> str:
    """Why a method that reads this has nothing to read for a benchmark; empty where it has.

    One that reads a corpus and a graph works with either; ``joined_graph`` is the benchmark's graph or, where it is
    answered from a corpus, the one beside that. One that reads tables, which are the benchmark's own, does without all.
    """
    if "tables" in reads:
        return ""
    named = {"corpus": benchmark.corpus, "graph": benchmark.graph, "joined_graph": benchmark.joined_graph}
    wanted = [source for source in named if source in reads]
    if not wanted or any(named[source] for source in wanted):
        return ""
    return f"benchmark {benchmark.name} names no {' and no '.join(w.removeprefix('joined_') for w in wanted)}"


def source_inputs(family: str, sources: Sequence[SourceKind], encoder: str = "") -> list[StageInput]:
    """Assets that hold what a method reads, over all of the family's benchmarks; vectors are those of this encoder.

    Vectors of tokens are those of the profile's ``token_encoder``, of which there is one.
    """
    benchmarks = benchmarks_of_family(family)
    corpora = sorted({b.corpus for b in benchmarks if b.corpus})
    graphs = sorted({b.joined_graph if "joined_graph" in sources else b.graph for b in benchmarks} - {""})
    reads: list[StageInput] = []
    if "corpus" in sources:
        for name in corpora:
            reads += [StageInput(f"corpus/{name}/chunks", "every"), StageInput(index_key(name, encoder))]
    if "token_store" in sources:
        reads += [StageInput(f"corpus/{name}/token_store") for name in corpora]
    if {"graph", "joined_graph", "knowledge_base"} & set(sources):
        reads += [StageInput(f"knowledge/{name}/{part}") for name in graphs for part in ("nodes", "edges", "csr")]
    if "graph" in sources or "joined_graph" in sources:
        reads += [StageInput(key_for_model(f"knowledge/{name}/node_vectors", encoder)) for name in graphs]
    if "subgraphs" in sources:
        reads.append(StageInput(key_for_model(f"subgraphs/{family}", encoder)))
    if "graph_passages" in sources or "knowledge_base" in sources:
        named = sorted({b.graph for b in benchmarks if b.graph})
        reads += [StageInput(key_for_model(f"knowledge/{name}/passages", encoder), "every") for name in named]
    if "knowledge_base" in sources:
        reads += [StageInput(key_for_model(f"knowledge/{name}/passage_index", encoder)) for name in graphs]
    if "taxonomy" in sources:
        reads += [
            StageInput(f"knowledge/{name}/nodes") for name in sorted({b.taxonomy for b in benchmarks if b.taxonomy})
        ]
    if "tables" in sources:
        reads.append(StageInput("tables", "benchmark"))
    return reads


# Graphs and tables --------------------------------------------------------------------------------------------------


def open_graph(lake: Lake, name: str, of: str = "") -> KnowledgeGraph:
    """The graph of this name, with vectors of the encoder that the profile calls ``of``, else of its first."""
    profile = profiles.load().with_models({"encoder": of} if of else {})
    return graph_store.open_graph(lake, name, get_encoder(profile.encoder), of)


def open_benchmark_graph(context: StageContext) -> KnowledgeGraph:
    """The graph that the partition's benchmark is answered from."""
    name = context.benchmark.graph
    if not name:
        raise BadInput(f"benchmark {context.benchmark_name} names no graph: declare the one that it is answered from")
    return open_graph(context.lake, name, context.encoder)


def read_tables(context: StageContext) -> dict[str, tuple[Table, str]]:
    """The tables of the partition's benchmark with their content hashes, by id."""
    rows = context.read("tables", "tables", context.benchmark_name)
    return {row["table_id"]: (table_from_row(row), row["content_hash"]) for row in rows.to_dicts()}


def record_encoder(context: StageContext) -> str:
    """Name and revision of the stage's encoder where it is not the profile's first, which then has a row of its own."""
    if not context.encoder:
        return ""
    model = get_encoder(context.profile.encoder)
    key = model_key(model)
    row = {"model_id": key, "name": model.model_id, "revision": model.revision, "task": "encoder"}
    context.encoder_rows.append(row | {"input_hash": content_id("encoder", key)})
    return key


def build_subgraphs(context: StageContext) -> StageOutput:
    """What each question of the partition names in its benchmark's graph, and the part of the graph around it."""
    name = context.benchmark.graph
    if not name:
        return StageOutput([], [], {"no_subgraphs": f"benchmark {context.benchmark_name} names no graph"})
    numbers = context.profile.ugat
    return subgraph_rows(
        build_questions(context.read_partition("questions", "questions/mcqa")),
        open_benchmark_graph(context),
        Expansion(numbers.D, numbers.cap, numbers.max_nodes),
        context.previous_output,
        record_encoder(context),
    )


EXTERNAL_LINKS = "links"
"""Folder below ``raw`` of what other linkers found, and name of its asset: ``links/<benchmark>/<linker>.jsonl``, a
question a line with its id in the official files and its entities, ``{"id": "12", "entities": ["Paris"]}``."""


class ExternallyLinkedSelector:
    """A selector whose topic entities are those that another linker found, by a user's file."""

    def __init__(self, selector: Selector, context: StageContext, linker: str) -> None:
        file = context.lake.raw_path(f"{EXTERNAL_LINKS}/{context.benchmark.base_name}/{linker}.jsonl")
        named = {row.label("id"): row.texts("entities") for row in jsonl_rows(file)}
        rows = context.read_input("questions")
        self._named: Mapping[str, tuple[str, ...]] = {
            question: named.get(source, ()) for question, source in rows.select("question_id", "source_id").iter_rows()
        }
        self._selector = selector
        self.version = content_id("linked", linker, sorted(self._named.items()), selector.version)

    def select(self, questions: Sequence[Question]) -> Iterable[list[SelectedEvidence]]:
        linked = [replace(q, topic_entities=self._named.get(q.question_id, ())) for q in questions]
        return self._selector.select(linked)


# Chunks -------------------------------------------------------------------------------------------------------------


def open_benchmark_corpus(context: StageContext) -> IndexedCorpus:
    """The chunks of the corpus that the partition's benchmark is answered from."""
    return open_corpus(context.lake, context.benchmark.corpus, context.encoder)


def chunk_evidence(
    chunks: IndexedCorpus, label: str, positions: Sequence[int], scores: Sequence[float]
) -> list[SelectedEvidence]:
    """Chunks as evidence, in this order."""
    return [
        SelectedEvidence(label, "chunk", (Parent("chunk", chunk_id, chunk_id),), "", text, score)
        for chunk_id, text, score in zip(chunks.ids(positions), chunks.texts(positions), scores, strict=True)
    ]


class Bm25Chunks:
    """The ``k`` chunks with the highest BM25 score against question and option; ``titles`` also counts title words."""

    def __init__(self, chunks: IndexedCorpus, k: int, version: str, *, titles: bool = False) -> None:
        self._chunks, self._k, self._index = chunks, k, chunks.word_index(titles=titles)
        self.version = content_id("bm25", version, k, chunks.version, *(["titles"] if titles else []))

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        for question in questions:
            picks = []
            for label, option in question.hypotheses:
                positions, scores = self._index.top_k(lowercase_words(question.query(option)), self._k)
                picks += chunk_evidence(self._chunks, label, positions.tolist(), scores.tolist())
            yield picks
