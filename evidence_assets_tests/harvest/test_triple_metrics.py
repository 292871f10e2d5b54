"""Metrics against hand-made cases, scikit-learn and simulation."""

import math

import numpy as np
import ot
import pytest

from evidence_assets.harvest.triple_metrics import (
    Direction,
    MatchRule,
    canonical_triple,
    find_supporting_prompts,
    judge_relevance,
    list_entities,
    novelty,
    precision_curve,
    reference_accuracy,
    sampled_precision,
)
from evidence_assets.harvest.triple_scoring import (
    GroundDistance,
    ScoredSentence,
    final_scores,
    fit_sentence_idf,
    fluency,
    nearness,
    semantic_distances,
    sum_weights,
)

PAIRS = [("Egg", "hen"), ("egg", "hen"), ("milk", "cow"), ("cow", "grass")]


def test_entities_and_novelty() -> None:
    assert list_entities(PAIRS) == {"Egg", "egg", "hen", "milk", "cow", "grass"}
    assert novelty(PAIRS, ["egg", "cow", "hen"]) == pytest.approx(50)
    assert novelty(PAIRS, list_entities(PAIRS)) == 0 and math.isnan(novelty([], {"x"}))


@pytest.mark.parametrize("rule", ["share", "maximum"])
def test_reference_accuracy_is_that_of_200_rounds_of_100(rule: MatchRule) -> None:
    """By plain loops: a tuple is similar to 0, 1, 3, 140 or 156 of 300 reference tuples, and just not to the others."""
    groups = np.repeat(np.arange(5), [0, 1, 3, 140, 156])
    generated, reference = np.eye(6)[:5], 0.76 * np.eye(6)[groups]
    reference[:, 5] = np.sqrt(1 - 0.76**2)
    reference[1:4] += 0.2 * np.eye(6)[0]  # cosine below 0.75
    spread = reference_accuracy(generated, reference, rule)
    random, shares = np.random.default_rng(0), []
    cosines = reference / np.linalg.norm(reference, axis=1, keepdims=True) @ generated.T
    for _ in range(200):
        drawn_rows = random.choice(300, size=100, replace=False)
        hits = [sum(cosines[row, column] > 0.75 for row in drawn_rows) for column in range(5)]
        shares.append(np.mean([hit >= 50 if rule == "share" else hit > 0 for hit in hits]))
    assert (spread.mean, spread.deviation) == pytest.approx((100 * np.mean(shares), 100 * np.std(shares)))
    assert spread.deviation > 0


def test_precision_is_that_of_200_experiments_of_100_tuples_per_relation() -> None:
    verdicts = [[number % 5 > 0 for number in range(1000)], [], [True, False] * 20]
    random, shares = np.random.default_rng(0), []
    for _ in range(200):
        samples = [random.choice(part, size=min(100, len(part)), replace=False) for part in (verdicts[0], verdicts[2])]
        shares.append((samples[0].sum() + samples[1].sum()) / 140)
    spread = sampled_precision(verdicts)
    assert (spread.mean, spread.deviation) == pytest.approx((100 * np.mean(shares), 100 * np.std(shares)))
    assert spread.mean == pytest.approx(100 * (0.8 * 100 + 20) / 140, abs=1) and 1 < spread.deviation < 4
    twenty_relations = sampled_precision([verdicts[0]] * 20)
    assert 0.6 < twenty_relations.deviation < 1, "as printed for 20 relations: 0.61 to 0.90"


def test_prompts_that_agree_on_a_triple_support_it() -> None:
    values = np.asarray([[-1.0, -9.0], [-2.0, -1.0], [-30.0, -40.0], [-31.0, -30.0]])
    assert find_supporting_prompts(values, ["1-1", "1-1", "2-2", "2-2"]) == [(0,), (1,), (0,), (1,)]
    assert find_supporting_prompts(values[:1], ["1-1"]) == [(0, 1)]


def test_symmetric_and_inverse_relations_are_one_fact() -> None:
    directions = {"borders": Direction(symmetric=True), "capital_of": Direction(inverse="has_capital")}
    assert canonical_triple(("B", "borders", "a"), directions) == canonical_triple(("A", "borders", "b"), directions)
    assert canonical_triple(("Oslo", "capital_of", "Norway"), directions) == canonical_triple(
        ("Norway", "has_capital", "Oslo"), directions
    )
    assert canonical_triple(("a", "eats", "b"), directions) != canonical_triple(("b", "eats", "a"), directions)


def test_relevance_leaves_out_seeds_and_repeats() -> None:
    directions = {"borders": Direction(symmetric=True)}
    truth = [("a", "borders", "b"), ("c", "borders", "d"), ("e", "borders", "f")]
    ranking = [("a", "borders", "b"), ("D", "borders", "c"), ("c", "borders", "d"), ("x", "borders", "y")]
    hits, truths = judge_relevance(ranking, truth, exclude=[("b", "borders", "a")], directions=directions)
    assert (hits, truths) == ([True, False], 2)


# Stage 3 -------------------------------------------------------------------------------------------------------------


