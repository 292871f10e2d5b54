"""Every path that runs on a CUDA device against its twin on the processor: equal results, and how much faster (`make
gpu`).

    python -m bench.gpu [--device cuda] [--small]

Needs torch, transformers, sentence-transformers, torch-geometric and this folder, no Dagster and no network. One table
is printed; the exit status is 1 where results differ by more than they may. Models other than the embedded encoder have
random weights of a common size: what is compared is kernels. With ``--device cpu`` the device is its own twin, which
shows that the script works.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertForSequenceClassification, set_seed

from bench.graphs.attention import random_problem
from bench.retrieval.encoder import texts_of
from evidence_assets.graphs.attention.scorer import AttentionSettings, train_and_score
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.inference import find_minilm_folder
from evidence_assets.models.masked import HFMaskedLM
from evidence_assets.models.rerankers import CrossEncoderReranker
from evidence_assets.transport import TokenMeasure
from evidence_assets.transport.ground_cost import list_ground_costs
from evidence_assets.transport.pool import TokenPool
from evidence_assets.transport.search import find_nearest_texts


@dataclass(frozen=True)
class Twins:
    """One path run on both: seconds of each, and the greatest difference beside the one allowed."""

    path: str
    size: str
    processor: float
    device: float
    difference: float
    allowed: float


def time_call(run: Callable[[], Any], device: str, times: int = 3) -> tuple[Any, float]:
    """What it gives, and its best time after one to warm up."""
    run()
    best = np.inf
    for _ in range(times):
        if device != "cpu":
            torch.cuda.synchronize()
        started = time.perf_counter()
        result = run()
        if device != "cpu":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - started)
    return result, float(best)


def transport(device: str, small: bool) -> Iterator[Twins]:
    """The exact search under each ground cost, its pass over the pool on the device, read there and kept there."""
    rng, texts, d = np.random.default_rng(0), 500 if small else 10_000, 384
    lengths = rng.integers(20, 100, texts)
    topics = rng.normal(size=(200, d))
    vectors = (topics[rng.integers(200, size=lengths.sum())] + 0.5 * rng.normal(size=(lengths.sum(), d))) * 0.4
    pool = TokenPool(
        vectors.astype(np.float16), np.concatenate([[0], np.cumsum(lengths)]), rng.gamma(1.0, size=lengths.sum())
    )
    size = f"{texts} texts, {lengths.sum()} tokens"
    for cost in list_ground_costs():
        measure = pool.measure(7, cost)
        query = TokenMeasure(measure.points[:12], measure.weights[:12])
        (expected,), cpu_seconds = time_call(partial(find_nearest_texts, [query], pool, 20, cost), "cpu", 1)
        (gpu_result,), seconds = time_call(partial(find_nearest_texts, [query], pool, 20, cost, device=device), device)
        same = gpu_result.indices.tolist() == expected.indices.tolist()
        difference = float(np.abs(gpu_result.distances - expected.distances).max()) if same else np.inf
        yield Twins(f"transport, {cost}", size, cpu_seconds, seconds, difference, 1e-6)


def attention(device: str, small: bool) -> Iterator[Twins]:
    """UGAT's training and scores."""
    count, nodes = (4, 30) if small else (64, 300)
    problems = [random_problem(number, nodes, 384, 4 * nodes) for number in range(count)]
    graphs, queries = [graph for graph, _ in problems], [query for _, query in problems]
    settings = AttentionSettings()
    cpu_result, mine = time_call(lambda: train_and_score(graphs, queries, settings, "cpu"), "cpu", 1)
    gpu_result, its = time_call(lambda: train_and_score(graphs, queries, settings, device), device)
    difference = max(float(np.abs(a.scores - b.scores).max()) for a, b in zip(cpu_result, gpu_result, strict=True))
    yield Twins("UGAT, training and scores", f"{count} questions, {nodes} nodes", mine, its, difference, 1e-3)


