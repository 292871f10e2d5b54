"""Metrics of rankings (gains of 1 or 0 per item), answers and confidence, with intervals."""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evidence_assets.models.vectors import unit_rows

if TYPE_CHECKING:
    import polars as pl

FloatArray = NDArray[np.float64]
Half = Literal["first", "second"]


def halve(questions: pl.DataFrame, half: Half | None, *, other: bool = False) -> pl.DataFrame:
    """The questions of a half by their ids, or of the other one; all without a half."""
    ordered = questions.sort("question_id")
    if half is None:
        return ordered
    middle = ordered.height // 2
    return ordered[:middle] if (half == "first") is not other else ordered[middle:]


def gains_of(ranking: Sequence[Hashable], relevant: Collection[Hashable]) -> FloatArray:
    """Gain 1 for each relevant item of a ranking, else 0."""
    relevant_items = set(relevant)
    return np.array([float(item in relevant_items) for item in ranking], dtype=np.float64)


def hit_at_k(gains: FloatArray, k: int) -> bool:
    """Whether a relevant item is among the first k."""
    return bool(gains[:k].any())


def recall_at_k(gains: FloatArray, k: int, n_relevant: int) -> float:
    """Share of the ``n_relevant`` relevant items, at least one, that are among the first k."""
    return float(gains[:k].sum()) / n_relevant


def reciprocal_rank(gains: FloatArray) -> float:
    """``1 / rank`` of the first relevant item, 0 if there is none."""
    return 1.0 / (int(gains.argmax()) + 1) if gains.any() else 0.0


def ndcg_at_k(gains: FloatArray, k: int, n_relevant: int) -> float:
    """Normalised discounted cumulative gain: ``Σ_i g_i / log2(i+1)`` of the first k over its maximum.

    ``n_relevant`` counts all relevant items, also those never ranked; without any the score is 0.
    """
    value = sum(gains[:k] / np.log2(np.arange(2, len(gains[:k]) + 2)))
    ideal = float((1.0 / np.log2(np.arange(2, min(k, n_relevant) + 2))).sum())
    return float(value) / ideal if ideal else 0.0


def normalise_answer(text: str) -> str:
    """Normalise a short answer: lower case, no punctuation or English articles, single spaces."""
    lowered = unicodedata.normalize("NFKC", text).casefold()
    letters = "".join(" " if c in string.punctuation else c for c in lowered)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", letters).split())


def exact_match(reply: str, aliases: Collection[str]) -> bool:
    """Whether the reply contains the answer or one of its aliases, as whole words."""
    normalised = f" {normalise_answer(reply)} "
    return any(f" {words} " in normalised for words in map(normalise_answer, aliases) if words)


def token_f1(reply: str, answers: Collection[str]) -> float:
    """Token F1, ``2PR / (P+R)`` over multisets of tokens; the maximum over the accepted answers."""

    def f1_against(answer: str) -> float:
        predicted = normalise_answer(reply).split()
        gold = normalise_answer(answer).split()
        if not predicted or not gold:
            return float(predicted == gold)
        shared = sum((Counter(predicted) & Counter(gold)).values())
        return 2 * shared / (len(predicted) + len(gold))

    return max((f1_against(answer) for answer in answers), default=0.0)


