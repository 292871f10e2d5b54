"""Every path that runs on a CUDA device against its twin on the processor: equal results, and how much faster (`make
gpu`).

    python -m bench.gpu [--device cuda] [--small]

Needs torch, transformers, sentence-transformers, torch-geometric and this folder, no Dagster and no network. Paths of
an extra (``faiss-gpu``, ``nf4``, ``vllm``) run where it is installed, and are listed as not run elsewhere. One table
is printed, row by row; the exit status is 1 where results differ by more than they may. Models other than the embedded
encoder have random weights of a common size: what is compared is kernels. With ``--device cpu`` the device is its own
twin, which shows that the script works.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    set_seed,
)

from bench.graphs.attention import random_problem
from bench.measuring import in_new_process, make_parser
from bench.retrieval.encoder import texts_of
from evidence_assets.graphs.attention.scorer import AttentionSettings, train_and_score
from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.inference import find_minilm_folder, resolve_device, save_model
from evidence_assets.models.local_generators import TransformersGenerator
from evidence_assets.models.masked import HFMaskedLM
from evidence_assets.models.protocols import Request
from evidence_assets.models.registry import load_generator
from evidence_assets.models.rerankers import CrossEncoderReranker, LabelledPair, TuningSettings, tune_reranker
from evidence_assets.models.sequence_models import TextLikelihood
from evidence_assets.models.span_reader import SpanReader
from evidence_assets.models.vectors import unit_rows
from evidence_assets.profiles import GeneratorSettings
from evidence_assets.retrieval.index_building import write_index
from evidence_assets.retrieval.vector_index import VectorIndex, faiss, search_index
from evidence_assets.transport import DevicePool, TokenPool, find_nearest_texts

SIZE = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
"""MiniLM's."""


@dataclass(frozen=True)
class Twins:
    """One path run on both: seconds of each, and the greatest difference beside the one allowed."""

    path: str
    size: str
    processor: float
    device: float
    difference: float
    allowed: float


class NotRun(Exception):
    """A path that cannot run here; the message says why."""


def time_call(run: Callable[[], Any], device: str, times: int = 3) -> tuple[Any, float]:
    """What it gives, and its best time; a call to warm up precedes several."""
    if times > 1:
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


def attention(device: str, small: bool) -> Iterator[Twins]:
    """UGAT's training and scores."""
    count, nodes = (4, 30) if small else (16, 300)
    problems = [random_problem(number, nodes, 384, 4 * nodes) for number in range(count)]
    graphs, queries = [graph for graph, _ in problems], [query for _, query in problems]
    settings = AttentionSettings()
    cpu_result, mine = time_call(lambda: train_and_score(graphs, queries, settings, "cpu"), "cpu", 1)
    gpu_result, its = time_call(lambda: train_and_score(graphs, queries, settings, device), device)
    difference = max(float(np.abs(a.scores - b.scores).max()) for a, b in zip(cpu_result, gpu_result, strict=True))
    yield Twins("UGAT, training and scores", f"{count} questions, {nodes} nodes", mine, its, difference, 1e-3)


def encoder(device: str, small: bool) -> Iterator[Twins]:
    """Sentence and token vectors, and whether a text encoded alone has the same vector as among others."""
    texts = texts_of(50 if small else 2000, 5, 200)
    cpu_encoder = load_encoder(EMBEDDED_ENCODER, device="cpu", dtype="float32")
    few = texts[:100]
    expected, mine = time_call(lambda: cpu_encoder.encode_sentences(texts), "cpu", 1)
    _, alone_seconds = time_call(lambda: [cpu_encoder.encode_sentences([text]) for text in few], "cpu", 1)
    expected_tokens, token_seconds = time_call(lambda: cpu_encoder.encode_tokens(few), "cpu", 1)
    for dtype, allowed in (("float32", 1e-5), ("bfloat16", 1e-3)):
        gpu_encoder = load_encoder(EMBEDDED_ENCODER, device=device, dtype=dtype)
        vectors, its = time_call(lambda o=gpu_encoder: o.encode_sentences(texts), device)  # type: ignore[misc]
        furthest = float(1 - (vectors * expected).sum(axis=1).min())
        yield Twins(f"encoder, {dtype}, 1 − cosine", f"{len(texts)} texts", mine, its, furthest, allowed)
        alone, its = time_call(lambda o=gpu_encoder: [o.encode_sentences([text])[0] for text in few], device)  # type: ignore[misc]
        change = float(np.abs(np.array(alone) - vectors[: len(few)]).max())
        # a card has other kernels for other batches of float32
        allowed = 0 if dtype == "bfloat16" else 1e-5
        yield Twins(f"encoder, {dtype}, one text at a time", f"{len(few)} texts", alone_seconds, its, change, allowed)
        tokens, its = time_call(lambda o=gpu_encoder: o.encode_tokens(few), device)  # type: ignore[misc]
        worst = max(float(np.abs(a.vectors - b.vectors).max()) for a, b in zip(expected_tokens, tokens, strict=True))
        allowed = 1e-3 if dtype == "float32" else 0.2
        yield Twins(f"token vectors, {dtype}", f"{len(few)} texts", token_seconds, its, worst, allowed)


