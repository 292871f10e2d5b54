"""The ranking ``fusion`` solves few transport problems; its best texts are those of solving all."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from evidence_assets.retrieval.maxsim import token_cosines
from evidence_assets.systems.uscrake.fusion import CosineTransport, TitleLinks, best_fusion_scores
from evidence_assets_tests.transport.random_texts import distance, random_measures, random_pool

TEXTS, TOKENS = 40, 9


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("weight", [0.0, 1.0, 5.0])
def test_the_best_texts_are_those_of_solving_all(seed: int, weight: float) -> None:
    rng = np.random.default_rng(seed)
    pool = random_pool(rng, TEXTS, 6, kind=("flat", "peaky", "mixed")[seed % 3])
    (query,) = random_measures(rng, 1, 6, TOKENS, "cosine")
    costs = np.array([distance(query, pool.measure(i, "cosine"), "cosine") for i in range(TEXTS)])
    nearest, late = rng.uniform(-1, 1, (TOKENS, TEXTS)).astype(np.float32), rng.uniform(0.2, 0.6, TEXTS)
    names = [f"title {i}." for i in range(TEXTS)]
    links = TitleLinks(names, [" ".join(names[j] for j in rng.integers(0, TEXTS, 2)) for _ in range(TEXTS)])
    finish = partial(links.boost, gains=links.gains(nearest), weight=weight)
    expected, _ = finish((late + 1 - costs) / 2)
    for k in (1, 5, TEXTS):
        scores, n_solved = best_fusion_scores(query, pool, token_cosines(query.points, pool), late, k, finish)
        assert np.isfinite(scores).sum() == k
        assert np.sort(scores)[-k:] == pytest.approx(np.sort(expected)[-k:], abs=1e-9)
        assert scores[np.isfinite(scores)] == pytest.approx(expected[np.isfinite(scores)], abs=1e-9)
        assert n_solved < TEXTS or k == TEXTS or weight


@pytest.mark.parametrize("seed", range(6))
def test_bounds_are_below_the_exact_costs_before_and_after_others_are_solved(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pool = random_pool(rng, TEXTS, 6)
    (query,) = random_measures(rng, 1, 6, TOKENS, "cosine")
    costs = np.array([distance(query, pool.measure(i, "cosine"), "cosine") for i in range(TEXTS)])
    transport = CosineTransport(query, pool, token_cosines(query.points, pool))
    first_bounds = transport.costs.copy()
    assert (first_bounds <= costs).all()
    transport.solve(range(0, TEXTS, 4))
    assert transport.costs[::4] == pytest.approx(costs[::4], abs=1e-9) and transport.is_exact.sum() == TEXTS // 4
    assert (transport.costs <= costs + 1e-9).all() and (transport.costs >= first_bounds).all()
