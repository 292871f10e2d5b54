"""Throughput of the embedded encoder against the raw network and against sentence-transformers, in one process.

    python -m bench.retrieval.encoder [--texts 300] [--rounds 15]

Figures are texts a CPU second, so that other programs on the machine hardly matter (set OMP_NUM_THREADS=1). The raw
network is the transformers model run on the same token ids in the same batches, tokenizing and pooling left out: what
the hardware can give. Every round runs all of them in a new order, so that a slower moment of the machine meets each;
what is reported is the median over the rounds of the ratio within a round, with the quartiles. Vectors of all are
asserted to agree.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel
from transformers.utils import logging

from bench.measuring import make_parser
from evidence_assets.models.encoders import EMBEDDED_ENCODER, TransformerEncoder, load_encoder
from evidence_assets.models.inference import ROWS_PER_BATCH, TOKENS_PER_BATCH, find_minilm_folder

WORDS = (
    "the a of and in to is may treat cause patient drug disease insulin glucose metformin aspirin pain fever blood "
    "heart pressure virus infection cell protein enzyme muscle bone water stone metal hammer nail river mountain city"
)
RUNS = ("raw", "sentences", "tokens", "library")
LEAST = 0.95
"""Share of the raw network's throughput that `sentences` and `tokens` have to reach."""


def texts_of(count: int, shortest: int, longest: int, seed: int = 0) -> list[str]:
    rng, words = random.Random(seed), WORDS.split()
    return [" ".join(rng.choices(words, k=rng.randint(shortest, longest))) for _ in range(count)]


def raw_pass(encoder: TransformerEncoder, texts: list[str], dtype: str) -> Callable[[], None]:
    """The forward passes of the network alone, as transformers loads it, on batches made beforehand."""
    network = AutoModel.from_pretrained(find_minilm_folder(), dtype=getattr(torch, dtype)).eval()
    buckets: dict[int, list[list[int]]] = {}
    for encoding in encoder._encode(texts):
        buckets.setdefault(len(encoding.ids), []).append(encoding.ids)
    batches = []
    for length, rows in sorted(buckets.items(), reverse=True):
        size = max(1, min(ROWS_PER_BATCH["cpu"], TOKENS_PER_BATCH["cpu"] // length))
        batches += [torch.tensor(rows[start : start + size]) for start in range(0, len(rows), size)]

    def run() -> None:
        with torch.inference_mode():
            for ids in batches:
                network(input_ids=ids)

    return run


def seconds_of(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, np.ndarray]:
    """Processor seconds of each run in each round, the order drawn anew every time; a first round warms up."""
    rng = random.Random(0)
    seconds_by_run: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name in rng.sample(list(runs), len(runs)):
            started = time.process_time()
            runs[name]()
            if number:
                seconds_by_run[name].append(time.process_time() - started)
    return {name: np.array(seconds) for name, seconds in seconds_by_run.items()}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    logging.disable_progress_bar()
    folder = str(find_minilm_folder())
    library = SentenceTransformer(folder, device="cpu")
    print(
        f"{torch.get_num_threads()} threads, {arguments.texts} texts, medians of {arguments.rounds} rounds [quartiles]"
    )
    heads = ("sentences of raw", "tokens of raw", "sentences of library")
    print(f"{'texts':15}{'dtype':9}" + "".join(f"{name:>10}" for name in RUNS) + "".join(f"{h:>24}" for h in heads))
    short = []
    for name, shortest, longest in (("clauses, 5-20", 5, 20), ("chunks, 60-120", 60, 120)):
        texts = texts_of(arguments.texts if longest < 50 else arguments.texts // 3, shortest, longest)
        expected = library.encode(texts, normalize_embeddings=True)
        for dtype in ("float32", "bfloat16"):
            encoder = load_encoder(EMBEDDED_ENCODER, device="cpu", dtype=dtype)
            assert isinstance(encoder, TransformerEncoder)
            cosines = (encoder.encode_sentences(texts) * expected).sum(axis=1)
            assert cosines.min() > (0.99999 if dtype == "float32" else 0.999), cosines.min()
            seconds = seconds_of(
                {
                    "raw": raw_pass(encoder, texts, dtype),
                    "sentences": partial(encoder.encode_sentences, texts),
                    "tokens": partial(encoder.encode_tokens, texts),
                    "library": partial(library.encode, texts, batch_size=32, show_progress_bar=False),
                },
                arguments.rounds,
            )
            figures = "".join(f"{len(texts) / np.median(seconds[each]):10.0f}" for each in RUNS)
            shares = []
            for ours, base in (("sentences", "raw"), ("tokens", "raw"), ("sentences", "library")):
                low, middle, high = np.quantile(seconds[base] / seconds[ours], (0.25, 0.5, 0.75))
                shares.append(f"{middle:11.3f} [{low:.3f}, {high:.3f}]"[-24:])
                if base == "raw" and middle < LEAST:
                    short.append(f"{ours} of {name} in {dtype}: {middle:.3f}")
            print(f"{name:15}{dtype:9}{figures}" + "".join(f"{share:>24}" for share in shares), flush=True)
    print(f"below {LEAST:.0%} of the raw network: {'; '.join(short) or 'none'}")


if __name__ == "__main__":
    main()
