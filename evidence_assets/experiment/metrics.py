"""Scores of rankings, answers and paired comparisons.

Belongs here: pure functions from gains, scores, labels or vectors to one number or one interval.
Does not belong here: reading predictions, averaging over a benchmark, or published figures.

A ranking is handed over as its *gains*: the relevance of each item in rank order (0 or 1, or graded).
Where ``scores`` are given beside the gains, items of equal score are tied, and a metric is its expectation
over all orders of the tied items, so that no metric depends on how ties happened to be broken.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evidence_assets.models.vectors import unit_rows

FloatArray = NDArray[np.float64]


def gains_of(ranked: Sequence[Hashable], relevant: Collection[Hashable]) -> FloatArray:
    """Gain 1 for each ranked item that is relevant, else 0; an item may be ranked once only."""
    if len(set(ranked)) != len(ranked):
        raise ValueError("an item is ranked twice: remove duplicates before scoring the ranking")
    wanted = set(relevant)
    return np.array([float(item in wanted) for item in ranked], dtype=np.float64)


def _tie_groups(gains: FloatArray, scores: ArrayLike | None) -> list[FloatArray]:
    """The gains cut into groups of equal score, best group first."""
    if scores is None:
        return [gains[i : i + 1] for i in range(len(gains))]
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != gains.shape:
        raise ValueError(f"{len(gains)} gains but {len(values)} scores: give one score an item")
    if np.isnan(values).any():
        raise ValueError("a score is not a number: a ranking needs comparable scores")
    order = np.argsort(-values, kind="stable")
    cuts = np.flatnonzero(np.diff(values[order])) + 1
    return [group for group in np.split(gains[order], cuts) if len(group)]


def _checked(gains: ArrayLike, k: int | None = None) -> FloatArray:
    if k is not None and k < 1:
        raise ValueError(f"k is {k}: it must be at least 1")
    array = np.asarray(gains, dtype=np.float64)
    if array.ndim != 1 or (array < 0).any():
        raise ValueError("gains must be one list of numbers that are not negative")
    return array


def hit_at_k(gains: ArrayLike, k: int, scores: ArrayLike | None = None) -> float:
    """1 if a relevant item is among the first k, else 0; with ties the probability of it.

    In a group of n tied items, r of them relevant, of which m places lie above the cut, a hit has probability
    ``1 − C(n−r, m) / C(n, m)``.

    >>> hit_at_k([0, 1, 0], 2)
    1.0
    >>> hit_at_k([0, 1], 1, scores=[0.5, 0.5])
    0.5
    """
    room = k
    for group in _tie_groups(_checked(gains, k), scores):
        n, r, m = len(group), int((group > 0).sum()), min(room, len(group))
        if r:
            return 1.0 - math.comb(n - r, m) / math.comb(n, m)
        room -= m
        if not room:
            break
    return 0.0


def recall_at_k(
    gains: ArrayLike, k: int, n_relevant: int, scores: ArrayLike | None = None, *, capped: bool = False
) -> float:
    """Share of the ``n_relevant`` relevant items that are among the first k; ``capped`` divides by min(k, n_relevant).

    A question without relevant items has no recall: that is an error here and must be left out by the caller.
    """
    array = _checked(gains, k)
    if n_relevant < int((array > 0).sum()) or n_relevant < 1:
        raise ValueError(f"n_relevant is {n_relevant}: it must be at least 1 and count every relevant ranked item")
    found, room = 0.0, k
    for group in _tie_groups(array, scores):
        m = min(room, len(group))
        found += float((group > 0).sum()) * m / len(group)
        room -= m
        if not room:
            break
    return found / (min(k, n_relevant) if capped else n_relevant)


def reciprocal_rank(gains: ArrayLike, scores: ArrayLike | None = None) -> float:
    """``1 / rank`` of the first relevant item, 0 if there is none; with ties the expectation.

    In the first group that holds a relevant item (n items, r relevant, starting after rank s) the first relevant one
    stands at place j with probability ``C(n−j, r−1) / C(n, r)``.
    """
    before = 0
    for group in _tie_groups(_checked(gains), scores):
        n, r = len(group), int((group > 0).sum())
        if r:
            total = math.comb(n, r)
            return sum(math.comb(n - j, r - 1) / total / (before + j) for j in range(1, n - r + 2))
        before += n
    return 0.0


def ndcg_at_k(
    gains: ArrayLike, k: int, scores: ArrayLike | None = None, *, ideal_gains: ArrayLike | None = None
) -> float:
    """Normalised discounted cumulative gain, ``Σ_i g_i / log2(i+1)`` of the first k over its largest value.

    ``ideal_gains`` are the gains of all relevant items where some were never ranked; tied items share their mean gain.
    A ranking without any gain scores 0.
    """
    array = _checked(gains, k)
    discount = 1.0 / np.log2(np.arange(2, len(array) + 2))
    discount[k:] = 0.0
    value, place = 0.0, 0
    for group in _tie_groups(array, scores):
        value += float(group.mean() * discount[place : place + len(group)].sum())
        place += len(group)
    best = np.sort(_checked(array if ideal_gains is None else ideal_gains))[::-1][:k]
    ideal = float((best / np.log2(np.arange(2, len(best) + 2))).sum())
    return value / ideal if ideal else 0.0


def normalise_answer(text: str) -> str:
    """Lower case, no punctuation, no English articles, single spaces: how short answers are compared."""
    lowered = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(" " if c in string.punctuation else c for c in lowered)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def coverage(question_tokens: Collection[str], evidence_tokens: Collection[str]) -> float:
    """``|Q ∩ T| / |Q|`` over sets of tokens; an empty question is covered by nothing, 0."""
    question = set(question_tokens)
    return len(question & set(evidence_tokens)) / len(question) if question else 0.0


def exact_match(reply: str, aliases: Collection[str], *, whole_words: bool = True) -> bool:
    """Whether the reply contains the answer or one of its aliases.

    ``whole_words=False`` is plain containment as in the published evaluation, where "Ur" is found in "Europe".
    An alias that is empty after normalisation matches nothing.
    """
    said = normalise_answer(reply)
    wanted = [w for w in (normalise_answer(alias) for alias in aliases) if w]
    if whole_words:
        return any(f" {w} " in f" {said} " for w in wanted)
    return any(w in said for w in wanted)


def token_f1(reply: str, answers: Collection[str]) -> float:
    """Largest ``2PR / (P+R)`` of shared tokens (as multisets) over the accepted answers."""

    def against(answer: str) -> float:
        said, gold = normalise_answer(reply).split(), normalise_answer(answer).split()
        if not said or not gold:
            return float(said == gold)
        shared = sum((Counter(said) & Counter(gold)).values())
        return 2 * shared / (len(said) + len(gold))

    return max((against(answer) for answer in answers), default=0.0)


def best_fact_score(question_tokens: ArrayLike, facts: Sequence[ArrayLike]) -> float:
    """Per question token the best token of any retrieved fact, averaged: the A2Q reading of BERTScore.

    ``1/|q| · Σ_t max_i max_j cos(q_t, fact_ij)``; without facts or without tokens 0.
    """
    question = _unit_rows(question_tokens)
    tables = [table for table in (_unit_rows(fact) for fact in facts) if len(table)]
    if not len(question) or not tables:
        return 0.0
    return float((question @ np.concatenate(tables).T).max(axis=1).mean())


def _unit_rows(vectors: ArrayLike) -> FloatArray:
    array = np.asarray(vectors, dtype=np.float64)
    if array.size == 0:
        return np.zeros((0, 0))
    if array.ndim != 2:
        raise ValueError("token vectors must be a matrix with one row a token")
    return unit_rows(array)


@dataclass(frozen=True)
class Estimate:
    """A value with the two ends of its confidence interval."""

    value: float
    low: float
    high: float
    n: int


def accuracy(correct: Collection[bool] | NDArray[np.bool_], *, confidence: float = 0.95) -> Estimate:
    """Share of correct answers with its Wilson score interval.

    ``(p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n)``. No questions give (nan, 0, 1).
    """
    flags = np.asarray(list(correct), dtype=bool)
    n = len(flags)
    if n == 0:
        return Estimate(math.nan, 0.0, 1.0, 0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = float(flags.mean())
    centre, scale = p + z * z / (2 * n), 1 + z * z / n
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Estimate(p, max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale), n)


@dataclass(frozen=True)
class ClassScore:
    """Precision, recall and F1 of one class; ``support`` is how many gold labels it has."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


