"""The divergence against its definition, a library and its bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from evidence_assets.models.vectors import softmax
from evidence_assets.transport.divergence import jensen_shannon, jensen_shannon_matrix


def _by_definition(p: np.ndarray, q: np.ndarray) -> float:
    """Half the sum of both relative entropies to the mean, term by term."""
    return sum(x * np.log(2 * x / (x + y)) / 2 for a, b in ((p, q), (q, p)) for x, y in zip(a, b, strict=True) if x > 0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 300), st.floats(0.01, 60))
def test_matrix_equals_definition_and_library(seed: int, d: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    p, q = softmax(rng.normal(size=(3, d)) * spread), softmax(rng.normal(size=(5, d)) * spread)
    p[0] = q[0]
    p[1] = np.eye(d)[0]
    got = jensen_shannon_matrix(p, q, block_elements=2 * d)
    pairs = jensen_shannon(p[:, None], q[None])
    assert got == pytest.approx(pairs, abs=1e-12)
    assert pairs == pytest.approx(np.array([[_by_definition(a, b) for b in q] for a in p]), abs=1e-12)
    assert (pairs >= 0).all() and (pairs <= np.log(2)).all()
    with np.errstate(invalid="ignore"):  # the library takes the root of −1e-17 for equal rows
        library = np.nan_to_num(np.array([[jensenshannon(a, b) ** 2 for b in q] for a in p]))
    assert got == pytest.approx(library, abs=1e-10)
    assert (got >= 0).all() and (got <= np.log(2)).all()
    assert got[0, 0] == pytest.approx(0, abs=1e-12)
