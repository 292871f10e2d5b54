"""Vectors do not depend on the thread count with which a process is started."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evidence_assets_tests.conftest import run_python

SCRIPT = """
import hashlib, json, random, sys
import numpy as np, torch
from evidence_assets.models import encoders

torch.set_num_threads(int(sys.argv[1]))
chance, hashes = random.Random(1), {}
words = "the fever aspirin insulin pain of may treat glucose lowers river copper near a in cell".split()
texts = [" ".join(chance.choices(words, k=chance.choice((1, 2, 3, 5, 7, 24, 60)))) for _ in range(160)]
for dtype in ("float32", "bfloat16"):
    encoder = encoders.load_encoder(encoders.EMBEDDED_ENCODER, device="cpu", dtype=dtype)
    whole, some = encoder.encode_sentences(texts), encoder.encode_sentences(texts[::2])
    tokens = encoder.encode_tokens(texts[:20])
    alone = np.concatenate([encoder.encode_sentences([text]) for text in texts[:20]])
    hashes[dtype] = {
        "whole": [hashlib.sha256(row.tobytes()).hexdigest()[:8] for row in whole],
        "moved": int((some != whole[::2]).any(1).sum() + (alone != whole[:20]).any(1).sum()),
        "tokens": hashlib.sha256(b"".join(text.vectors.tobytes() for text in tokens)).hexdigest(),
    }
print(json.dumps({"threads": torch.get_num_threads(), **hashes}))
"""


def encode_in_process(threads: int) -> dict[str, Any]:
    """Encode the same texts in a process with this number of threads."""
    return dict(json.loads(run_python("-c", SCRIPT, str(threads), env={"OMP_NUM_THREADS": str(threads)})))


@pytest.mark.long
def test_vectors_do_not_depend_on_threads_or_batch() -> None:
    one, several = encode_in_process(1), encode_in_process(4)
    assert (one["threads"], several["threads"]) == (1, 4)
    for dtype in ("float32", "bfloat16"):
        assert several[dtype] == one[dtype] and several[dtype]["moved"] == 0
