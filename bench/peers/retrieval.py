"""Retrieval of HotpotQA-100 and six collections beside other libraries: recall, seconds and memory.

    EVIDENCE_DEV_DATA=… python -m bench.peers.retrieval [--collections hotpot_passages …] [--lake FOLDER]

Our rows are those of materialized assets (`bench.answers.measure_variants`); the same selectors then run once more,
timed, on the assets as they are served, and must give the same rows. The peers get the same chunks, each with its
title before it, and the same encoder in float32; vectors of documents are given to all, questions are encoded within
the time. Each runs in a process of its own. Without titles, the exact vector searches must give the scores of our
`cosine`; with titles, they must agree with each other (`bench.retrieval.bm25` compares `bm25s` with our `bm25`). A
document is ranked by its best chunk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bench.dev_data import dev_data
from bench.measuring import Used, in_new_process, make_parser, measured
from bench.peers.installed import missing, versions
from bench.retrieval.retrieval_collections import COLLECTIONS
from evidence_assets.experiment.ad_hoc_questions import QuestionSource
from evidence_assets.experiment.methods import SelectionMethod
from evidence_assets.experiment.question_rows import build_questions
from evidence_assets.experiment.scores.measurement import paired_differences
from evidence_assets.experiment.scores.retrieval_scores import passage_values
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stored_rows import QuestionRow, typed_rows
from evidence_assets.experiment.variants import variants
from evidence_assets.lake.store import Lake
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.registry import get_encoder
from evidence_assets.retrieval.corpus import open_corpus
from evidence_assets.systems import open_method

K, DIMENSIONS = 100, 384
OURS = ("uscrake", "bm25", "cosine")
FULL = "hotpotqa_100"
METRICS = ("recall@2", "recall@5", "recall@10", "mrr")
Vectors = NDArray[np.float32]
Rankings = list[list[tuple[int, float]]]
"""Positions and scores of each question, best first."""
Search = Callable[[Sequence[str]], Rankings]


@dataclass(frozen=True)
class Texts:
    """What a peer searches: texts, their vectors, and the vectors of their tokens end to end."""

    texts: Sequence[str]
    vectors: Vectors
    tokens: NDArray[np.float16]
    offsets: NDArray[np.int64]


def _pairs(positions: Iterable[Any], scores: Iterable[Any]) -> Rankings:
    return [list(zip(map(int, p), map(float, s), strict=True)) for p, s in zip(positions, scores, strict=True)]


# Peers --------------------------------------------------------------------------------------------------------------


def bm25s_stemmed(data: Texts, encoder: Encoder) -> Search:
    """As its documentation recommends: English stop words and stems."""
    import bm25s
    import Stemmer

    def tokenize(texts: Sequence[str]) -> Any:
        stemmer = Stemmer.Stemmer("english")
        return bm25s.tokenize(list(texts), stopwords="en", stemmer=stemmer, show_progress=False)

    index = bm25s.BM25()
    index.index(tokenize(data.texts), show_progress=False)
    k = min(K, len(data.texts))
    return lambda queries: _pairs(*index.retrieve(tokenize(queries), k=k, show_progress=False))


def faiss_flat(data: Texts, encoder: Encoder) -> Search:
    import faiss

    index = faiss.IndexFlatIP(DIMENSIONS)
    index.add(data.vectors)
    return lambda queries: _pairs(*index.search(encoder.encode_sentences(queries), min(K, len(data.texts)))[::-1])


def semantic_search(data: Texts, encoder: Encoder) -> Search:
    from sentence_transformers import util

    def search(queries: Sequence[str]) -> Rankings:
        hits = util.semantic_search(encoder.encode_sentences(queries), data.vectors, top_k=K)
        return [[(hit["corpus_id"], hit["score"]) for hit in row] for row in hits]

    return search


def _llama_index(data: Texts, encoder: Encoder) -> tuple[Any, Any]:
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.schema import TextNode

    class Embedding(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return encoder.encode_sentences([text])[0].tolist()

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    rows = zip(data.texts, data.vectors.tolist(), strict=True)
    nodes = [TextNode(id_=str(i), text=text, embedding=vector) for i, (text, vector) in enumerate(rows)]
    return nodes, VectorStoreIndex(nodes, embed_model=Embedding()).as_retriever(similarity_top_k=K)


def _retrieve(retriever: Any) -> Search:
    def search(queries: Sequence[str]) -> Rankings:
        return [[(int(hit.node_id), float(hit.score)) for hit in retriever.retrieve(query)] for query in queries]

    return search


def llama_index_vector(data: Texts, encoder: Encoder) -> Search:
    return _retrieve(_llama_index(data, encoder)[1])


def llama_index_hybrid(data: Texts, encoder: Encoder) -> Search:
    """Reciprocal ranks of its vector and BM25 retrievers, without queries written by a language model."""
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.retrievers.bm25 import BM25Retriever

    nodes, vector = _llama_index(data, encoder)
    words = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=min(K, len(nodes)))
    options = {"mode": "reciprocal_rerank", "num_queries": 1, "similarity_top_k": K, "use_async": False}
    return _retrieve(QueryFusionRetriever([vector, words], llm=MockLLM(), **options))


def lancedb_hybrid(data: Texts, encoder: Encoder) -> Search:
    """Reciprocal ranks of its vector search and full text search (stems, stop words)."""
    import lancedb
    import pyarrow as pa
    from lancedb.index import FTS
    from lancedb.rerankers import RRFReranker

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(data.vectors.ravel()), DIMENSIONS)
    columns = {"number": range(len(data.texts)), "text": list(data.texts), "vector": vectors}
    table = lancedb.connect(tempfile.mkdtemp()).create_table("texts", pa.table(columns))
    table.create_index("text", config=FTS())

    def search(queries: Sequence[str]) -> Rankings:
        rankings = []
        for query, vector in zip(queries, encoder.encode_sentences(queries), strict=True):
            hits = table.search(query_type="hybrid").vector(vector).text(query).rerank(RRFReranker()).limit(K)
            rows = hits.to_arrow()
            rankings.append(
                list(zip(*(rows[name].to_pylist() for name in ("number", "_relevance_score")), strict=True))
            )
        return rankings

    return search


def max_sim(data: Texts, encoder: Encoder) -> Search:
    """ColBERT's late interaction with all texts, in torch, with the tokens of the same encoder."""
    import torch

    tokens = torch.from_numpy(data.tokens.astype(np.float32))
    text_of = torch.from_numpy(np.repeat(np.arange(len(data.texts)), np.diff(data.offsets)))

    def search(queries: Sequence[str]) -> Rankings:
        tops = []
        for query in encoder.encode_tokens(queries):
            cosines = torch.nn.functional.normalize(torch.from_numpy(query.vectors)) @ tokens.T
            best = torch.full((len(cosines), len(data.texts)), -1.0)
            best.scatter_reduce_(1, text_of.expand(len(cosines), -1), cosines, "amax")
            tops.append(torch.topk(best.mean(0), min(K, len(data.texts))))
        return _pairs([top.indices for top in tops], [top.values for top in tops])

    return search


