"""Late interaction: each query token is scored by its most similar token of a text."""

from __future__ import annotations

from collections import deque
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch.nn.functional import normalize

from evidence_assets.models.inference import map_single_threaded
from evidence_assets.models.vectors import Array
from evidence_assets.transport import TextCollection, TokenPool

Cosines = NDArray[np.float32]
TOKENS_PER_BLOCK = 4096


def maxsim_scores(query: ArrayLike, pool: TextCollection, weights: ArrayLike | None = None) -> Array:
    r"""Weighted mean over query tokens of the best cosine with a token of the text.

    .. math:: S(q, y) = \frac{\sum_i w_i \max_j \cos(q_i, y_j)}{\sum_i w_i}

    The cosine of a zero vector is 0. Weights are equal by default, or if all are zero. The pool is read once.
    """
    nearest = nearest_tokens(query, pool)
    w = np.ones(len(nearest)) if weights is None else np.asarray(weights, dtype=np.float64)
    w = w / w.sum() if w.sum() > 0 else np.full(len(nearest), 1 / len(nearest))
    return np.asarray(w @ nearest)


def nearest_tokens(query: ArrayLike, texts: TextCollection) -> Cosines:
    """Cosine of each query token (rows) with the nearest token of each text (columns).

    In float32, because these cosines are the largest arrays of a search in a pool of ten thousand texts.
    """
    units = normalize(torch.from_numpy(np.array(query, dtype=np.float32)))
    nearest = np.empty((len(units), len(texts)), np.float32)

    def compare(pool: TokenPool, start: int, block: tuple[int, int]) -> None:
        first, last = block
        low = pool.offsets[first]
        high = pool.offsets[last]
        cosines = units @ normalize(torch.from_numpy(np.array(pool.vectors[low:high])).float()).T
        best = np.maximum.reduceat(cosines.numpy(), pool.offsets[first:last] - low, axis=1)
        nearest[:, start + first : start + last] = best

    start = 0
    for pool, members in texts.parts(np.arange(len(texts))):
        # The last digits of a product depend on the number of threads.
        deque(map_single_threaded(partial(compare, pool, start), list(pool.blocks(TOKENS_PER_BLOCK))), maxlen=0)
        start += len(members)
        del pool  # frees memory before the next part is read
    return nearest