def sentence(random: np.random.Generator, words: int, *, silent: int = 0) -> ScoredSentence:
    weights = random.random(words) + 0.1
    weights[:silent] = 0.0
    return ScoredSentence(weights, random.normal(size=(words, 6)))


def reference_distance(one: ScoredSentence, other: ScoredSentence, ground: GroundDistance) -> float:
    """The distance by definition, with POT's solver."""
    a, b = one.weights / one.weights.sum(), other.weights / other.weights.sum()
    if ground == "cosine":
        cost = ot.dist(one.vectors, other.vectors, metric="cosine")
    else:
        x, y = one.vectors * one.weights[:, None], other.vectors * other.weights[:, None]
        cost = ot.dist(x, y, metric="euclidean")
    return float(ot.emd2(a, b, cost))


@pytest.mark.parametrize("ground", ["cosine", "euclidean"])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 3), (3, 1), (2, 2), (2, 3), (5, 4)])
def test_distances_equal_pot(ground: GroundDistance, sizes: tuple[int, int]) -> None:
    random = np.random.default_rng(hash(sizes) % 1000)
    candidates = [sentence(random, sizes[0] + 2, silent=2) for _ in range(7)]
    seeds = [sentence(random, sizes[1] + 3, silent=3) for _ in range(3)]
    distances = semantic_distances(candidates, seeds, ground=ground)
    expected = [sum(reference_distance(one, seed, ground) for seed in seeds) for one in candidates]
    np.testing.assert_allclose(distances, expected, atol=1e-9)


def test_template_words_have_no_weight() -> None:
    sentences = [["Rome", "lies", "in", "Italy"], ["Oslo", "lies", "in", "Norway"], ["Rome", "lies", "in", "Lazio"]]
    idf = fit_sentence_idf(sentences)
    assert idf("Oslo") == idf("never-seen") == pytest.approx(math.log(2.5 / 1.5))
    assert idf("Lies") == 0
    alone = fit_sentence_idf(sentences[:1])
    assert {alone(word) for word in sentences[0]} == {0.0}, "ln(1/3) of any word: equation 5.19 needs a corpus"


def test_summed_weights_are_those_of_all_sentences_of_a_word() -> None:
    sentences = [["rome", "is", "rome"], ["oslo", "is"]]
    weights = [np.asarray([2.0, 0.5, 2.0]), np.asarray([1.0, 0.25])]
    assert [list(values) for values in sum_weights(sentences, weights)] == [[2.0, 0.75, 2.0], [1.0, 0.75]]


def test_fluency_forms() -> None:
    log_probs, idf = np.log([0.5, 0.125]), np.asarray([1.0, 2.0])
    assert fluency(log_probs, idf, "corrected") == pytest.approx(3 * 0.25)
    assert fluency(log_probs, idf, "printed") == pytest.approx(3 / 0.25)
    assert fluency(log_probs, idf, "probability") == pytest.approx(0.25)
    assert fluency(np.asarray([]), np.asarray([])) == 0
    better, worse = np.log([0.9, 0.9]), np.log([0.1, 0.1])
    assert fluency(better, idf, "corrected") > fluency(worse, idf, "corrected")
    assert fluency(better, idf, "printed") < fluency(worse, idf, "printed")  # the fault of the printed form


def test_the_printed_formula_prefers_distant_pairs() -> None:
    distances, fluent = np.linspace(0, 500.0, 30), np.ones(30)
    assert (np.diff(final_scores(distances, fluent, 5)) < 0).all(), "also if distances exceed the seeds"
    literal = final_scores(distances, fluent, 5, "distance")
    assert (np.diff(literal) > 0).all()
    assert literal[3] == pytest.approx(distances[3] / (1 + math.exp(-distances[3])) + 1 / (1 + math.exp(-1)))


def test_final_forms_by_hand() -> None:
    distances, fluent = np.asarray([0.0, 2.0, 2.0]), np.asarray([0.0, 3.0, 1.0])
    assert nearness(distances, 2).tolist() == [2, 1, 1]
    swish = [value / (1 + math.exp(-value)) for value in (2.0, 1.0, 0.0, 3.0)]
    assert final_scores(distances, fluent, 2)[:2].tolist() == pytest.approx([swish[0] + swish[2], swish[1] + swish[3]])
    ranking = [(3 / 3 + 1 / 3) / 2, (1.5 / 3 + 3 / 3) / 2, (1.5 / 3 + 2 / 3) / 2]
    assert final_scores(distances, fluent, 2, "rank_normalised").tolist() == pytest.approx(ranking)
    assert final_scores(distances, fluent, 2, "fluency").tolist() == fluent.tolist()


def test_the_curve_of_precision_is_the_mean_of_its_relations_and_missing_triples_are_wrong() -> None:
    hits = [[True, False, True, True], [False, True]]
    assert precision_curve(hits, 4) == pytest.approx([1 / 2, 1 / 2, (2 / 3 + 1 / 3) / 2, (3 / 4 + 1 / 4) / 2])
    assert precision_curve(hits, 2) == precision_curve(hits, 4)[:2]
