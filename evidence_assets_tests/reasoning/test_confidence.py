"""Confidence: signals of predictions, monotone and bounded probabilities, and fits that reproduce."""

import math
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.experiment.scores.metrics import calibration_error, order_by_confidence
from evidence_assets.reasoning.confidence import (
    ASKED_TABLES,
    FAMILIES,
    Fit,
    choice_signals,
    confidence_family,
    find_fit,
    fit_weights,
    fitted_signals,
    packaged_fits,
)
from evidence_assets.reasoning.tasks import Chain, ChainStep, Choice, ChooseAnswer, EvidenceItem
from evidence_assets_tests.reasoning.small_questions import make_question


def test_signals_are_what_the_prediction_knows() -> None:
    fact = EvidenceItem("e1", "chunk", "s1", "0:4", "fact 1")
    steps = ChainStep("so", ("e1",), ("fact 1",)), ChainStep("and", ("e1",), ("fact 9",))
    task = ChooseAnswer(make_question("What?", "x", "y"), (Chain("A", steps, 0.8),), {"A": (fact,)})
    signals = choice_signals(task, Choice("A", ("A",), "answered"), {"A": 0.6, "B": 0.4})
    assert signals == pytest.approx({"share": math.log(1.5), "verified": 0.5, "answered": 1.0}, abs=1e-6)
    assert choice_signals(task, Choice("B", (), "insufficient"), {}) == {"answered": 0.0, "verified": 0.0}


@pytest.mark.parametrize(
    ("question_task", "options", "family"),
    [
        ("mcqa", ["Yes", "no", "maybe"], "yes_no"),
        ("mcqa", ["yes", "x"], "options"),
        ("verification", ["SUPPORTS", "REFUTES"], "claims"),
        ("table_qa", ["1", "2"], "table_questions"),
        ("kgqa", [], "short_answers"),
        ("skb_search", [], ""),
    ],
)
def test_families_of_questions(question_task: str, options: list[str], family: str) -> None:
    assert confidence_family(question_task, options) == family and family in (*FAMILIES, "")


def simulate(n: int, seed: int) -> tuple[list[list[float]], list[bool]]:
    """Answers whose log odds are 1.5·share + answered − 1; the third column misleads."""
    rng = random.Random(seed)
    rows, correct = [], []
    for _ in range(n):
        share, answered = rng.uniform(-2, 2), float(rng.random() < 0.4)
        correct.append(rng.random() < 1 / (1 + math.exp(-(1.5 * share + answered - 1))))
        rows.append([share, answered, rng.gauss(-0.5 if correct[-1] else 0.5, 2)])
    return rows, correct


def test_a_fit_is_calibrated_ranks_and_needs_its_signals() -> None:
    (rows, correct), (unseen, labels) = simulate(2000, 1), simulate(2000, 2)
    intercept, share, answered, misleading = weights = fit_weights(rows, correct, [1.0] * 2000)
    assert weights == fit_weights(rows, correct, [1.0] * 2000), "the same answers give the same fit"
    assert (intercept, share, answered) == pytest.approx((-1, 1.5, 1), abs=0.3)
    assert misleading == 0, "more of a signal never lowers the probability"
    fit = Fit({"intercept": intercept, "share": share, "answered": answered}, {"made": 2000})
    signals = [{"share": each[0], "answered": each[1]} for each in unseen]
    confidences = [fit.probability(each) for each in signals]
    assert calibration_error(confidences, labels) < 0.05
    assert sum(order_by_confidence(confidences, labels)[:500]) / 500 > sum(labels) / 2000 + 0.3


def test_questions_count_by_their_weight() -> None:
    rows, correct = [[1.0], [-1.0], [1.0], [-1.0]], [True, False, False, True]
    assert fit_weights(rows, correct, [1.0, 1.0, 0.0, 0.0])[1] > 0
    assert fit_weights(rows, correct, [0.0, 0.0, 1.0, 1.0]) == [0.0, 0.0]


@settings(max_examples=60, deadline=None)
@given(st.tuples(*[st.floats(-10, 10)] * 2), st.lists(st.floats(0, 50), min_size=2, max_size=2), st.floats(0, 20))
def test_probabilities_are_bounded_and_monotone(values: tuple[float, float], weights: list[float], more: float) -> None:
    fit = Fit({"intercept": -1.0, "share": weights[0], "answered": weights[1]}, {})
    signals = {"share": values[0], "answered": values[1], "verified": 1.0}
    assert 0 <= fit.probability(signals) <= fit.probability(signals | {"share": values[0] + more}) <= 1


def test_a_fit_applies_to_answers_with_its_signals() -> None:
    fit = Fit({"intercept": 0.1, "share": 1.0, "answered": 0.0}, {})
    assert fit.applies_to({"share": 1.0, "answered": 1.0, "verified": 0.5}) and not fit.applies_to({"answered": 1.0})
    assert fitted_signals({"share": 1.0, "answered": 1.0, "verified": 1.0}) == ("share", "answered")
    assert fitted_signals({"answered": 1.0, "verified": 1.0}) == ("verified", "answered")
    assert fitted_signals({"path_share": 1.0, "answered": 1.0}) == ()


def test_the_packaged_fits_are_monotone_and_of_the_embedded_models_or_of_weights_by_their_hash() -> None:
    families = {family for family, _ in packaged_fits()}
    assert {"options", "yes_no", "claims", "table_questions", ASKED_TABLES} <= families <= {*FAMILIES, ASKED_TABLES}
    for (family, model), fit in packaged_fits().items():
        assert "extractive" in model or re.fullmatch(r".+@[0-9a-f]{12}", model), family
        assert all(weight >= 0 for name, weight in fit.weights.items() if name != "intercept"), family
        assert fit.sets and fit.fit_id in fit.basis


def test_a_fit_applies_to_the_same_model_file_under_another_name() -> None:
    packaged, trained, served = (Fit({"intercept": value}, {}) for value in (0.1, 0.2, 0.3))
    fits = {
        ("options", "qwen@10c59804d648"): packaged,
        ("options", "mine@0123456789ab"): trained,
        ("options", "model@served"): served,
    }
    assert find_fit(fits, "options", "qwen@10c59804d648") == packaged
    assert find_fit(fits, "options", "/models/q4.gguf@10c59804d648") == packaged
    assert find_fit(fits, "options", "another@0123456789ab") == trained
    assert find_fit(fits, "options", "model@served") == served
    assert find_fit(fits, "options", "another@served") is None, "no hash of a file"
    assert find_fit(fits, "claims", "another@10c59804d648") is None
    stored = {**fits, ("options", "lake@10c59804d648"): trained}
    assert find_fit(stored, "options", "another@10c59804d648") == trained, "fits of the lake come last"
