"""Each metric against an independent implementation: scikit-learn, scipy, or enumeration of all tied orders."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score, precision_recall_fscore_support

from evidence_assets.experiment import metrics

TIED = st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=6)


def all_orders(gains: list[float], scores: list[int]) -> list[list[float]]:
    """Every order of the items that agrees with their scores, tied items permuted."""
    orders = []
    for permutation in itertools.permutations(range(len(gains))):
        ordered = [scores[i] for i in permutation]
        if all(a >= b for a, b in itertools.pairwise(ordered)):
            orders.append([gains[i] for i in permutation])
    return orders


@given(TIED, st.integers(1, 7))
@settings(max_examples=150, deadline=None)
def test_metrics_with_ties_are_the_mean_over_all_orders(items: list[tuple[bool, int]], k: int) -> None:
    gains, scores = [float(g) for g, _ in items], [s for _, s in items]
    orders = all_orders(gains, scores)
    assert metrics.hit_at_k(gains, k, scores) == pytest.approx(np.mean([float(any(o[:k])) for o in orders]))
    first = [next((1 / (i + 1) for i, g in enumerate(o) if g), 0.0) for o in orders]
    assert metrics.reciprocal_rank(gains, scores) == pytest.approx(np.mean(first))
    if sum(gains):
        n = int(sum(gains)) + 2
        assert metrics.recall_at_k(gains, k, n, scores) == pytest.approx(np.mean([sum(o[:k]) / n for o in orders]))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=12), st.integers(1, 14))
@settings(max_examples=150, deadline=None)
def test_ndcg_equals_scikit_learn_with_and_without_ties(items: list[tuple[int, int]], k: int) -> None:
    gains, scores = [float(g) for g, _ in items], [float(s) for _, s in items]
    assert metrics.ndcg_at_k(gains, k, scores) == pytest.approx(ndcg_score([gains], [scores], k=k))
    falling = list(range(len(gains), 0, -1))
    assert metrics.ndcg_at_k(gains, k) == pytest.approx(ndcg_score([gains], [falling], k=k))


def test_reciprocal_rank_of_one_relevant_item_is_scikit_learn_label_ranking_precision() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        scores = generator.permutation(9).astype(float)
        gains = np.zeros(9)
        gains[generator.integers(9)] = 1
        expected = label_ranking_average_precision_score([gains.astype(int)], [scores])
        assert metrics.reciprocal_rank(gains, scores) == pytest.approx(expected)


def test_ranked_lists() -> None:
    gains = metrics.gains_of(["n3", "n1", "n9"], {"n1", "n7"})
    assert gains.tolist() == [0.0, 1.0, 0.0]
    assert metrics.hit_at_k(gains, 1) == 0.0
    assert metrics.recall_at_k(gains, 20, n_relevant=2) == 0.5
    assert metrics.recall_at_k(gains, 2, n_relevant=40, capped=True) == 0.5
    assert metrics.hit_at_k([], 5) == 0.0
    assert metrics.ndcg_at_k([0, 1], 2, ideal_gains=[1, 1]) == pytest.approx(1 / math.log2(3) / (1 + 1 / math.log2(3)))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: metrics.gains_of(["a", "a"], {"a"}), "ranked twice"),
        (lambda: metrics.hit_at_k([1], 0), "at least 1"),
        (lambda: metrics.recall_at_k([1, 1], 2, n_relevant=1), "count every relevant"),
        (lambda: metrics.hit_at_k([1, 0], 1, scores=[0.3]), "one score an item"),
        (lambda: metrics.hit_at_k([1, 0], 1, scores=[0.3, float("nan")]), "not a number"),
        (lambda: metrics.mcnemar_exact([True], []), "same questions"),
        (lambda: metrics.per_class_scores(["a"], []), "predictions"),
    ],
)
def test_bad_input_is_named(call: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()  # type: ignore[operator]


def test_answers_are_compared_by_whole_words_and_published_containment_is_at_hand() -> None:
    assert metrics.exact_match("It is called the Swiss Franc.", ["CHF", "swiss franc"])
    assert not metrics.exact_match("Europe", ["Ur"])
    assert metrics.exact_match("Europe", ["Ur"], whole_words=False)
    assert not metrics.exact_match("anything", ["", "the"])
    assert metrics.token_f1("the red big dog", ["big red dog", "cat"]) == 1.0
    assert metrics.token_f1("red dog", ["big red dog"]) == pytest.approx(0.8)
    assert metrics.token_f1("", ["x"]) == 0.0
    assert metrics.token_f1("x", []) == 0.0
    assert metrics.coverage(["a", "b", "b"], ["b"]) == 0.5
    assert metrics.coverage([], ["b"]) == 0.0


def test_each_token_of_the_question_is_matched_with_the_best_fact() -> None:
    generator = np.random.default_rng(1)
    facts, question = generator.normal(size=(4, 5)), generator.normal(size=(3, 5))

    def cosine(x: np.ndarray, y: np.ndarray) -> float:
        return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))

    matched = np.mean([max(cosine(q, f) for f in facts) for q in question])
    assert metrics.best_fact_score(question, [facts[:2], facts[2:]]) == pytest.approx(matched)
    assert metrics.best_fact_score(question, []) == 0.0


@given(st.integers(0, 60), st.integers(1, 60), st.sampled_from([0.9, 0.95, 0.99]))
@settings(max_examples=60, deadline=None)
def test_wilson_interval_equals_scipy(right: int, n: int, confidence: float) -> None:
    right = min(right, n)
    mine = metrics.accuracy([True] * right + [False] * (n - right), confidence=confidence)
    theirs = stats.binomtest(right, n).proportion_ci(confidence, method="wilson")
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert mine.value == pytest.approx(right / n)


def test_no_question_has_no_accuracy() -> None:
    empty = metrics.accuracy([])
    assert math.isnan(empty.value)
    assert (empty.low, empty.high, empty.n) == (0.0, 1.0, 0)
    assert math.isnan(metrics.paired_bootstrap([], []).value)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=25))
@settings(max_examples=60, deadline=None)
def test_per_class_scores_equal_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    gold, said = [g for g, _ in pairs], [p for _, p in pairs]
    mine = metrics.per_class_scores(gold, said, labels=["a", "b", "c"])
    theirs = precision_recall_fscore_support(gold, said, labels=["a", "b", "c"], zero_division=0)
    assert np.allclose([[s.precision, s.recall, s.f1, s.support] for s in mine], np.array(theirs).T)


def test_an_absent_answer_costs_recall_only() -> None:
    scores = {s.label: s for s in metrics.per_class_scores(["a", "a"], ["a", None])}
    assert (scores["a"].precision, scores["a"].recall) == (1.0, 0.5)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40))
@settings(max_examples=60, deadline=None)
def test_mcnemar_equals_the_binomial_test(pairs: list[tuple[bool, bool]]) -> None:
    b, c = sum(x and not y for x, y in pairs), sum(y and not x for x, y in pairs)
    expected = stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert metrics.mcnemar_exact([x for x, _ in pairs], [y for _, y in pairs]) == pytest.approx(expected)


def test_mcnemar_of_thousands_of_discordant_pairs_stays_finite() -> None:
    value = metrics.mcnemar_exact([True] * 1600 + [False] * 1500, [False] * 1600 + [True] * 1500)
    assert value == pytest.approx(stats.binomtest(1600, 3100).pvalue)


def test_paired_bootstrap_is_close_to_scipy_and_deterministic() -> None:
    generator = np.random.default_rng(3)
    first, second = generator.random(200) < 0.6, generator.random(200) < 0.5
    mine = metrics.paired_bootstrap(first, second)
    difference = first.astype(float) - second.astype(float)
    theirs = stats.bootstrap((difference,), np.mean, method="percentile", rng=0).confidence_interval
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), abs=0.012)
    assert mine.value == pytest.approx(difference.mean())
    assert mine == metrics.paired_bootstrap(first, second)
