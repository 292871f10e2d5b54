"""Each metric against an independent implementation: ir_measures, scikit-learn, scipy, or counted by hand."""

import random
from typing import cast

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import f1_score

from evidence_assets.experiment.scores import metrics
from evidence_assets.experiment.scores.scoring import class_metrics, is_correct
from evidence_assets.experiment.stored_rows import QuestionRow


@given(st.lists(st.booleans(), max_size=25), st.integers(0, 3), st.sampled_from([1, 5, 10, 20]))
@settings(max_examples=40, deadline=None)
def test_rankings_score_as_in_ir_measures(relevant: list[bool], never_ranked: int, k: int) -> None:
    ranking = [f"n{index}" for index in range(len(relevant))]
    gold = [item for item, is_relevant in zip(ranking, relevant, strict=True) if is_relevant]
    gold += [f"m{number}" for number in range(never_ranked)]
    gains = metrics.gains_of(ranking, gold)
    if not gold:
        assert (metrics.hit_at_k(gains, k), metrics.ndcg_at_k(gains, k, 0)) == (False, 0.0)
        return
    values = {
        ir_measures.Success @ k: float(metrics.hit_at_k(gains, k)),
        ir_measures.R @ k: metrics.recall_at_k(gains, k, len(gold)),
        ir_measures.RR: metrics.reciprocal_rank(gains),
        ir_measures.nDCG @ k: metrics.ndcg_at_k(gains, k, len(gold)),
    }
    scores = {item: -float(index) for index, item in enumerate(ranking)} or {"nothing": 0.0}
    expected = ir_measures.calc_aggregate(list(values), {"q": dict.fromkeys(gold, 1)}, {"q": scores})
    assert values == pytest.approx(expected)


def test_answers_are_compared_by_whole_words() -> None:
    assert metrics.exact_match("It is called the Swiss Franc.", ["CHF", "swiss franc"])
    assert not metrics.exact_match("Europe", ["Ur"])
    assert not metrics.exact_match("anything", ["", "the"])
    assert metrics.token_f1("the red big dog", ["big red dog", "cat"]) == 1.0
    assert metrics.token_f1("red dog", ["big red dog"]) == pytest.approx(0.8)
    assert metrics.token_f1("", ["x"]) == 0.0
    assert metrics.token_f1("x", []) == 0.0


@given(st.integers(0, 60), st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_wilson_interval_equals_scipy(right: int, n: int) -> None:
    right = min(right, n)
    estimate = metrics.accuracy([True] * right + [False] * (n - right))
    expected = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert estimate.value == pytest.approx(right / n)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=25))
@settings(max_examples=40, deadline=None)
def test_f1_of_a_class_equals_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = [g for g, _ in pairs], [p for _, p in pairs]
    expected = f1_score(gold, predicted, labels=sorted(set(gold)), average=None, zero_division=0)
    answers = [
        ({"task": "verification", "gold": [g]}, {"status": "answered", "answer": p})
        for g, p in zip(gold, predicted, strict=True)
    ]
    estimates = class_metrics(answers)
    assert np.allclose([estimates[f"f1:{label}"].value for label in sorted(set(gold))], expected)


def test_paired_bootstrap_is_close_to_scipy_and_deterministic() -> None:
    generator = np.random.default_rng(3)
    first, second = generator.random(200) < 0.6, generator.random(200) < 0.5
    estimate = metrics.paired_bootstrap(first, second)
    difference = first.astype(float) - second.astype(float)
    expected = stats.bootstrap((difference,), np.mean, method="percentile", rng=0).confidence_interval
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), abs=0.012)
    assert estimate.value == pytest.approx(difference.mean())
    assert estimate == metrics.paired_bootstrap(first, second)


def test_calibration_error_is_small_for_calibrated_and_large_for_overconfident_answers() -> None:
    rng = random.Random(0)
    calibrated = [rng.random() for _ in range(20_000)]
    right = [rng.random() < sure for sure in calibrated]
    assert metrics.calibration_error(calibrated, right) < 0.02
    share = sum(right) / len(right)
    assert metrics.calibration_error([1.0] * len(right), right) == pytest.approx(1 - share)


def test_confidence_metrics_equal_hand_counts() -> None:
    sure, right = [0.9, 0.8, 0.2, 0.1], [True, True, False, False]
    scores = metrics.confidence_metrics(sure, right)
    assert scores["accuracy_surest_50"].value == 1 and scores["accuracy_surest_75"].value == pytest.approx(2 / 3)
    assert scores["risk_area"].value == pytest.approx((0 + 0 + 1 / 3 + 1 / 2) / 4)
    assert metrics.confidence_metrics([], []) == {}


@pytest.mark.parametrize(("answer", "status", "is_right"), [(None, "insufficient", True), ("Bern", "answered", False)])
def test_a_question_without_a_right_answer_is_right_if_none_is_given(
    answer: str | None, status: str, is_right: bool
) -> None:
    question = cast(QuestionRow, {"task": "kgqa", "gold": [], "gold_aliases": []})
    assert is_correct(question, answer, status) == is_right
    assert not is_correct(question | {"gold": ["Bern"]}, None, "insufficient")