def encoder(device: str, small: bool) -> Iterator[Twins]:
    """Sentence and token vectors, and whether a vector hangs on what it is encoded with."""
    texts = texts_of(50 if small else 2000, 5, 200)
    cpu_encoder = load_encoder(EMBEDDED_ENCODER, device="cpu", dtype="float32")
    expected, mine = time_call(lambda: cpu_encoder.encode_sentences(texts), "cpu", 1)
    for dtype, allowed in (("float32", 1e-5), ("bfloat16", 1e-3)):
        gpu_encoder = load_encoder(EMBEDDED_ENCODER, device=device, dtype=dtype)
        vectors, its = time_call(lambda o=gpu_encoder: o.encode_sentences(texts), device)  # type: ignore[misc]
        furthest = float(1 - (vectors * expected).sum(axis=1).min())
        yield Twins(f"encoder, {dtype}, 1 − cosine", f"{len(texts)} texts", mine, its, furthest, allowed)
        single = np.concatenate([gpu_encoder.encode_sentences([text]) for text in texts[:200]])
        n_different = float((single != vectors[:200]).any(axis=1).sum())
        yield Twins(f"encoder, {dtype}, vectors that differ alone", f"{len(single)} texts", mine, its, n_different, 0)
        worst = max(
            float(np.abs(a.vectors - b.vectors).max())
            for a, b in zip(cpu_encoder.encode_tokens(texts[:50]), gpu_encoder.encode_tokens(texts[:50]), strict=True)
        )
        yield Twins(f"token vectors, {dtype}", "50 texts", mine, its, worst, 1e-3 if dtype == "float32" else 0.2)


def save_model(folder: Path, kind: type[Any], **settings: Any) -> Path:
    """A model of MiniLM's size with random weights and its tokenizer."""
    set_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(find_minilm_folder())
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        **settings,
    )
    kind(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def reranker(device: str, small: bool) -> Iterator[Twins]:
    """A cross-encoder's scores."""
    texts = texts_of(20 if small else 1000, 5, 100)
    pairs = list(zip(texts, reversed(texts), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        place = str(save_model(Path(folder), BertForSequenceClassification, num_labels=1))
        cpu_model, gpu_model = (CrossEncoderReranker(place, device=each) for each in ("cpu", device))
        cpu_result, mine = time_call(lambda: cpu_model.score(pairs), "cpu", 1)
        gpu_result, its = time_call(lambda: gpu_model.score(pairs), device)
    yield Twins("reranker", f"{len(pairs)} pairs", mine, its, float(np.abs(cpu_result - gpu_result).max()), 1e-3)


def masked(device: str, small: bool) -> Iterator[Twins]:
    """Log probabilities of a masked model."""
    texts = texts_of(20 if small else 500, 5, 40)
    with tempfile.TemporaryDirectory() as folder:
        place = save_model(Path(folder), BertForMaskedLM)
        cpu_model, gpu_model = (HFMaskedLM.load(place, device=each) for each in ("cpu", device))
    cpu_result, mine = time_call(lambda: cpu_model.word_log_probs(texts), "cpu", 1)
    gpu_result, its = time_call(lambda: gpu_model.word_log_probs(texts), device)
    worst = max(float(np.abs(a - b).max()) for a, b in zip(cpu_result, gpu_result, strict=True))
    yield Twins("masked model", f"{len(texts)} texts", mine, its, worst, 1e-2)


def index(device: str, small: bool) -> Iterator[Twins]:
    """A flat FAISS index, where its build for cards is installed."""
    import faiss

    if device == "cpu" or not hasattr(faiss, "StandardGpuResources"):
        return
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2000 if small else 500_000, 384)).astype(np.float32)
    flat = faiss.IndexFlatIP(384)
    flat.add(vectors)
    gpu_index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, flat)
    (cpu_result, _), mine = time_call(lambda: flat.search(vectors[:64], 100), "cpu", 1)
    (nearest, _), its = time_call(lambda: gpu_index.search(vectors[:64], 100), device)
    yield Twins("FAISS, flat", f"{len(vectors)} vectors", mine, its, float(np.abs(cpu_result - nearest).max()), 1e-2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes that only show that everything runs")
    options = parser.parse_args()
    if options.device != "cpu" and not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device here; --device cpu --small shows that the script works")
    paths = [transport, attention, encoder, reranker, masked, *([index] if find_spec("faiss") else [])]
    name = torch.cuda.get_device_name() if options.device != "cpu" else "the processor itself"
    table = Table("path", "size", "processor, s", "device, s", "times", "difference", "allowed", title=name)
    n_wrong = 0
    for path in paths:
        for twins in path(options.device, options.small):
            fits = twins.difference <= twins.allowed
            n_wrong += not fits
            table.add_row(
                twins.path,
                twins.size,
                f"{twins.processor:.3f}",
                f"{twins.device:.3f}",
                f"{twins.processor / twins.device:.1f}",
                f"{twins.difference:.2g}{'' if fits else ' !'}",
                f"{twins.allowed:.2g}",
            )
    Console(width=160, highlight=False).print(table)
    sys.exit(bool(n_wrong))


if __name__ == "__main__":
    main()