@dataclass(frozen=True)
class Peer:
    name: str
    modules: tuple[str, ...]
    build: Callable[[Texts, Encoder], Search]


PEERS = (
    Peer("bm25s, stemmed", ("bm25s", "Stemmer"), bm25s_stemmed),
    Peer("FAISS", ("faiss",), faiss_flat),
    Peer("sentence-transformers", ("sentence_transformers",), semantic_search),
    Peer("LlamaIndex, vectors", ("llama_index.core",), llama_index_vector),
    Peer("LlamaIndex, hybrid", ("llama_index.core", "llama_index.retrievers.bm25"), llama_index_hybrid),
    Peer("LanceDB, hybrid", ("lancedb",), lancedb_hybrid),
    Peer("MaxSim in torch", ("torch",), max_sim),
)
PACKAGES = ("bm25s", "PyStemmer", "faiss-cpu", "sentence-transformers", "llama-index-core", "lancedb", "torch")
EXACT_VECTORS = ("FAISS", "sentence-transformers", "LlamaIndex, vectors")


# Runs ---------------------------------------------------------------------------------------------------------------


def load_float32() -> Encoder:
    return load_encoder(EMBEDDED_ENCODER, device="cpu", dtype="float32")


def encode_texts(texts: Sequence[str]) -> Texts:
    encoder = load_float32()
    tokens = [
        text.vectors / np.linalg.norm(text.vectors, axis=1, keepdims=True) for text in encoder.encode_tokens(texts)
    ]
    offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in tokens])])
    return Texts(texts, encoder.encode_sentences(texts), np.concatenate(tokens).astype(np.float16), offsets)


