"""Selectors of triples and paths on a graph of ConceptNet's size: seconds until the first row, and for all questions.

    EVIDENCE_DEV_DATA=… python -m bench.graphs.selection [--triples 100000] [--questions 300] [--minutes 5]

The graph has the triples of the slice of ConceptNet in ``EVIDENCE_DEV_DATA``, filled up with generated ones between its
names and word pairs of OpenBookQA, by a power law, so that there are hubs as in ConceptNet. The questions are
CommonsenseQA's. Vectors of texts are sums of random vectors of their words, which take no time; the classifier of
Attention2Query, late interaction, uses the embedded encoder, as the default profile does. A selector that is not done
after ``--minutes`` is stopped.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bench.dev_data import dev_data
from bench.measuring import make_parser
from evidence_assets import profiles
from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.experiment.evidence.question_concepts import expand_questions
from evidence_assets.experiment.evidence.selection import Selector
from evidence_assets.graphs.arrays import GraphArrays
from evidence_assets.graphs.knowledge_graph import GraphStructure, GraphVectors, KnowledgeGraph
from evidence_assets.graphs.passage_files import PassageFiles
from evidence_assets.models.protocols import TokenVectors
from evidence_assets.models.registry import get_encoder
from evidence_assets.models.rerankers import MaxSimReranker
from evidence_assets.models.vectors import unit_rows
from evidence_assets.reasoning.questions import Question
from evidence_assets.retrieval import index_building
from evidence_assets.retrieval.vector_index import VectorIndex
from evidence_assets.systems.a2q.linked_paths import LinkedPaths
from evidence_assets.systems.a2q.selection import A2Q, NearestTriples
from evidence_assets.systems.ugat.system import PathSelector, UgatSettings

DIMENSIONS = 384
FloatArray = NDArray[np.float32]


@cache
def word_vector(word: str) -> FloatArray:
    seed = int.from_bytes(word.encode()[:16].ljust(16), "big")
    return np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)


class WordVectors:
    """An encoder whose vector of a text is the sum of random vectors of its words."""

    model_id, revision, max_tokens = "random-words", "2", 1 << 20

    def __init__(self, dimensions: int = DIMENSIONS) -> None:
        self.dimensions = dimensions

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        words_of_texts = (re.findall("[a-z0-9]+", text.lower()) or [""] for text in texts)
        vectors = [np.sum([word_vector(word) for word in words], axis=0) for words in words_of_texts]
        return unit_rows(np.array(vectors, np.float32).reshape(-1, DIMENSIONS)[:, : self.dimensions])

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        raise NotImplementedError("no bench needs the vectors of tokens")


def read_triples(data: Path, count: int) -> list[tuple[str, str, str]]:
    """The slice's triples as (head, relation, tail), and generated ones up to ``count``."""
    lines = (data / "conceptnet" / "train_slice.txt").read_text(encoding="utf-8").splitlines()
    triples = [(head, relation, tail) for relation, head, tail in (line.split("\t")[:3] for line in lines)]
    book = (data / "obqa" / "Data" / "Main" / "openbook.txt").read_text(encoding="utf-8").lower()
    sentences = [re.findall("[a-z]+", line) for line in book.splitlines()]
    pairs = [f"{a} {b}" for words in sentences for i, a in enumerate(words) for b in words[i + 1 :]]
    names = list(dict.fromkeys([*(t for h, _, t in triples), *(h for h, _, t in triples), *pairs]))
    rng = np.random.default_rng(0)
    missing = max(count - len(triples), 0)
    heads, tails = ((len(names) * rng.random(missing) ** power).astype(int) for power in (1, 3))
    relations = [relation for _, relation, _ in triples]
    relation_numbers = rng.integers(len(relations), size=missing)
    triples += [(names[h], relations[r], names[t]) for h, r, t in zip(heads, relation_numbers, tails, strict=True)]
    return triples[:count]


