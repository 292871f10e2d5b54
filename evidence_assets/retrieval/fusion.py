"""Joining several scores of the same candidates into one ranking without any training.

What belongs here: functions of score arrays. Where scores come from (BM25, late interaction, transport) is not known
here. Higher is better everywhere; a candidate that a scorer did not see has minus infinity.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "CHUNK_WEIGHTS",
    "LINK_WEIGHT",
    "PASSAGE_WEIGHT",
    "REPEAT_WEIGHT",
    "SENTENCE_WEIGHTS",
    "fuse",
    "lift",
    "spread",
    "standardised",
]

Array = NDArray[np.float64]

# Chosen by recall at 2, 5 and 10 on coarse grids, from the first 50 questions of HotpotQA-100 and the first half of the
# OpenBookQA development questions alone; bench/measure_variants.py prints what they reach. "transport" is minus the exact
# transport distance with cosine cost and BM25 masses as printed (clipped at 0); "bm25" ranks with the plus-one idf;
# "cosine" is of the pooled query with the mean of a candidate's contextual token vectors.
CHUNK_WEIGHTS: Mapping[str, float] = {"maxsim": 1.0, "transport": 2.0}
SENTENCE_WEIGHTS: Mapping[str, float] = {"bm25": 0.5, "maxsim": 2.0, "cosine": 0.25, "transport": 1.0}
LINK_WEIGHT = 0.6  # of the best passage that mentions this one's title
PASSAGE_WEIGHT = 1.6  # of its passage in a sentence's score
REPEAT_WEIGHT = 1.5  # what every sentence of a passage but its best one loses


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


def fuse(scores: Mapping[str, ArrayLike], weights: Mapping[str, float]) -> Array:
    r"""Weighted mean of the standardised scores of one query.

    .. math:: S(y) = \sum_m w_m \, \frac{s_m(y) - \mu_m}{\sigma_m} \Big/ \sum_m w_m

    The system's default takes :data:`CHUNK_WEIGHTS`, then :func:`spread` over title mentions where the corpus has
    titles; for sentences :data:`SENTENCE_WEIGHTS` and :func:`lift`.

    Examples
    --------
    >>> fuse({"a": [0.0, 2.0], "b": [5.0, 1.0]}, {"a": 3.0, "b": 1.0}).tolist()
    [-0.5, 0.5]
    """
    absent = sorted(set(weights) - set(scores))
    if absent:
        raise ValueError(f"no scores named {', '.join(absent)}; there are {', '.join(sorted(scores))}")
    if not weights:
        raise ValueError("name at least one score to fuse")
    parts = [weight * standardised(scores[name]) for name, weight in weights.items()]
    if len({len(p) for p in parts}) > 1:
        raise ValueError("the scores are of different numbers of candidates")
    total = sum(weights.values())
    if not total > 0 or min(weights.values()) < 0:
        raise ValueError("weights must not be negative and one must be above 0")
    return np.asarray(np.sum(parts, axis=0) / total)


def spread(scores: ArrayLike, sources: ArrayLike, targets: ArrayLike, weight: float = LINK_WEIGHT) -> Array:
    """Raise what good candidates point to: a question in two steps names the first page, which names the second.

    Each target gains ``weight`` times the best positive score among the candidates that link to it; link ``i`` runs
    from candidate ``sources[i]`` (its text mentions a title) to ``targets[i]`` (the page of that title). One step only,
    from the scores as given.

    Examples
    --------
    >>> spread([2.0, -1.0, -1.0], sources=[0, 1], targets=[1, 2], weight=0.5).tolist()
    [2.0, 0.0, -1.0]
    """
    s = np.asarray(scores, dtype=np.float64)
    best = np.zeros(len(s))
    np.maximum.at(best, np.asarray(targets, dtype=np.int64), s[np.asarray(sources, dtype=np.int64)])
    return np.asarray(s + weight * best)


def lift(
    scores: ArrayLike,
    parent_scores: ArrayLike,
    parents: ArrayLike,
    weight: float = PASSAGE_WEIGHT,
    repeat: float = REPEAT_WEIGHT,
) -> Array:
    """Scores of parts (sentences) plus ``weight`` times the score of the whole (passage) that each belongs to.

    Both are standardised first, so that the weight means the same for every query. All parts of a whole but its best
    lose ``repeat``: a question in two steps wants a sentence of each of two passages before a second one of the first.

    Examples
    --------
    >>> lift([1.0, -1.0], [-1.0, 1.0], [0, 1], weight=3.0).tolist()
    [-2.0, 2.0]
    >>> lift([1.0, -1.0], [5.0], [0, 0], weight=1.0, repeat=0.5).tolist()
    [1.0, -1.5]
    """
    whole = standardised(parent_scores)
    owner = np.asarray(parents, dtype=np.int64)
    own = standardised(scores)
    order = np.lexsort((np.arange(len(own)), -own, owner))
    further = np.zeros(len(own))
    further[order[1:]] = owner[order[1:]] == owner[order[:-1]]
    return np.asarray(own + weight * whole[owner] - repeat * further)
