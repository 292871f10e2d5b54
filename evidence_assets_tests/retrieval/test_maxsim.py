"""Late interaction against a plain loop."""

import numpy as np
import pytest
import torch

from evidence_assets.retrieval.maxsim import maxsim_scores, nearest_tokens
from evidence_assets.transport import TokenPool

RNG = np.random.default_rng(0)


def test_maxsim_equals_a_plain_loop() -> None:
    texts = [RNG.normal(size=(n, 8)) for n in (1, 5, 3, 30)]
    query, weights = RNG.normal(size=(4, 8)), np.array([1.0, 0.0, 2.0, 1.0])
    texts[1][2] = 0.0
    offsets = np.cumsum([0, *map(len, texts)])
    pool = TokenPool(np.concatenate(texts), offsets, np.ones(offsets[-1]))
    expected = []
    for text in texts:
        best = []
        for q in query:
            norms = np.linalg.norm(text, axis=1) * np.linalg.norm(q)
            best.append(max((text @ q) / np.where(norms > 0, norms, 1)))
        expected.append(np.dot(weights, best) / weights.sum())
    assert maxsim_scores(query, pool, weights) == pytest.approx(expected, abs=1e-6)
    assert maxsim_scores(query, pool, np.zeros(4)) == pytest.approx(maxsim_scores(query, pool), abs=1e-12)
    assert len(maxsim_scores(query, TokenPool(np.empty((0, 8)), [0], []))) == 0
    assert nearest_tokens(query, pool).dtype == np.float32


def test_the_same_bytes_on_any_number_of_threads() -> None:
    """With short queries, whose products are split differently, and pools of one and several blocks."""
    results: dict[int, list[bytes]] = {}
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            chance = np.random.default_rng(1)
            for texts in (3, 40, 300):
                offsets = np.concatenate([[0], np.cumsum(chance.integers(3, 120, texts))])
                vectors = chance.standard_normal((int(offsets[-1]), 384)).astype(np.float32)
                pool = TokenPool(vectors, offsets, np.ones(len(vectors)))
                for words in (1, 5, 33):
                    query = chance.standard_normal((words, 384))
                    results.setdefault(threads, []).append(nearest_tokens(query, pool).tobytes())
    finally:
        torch.set_num_threads(before)
    assert results[1] == results[2] == results[4]
