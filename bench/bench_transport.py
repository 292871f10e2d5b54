"""How fast the exact top k of a pool is found, against solving every pair.

    EVIDENCE_DEV_DATA=… python bench/bench_transport.py [--texts 20000] [--sample 400] [--full] [--device cuda]

The baseline is the vectorised entropy form of the divergence in float64 with reused buffers and ``ot.emd2`` for each
pair, timed on an even sample of the pool (on all of it with ``--full``) in the same process, in turns with the search,
and scaled to the pool. Results are asserted to be equal on what the baseline solved. Pools: chunks made by joining
random HotpotQA sentences, once with the published scaling (softmax of BM25 · vector), once with the weight left out of
the softmax, and an isotropic random one. Building distributions from the vectors is timed apart on both sides: the
baseline is handed finished float64 distributions, and the share that the search spends on it is printed.

With ``--device`` the same search is timed there too; the baseline stays on the processor, and results must be the same.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import ot
import torch
from numpy.typing import NDArray
from scipy.stats import entropy
from token_encoding import Encoded, encode

from evidence_assets.models.vectors import softmax
from evidence_assets.transport import NearestTexts, TokenMeasure, TokenPool, find_nearest_texts, get_ground_cost
from evidence_assets.transport.bounds import BLOCK_TOKENS
from evidence_assets.transport.ground_cost import Workspace
from evidence_assets.transport.search import count_processors

K, D, CHUNK = 15, 384, 130
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


class AnonymousPeak:
    """Greatest anonymous memory of this process, sampled every 20 ms."""

    def __init__(self) -> None:
        self.peak = 0
        self.running = True
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        while self.running:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    self.peak = max(self.peak, int(line.split()[1]) // 1024)
            time.sleep(0.02)


def bm25(pieces: list[str], counts: Counter[str], n: int, average: float) -> Array:
    inside = Counter(pieces)
    norm = 1.2 * (0.25 + 0.75 * len(pieces) / average)
    return np.array(
        [
            max(0.0, np.log((n - counts[p] + 0.5) / (counts[p] + 0.5))) * inside[p] * 2.2 / (inside[p] + norm)
            for p in pieces
        ]
    )


def real_pool(sentences: Encoded, texts: int, folder: Path) -> tuple[TokenPool, Counter[str], float]:
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
    return TokenPool(np.load(folder / "vectors.npy", mmap_mode="r"), offsets, weights), counts, average


def isotropic_pool(texts: int, folder: Path) -> TokenPool:
    rng = np.random.default_rng(0)
    offsets = np.arange(texts + 1) * CHUNK
    store = np.lib.format.open_memmap(folder / "random.npy", mode="w+", dtype=np.float16, shape=(texts * CHUNK, D))
    for low in range(0, len(store), 1 << 16):
        part = store[low : low + (1 << 16)]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32)
    store.flush()
    del store
    return TokenPool(np.load(folder / "random.npy", mmap_mode="r"), offsets, rng.random(texts * CHUNK))


def report(
    name: str,
    query: TokenMeasure,
    pool: TokenPool,
    cost: str,
    sample: int,
    others: list[TokenMeasure],
    device: str = "cpu",
) -> None:
    find_nearest_texts([query], pool, K, cost)  # page the store in and start the threads: both sides run warm
    picked = np.unique(np.linspace(0, len(pool) - 1, sample).astype(int))
    turns = np.array_split(picked, 3)
    baseline = Baseline(query)
    solved: dict[int, float] = {}
    built = base_wall = base_cpu = 0.0
    walls, cpus = [], []
    for turn in turns:
        for text in turn:
            start = time.perf_counter()
            measure = pool.measure(int(text), cost)
            q, b = measure.points, measure.masses
            built += time.perf_counter() - start
            start, cpu = time.perf_counter(), time.process_time()
            solved[int(text)] = baseline(q, b)
            base_wall += time.perf_counter() - start
            base_cpu += time.process_time() - cpu
        start, cpu = time.perf_counter(), time.process_time()
        (nearest,) = find_nearest_texts([query], pool, K, cost)
        walls.append(time.perf_counter() - start)
        cpus.append(time.process_time() - cpu)
    scale = len(pool) / len(picked)
    kth = nearest.distances[-1]
    place = {int(i): float(d) for i, d in zip(nearest.indices, nearest.distances, strict=True)}
    for text, true in solved.items():
        if text in place:
            assert abs(place[text] - true) < 1e-6, (text, place[text], true)
        else:
            assert true > kth - 1e-9, f"text {text} at {true} was missed (k-th is {kth})"
    if len(picked) == len(pool):
        order = sorted(solved, key=lambda t: (solved[t], t))[:K]
        assert order == nearest.indices.tolist(), "the order differs from the naive loop"
    start = time.perf_counter()
    find_nearest_texts([query, *others], pool, K, cost)
    four = time.perf_counter() - start
    wall, cpu = min(walls), min(cpus)
    print(f"\n{name}: {len(pool)} texts, {len(pool.vectors)} tokens, query of {len(query)} tokens, k = {K}")
    print(
        f"  baseline   {base_wall * scale:8.2f} s wall {base_cpu * scale:8.2f} s processor  "
        f"({1e3 * base_wall / len(picked):.2f} ms a pair on {len(picked)} pairs; building its measures apart: "
        f"{built * scale:.2f} s)"
    )
    print(f"  search     {wall:8.2f} s wall {cpu:8.2f} s processor, {nearest.n_solved} solved, results equal")
    print(f"  ratio      {base_wall * scale / wall:8.1f} wall {base_cpu * scale / cpu:8.1f} processor")
    print(f"  four queries at once {four:.2f} s wall: {4 * base_wall * scale / four:.1f} times")
    if device != "cpu":
        on_device(query, pool, cost, nearest, base_wall * scale, device)
    where(query, pool, cost, wall)


def on_device(
    query: TokenMeasure, pool: TokenPool, cost: str, expected: NearestTexts, baseline: float, device: str
) -> None:
    """The same search with its pass over the pool on a device."""
    find_nearest_texts([query], pool, K, cost, device=device)
    walls = []
    for _ in range(3):
        start = time.perf_counter()
        (nearest,) = find_nearest_texts([query], pool, K, cost, device=device)
        walls.append(time.perf_counter() - start)
    assert nearest.indices.tolist() == expected.indices.tolist(), "the device gives another order"
    assert np.abs(nearest.distances - expected.distances).max() < 1e-6
    print(
        f"  {device}: {min(walls):.3f} s wall, {nearest.n_solved} solved, {baseline / min(walls):.1f} times the "
        f"baseline, results equal"
    )


def where(query: TokenMeasure, pool: TokenPool, cost: str, wall: float) -> None:
    """Where the time goes, on one thread, over blocks of the pool, and the floors of bytes and operations."""
    low, high = next(iter(pool.blocks(BLOCK_TOKENS)))
    rows = slice(int(pool.offsets[low]), int(pool.offsets[high]))
    size = rows.stop - rows.start
    points = query.points[query.masses > 0]
    padded = np.concatenate([points, points[: -len(points) % 8]])
    ground = get_ground_cost(cost)
    features = tuple(torch.from_numpy(f) for f in ground.features(padded))
    room = Workspace(len(padded), size, D, torch.device("cpu"))
    scale = ground.factors(pool.weights[rows], 1.0)
    factors = None if scale is None else torch.from_numpy(scale)
    x = np.random.default_rng(0).random((size, D), dtype=np.float32)

    def bound() -> None:
        block = room.rows(size)[0].copy_(torch.from_numpy(np.array(pool.vectors[rows])))
        ground.lower(features, block, factors, room)

    many = [
        ("whole bound", bound),
        ("float16 to float32", lambda: torch.from_numpy(x).copy_(torch.from_numpy(np.array(pool.vectors[rows])))),
        ("exp, cos, sin", lambda: (np.exp(x), np.cos(x), np.sin(x))),
        ("matrix products", lambda: [features[0].numpy() @ x.T for _ in range(3)]),
    ]
    torch.set_num_threads(1)
    total = len(pool.vectors) / size
    parts = []
    for name, function in many:
        best = np.inf
        for _ in range(20):
            start = time.process_time()
            function()
            best = min(best, time.process_time() - start)
        parts.append(f"{name} {best * total:.2f} s")
    torch.set_num_threads(count_processors())
    bytes_read = pool.vectors.nbytes
    operations = 2 * 3 * D * len(points) * len(pool.vectors)
    print(f"  one processor's seconds: {', '.join(parts)} (exp, and half of building, are the softmax itself)")
    print(
        f"  floor: {bytes_read / 1e9:.1f} GB read ({bytes_read / wall / 1e9:.1f} GB/s), {operations / 1e9:.0f} "
        f"GFLOP of products ({operations / wall / 1e9:.0f} GFLOP/s)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--sample", type=int, default=400)
    parser.add_argument("--full", action="store_true", help="run the baseline on the whole pool (a minute or more)")
    parser.add_argument("--device", default="cpu", help="also time the search on this torch device, such as cuda")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("not run: there is no CUDA device")
        return
    if not os.environ.get("EVIDENCE_DEV_DATA"):
        print("not run: EVIDENCE_DEV_DATA names no folder with hotpotqa-100, whose sentences make the pool")
        return
    data = Path(os.environ["EVIDENCE_DEV_DATA"]) / "hotpotqa-100"
    corpus = json.loads((data / "hotpotqa_train_corpus.json").read_text(encoding="utf-8"))
    question_texts = [q["question"] for q in json.loads((data / "hotpotqa_train.json").read_text(encoding="utf-8"))]
    sentences = encode([s.strip() for text in corpus.values() for s in text if s.strip()])
    questions = encode(question_texts, layers=True)
    lengths = np.diff(questions.offsets)
    chosen = np.flatnonzero(lengths == 25)[:4]
    sample = options.texts if options.full else options.sample
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        pool, counts, _average = real_pool(sentences, options.texts, folder)
        print(f"building the real pool: {time.perf_counter() - start:.1f} s, {count_processors()} processors")
        watch = AnonymousPeak()
        for cost, label in (("jsd", "published jsd"), ("jsd_unscaled", "jsd, weight left out of the softmax")):
            measures = []
            for text in chosen:
                w = bm25(questions.pieces_of(text), counts, options.texts, 25.0)
                z = questions.vectors[questions.rows(text)].astype(np.float64)
                measures.append(get_ground_cost(cost).measure(z, w))
            report(label, measures[0], pool, cost, sample, measures[1:], options.device)
        del pool
        (folder / "vectors.npy").unlink()
        rng = np.random.default_rng(1)
        random = [TokenMeasure(softmax(rng.normal(size=(25, D))), rng.random(25)) for _ in range(4)]
        report(
            "isotropic random",
            random[0],
            isotropic_pool(min(options.texts, 4000), folder),
            "jsd_unscaled",
            min(sample, 4000),
            random[1:],
            options.device,
        )
        watch.running = False
        print(
            f"\nanonymous memory at most {watch.peak} MB; resident with mapped pages "
            f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB"
        )


if __name__ == "__main__":
    main()
