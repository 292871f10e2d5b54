"""What benchmarks are answered from, opened for a step: graphs with vectors of the step's encoder, tables, what other
linkers found, and the chunks of a corpus with BM25 over them: a baseline, and what systems read beside their own evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from evidence_assets import profiles
from evidence_assets.benchmarks.reading_json import jsonl
from evidence_assets.benchmarks.records import Table, table_of
from evidence_assets.experiment.question_concepts import Expansion, subgraph_rows
from evidence_assets.experiment.selection import Asked, Parent, Pick, Progress, Selector, asked
from evidence_assets.experiment.step import Made, Step
from evidence_assets.graphs import stored
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.models.in_use import encoder, model_key
from evidence_assets.retrieval.bm25 import words
from evidence_assets.retrieval.corpus import OpenCorpus, open_corpus


def open_graph(lake: Lake, name: str, of: str = "") -> KnowledgeGraph:
    """The graph of this name, with vectors of the encoder that the profile calls ``of``; of its first where none is named."""
    profile = profiles.load().using({"encoder": of} if of else {})
    return stored.open_graph(lake, name, encoder(profile.encoder), of)


def graph_of(step: Step) -> KnowledgeGraph:
    """The graph that the partition's benchmark is answered from."""
    if not step.benchmark.graph:
        raise BadInput(f"benchmark {step.benchmark_name} names no graph: declare the one that it is answered from")
    return open_graph(step.lake, step.benchmark.graph, step.encoder)


LINKS = "links"
"""Folder below ``raw`` of what other linkers found, and name of its asset: ``links/<benchmark>/<linker>.jsonl``, a question a
line with its id in the official files and its entities, ``{"id": "12", "entities": ["Paris"]}``."""


class LinkedElsewhere:
    """A selector that takes what another linker found each question to name for its topic entities; nothing where the
    linker has no line of it."""

    def __init__(self, selector: Selector, step: Step, linker: str) -> None:
        file = step.lake.raw_place(f"{LINKS}/{step.benchmark.whole}/{linker}.jsonl")
        named = {row.label("id"): row.texts("entities") for row in jsonl(file)}
        rows = step.read_here("questions", f"questions/{step.benchmark.family}")
        self._named: Mapping[str, tuple[str, ...]] = {
            question: named.get(source, ()) for question, source in rows.select("question_id", "source_id").iter_rows()
        }
        self.name, self._selector = selector.name, selector
        self.version = content_id("linked", linker, sorted(self._named.items()), selector.version)

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> Iterable[list[Pick]]:
        linked = [replace(q, topic_entities=self._named.get(q.question_id, ())) for q in questions]
        return self._selector.select(linked, progress)


def encoded_by(step: Step) -> str:
    """Name and revision of the step's encoder where it is not the profile's first, which then has a row beside the step's."""
    if not step.encoder:
        return ""
    model = encoder(step.profile.encoder)
    key = model_key(model)
    row = {"model_id": key, "name": model.model_id, "revision": model.revision, "task": "encoder"}
    step.encoded_by.append(row | {"input_hash": content_id("encoder", key)})
    return key


def tables_of(step: Step) -> dict[str, tuple[Table, str]]:
    """The tables of the partition's benchmark with their content hashes, by id."""
    rows = step.read("tables", "tables", step.benchmark_name)
    return {row["table_id"]: (table_of(row), row["content_hash"]) for row in rows.to_dicts()}


def make_subgraphs(step: Step) -> Made:
    """What each question of the partition names in its benchmark's graph, and the part of the graph around it."""
    name = step.benchmark.graph
    if not name:
        return Made([], [], {"no_subgraphs": f"benchmark {step.benchmark_name} names no graph"})
    numbers = step.profile.ugat
    return subgraph_rows(
        asked(step.read("questions", "questions/mcqa", step.partition)),
        graph_of(step),
        Expansion(numbers.D, numbers.cap, numbers.max_nodes),
        step.before,
        encoded_by(step),
    )


def picks_of(chunks: OpenCorpus, label: str, positions: Sequence[int], scores: Sequence[float]) -> list[Pick]:
    """Chunks as evidence, in this order."""
    return [
        Pick(label, "chunk", (Parent("chunk", chunk_id, chunk_id),), "", text, score)
        for chunk_id, text, score in zip(chunks.ids(positions), chunks.texts(positions), scores, strict=True)
    ]


def chunks_in(step: Step) -> OpenCorpus:
    """The chunks of the corpus that the partition's benchmark is answered from."""
    return open_corpus(step.lake, step.benchmark.corpus, step.encoder)


class Bm25Chunks:
    """The ``k`` chunks with the highest BM25 score against question and option; ``titles`` also counts their titles' words."""

    def __init__(self, name: str, chunks: OpenCorpus, k: int, version: str, *, titles: bool = False) -> None:
        self.name, self._chunks, self._k = name, chunks, k
        self._index = chunks.word_index(titles=titles)
        self.version = content_id("bm25", version, k, chunks.version, *(["titles"] if titles else []))

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> Iterator[list[Pick]]:
        for done, question in enumerate(questions, 1):
            picks = []
            for label, option in question.hypotheses:
                found, scores = self._index.top_k(words(question.query(option)), self._k, "plus_one")
                picks += picks_of(self._chunks, label, found.tolist(), scores.tolist())
            yield picks
            if progress:
                progress(done, len(questions))