def best_fact_score(question_tokens: ArrayLike, facts: Sequence[ArrayLike]) -> float:
    """BERTScore as in A2Q: mean over question tokens of the best cosine with any fact token.

    ``1/|q| · Σ_t max_i max_j cos(q_t, fact_ij)``; without facts or without tokens 0.
    """
    question, *tables = (np.asarray(vectors, dtype=np.float64) for vectors in (question_tokens, *facts))
    tables = [unit_rows(table) for table in tables if table.size]
    if not question.size or not tables:
        return 0.0
    return float((unit_rows(question) @ np.concatenate(tables).T).max(axis=1).mean())


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval."""

    value: float
    low: float
    high: float
    n: int


def without_interval(value: float, n: int) -> Estimate:
    return Estimate(value, math.nan, math.nan, n)


def accuracy(correct: Collection[bool] | NDArray[np.bool_]) -> Estimate:
    """Share of correct answers with its 95 % Wilson score interval.

    ``(p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n)``. No questions give (nan, 0, 1).
    """
    flags = np.asarray(list(correct), dtype=bool)
    n = len(flags)
    if n == 0:
        return Estimate(math.nan, 0.0, 1.0, 0)
    z = NormalDist().inv_cdf(0.975)
    p = float(flags.mean())
    centre = p + z * z / (2 * n)
    scale = 1 + z * z / n
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Estimate(p, max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale), n)


def mean(values: Sequence[float]) -> Estimate:
    """Mean of values in [0, 1] with its normal 95 % interval, clipped to that range."""
    n = len(values)
    if not n:
        return Estimate(math.nan, math.nan, math.nan, 0)
    average = sum(values) / n
    spread = math.sqrt(sum((v - average) ** 2 for v in values) / (n - 1) / n) if n > 1 else 0.0
    return normal(average, spread, n)


def normal(average: float, spread: float, n: int) -> Estimate:
    """An average with its normal 95 % interval, clipped to [0, 1]; ``spread`` is the standard error."""
    return Estimate(average, max(0.0, average - 1.96 * spread), min(1.0, average + 1.96 * spread), n)


def bootstrap(values: ArrayLike, *, seed: int = 0, resamples: int = 10_000) -> Estimate:
    """Mean of any values with its 95 % percentile bootstrap interval. No values give (nan, −∞, ∞)."""
    data = np.asarray(values, dtype=np.float64)
    n = len(data)
    if n == 0:
        return Estimate(math.nan, -math.inf, math.inf, 0)
    generator = np.random.default_rng(seed)
    means = np.empty(resamples)
    step = max(1, 4_000_000 // n)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        means[start:stop] = data[generator.integers(0, n, size=(stop - start, n))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Estimate(float(data.mean()), float(low), float(high), n)


def paired_bootstrap(first: ArrayLike, second: ArrayLike) -> Estimate:
    """Mean of ``first − second`` over the same questions with its bootstrap interval."""
    return bootstrap(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64))


MOST_CONFIDENT_PERCENT = (25, 50, 75)
"""Percentages of the most confident answers whose accuracy is reported."""
BINS = 10


def order_by_confidence(confidence: Sequence[float], correct: Sequence[bool]) -> list[bool]:
    """Correctness by decreasing confidence; ties keep their order."""
    return [correct[i] for i in sorted(range(len(correct)), key=lambda i: -confidence[i])]


class ReliabilityBin(NamedTuple):
    """Mean confidence and accuracy of answers with similar confidence."""

    confidence: float
    accuracy: Estimate


def reliability_bins(confidence: Sequence[float], correct: Sequence[bool]) -> list[ReliabilityBin]:
    """At most ten equally large bins by confidence, the lowest first."""
    order = np.argsort(np.asarray(confidence), kind="stable")
    sorted_confidence = np.asarray(confidence)[order]
    hits = np.asarray(correct, bool)[order]
    bins = [rows for rows in np.array_split(np.arange(len(order)), BINS) if len(rows)]
    return [ReliabilityBin(float(sorted_confidence[rows].mean()), accuracy(hits[rows])) for rows in bins]


def calibration_error(confidence: Sequence[float], correct: Sequence[bool]) -> float:
    """``Σ_b n_b/n · |accuracy_b − mean confidence_b|`` over the bins of :func:`reliability_bins`."""
    bins = reliability_bins(confidence, correct)
    return float(sum(each.accuracy.n * abs(each.accuracy.value - each.confidence) for each in bins) / len(correct))


def confidence_metrics(confidence: Sequence[float], correct: Sequence[bool]) -> dict[str, Estimate]:
    """Accuracy of the most confident answers, mean risk over coverages, expected calibration error."""
    if not correct:
        return {}
    ordered = order_by_confidence(confidence, correct)
    risks = [1 - hits / n for n, hits in enumerate(np.cumsum(ordered).tolist(), 1)]
    return {
        f"accuracy_surest_{s}": accuracy(ordered[: math.ceil(len(ordered) * s / 100)]) for s in MOST_CONFIDENT_PERCENT
    } | {
        "risk_area": without_interval(float(np.mean(risks)), len(correct)),
        "calibration_error": without_interval(calibration_error(confidence, correct), len(correct)),
    }
