"""How sure an answer is: from weights of options to probabilities, and what such probabilities are worth.

Belongs here: the softmax that makes probabilities of a solver's weights, and the scores of confidences against what was
right: accuracy of the surest part, area under the risk–coverage curve, expected calibration error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from evidence_assets.experiment.scores.metrics import Estimate, accuracy, bare
from evidence_assets.models.vectors import softmax

SUREST = (25, 50, 75)
"""Shares of the questions, in per cent, whose accuracy is told: those that were answered with most confidence."""
BINS = 10


def probabilities(weights: Mapping[str, float], temperature: float = 1.0) -> dict[str, float]:
    """``softmax(w / T)``, the most probable label first; equal ones in their order.

    >>> probabilities({"A": 0.0, "B": 0.0})
    {'A': 0.5, 'B': 0.5}
    """
    shares = dict(zip(weights, softmax(list(weights.values()), temperature).tolist(), strict=True))
    return dict(sorted(shares.items(), key=lambda entry: -entry[1]))


def by_confidence(confidence: Sequence[float], right: Sequence[bool]) -> list[bool]:
    """What was right, the surest first; the equally sure stay in their order."""
    return [right[i] for i in sorted(range(len(right)), key=lambda i: -confidence[i])]


def risk_coverage(right: Sequence[bool]) -> list[float]:
    """Share of wrong answers among the first 1, 2, …, n, the surest first.

    >>> risk_coverage([True, False])
    [0.0, 0.5]
    """
    return [1 - hits / n for n, hits in enumerate(np.cumsum(right).tolist(), 1)]


def calibration_error(confidence: Sequence[float], right: Sequence[bool]) -> float:
    """``Σ_b n_b/n · |accuracy_b − mean confidence_b|`` over ten bins of equally many answers, by confidence."""
    order = np.argsort(np.asarray(confidence), kind="stable")
    sure, hits = np.asarray(confidence)[order], np.asarray(right, float)[order]
    bins = [part for part in np.array_split(np.arange(len(order)), BINS) if len(part)]
    return float(sum(len(part) * abs(hits[part].mean() - sure[part].mean()) for part in bins) / len(order))


def confidence_metrics(confidence: Sequence[float], right: Sequence[bool]) -> dict[str, Estimate]:
    """Accuracy of the surest parts, mean risk over all coverages, and expected calibration error."""
    if not right:
        return {}
    ordered = by_confidence(confidence, right)
    metrics = {f"accuracy_surest_{s}": accuracy(ordered[: math.ceil(len(ordered) * s / 100)]) for s in SUREST}
    plain = {
        "risk_area": float(np.mean(risk_coverage(ordered))),
        "calibration_error": calibration_error(confidence, right),
    }
    return metrics | {name: bare(value, len(right)) for name, value in plain.items()}
