"""Metrics against hand-made cases, scikit-learn and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from evidence_assets.harvest.triple_metrics import (
    Direction,
    canonical_fact,
    cohens_kappa,
    diversity,
    entities,
    extracted_facts,
    novelty,
    ranked_agreement,
    relevance,
)

PAIRS = [("Egg", "hen"), ("egg", "hen"), ("milk", "cow"), ("cow", "grass")]


def test_size_diversity_novelty() -> None:
    assert extracted_facts(PAIRS) == 8
    assert entities(PAIRS) == {"Egg", "egg", "hen", "milk", "cow", "grass"}
    assert diversity(PAIRS) == 6
    assert novelty(PAIRS, ["egg", "cow", "hen"]) == pytest.approx(50)
    assert novelty(PAIRS, entities(PAIRS)) == 0 and math.isnan(novelty([], {"x"}))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=2, max_size=30))
def test_kappa_equals_scikit_learn(verdicts: list[tuple[str, str]]) -> None:
    first, second = zip(*verdicts, strict=True)
    ours = cohens_kappa(first, second)
    if not math.isnan(ours):
        assert ours == pytest.approx(cohen_kappa_score(first, second))


def test_agreement() -> None:
    values = np.asarray([[-1.0, -9.0], [-2.0, -1.0], [-30.0, -40.0], [-31.0, -30.0]])
    assert ranked_agreement(values, ["1-1", "1-1", "2-2", "2-2"]) == [(0,), (1,), (0,), (1,)]
    assert ranked_agreement(values[:1], ["1-1"]) == [(0, 1)]


def test_symmetric_and_inverse_relations_are_one_fact() -> None:
    directions = {"borders": Direction(symmetric=True), "capital_of": Direction(inverse="has_capital")}
    assert canonical_fact(("B", "borders", "a"), directions) == canonical_fact(("A", "borders", "b"), directions)
    assert canonical_fact(("Oslo", "capital_of", "Norway"), directions) == canonical_fact(
        ("Norway", "has_capital", "Oslo"), directions
    )
    assert canonical_fact(("a", "eats", "b"), directions) != canonical_fact(("b", "eats", "a"), directions)


def test_relevance_leaves_out_seeds_and_repeats() -> None:
    directions = {"borders": Direction(symmetric=True)}
    truth = [("a", "borders", "b"), ("c", "borders", "d"), ("e", "borders", "f")]
    ranked = [("a", "borders", "b"), ("D", "borders", "c"), ("c", "borders", "d"), ("x", "borders", "y")]
    hits, truths = relevance(ranked, truth, exclude=[("b", "borders", "a")], directions=directions)
    assert (hits, truths) == ([True, False], 2)
