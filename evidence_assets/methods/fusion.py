"""Joining several scores of the same candidates into one ranking without any training.

What belongs here: functions of score arrays. Where scores come from (BM25, late interaction, transport) is not known
here. Higher is better everywhere; a candidate that a scorer did not see has minus infinity.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["fuse", "lift", "reciprocal_ranks", "standardised"]

Array = NDArray[np.float64]


def standardised(scores: ArrayLike) -> Array:
    """Scores of one query as distances from their mean in standard deviations; unseen ones take the lowest seen.

    Scores that are all equal say nothing and become 0.

    Examples
    --------
    >>> standardised([1.0, 3.0, -np.inf]).tolist()
    [-1.0, 1.0, -1.0]
    """
    s = np.asarray(scores, dtype=np.float64)
    if np.isnan(s).any() or np.isposinf(s).any():
        place = int(np.argmax(np.isnan(s) | np.isposinf(s)))
        raise ValueError(f"scores[{place}] is {s[place]}: give a number, or minus infinity for an unseen candidate")
    seen = s[np.isfinite(s)]
    if not len(seen):
        return np.zeros(len(s))
    spread = seen.std()
    # A spread that is rounding alone must not be blown up to differences.
    if spread <= 1e-12 * max(1.0, float(np.abs(seen).max())):
        return np.zeros(len(s))
    return np.asarray((np.where(np.isfinite(s), s, seen.min()) - seen.mean()) / spread)


def reciprocal_ranks(scores: ArrayLike, smoothing: float = 60.0) -> Array:
    """1 / (smoothing + rank) of each candidate, ranks from 1, ties by position; 0 for an unseen one.

    Examples
    --------
    >>> reciprocal_ranks([0.1, 0.9], smoothing=0.0).tolist()
    [0.5, 1.0]
    """
    s = np.asarray(scores, dtype=np.float64)
    if np.isnan(s).any():
        raise ValueError(f"scores[{int(np.argmax(np.isnan(s)))}] is nan: give a number")
    ranks = np.empty(len(s))
    ranks[np.argsort(-s, kind="stable")] = np.arange(1, len(s) + 1)
    return np.where(np.isneginf(s), 0.0, 1.0 / (smoothing + ranks))


def fuse(scores: Mapping[str, ArrayLike], weights: Mapping[str, float]) -> Array:
    r"""Weighted sum of the standardised scores of one query.

    .. math:: S(y) = \sum_m w_m \, \frac{s_m(y) - \mu_m}{\sigma_m}

    Examples
    --------
    >>> fuse({"a": [0.0, 2.0], "b": [5.0, 1.0]}, {"a": 2.0, "b": 1.0}).tolist()
    [-1.0, 1.0]
    """
    absent = sorted(set(weights) - set(scores))
    if absent:
        raise ValueError(f"no scores named {', '.join(absent)}; there are {', '.join(sorted(scores))}")
    if not weights:
        raise ValueError("name at least one score to fuse")
    parts = [weight * standardised(scores[name]) for name, weight in weights.items()]
    if len({len(p) for p in parts}) > 1:
        raise ValueError("the scores are of different numbers of candidates")
    return np.asarray(np.sum(parts, axis=0))


def lift(scores: ArrayLike, parent_scores: ArrayLike, parents: ArrayLike, weight: float) -> Array:
    """Scores of parts (sentences) plus ``weight`` times the score of the whole (passage) that each belongs to.

    Both are standardised first, so that the weight means the same for every query.

    Examples
    --------
    >>> lift([1.0, -1.0], [-1.0, 1.0], [0, 1], weight=3.0).tolist()
    [-2.0, 2.0]
    """
    whole = standardised(parent_scores)
    owner = np.asarray(parents, dtype=np.int64)
    return np.asarray(standardised(scores) + weight * whole[owner])