def run_peer(peer: Peer, data: Texts, queries: Sequence[str]) -> tuple[Rankings, Used, Used]:
    """Rankings, and what building and searching used."""
    for module in peer.modules:
        import_module(module)
    search, building = measured(peer.build, data, load_float32())
    search(queries[:1])
    rankings, searching = measured(search, queries)
    return rankings, building, searching


def run_ours(name: str, lake: Lake, collection: str, questions: pl.DataFrame) -> tuple[list[list[str]], Used, Used]:
    """Chunk ids by question as a variant selects them from the lake, and what opening and selecting used."""
    variant = next(v for v in variants() if v.key == f"retrieval/{name}")
    method = open_method(variant)
    assert isinstance(method, SelectionMethod)
    context = StageContext(
        lake,
        "evidence",
        f"evidence/{variant.key}",
        ad_hoc_benchmark=QuestionSource(corpus=collection).benchmark("mcqa"),
    )
    get_encoder(context.profile.encoder).encode_sentences(["warm up"])
    selector, opening = measured(method.open_selector, context)
    question_list = build_questions(questions)
    list(selector.select(question_list[:1]))
    selected, selecting = measured(lambda: list(selector.select(question_list)))
    return [[item.parents[0].id for item in items] for items in selected], opening, selecting


def make_assets(collection: str, lake: Path) -> None:
    world = "hotpotqa" if collection == FULL else "collections"
    split = [] if collection == FULL else ["--split", "test"]
    command = [sys.executable, "-m", "bench.answers.measure_variants", collection, *OURS, "--lake", str(lake.resolve())]
    command += ["--world", f"bench/worlds/{world}.yaml", "--profile", "bench/float32.yaml", *split]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def compare(collection: str, folder: Path) -> None:
    """Print the rows of one collection."""
    make_assets(collection, folder)
    lake = Lake(folder / "lake")
    corpus = open_corpus(lake, collection)
    positions = range(len(corpus))
    ids, texts, titles = corpus.ids(positions), corpus.texts(positions), corpus.titles(positions)
    questions = (
        lake.read("questions", "questions/retrieval").filter(pl.col("benchmark") == collection).sort("question_id")
    )
    rows = typed_rows(questions, QuestionRow)
    queries = [question.query("") for question in build_questions(questions)]
    documents = dict(zip(ids, corpus.column("doc_id", positions), strict=True))

    def values(rankings: Sequence[Sequence[str]]) -> dict[str, list[float]]:
        pairs = [
            (q["question_id"], rank, "", "chunk", chunk)
            for q, r in zip(rows, rankings, strict=True)
            for rank, chunk in enumerate(r)
        ]
        frame = pl.DataFrame(pairs, ["question_id", "rank", "option", "source_kind", "source_id"], orient="row")
        return {name: numbers for name, numbers in passage_values(rows, frame, documents).items() if name in METRICS}

    results: dict[str, tuple[dict[str, list[float]], Used, Used]] = {}
    scores: dict[str, Rankings] = {}
    for name in OURS:
        evidence = lake.read("evidence", f"evidence/retrieval/{name}").filter(pl.col("benchmark") == collection)
        by_question = evidence.sort("question_id", "rank").group_by("question_id", maintain_order=True)
        grouped = by_question.agg("source_id", "score").iter_rows()
        stored = {question_id: tuple(columns) for question_id, *columns in grouped}
        our_rows = [stored.get(row["question_id"], ([], [])) for row in rows]  # BM25 may find no chunk
        selected, opening, selecting = in_new_process(run_ours, name, lake, collection, questions)
        assert selected == [chunks for chunks, _ in our_rows], f"{name} selects other chunks than the lake has"
        scores[name] = [list(zip(*chunks_and_scores, strict=True)) for chunks_and_scores in our_rows]
        results[f"`{name}`"] = (values(selected), opening, selecting)
    plain = Texts(
        texts, np.asarray(corpus.vectors, np.float32), np.zeros((0, DIMENSIONS), np.float16), np.zeros(1, np.int64)
    )
    titled = encode_texts([f"{title}. {text}" if title else text for title, text in zip(titles, texts, strict=True)])
    for peer in PEERS:
        if reason := missing(*peer.modules):
            print(f"{peer.name}: not run: {reason}")
            continue
        rankings, building, searching = in_new_process(run_peer, peer, titled, queries)
        scores[peer.name] = rankings
        chosen = values([[ids[position] for position, _ in ranking] for ranking in rankings])
        results[peer.name] = (chosen, building, searching)
        if peer.name in EXACT_VECTORS:
            assert_equal(in_new_process(run_peer, peer, plain, queries)[0], scores["cosine"])
            assert_equal(rankings, scores[next(name for name in EXACT_VECTORS if name in scores)])
    print_rows(collection, results)