def transport(device: str, small: bool) -> Iterator[Twins]:
    """The exact search of texts that were just encoded, from the vectors that the encoder keeps on the device."""
    texts = texts_of(100 if small else 5000, 20, 100)
    encoded = load_encoder(EMBEDDED_ENCODER, device=device).encode_tokens(texts)
    halves = [text.vectors.astype(np.float16) for text in encoded]
    pairs = [(text.on_device, half) for text, half in zip(encoded, halves, strict=True)]
    vectors = [[torch.from_numpy(half) if on_device is None else on_device] for on_device, half in pairs]
    offsets = np.cumsum([0, *map(len, halves)])
    weights = np.random.default_rng(0).gamma(1.0, size=offsets[-1])
    pool = TokenPool(np.concatenate(halves), offsets, weights)
    for cost in ("jsd", "cosine", "euclidean"):
        search = partial(find_nearest_texts, [pool.measure(7, cost)], k=20, cost=cost)
        (expected,), mine = time_call(lambda s=search: s(pool), "cpu", 1)  # type: ignore[misc]
        (nearest,), its = time_call(lambda s=search: s(DevicePool(vectors, weights)), device)  # type: ignore[misc]
        is_equal = nearest.indices.tolist() == expected.indices.tolist()
        difference = float(np.abs(nearest.distances - expected.distances).max()) if is_equal else np.inf
        yield Twins(f"transport, {cost}", f"{len(texts)} texts, {offsets[-1]} tokens", mine, its, difference, 0)


def save_bert(folder: Path, kind: type[Any], **settings: Any) -> str:
    """The folder of a BERT of MiniLM's size with random weights and its tokenizer."""
    set_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(find_minilm_folder())
    save_model(kind(BertConfig(vocab_size=len(tokenizer), **SIZE, **settings)), tokenizer, folder)
    return str(folder)