def per_class_scores(
    gold: Sequence[str], predicted: Sequence[str | None], labels: Sequence[str] | None = None
) -> list[ClassScore]:
    """One score a class; a prediction of None (no answer) counts against recall and no precision; 0/0 is 0."""
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold labels but {len(predicted)} predictions")
    names = list(labels) if labels is not None else sorted(set(gold) | {p for p in predicted if p is not None})
    scores = []
    for name in names:
        right = sum(g == p == name for g, p in zip(gold, predicted, strict=True))
        said, support = sum(p == name for p in predicted), sum(g == name for g in gold)
        precision, recall = right / said if said else 0.0, right / support if support else 0.0
        f1 = 2 * right / (said + support) if said + support else 0.0
        scores.append(ClassScore(name, precision, recall, f1, support))
    return scores


def mcnemar_exact(first_correct: Sequence[bool], second_correct: Sequence[bool]) -> float:
    """Two-sided exact McNemar test: p value of the discordant pairs under Binomial(b + c, 1/2).

    ``min(1, 2·Σ_{i ≤ min(b,c)} C(b+c, i) / 2^(b+c))``; without discordant pairs 1.
    """
    if len(first_correct) != len(second_correct):
        raise ValueError("a paired test needs the same questions on both sides")
    b = sum(x and not y for x, y in zip(first_correct, second_correct, strict=True))
    c = sum(y and not x for x, y in zip(first_correct, second_correct, strict=True))
    tail = sum(math.comb(b + c, i) for i in range(min(b, c) + 1))
    # Whole numbers to the end: 2^(b+c) leaves the range of floats at about a thousand discordant pairs.
    return 1.0 if 2 * tail >= 2 ** (b + c) else (2 * tail) / (2 ** (b + c))


def paired_bootstrap(
    first: ArrayLike, second: ArrayLike, *, seed: int = 0, resamples: int = 10_000, confidence: float = 0.95
) -> Estimate:
    """Mean of ``first − second`` over the same questions with its percentile bootstrap interval."""
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    n = len(difference)
    if n == 0:
        return Estimate(math.nan, -math.inf, math.inf, 0)
    generator = np.random.default_rng(seed)
    means = np.empty(resamples)
    step = max(1, 4_000_000 // n)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        means[start:stop] = difference[generator.integers(0, n, size=(stop - start, n))].mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Estimate(float(difference.mean()), float(low), float(high), n)
