"""Throughput of the embedded encoder against the raw network and against sentence-transformers, in one process.

    python bench/bench_encoder.py [--texts 300] [--rounds 10]

Figures are texts a CPU second, so that other programs on the machine hardly matter (set OMP_NUM_THREADS=1). The raw
network is the transformers model run on the same token ids in the same batches, tokenizing and pooling left out: what
the hardware can give. Rounds alternate, the best of each counts, and vectors of all are asserted to agree.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel
from transformers.utils import logging

from evidence_assets.models.encoders import (
    _ROWS_PER_BATCH,
    _TOKENS_PER_BATCH,
    EMBEDDED,
    TransformerEncoder,
    load_encoder,
)
from evidence_assets.models.weights import minilm_folder

WORDS = (
    "the a of and in to is may treat cause patient drug disease insulin glucose metformin aspirin pain fever blood "
    "heart pressure virus infection cell protein enzyme muscle bone water stone metal hammer nail river mountain city"
)
COLUMNS = ("raw", "sentences", "tokens", "library")


def texts_of(count: int, shortest: int, longest: int, seed: int = 0) -> list[str]:
    rng, words = random.Random(seed), WORDS.split()
    return [" ".join(rng.choices(words, k=rng.randint(shortest, longest))) for _ in range(count)]


def raw_pass(model: torch.nn.Module, encoder: TransformerEncoder, texts: list[str]) -> Callable[[], None]:
    """The forward passes alone, on batches made beforehand."""
    buckets: dict[int, list[list[int]]] = {}
    for encoding in encoder._read(texts):
        buckets.setdefault(len(encoding.ids), []).append(encoding.ids)
    batches = []
    for length, rows in buckets.items():
        size = max(1, min(_ROWS_PER_BATCH["cpu"], _TOKENS_PER_BATCH["cpu"] // length))
        batches += [torch.tensor(rows[start : start + size]) for start in range(0, len(rows), size)]

    def run() -> None:
        with torch.inference_mode():
            for ids in batches:
                model(input_ids=ids)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    logging.disable_progress_bar()
    folder = str(minilm_folder())
    library = SentenceTransformer(folder, device="cpu")
    print(f"{torch.get_num_threads()} threads, {arguments.texts} texts, best of {arguments.rounds} alternating rounds")
    print(f"{'texts':18}{'dtype':10}" + "".join(f"{name:>12}" for name in (*COLUMNS, "of raw", "of library")))
    for name, shortest, longest in (("clauses, 5-20", 5, 20), ("chunks, 60-120", 60, 120)):
        texts = texts_of(arguments.texts if longest < 50 else arguments.texts // 3, shortest, longest)
        expected = library.encode(texts, normalize_embeddings=True)
        for dtype in ("float32", "bfloat16"):
            encoder = load_encoder(EMBEDDED, device="cpu", dtype=dtype)
            assert isinstance(encoder, TransformerEncoder)
            model = AutoModel.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
            cosines = (encoder.sentences(texts) * expected).sum(axis=1)
            assert cosines.min() > (0.99999 if dtype == "float32" else 0.999), cosines.min()
            runs: dict[str, Callable[[], object]] = {
                "raw": raw_pass(model, encoder, texts),
                "sentences": lambda encoder=encoder, texts=texts: encoder.sentences(texts),
                "tokens": lambda encoder=encoder, texts=texts: encoder.tokens(texts),
                "library": lambda texts=texts: library.encode(texts, batch_size=32, show_progress_bar=False),
            }
            best = dict.fromkeys(runs, np.inf)
            for _ in range(arguments.rounds):
                for each, run in runs.items():
                    started = time.process_time()
                    run()
                    best[each] = min(best[each], time.process_time() - started)
            rate = {each: len(texts) / seconds for each, seconds in best.items()}
            shares = rate["sentences"] / rate["raw"], rate["sentences"] / rate["library"]
            figures = "".join(f"{rate[each]:12.0f}" for each in COLUMNS)
            print(f"{name:18}{dtype:10}{figures}{shares[0]:12.1%}{shares[1]:12.2f}", flush=True)


if __name__ == "__main__":
    main()
