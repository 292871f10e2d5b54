"""Check that no result of a text depends on its batch or on the number of threads.

    python -m bench.retrieval.measure_invariance

Vectors and token vectors of the embedded encoder by type of number, scores of a cross-encoder and log probabilities of
a masked model (both tiny, with random weights) are computed alone on one thread, then in batches of 8 and 64 on 1, 2
and 4 threads, in another order each time; printed are the texts of 256 whose bits differ. It takes some six minutes on
two cores.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evidence_assets.models.encoders import EMBEDDED_ENCODER, TransformerEncoder, load_encoder
from evidence_assets.models.rerankers import CrossEncoderReranker
from evidence_assets_tests.models.test_rerankers import make_cross_encoder
from evidence_assets_tests.models.tiny import word_piece
from tools.campaign.world import table

WORDS = "the fever aspirin insulin pain of may treat glucose lowers river copper near a in cell".split()  # noqa: SIM905
COUNT, BATCHES, THREADS = 256, (1, 8, 64), (1, 2, 4)
Compute = Callable[[Sequence[str]], Sequence[Any]]


def sentence_vectors(encoder: TransformerEncoder, texts: Sequence[str]) -> Sequence[np.ndarray]:
    return list(encoder.encode_sentences(texts))


def token_vectors(encoder: TransformerEncoder, texts: Sequence[str]) -> Sequence[np.ndarray]:
    return [tokens.vectors for tokens in encoder.encode_tokens(texts)]


def models(folder: Path) -> dict[str, Compute]:
    """Functions of texts by name."""
    computations: dict[str, Compute] = {}
    for dtype in ("float32", "bfloat16", "float16"):
        encoder = load_encoder(EMBEDDED_ENCODER, device="cpu", dtype=dtype)
        computations[f"encoder, {dtype}, vectors"] = partial(sentence_vectors, encoder)
        computations[f"encoder, {dtype}, tokens"] = partial(token_vectors, encoder)
    reranker = CrossEncoderReranker(str(make_cross_encoder(folder)), device="cpu")
    computations["cross-encoder, scores"] = lambda texts: list(reranker.score([("fever", text[:80]) for text in texts]))
    masked = word_piece()
    computations["masked model, words"] = lambda texts: masked.word_log_probs(
        [text[:60].rsplit(" ", 1)[0] for text in texts]
    )
    return computations


def count_differences(
    compute: Compute, texts: Sequence[str], expected: Sequence[np.ndarray], batch: int, threads: int
) -> int:
    """How many texts come out otherwise than alone."""
    order = list(range(len(texts)))
    random.Random(f"{batch} {threads}").shuffle(order)
    torch.set_num_threads(threads)
    changed = 0
    for start in range(0, len(order), batch):
        places = order[start : start + batch]
        for place, vector in zip(places, compute([texts[p] for p in places]), strict=True):
            changed += not np.array_equal(vector, expected[place])
    return changed


def main() -> None:
    chance = random.Random(1)
    lengths = [*range(1, 97), *(chance.choice((3, 5, 9, 24, 120, 200)) for _ in range(COUNT - 96))]
    texts = [" ".join(chance.choices(WORDS, k=length)) for length in lengths]
    heads = ["of 256 texts differ", *(f"{t} threads, batch {b}" for t in THREADS for b in BATCHES)]
    rows: list[list[Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, compute in models(Path(folder)).items():
            torch.set_num_threads(1)
            expected = [compute([text])[0] for text in texts]
            rows.append([name, *(count_differences(compute, texts, expected, b, t) for t in THREADS for b in BATCHES)])
    print(table(heads, rows))
    assert not any(sum(row[1:]) for row in rows), "some results depend on their batch"


if __name__ == "__main__":
    main()
