"""Metrics against hand-made cases, scikit-learn and simulation."""

from __future__ import annotations

import math

import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from evidence_assets.harvest.triple_metrics import (
    Direction,
    canonical_triple,
    cohens_kappa,
    count_extracted_entities,
    diversity,
    find_supporting_prompts,
    judge_relevance,
    list_entities,
    novelty,
)
from evidence_assets.harvest.triple_scoring import (
    GroundDistance,
    ScoredSentence,
    final_scores,
    fit_sentence_idf,
    fluency,
    nearness,
    semantic_distances,
)

PAIRS = [("Egg", "hen"), ("egg", "hen"), ("milk", "cow"), ("cow", "grass")]


def test_size_diversity_novelty() -> None:
    assert count_extracted_entities(PAIRS) == 8
    assert list_entities(PAIRS) == {"Egg", "egg", "hen", "milk", "cow", "grass"}
    assert diversity(PAIRS) == 6
    assert novelty(PAIRS, ["egg", "cow", "hen"]) == pytest.approx(50)
    assert novelty(PAIRS, list_entities(PAIRS)) == 0 and math.isnan(novelty([], {"x"}))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=2, max_size=30))
def test_kappa_equals_scikit_learn(verdicts: list[tuple[str, str]]) -> None:
    first, second = zip(*verdicts, strict=True)
    kappa = cohens_kappa(first, second)
    if not math.isnan(kappa):
        assert kappa == pytest.approx(cohen_kappa_score(first, second))


def test_agreement() -> None:
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


def test_scaling_vectors_changes_the_euclidean_distance_only() -> None:
    random = np.random.default_rng(1)
    one, seed = sentence(random, 4), sentence(random, 3)
    scaled = ScoredSentence(one.weights, one.vectors * np.asarray([[1.0], [5.0], [0.2], [3.0]]))
    assert semantic_distances([scaled], [seed])[0] == pytest.approx(semantic_distances([one], [seed])[0])
    euclidean = semantic_distances([scaled], [seed], ground="euclidean")[0]
    assert euclidean != pytest.approx(semantic_distances([one], [seed], ground="euclidean")[0])


def test_template_words_have_no_weight() -> None:
    sentences = [["Rome", "lies", "in", "Italy"], ["Oslo", "lies", "in", "Norway"], ["Rome", "lies", "in", "Lazio"]]
    idf = fit_sentence_idf(sentences)
    assert idf("Oslo") == idf("never-seen") == pytest.approx(math.log(2.5 / 1.5))
    assert idf("Lies") == 0


def test_fluency_forms() -> None:
    log_probs, idf = np.log([0.5, 0.125]), np.asarray([1.0, 2.0])
    assert fluency(log_probs, idf, "corrected") == pytest.approx(3 * 0.25)
    assert fluency(log_probs, idf, "printed") == pytest.approx(3 / 0.25)
    assert fluency(log_probs, idf, "probability") == pytest.approx(0.25)
    assert fluency(np.asarray([]), np.asarray([])) == 0
    better, worse = np.log([0.9, 0.9]), np.log([0.1, 0.1])
    assert fluency(better, idf, "corrected") > fluency(worse, idf, "corrected")
    assert fluency(better, idf, "printed") < fluency(worse, idf, "printed")  # the fault of the printed form


@pytest.mark.parametrize("ground", ["cosine", "euclidean"])
def test_the_printed_formula_prefers_distant_pairs(ground: GroundDistance) -> None:
    distances, fluent = np.linspace(0, 5.0, 30), np.ones(30)
    assert (np.diff(final_scores(nearness(distances, 5, ground), fluent)) < 0).all()
    literal = final_scores(nearness(distances, 5, "cosine"), fluent, "distance", distances)
    assert (np.diff(literal) > 0).all()
    assert literal[3] == pytest.approx(distances[3] / (1 + math.exp(-distances[3])) + 1 / (1 + math.exp(-1)))
    with pytest.raises(ValueError, match="requires the argument"):
        final_scores(fluent, fluent, "distance")


def test_final_forms_by_hand() -> None:
    near, fluent = np.asarray([2.0, 1.0, 1.0]), np.asarray([0.0, 3.0, 1.0])
    swish = [value / (1 + math.exp(-value)) for value in (2.0, 1.0, 0.0, 3.0)]
    assert final_scores(near, fluent, "printed")[:2].tolist() == pytest.approx(
        [swish[0] + swish[2], swish[1] + swish[3]]
    )
    ranking = [(3 / 3 + 1 / 3) / 2, (1.5 / 3 + 3 / 3) / 2, (1.5 / 3 + 2 / 3) / 2]
    assert final_scores(near, fluent, "rank_normalised").tolist() == pytest.approx(ranking)
    assert final_scores(near, fluent, "fluency").tolist() == fluent.tolist()