def build_graph(triples: list[tuple[str, str, str]], encoder: WordVectors) -> KnowledgeGraph:
    """The graph in memory, with a vector of each name and sentence."""
    names = sorted({name for head, _, tail in triples for name in (head, tail)})
    relations = sorted({relation for _, relation, _ in triples})
    number = {name: i for i, name in enumerate(names)}
    code = {relation: i for i, relation in enumerate(relations)}
    ends = np.array([(number[h], code[r], number[t]) for h, r, t in triples], np.int32)
    arrays = GraphArrays.from_edges(len(names), *ends.T.copy())
    nodes = pl.DataFrame({"node_id": [f"{i:08d}" for i in range(len(names))], "name": names}).with_columns(
        pl.lit([], pl.List(pl.String)).alias("aliases"),
        pl.lit(None, pl.String).alias("type"),
        pl.lit(None, pl.String).alias("document"),
    )
    edges = pl.DataFrame({"edge_id": [f"{i:08d}" for i in range(len(triples))]})

    @cache
    def passages() -> pl.DataFrame:
        texts = {"node": names, "edge": [graph.sentence(edge) for edge in range(len(triples))]}
        return pl.concat(
            pl.DataFrame(
                {
                    "owner_kind": [kind] * len(kind_texts),
                    "owner_id": [f"{i:08d}" for i in range(len(kind_texts))],
                    "ordinal": [0] * len(kind_texts),
                    "vector": pl.Series(list(encoder.encode_sentences(kind_texts)), dtype=pl.List(pl.Float32)),
                }
            )
            for kind, kind_texts in texts.items()
        )

    @cache
    def forms() -> FloatArray:
        return encoder.encode_sentences(names).astype(np.float16)

    def names_index() -> VectorIndex:
        folder = Path(mkdtemp())
        np.save(folder / "vectors.npy", forms(), allow_pickle=False)
        index_building.write_index(folder, built_from="", model_id=encoder.model_id, neighbours=16)
        return VectorIndex(folder, expected="")

    def no_files() -> PassageFiles:
        raise NotImplementedError("no selector of this benchmark reads passages from files")

    vectors = GraphVectors(
        encoder.encode_sentences, forms, cache(names_index), lambda: [passages()], no_files, Path(mkdtemp())
    )
    structure = GraphStructure(arrays, tuple(relations))
    graph = KnowledgeGraph("bench", "1", lambda: structure, nodes.get_column, edges.get_column, vectors)
    return graph


def measure(name: str, selector: Selector, questions: Sequence[Question], limit: float) -> None:
    """Print seconds until the first row and the last, and stop after ``limit`` seconds."""
    start, cpu, first, n_done, rows = time.monotonic(), time.process_time(), 0.0, 0, 0
    for evidence in selector.select(questions):
        first, n_done, rows = first or time.monotonic() - start, n_done + 1, rows + len(evidence)
        if time.monotonic() - start > limit:
            break
    seconds, cpu = time.monotonic() - start, time.process_time() - cpu
    print(
        f"| {name} | {first:.1f} | {seconds:.1f} | {cpu:.1f} | {n_done} of {len(questions)} | {n_done / seconds:.1f} | "
        f"{rows:,} |",
        flush=True,
    )


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--triples", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=5.0)
    options = parser.parse_args()
    data, encoder = dev_data(), WordVectors()
    graph = build_graph(read_triples(data, options.triples), encoder)
    degrees = np.diff(graph.arrays.offsets)
    print(f"{graph.arrays.n_nodes:,} nodes, {graph.arrays.n_edges:,} edges, largest hub {degrees.max():,}\n")
    lines = (data / "csqa" / "train_500.jsonl").read_text(encoding="utf-8").splitlines()[: options.questions]
    questions = [
        Question(
            row["id"], "csqa", "mcqa", row["question"]["stem"], tuple(c["text"] for c in row["question"]["choices"])
        )
        for row in map(json.loads, lines)
    ]
    limits = profiles.load().ugat
    start = time.monotonic()
    subgraphs = expand_questions(questions, graph, limits)
    print(f"linking and expanding all questions for UGAT: {time.monotonic() - start:.1f} s\n")
    settings = UgatSettings(**limits.model_dump(exclude={"cap", "max_nodes"}))
    selectors: dict[str, Selector] = {
        "a2q": A2Q(graph, encoder, MaxSimReranker(get_encoder(profiles.load().token_encoder))),
        "linked_paths": LinkedPaths(graph, encoder),
        "nearest_triples": NearestTriples(graph, encoder),
        "ugat": PathSelector(graph, subgraphs, load_vocabulary(), settings),
    }
    print(
        "| selector | first row, s | all, s | CPU, s | questions | per second | rows |\n|---|---|---|---|---|---|---|"
    )
    for name, selector in selectors.items():
        measure(name, selector, questions, 60 * options.minutes)


if __name__ == "__main__":
    main()
