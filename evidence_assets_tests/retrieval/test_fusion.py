"""Fusion of scores: scale does not matter, unseen candidates never win, bad input is named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.retrieval.fusion import fuse, lift, spread, standardised

SCORES = st.lists(st.integers(-50, 50).map(float), min_size=2, max_size=20)


@settings(max_examples=50, deadline=None)
@given(SCORES, st.floats(0.1, 50), st.floats(-20, 20))
def test_fusion_ignores_scale_and_offset_of_each_score(scores: list[float], scale: float, offset: float) -> None:
    a, b = np.array(scores), np.arange(len(scores), dtype=float)
    weights = {"a": 1.0, "b": 0.5}
    assert fuse({"a": a * scale + offset, "b": b}, weights) == pytest.approx(fuse({"a": a, "b": b}, weights), abs=1e-6)
    assert np.argsort(-fuse({"a": a}, {"a": 2.0}), kind="stable").tolist() == np.argsort(-a, kind="stable").tolist()
    made = standardised(a)
    assert made.mean() == pytest.approx(0, abs=1e-9)
    assert made.std() == pytest.approx(1 if np.ptp(a) else 0)


def test_unseen_candidates_take_the_lowest_score() -> None:
    assert standardised([-np.inf, 4.0, 2.0]).tolist() == [-1.0, 1.0, -1.0]
    assert standardised([-np.inf, -np.inf]).tolist() == [0.0, 0.0]


def test_sentences_are_lifted_by_their_passage() -> None:
    lifted = lift([0.0, 1.0, 0.0], [10.0, 0.0], [0, 1, 1], weight=2.0, repeat=0.0)
    base = standardised([0.0, 1.0, 0.0])
    assert lifted == pytest.approx(base + np.array([2.0, -2.0, -2.0]))


def test_all_sentences_of_a_passage_but_its_best_lose_the_same() -> None:
    scores, parents = [3.0, 1.0, 2.0, 2.0, 5.0], [0, 0, 1, 1, 2]
    lifted = lift(scores, [0.0, 0.0, 0.0], parents, weight=1.0, repeat=0.7)
    assert lifted == pytest.approx(standardised(scores) - 0.7 * np.array([0, 1, 0, 1, 0]))  # of equal ones the first
    assert lift([], [], [], repeat=1.0).tolist() == []


def test_links_raise_their_targets_by_the_best_source_alone() -> None:
    scores = [1.0, 3.0, -2.0, 0.0]
    assert spread(scores, [0, 1, 2, 0], [2, 2, 3, 3], 0.5).tolist() == [1.0, 3.0, -0.5, 0.5]
    assert spread(scores, [], [], 0.5).tolist() == scores
    assert spread(scores, [2], [0], 0.5).tolist() == scores  # a poor source takes nothing away


def test_bad_scores_are_named() -> None:
    with pytest.raises(ValueError, match=r"scores\[1\] is nan"):
        standardised([0.0, np.nan])
    with pytest.raises(ValueError, match=r"scores\[0\] is inf"):
        standardised([np.inf, 0.0])
    with pytest.raises(ValueError, match="no scores named b; there are a"):
        fuse({"a": [1.0]}, {"b": 1.0})
    with pytest.raises(ValueError, match="different numbers"):
        fuse({"a": [1.0], "b": [1.0, 2.0]}, {"a": 1.0, "b": 1.0})
    with pytest.raises(ValueError, match="at least one"):
        fuse({"a": [1.0]}, {})
    for bad in ({"a": 0.0}, {"a": -1.0}):
        with pytest.raises(ValueError, match="must not be negative"):
            fuse({"a": [1.0]}, bad)
