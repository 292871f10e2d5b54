"""How many of the exact best chunks a cheap ranking of the pool finds, if only its first share is ranked exactly.

    EVIDENCE_DEV_DATA=… python -m bench.retrieval.mean_ranking [--collections openbook_facts …]

Pools are the R nearest chunks, of at most 128 tokens, to queries of real collections, with the packaged encoder. The
exact best are the 15 of ``mcqa/uscrake_jsd_chunks`` (``jsd``) and ``mcqa/uscrake_fusion_chunks`` (``fusion``). Cheap
rankings: the divergence of mean distributions (``mean``), the pool's cosine (``cosine``), and two of both: the sum of
ranks, and the sum of standardised values. Recalls have 95 % intervals over queries, evenly taken from both halves of a
collection: the first chooses a ranking, the others are of the second. ρ is the rank correlation with the exact cost of
100 random chunks of the pool.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.stats import rankdata, spearmanr

from bench.dev_data import dev_data
from bench.measuring import make_parser, timed
from bench.result_files import print_table
from bench.retrieval.retrieval_collections import COLLECTIONS
from evidence_assets.experiment.scores.metrics import bootstrap
from evidence_assets.models.encoders import EMBEDDED_ENCODER, TransformerEncoder, load_encoder
from evidence_assets.models.vectors import Array
from evidence_assets.reasoning.questions import Question
from evidence_assets.retrieval import index_building, token_store
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.retrieval.corpus import IndexedCorpus
from evidence_assets.retrieval.corpus_files import SCHEMA, Shard, write_corpus_files
from evidence_assets.retrieval.token_cache import TEXTS_PER_SEGMENT
from evidence_assets.systems.uscrake.chunk_ranking import ChunkRanker
from evidence_assets.systems.uscrake.mean_ranking import MeanRanking
from evidence_assets.systems.uscrake.passages import EncodedPassages, Pool, Query, encode_hypotheses, find_pools
from evidence_assets.systems.uscrake.settings import MeanFirstSettings, UscrakeSettings
from evidence_assets.text.chunking import split_chunks

CHUNK_TOKENS, K, R, SAMPLE = 128, 15, 2_000, 100
SHARES = {"1/20": 0.05, "1/10": 0.1, "1/5": 0.2, "1/2": 0.5}
NAMES = ["openbook_facts", "pubmed_abstracts", "hotpot_passages"]


def standardise(values: Array) -> Array:
    return np.asarray((values - values.mean()) / values.std())


CHEAP_RANKINGS: dict[str, Callable[[Array, Array], Array]] = {
    "mean": lambda bounds, distances: bounds,
    "cosine": lambda bounds, distances: distances,
    "sum of ranks": lambda bounds, distances: rankdata(bounds) + rankdata(distances),
    "sum of values": lambda bounds, distances: standardise(bounds) + standardise(distances),
}
"""Orders by the lower bounds of mean distributions and the negative cosines of a pool's chunks, the least first."""


def open_passages(folder: Path, name: str, encoder: TransformerEncoder) -> tuple[EncodedPassages, float]:
    """The distinct chunks of a collection with index, token store and cached tokens; seconds of encoding a chunk."""
    documents, _ = COLLECTIONS[name](dev_data())
    spans = [
        (text, chunk) for *_, text in documents for chunk in split_chunks(text, encoder.count_tokens, CHUNK_TOKENS)
    ]
    texts = sorted({text[chunk.start : chunk.end] for text, chunk in spans})
    rows = [
        {"chunk_id": f"{i:06d}", "doc_id": "", "title": "", "text": text, "sentence_offsets": []}
        for i, text in enumerate(texts)
    ]
    (folder / "index").mkdir(parents=True)
    (vectors, tokens), seconds = timed(encoder.encode_with_tokens, texts)
    shard = Shard([pa.RecordBatch.from_pylist(rows, SCHEMA)], [vectors])
    write_corpus_files(folder / "index", [shard])
    index_building.write_index(folder / "index", built_from="v", model_id="m")
    token_store.build_store(folder / "store", [texts], encoder, "m", "v")
    expected = token_store.source_version("v", "m")
    store = token_store.TokenStore(folder / "store", expected=expected, cache=folder / "cache")
    passages = EncodedPassages(IndexedCorpus(folder / "index", "m", "v"), store, encoder)
    keys = passages.corpus.text_keys(np.arange(len(texts))).tolist()
    for start in range(0, len(texts), TEXTS_PER_SEGMENT):
        segment = slice(start, start + TEXTS_PER_SEGMENT)
        store.tokens(encoder).add(keys[segment], tokens[segment])
    return passages, seconds / len(texts)


