"""How fast the exact top k of a pool is found, against solving every pair.

    EVIDENCE_DEV_DATA=… python -m bench.retrieval.transport [--texts 20000] [--sample 400] [--full]

The baseline is the vectorised entropy form of the divergence in float64 with reused buffers and ``ot.emd2`` for each
pair, timed on an even sample of the pool (on all of it with ``--full``) in the same process, in turns with the search,
and scaled to the pool. Results are asserted to be equal on what the baseline solved, for one query and for five at
once, and on one thread. Pools: chunks made by joining random HotpotQA sentences, once with the published scaling
(softmax of BM25 · vector), once with the weight left out of the softmax, and an isotropic random one. Building
distributions from the vectors is timed apart on both sides: the baseline is handed finished float64 distributions, and
the share that the search spends on it is printed.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import ot
from numpy.typing import NDArray
from scipy.stats import entropy

from bench.dev_data import hotpotqa_rows, hotpotqa_sentences
from bench.measuring import PeakMemory, make_parser, resident
from bench.retrieval.token_encoding import Encoded, encode
from evidence_assets.models.vectors import softmax
from evidence_assets.transport import TokenMeasure, TokenPool, find_nearest_texts, get_ground_cost
from evidence_assets.transport.search import NearestTexts, count_processors

K, D, CHUNK, TURNS = 15, 384, 130, 3
Array = NDArray[np.float64]


class Baseline:
    """Entropy form with reused buffers, then the exact solver."""

    def __init__(self, query: TokenMeasure) -> None:
        self.p, self.a = query.points, query.masses
        self.entropies = entropy(self.p, axis=1)
        self.mix = np.empty((512, D))
        self.log = np.empty((512, D))

    def __call__(self, q: Array, b: Array) -> float:
        mix, log, cost = self.mix[: len(q)], self.log[: len(q)], np.empty((len(self.p), len(q)))
        np.maximum(q, 1e-300, out=mix)
        np.log(mix, out=log)
        mix_entropy = -np.einsum("ij,ij->i", mix, log)
        for i, row in enumerate(self.p):
            np.add(q, row, out=mix)
            mix *= 0.5
            np.maximum(mix, 1e-300, out=mix)
            np.log(mix, out=log)
            cost[i] = -np.einsum("ij,ij->i", mix, log) - 0.5 * (self.entropies[i] + mix_entropy)
        return float(ot.emd2(self.a, b, np.maximum(cost, 0), numItermax=1_000_000))


def bm25(pieces: list[str], counts: Counter[str], n: int, average: float) -> Array:
    inside = Counter(pieces)
    norm = 1.2 * (0.25 + 0.75 * len(pieces) / average)
    return np.array(
        [
            max(0.0, np.log((n - counts[p] + 0.5) / (counts[p] + 0.5))) * inside[p] * 2.2 / (inside[p] + norm)
            for p in pieces
        ]
    )


def real_pool(sentences: Encoded, texts: int, folder: Path) -> tuple[TokenPool, Counter[str]]:
    """Chunks of about 130 tokens from random sentences, written to disk as a memory-mapped float16 store."""
    rng = np.random.default_rng(0)
    n = len(sentences.offsets) - 1
    members: list[list[int]] = []
    for _ in range(texts):
        chosen: list[int] = []
        size = 0
        while size < CHUNK - 10:
            chosen.append(int(rng.integers(n)))
            size += int(sentences.offsets[chosen[-1] + 1] - sentences.offsets[chosen[-1]])
        members.append(chosen)
    rows = [np.concatenate([np.arange(*sentences.offsets[[i, i + 1]]) for i in m])[: CHUNK + 20] for m in members]
    offsets = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    store = np.lib.format.open_memmap(folder / "vectors.npy", mode="w+", dtype=np.float16, shape=(int(offsets[-1]), D))
    pieces = np.array(sentences.pieces, dtype=object)
    counts: Counter[str] = Counter()
    for r in rows:
        counts.update(set(pieces[r]))
    weights = np.empty(int(offsets[-1]))
    average = float(np.diff(offsets).mean())
    for i, r in enumerate(rows):
        store[offsets[i] : offsets[i + 1]] = sentences.vectors[r]
        weights[offsets[i] : offsets[i + 1]] = bm25(list(pieces[r]), counts, texts, average)
    store.flush()
    del store
    return TokenPool(np.load(folder / "vectors.npy", mmap_mode="r"), offsets, weights), counts


def isotropic_pool(texts: int, folder: Path) -> TokenPool:
    rng = np.random.default_rng(0)
    offsets = np.arange(texts + 1) * CHUNK
    store = np.lib.format.open_memmap(folder / "random.npy", mode="w+", dtype=np.float16, shape=(texts * CHUNK, D))
    for low in range(0, len(store), 1 << 16):
        block = store[low : low + (1 << 16)]
        block[:] = rng.standard_normal(block.shape, dtype=np.float32)
    store.flush()
    del store
    return TokenPool(np.load(folder / "random.npy", mmap_mode="r"), offsets, rng.random(texts * CHUNK))


def check(nearest: NearestTexts, solved: dict[int, float]) -> None:
    """Assert that the search agrees with the distances that the baseline solved."""
    kth = nearest.distances[-1]
    distance_of = {int(i): float(d) for i, d in zip(nearest.indices, nearest.distances, strict=True)}
    for text, true in solved.items():
        if text in distance_of:
            assert abs(distance_of[text] - true) < 1e-6, (text, distance_of[text], true)
        else:
            assert true > kth - 1e-9, f"text {text} at {true} was missed (k-th is {kth})"


def report(name: str, queries: list[TokenMeasure], pool: TokenPool, cost: str, sample: int) -> None:
    """Compare each query alone, and all queries at once, with the baseline."""
    find_nearest_texts(queries[:1], pool, K, cost)  # page the store in and start the threads: both sides run warm
    indices = np.unique(np.linspace(0, len(pool) - 1, sample).astype(int))
    baselines = [Baseline(q) for q in queries]
    solved: list[dict[int, float]] = [{} for _ in queries]
    build_seconds = base_cpu = cpu = 0.0
    base_walls, walls = np.zeros(len(queries)), np.zeros(len(queries))
    all_walls = []
    for turn in np.array_split(indices, TURNS):
        for text in turn.tolist():
            start = time.perf_counter()
            measure = pool.measure(text, cost)
            q, b = measure.points, measure.masses
            build_seconds += time.perf_counter() - start
            for number, baseline in enumerate(baselines):
                start, cpu_start = time.perf_counter(), time.process_time()
                solved[number][text] = baseline(q, b)
                base_walls[number] += time.perf_counter() - start
                base_cpu += time.process_time() - cpu_start
        nearest = []
        for number, query in enumerate(queries):
            start, cpu_start = time.perf_counter(), time.process_time()
            nearest += find_nearest_texts([query], pool, K, cost)
            walls[number] += (time.perf_counter() - start) / TURNS
            cpu += (time.process_time() - cpu_start) / TURNS
        start = time.perf_counter()
        results = find_nearest_texts(queries, pool, K, cost)
        all_walls.append(time.perf_counter() - start)
    scale = len(pool) / len(indices)
    base_walls *= scale
    for distances, alone, result in zip(solved, nearest, results, strict=True):
        assert result.indices.tolist() == alone.indices.tolist()
        check(result, distances)
        if len(indices) == len(pool):
            order = sorted(distances, key=lambda t: (distances[t], t))[:K]
            assert order == result.indices.tolist(), "the order differs from the naive loop"
    first = find_nearest_texts(queries[:1], pool, K, cost, threads=1)[0]
    assert first.distances.tobytes() == nearest[0].distances.tobytes() and first.n_solved == nearest[0].n_solved
    ratios = base_walls / walls
    print(f"\n{name}: {len(pool)} texts, {len(pool.vectors)} tokens, queries of {len(queries[0])} tokens, k = {K}")
    print(
        f"  baseline   {base_walls.mean():8.2f} s wall {base_cpu * scale / len(queries):8.2f} s processor, mean of "
        f"{len(queries)} queries ({1e3 * base_walls.mean() / len(pool):.2f} ms a pair on {len(indices)} pairs; "
        f"building its measures apart: {build_seconds * scale:.2f} s)"
    )
    print(f"  search     {walls.mean():8.2f} s wall {cpu / len(queries):8.2f} s processor, results equal on one thread")
    print(
        f"  ratio      {base_walls.sum() / walls.sum():8.1f} wall {base_cpu * scale / cpu:8.1f} processor, one query "
        f"at a time; of each {ratios.min():.1f} to {ratios.max():.1f}"
    )
    pruned = {bound: sum(result.n_pruned[bound] for result in nearest) for bound in nearest[0].n_pruned}
    shares = ", ".join(f"{bound} {100 * n / len(pool) / len(queries):.2f} %" for bound, n in pruned.items())
    print(f"  pruned by bounds: {shares}; solved {[result.n_solved for result in nearest]}")
    at_once = float(np.mean(all_walls))
    print(
        f"  {len(queries)} queries at once {at_once:.2f} s wall: {base_walls.sum() / at_once:.1f} times their baselines"
    )


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--sample", type=int, default=400)
    parser.add_argument("--full", action="store_true", help="run the baseline on the whole pool (a minute or more)")
    options = parser.parse_args()
    sentences = encode(hotpotqa_sentences())
    questions = encode([row["question"] for row in hotpotqa_rows()])
    text_indices = np.flatnonzero(np.diff(questions.offsets) == 25)[:5]
    sample = options.texts if options.full else options.sample
    with tempfile.TemporaryDirectory() as name, PeakMemory() as memory:
        folder = Path(name)
        start = time.perf_counter()
        pool, counts = real_pool(sentences, options.texts, folder)
        print(f"building the real pool: {time.perf_counter() - start:.1f} s, {count_processors()} processors")
        for cost, label in (("jsd", "published jsd"), ("jsd_unscaled", "jsd, weight left out of the softmax")):
            measures = []
            for text in text_indices:
                w = bm25(questions.pieces_of(text), counts, options.texts, 25.0)
                z = questions.vectors[questions.rows(text)].astype(np.float64)
                measures.append(get_ground_cost(cost).measure(z, w))
            report(label, measures, pool, cost, sample)
        del pool
        (folder / "vectors.npy").unlink()
        rng = np.random.default_rng(1)
        random = [TokenMeasure(softmax(rng.normal(size=(25, D))), rng.random(25)) for _ in range(2)]
        isotropic = isotropic_pool(min(options.texts, 4000), folder)
        report("isotropic random", random, isotropic, "jsd_unscaled", min(sample, 4000))
    print(f"\nown memory at most {memory.total:.0f} MiB; with mapped pages {resident('VmHWM'):.0f} MiB")


if __name__ == "__main__":
    main()