def assert_equal(first: Rankings, second: Rankings) -> None:
    """Assert equal positive scores at each rank, so that rankings differ between ties alone."""
    for mine, other in zip(first, second, strict=True):
        a, b = (np.array([score for _, score in ranking if score > 0]) for ranking in (mine, other))
        assert len(a) == len(b) and np.allclose(a, b, atol=2e-3), (a[:5], b[:5])


def print_rows(collection: str, results: dict[str, tuple[dict[str, list[float]], Used, Used]]) -> None:
    ours, count = results["`uscrake`"][0], len(results["`uscrake`"][0]["mrr"])
    print(f"\n{collection}, n = {count}; differences: `uscrake` − the row, in points; seconds: wall / CPU\n")
    print(
        "| | recall at 2 / 5 / 10 | MRR | difference at 5 (95 %) | MRR (95 %) | build, s | ms a question | MB |\n|"
        + "---|" * 8
    )
    for name, (values, building, searching) in results.items():
        means = [f"{100 * np.mean(values[metric]):.1f}" for metric in METRICS]
        differences = paired_differences(ours, values)
        cells = [
            f"{100 * d.value:+.1f} ({100 * d.low:+.1f} to {100 * d.high:+.1f})"
            for d in (differences["recall@5"], differences["mrr"])
        ]
        cells = ["", ""] if name == "`uscrake`" else cells
        megabytes = max(building.megabytes, searching.megabytes)
        line = [name, " / ".join(means[:3]), means[3], *cells, building, searching.each(count), f"{megabytes:.0f}"]
        print(f"| {' | '.join(map(str, line))} |", flush=True)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--collections", nargs="+", default=[FULL, *COLLECTIONS])
    parser.add_argument("--lake", type=Path, help="a folder to keep our assets in")
    options = parser.parse_args()
    dev_data()
    print(versions(*PACKAGES))
    os.environ["EVIDENCE_PROFILE"] = str(Path("bench/float32.yaml").resolve())
    with tempfile.TemporaryDirectory() as folder:
        for collection in options.collections:
            compare(collection, options.lake or Path(folder))


if __name__ == "__main__":
    main()
