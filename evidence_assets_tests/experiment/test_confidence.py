"""Probabilities of weights, and scores of confidences, against brute force."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.experiment.scores.metrics import (
    by_confidence,
    calibration_error,
    confidence_metrics,
    probabilities,
    risk_coverage,
)

WEIGHTS = st.dictionaries(st.sampled_from("ABCDEFG"), st.floats(-50, 50), min_size=1)
ANSWERS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)


@given(WEIGHTS, st.floats(0.1, 10))
def test_probabilities_are_the_softmax_best_first(weights: dict[str, float], temperature: float) -> None:
    shares = probabilities(weights, temperature)
    assert sum(shares.values()) == pytest.approx(1) and set(shares) == set(weights)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    for a in weights:
        for b in weights:
            if min(shares[a], shares[b]) > 1e-200:
                expected = (weights[a] - weights[b]) / temperature
                assert math.log(shares[a] / shares[b]) == pytest.approx(expected, abs=1e-6)


@given(ANSWERS)
def test_risk_at_each_coverage_is_the_share_of_wrong_answers_so_far(answers: list[tuple[float, bool]]) -> None:
    ordered = by_confidence([sure for sure, _ in answers], [right for _, right in answers])
    assert sorted(ordered) == sorted(right for _, right in answers)
    assert risk_coverage(ordered) == pytest.approx([ordered[:n].count(False) / n for n in range(1, len(ordered) + 1)])


def test_surer_answers_come_first() -> None:
    assert by_confidence([0.1, 0.9, 0.5], [False, True, False]) == [True, False, False]


def test_calibration_error_is_small_for_honest_and_large_for_boastful_confidence() -> None:
    rng = random.Random(0)
    honest = [rng.random() for _ in range(20_000)]
    right = [rng.random() < sure for sure in honest]
    assert calibration_error(honest, right) < 0.02
    share = sum(right) / len(right)
    assert calibration_error([1.0] * len(right), right) == pytest.approx(1 - share)


def test_metrics_tell_the_surest_part_from_the_rest() -> None:
    sure, right = [0.9, 0.8, 0.2, 0.1], [True, True, False, False]
    metrics = confidence_metrics(sure, right)
    assert metrics["accuracy_surest_50"].value == 1 and metrics["accuracy_surest_75"].value == pytest.approx(2 / 3)
    assert metrics["risk_area"].value == pytest.approx((0 + 0 + 1 / 3 + 1 / 2) / 4)
    assert confidence_metrics([], []) == {}