def find_best(cost: str, passages: EncodedPassages, query: Query, pool: Pool, k: int = K) -> tuple[IntArray, Array]:
    """Positions in the pool of the k best chunks, and their scores."""
    ranker = ChunkRanker(UscrakeSettings(cost=cost, k=k, grain="chunk", titles=False, links=0), passages)
    best = ranker.finish(query, ranker.add(query, ranker.start(query), pool, passages.texts(pool.chunks)))
    return np.searchsorted(pool.chunks, best.chunks), best.scores


def write_recall(shares: list[Array], share: float) -> str:
    """Mean recall at this share with its interval; ``shares`` are where the best chunks of each query are ranked."""
    recall = bootstrap([float((each < share).mean()) for each in shares])
    return f"{recall.value:.3f} ({recall.low:.3f}–{recall.high:.3f})"


def measure_collection(name: str, folder: Path, n_queries: int) -> tuple[list[list[str]], list[str]]:
    """Rows of recalls, for each cost and cheap ranking, and a row of the seconds of each step."""
    encoder = load_encoder(EMBEDDED_ENCODER)
    passages, encode_seconds = open_passages(folder, name, encoder)
    _, queries = COLLECTIONS[name](dev_data())
    step = max(1, len(queries) // 2 // n_queries)
    halves = (queries[: len(queries) // 2], queries[len(queries) // 2 :])
    texts = [text for half in halves for text, _ in half[::step][:n_queries]]
    questions = [Question(str(i), name, "mcqa", text, ()) for i, text in enumerate(texts)]
    hypotheses = encode_hypotheses(questions, encoder, encoder)
    pools = find_pools(hypotheses, passages.corpus, encoder, R)
    mean_ranking = MeanRanking(MeanFirstSettings(cost="jsd", titles=False), passages)
    _, write_seconds = timed(mean_ranking.bounds, hypotheses[0].query, pools[0])
    seconds: dict[str, list[float]] = {step: [] for step in ("jsd", "jsd of 1/10", "mean", "fusion")}
    ranks: dict[tuple[str, str], list[Array]] = {}
    correlations: dict[str, list[float]] = {ranking: [] for ranking in CHEAP_RANKINGS}
    rng = np.random.default_rng(0)
    for hypothesis, pool in zip(hypotheses, pools, strict=True):
        query = hypothesis.query
        bounds, mean_seconds = timed(mean_ranking.bounds, query, pool)
        orders = {ranking: combine(bounds, -pool.cosines) for ranking, combine in CHEAP_RANKINGS.items()}
        sample = np.sort(rng.choice(len(pool.chunks), SAMPLE, replace=False))
        positions, scores = find_best("jsd", passages, query, pool.select(sample), SAMPLE)
        for ranking, order in orders.items():
            correlations[ranking].append(spearmanr(order[sample[positions]], -scores)[0])
        for cost in ("jsd", "fusion"):
            (best, _), cost_seconds = timed(find_best, cost, passages, query, pool)
            seconds[cost].append(cost_seconds)
            for ranking, order in orders.items():
                shares = (rankdata(order, "ordinal")[best] - 1) / len(order)
                ranks.setdefault((cost, ranking), []).append(shares)
        first = np.sort(np.argsort(bounds, kind="stable")[: len(bounds) // 10])
        _, first_seconds = timed(find_best, "jsd", passages, query, pool.select(first))
        seconds["jsd of 1/10"].append(first_seconds)
        seconds["mean"].append(mean_seconds)
    rows = []
    for (cost, ranking), shares in ranks.items():
        middle = len(shares) // 2
        cells = [write_recall(shares[:middle], 0.1), *(write_recall(shares[middle:], s) for s in SHARES.values())]
        rho = f"{np.mean(correlations[ranking]):.2f}" if cost == "jsd" else ""
        rows.append([name, str(len(shares) - middle), cost, ranking, *cells, rho])
    n_chunks = len(passages.corpus)
    size = len(pools[0].chunks)
    means = [f"{np.mean(values):.2f}" for values in seconds.values()]
    return rows, [name, f"{n_chunks:,}", f"{size:,}", f"{encode_seconds * size:.1f}", *means, f"{write_seconds:.1f}"]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--collections", nargs="+", choices=COLLECTIONS, default=NAMES)
    parser.add_argument("--queries", type=int, default=30, help="of each half")
    options = parser.parse_args()
    columns = ["collection", "n", "ranking", "first by", "1/10, first half", *SHARES, "ρ"]
    time_columns = ["collection", "chunks", "pool", "encoding it, s", "jsd, s", "jsd of 1/10, s", "mean, s"]
    time_columns += ["fusion, s", "file of means, s"]
    with tempfile.TemporaryDirectory() as folder:
        for name in options.collections:
            recalls, seconds = measure_collection(name, Path(folder) / name, options.queries)
            print_table(columns, recalls)
            print_table(time_columns, [seconds])


if __name__ == "__main__":
    main()
