"""The walk against a solved system of equations and its two limits, and on odd graphs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.graphs.attention.scorer import visits

Case = tuple[np.ndarray, np.ndarray, np.ndarray]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n = draw(st.integers(1, 10))
    node = st.integers(0, n - 1)
    ends = draw(st.lists(st.tuples(node, node), max_size=20))
    scores = draw(st.lists(st.floats(-1, 1), min_size=n, max_size=n))
    pairs = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return np.array(scores), pairs[:, 0], pairs[:, 1]


def solved(scores: np.ndarray, heads: np.ndarray, tails: np.ndarray, temperature: float, follow: float) -> np.ndarray:
    """The fixed point by elimination, from a dense matrix filled edge by edge."""
    n = len(scores)
    step = np.zeros((n, n))
    for a, b in zip(heads.tolist(), tails.tolist(), strict=True):
        if a != b:
            step[a, b] += 1
            step[b, a] += 1
    restart = np.exp(scores / temperature) / np.exp(scores / temperature).sum()
    for node in range(n):
        total = step[:, node].sum()
        step[:, node] = step[:, node] / total if total else restart
    p = np.linalg.solve(np.eye(n) - follow * step, (1 - follow) * restart)
    return p / p.max()


@given(cases(), st.sampled_from([0.1, 0.2, 1.0]), st.sampled_from([0.0, 0.5, 0.85]))
@settings(max_examples=30)
def test_it_is_the_fixed_point(case: Case, temperature: float, follow: float) -> None:
    np.testing.assert_allclose(visits(*case, temperature, follow), solved(*case, temperature, follow), atol=1e-6)


def test_without_following_only_the_scores_count_and_with_nothing_else_only_the_edges() -> None:
    scores = np.array([0.9, 0.1, 0.5, 0.3])
    heads, tails = np.array([1, 1, 1, 0]), np.array([0, 2, 3, 2])
    assert np.argsort(-visits(scores, heads, tails, 0.2, 0.0)).tolist() == [0, 2, 3, 1]
    degree = np.bincount(np.concatenate([heads, tails]))
    np.testing.assert_allclose(visits(scores, heads, tails, 0.2, 0.999), degree / degree.max(), atol=0.01)


def test_odd_graphs_and_settings() -> None:
    none = np.empty(0, dtype=np.int64)
    assert visits(np.empty(0), none, none, 0.2, 0.85).tolist() == []
    assert visits(np.array([0.3]), np.array([0]), np.array([0]), 0.2, 0.85).tolist() == [1.0]
    apart = visits(np.array([0.5, 0.5, 0.5]), np.array([0]), np.array([1]), 0.2, 0.85)
    assert apart[0] == pytest.approx(apart[1]) and apart[2] < apart[0]