def reranker(device: str, small: bool) -> Iterator[Twins]:
    """A cross-encoder's scores."""
    texts = texts_of(20 if small else 1000, 5, 100)
    pairs = list(zip(texts, reversed(texts), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        place = save_bert(Path(folder), BertForSequenceClassification, num_labels=1)
        cpu_model, gpu_model = (CrossEncoderReranker(place, device=each) for each in ("cpu", device))
        cpu_result, mine = time_call(lambda: cpu_model.score(pairs), "cpu", 1)
        gpu_result, its = time_call(lambda: gpu_model.score(pairs), device)
    yield Twins("reranker", f"{len(pairs)} pairs", mine, its, float(np.abs(cpu_result - gpu_result).max()), 1e-3)


def masked(device: str, small: bool) -> Iterator[Twins]:
    """Log probabilities of a masked model."""
    texts = texts_of(20 if small else 200, 5, 40)
    with tempfile.TemporaryDirectory() as folder:
        place = save_bert(Path(folder), BertForMaskedLM)
        cpu_model, gpu_model = (HFMaskedLM.load(place, device=each) for each in ("cpu", device))
    cpu_result, mine = time_call(lambda: cpu_model.word_log_probs(texts), "cpu", 1)
    gpu_result, its = time_call(lambda: gpu_model.word_log_probs(texts), device)
    worst = max(float(np.abs(a - b).max()) for a, b in zip(cpu_result, gpu_result, strict=True))
    yield Twins("masked model", f"{len(texts)} texts", mine, its, worst, 1e-2)


def classifier(device: str, small: bool) -> Iterator[Twins]:
    """The tuning of a relevance classifier from the embedded encoder."""
    texts = texts_of(32 if small else 640, 5, 40)
    pairs = [LabelledPair(text[:20], text, row % 2 == 0) for row, text in enumerate(texts)]
    settings = TuningSettings(epochs=1)
    with tempfile.TemporaryDirectory() as folder:
        cpu_losses, mine = time_call(
            lambda: tune_reranker(EMBEDDED_ENCODER, pairs, Path(folder), settings, device="cpu"), "cpu", 1
        )
        gpu_losses, its = time_call(
            lambda: tune_reranker(EMBEDDED_ENCODER, pairs, Path(folder), settings, device=device), device, 2
        )
    difference = abs(cpu_losses[0] - gpu_losses[0])
    yield Twins("relevance classifier, loss of an epoch", f"{len(pairs)} pairs", mine, its, difference, 0.02)


def spans(device: str, small: bool) -> Iterator[Twins]:
    """Answers of a span reader, whose first logits decide for an answer of the text."""
    texts = texts_of(5 if small else 100, 50, 200)
    with tempfile.TemporaryDirectory() as folder:
        place = save_bert(Path(folder), BertForQuestionAnswering)
        cpu_model, gpu_model = (SpanReader(place, device=each) for each in ("cpu", device))
    cpu_result, mine = time_call(lambda: [cpu_model.read("what is it", text) for text in texts], "cpu", 1)
    gpu_result, its = time_call(lambda: [gpu_model.read("what is it", text) for text in texts], device)
    pairs = [
        (0.0 if a == b else np.inf) if a is None or b is None else abs(a.probability - b.probability)
        for a, b in zip(cpu_result, gpu_result, strict=True)
    ]
    yield Twins("span reader", f"{len(texts)} texts", mine, its, max(pairs), 1e-3)


def save_llama(folder: Path) -> None:
    """Save a Llama of MiniLM's size with random weights and its tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(find_minilm_folder(), eos_token="[SEP]", bos_token="[CLS]")
    set_seed(0)
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    save_model(LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **SIZE, **ends)), tokenizer, folder)


def causal(device: str, small: bool) -> Iterator[Twins]:
    """Replies and likelihoods of a causal model."""
    texts = texts_of(3 if small else 30, 20, 60)
    with tempfile.TemporaryDirectory() as folder:
        save_llama(Path(folder))
        generators = [TransformersGenerator(folder, device=each) for each in ("cpu", device)]
        likelihoods = [TextLikelihood(folder, device=each) for each in ("cpu", device)]
    requests = [Request("", text, max_tokens=24) for text in texts]
    run = [lambda g=g: [reply.text for _, reply in g.generate_each(requests)] for g in generators]  # type: ignore[misc]
    cpu_replies, mine = time_call(run[0], "cpu", 1)
    gpu_replies, its = time_call(run[1], device, 2)
    n_different = sum(a != b for a, b in zip(cpu_replies, gpu_replies, strict=True))
    yield Twins("language model, replies that differ", f"{len(texts)} prompts", mine, its, n_different, 0)
    pairs = list(zip(texts, reversed(texts), strict=True))
    cpu_scores, mine = time_call(lambda: likelihoods[0].score(pairs), "cpu", 1)
    gpu_scores, its = time_call(lambda: likelihoods[1].score(pairs), device)
    yield Twins("likelihood", f"{len(pairs)} pairs", mine, its, float(np.abs(cpu_scores - gpu_scores).max()), 1e-3)


def four_bits(device: str, small: bool) -> Iterator[Twins]:
    """Log probabilities of the next token by a causal model in 4 bits (NF4)."""
    texts = texts_of(3 if small else 30, 20, 60)
    with tempfile.TemporaryDirectory() as folder:
        save_llama(Path(folder))
        try:
            models = [TransformersGenerator(folder, device=each, nf4=True) for each in ("cpu", device)]
        except ModelUnavailable as error:
            raise NotRun(str(error)) from error

    def rate(model: TransformersGenerator) -> np.ndarray:
        rows = [torch.tensor([model.prompt(Request("", text))], device=model.device) for text in texts]
        with torch.inference_mode():
            return np.stack([model.network(row).logits[0, -1].float().log_softmax(-1).cpu().numpy() for row in rows])

    cpu_result, mine = time_call(lambda: rate(models[0]), "cpu", 1)
    gpu_result, its = time_call(lambda: rate(models[1]), device)
    yield Twins(
        "4 bits, next token", f"{len(texts)} prompts", mine, its, float(abs(cpu_result - gpu_result).max()), 0.1
    )


def offline_engine(device: str, small: bool) -> Iterator[Twins]:
    """Constrained replies of vLLM's offline engine, which must be choices of their requests."""
    choices = ("yes", "no", "not enough information")
    requests = [Request("", text, max_tokens=24, choices=choices) for text in texts_of(3 if small else 30, 20, 60)]
    with tempfile.TemporaryDirectory() as folder:
        save_llama(Path(folder))
        local = TransformersGenerator(folder, device="cpu")
        try:
            engine = load_generator(GeneratorSettings(backend="vllm", name=folder))
        except ModelUnavailable as error:
            raise NotRun(str(error)) from error
        _, mine = time_call(lambda: list(local.generate_each(requests)), "cpu", 1)
        replies, its = time_call(lambda: list(engine.generate_each(requests)), device)
    n_wrong = sum(completion.text not in choices for _, completion in replies)
    yield Twins("vLLM, replies that are no choice", f"{len(requests)} prompts", mine, its, n_wrong, 0)


def vector_search(device: str, small: bool) -> Iterator[Twins]:
    """Scores of a flat index and of one with lists."""
    if device != "cpu" and not getattr(faiss(), "get_num_gpus", int)():
        raise NotRun("FAISS sees no card: docs/served-model.md says how to install faiss-gpu")
    n = 10_000 if small else 200_000
    vectors = unit_rows(np.random.default_rng(0).standard_normal((n, 384)).astype(np.float16))
    queries = vectors[:256].astype(np.float32)
    for kind in ("flat", "ivf"):
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "vectors.npy", vectors)
            meta = write_index(Path(folder), built_from="", model_id="random", kind=kind)
            index = VectorIndex(Path(folder), expected="")
            search_on_cpu = partial(search_index, index._index, queries, 100, meta.nprobe)
            (cpu_scores, _), mine = time_call(search_on_cpu, "cpu", 1)
            (scores, _), its = time_call(partial(index.search, queries, 100), device)
        difference = float(abs(np.sort(cpu_scores) - np.sort(scores)).max())
        yield Twins(f"vector index, {meta.kind}", f"{len(queries)} of {n} vectors", mine, its, difference, 5e-3)


def cards(device: str, small: bool) -> Iterator[Twins]:
    """The card of this process and of another, which must be two where there are two."""
    if device == "cpu":
        raise NotRun("needs cards")
    card, mine = time_call(lambda: resolve_device("auto"), device, 1)
    other_card, its = time_call(lambda: in_new_process(resolve_device, "auto"), device, 1)
    n_cards = torch.cuda.device_count()
    yield Twins("a card for each process", f"{n_cards} cards", mine, its, n_cards > 1 and card == other_card, 0)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes that only show that everything runs")
    options = parser.parse_args()
    if options.device != "cpu" and not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device here; --device cpu --small shows that the script works")
    paths = [classifier, spans, causal, attention, encoder, reranker, masked, transport]
    paths += [four_bits, vector_search, cards, offline_engine]
    name = torch.cuda.get_device_name() if options.device != "cpu" else "the processor itself"
    print(f"{name}, {os.cpu_count()} processors\n")
    print("| path | size | processor, s | device, s | times | difference | allowed |\n|---|---|---|---|---|---|---|")
    n_wrong = 0
    for path in paths:
        try:
            for row in path(options.device, options.small):
                n_wrong += row.difference > row.allowed
                print(format_row(row), flush=True)
        except NotRun as reason:
            print(f"| {path.__name__.replace('_', ' ')} | not run: {reason} | | | | | |", flush=True)
    sys.exit(bool(n_wrong))


def format_row(row: Twins) -> str:
    """A row of the table."""
    seconds = f"{row.processor:.3f} | {row.device:.3f} | {row.processor / row.device:.1f}"
    difference = f"{row.difference:.2g}{'' if row.difference <= row.allowed else ' (too far)'}"
    return f"| {row.path} | {row.size} | {seconds} | {difference} | {row.allowed:.2g} |"


if __name__ == "__main__":
    main()
