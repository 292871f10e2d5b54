"""Random texts with near-duplicates, ties and tokens without weight, and their exact distances."""

import numpy as np
from numpy.typing import NDArray

from evidence_assets.transport import GroundCost, TokenMeasure, TokenPool, get_ground_cost
from evidence_assets.transport.exact import solve_transport

SPREADS = {"flat": 0.05, "peaky": 12.0, "mixed": 2.0}


def distance(x: TokenMeasure, y: TokenMeasure, cost: str | GroundCost = "jsd") -> float:
    """The exact transport cost of two measures."""
    (points, masses), (others, other_masses) = x.with_mass(), y.with_mass()
    return solve_transport(masses, other_masses, get_ground_cost(cost).matrix(points, others)).value


def random_pool(rng: np.random.Generator, count: int, d: int, max_tokens: int = 8, kind: str = "mixed") -> TokenPool:
    """Texts with up to ``max_tokens`` tokens; the last quarter repeats the first, for exact ties."""
    texts: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    for number in range(count):
        n = int(rng.integers(1, max_tokens + 1))
        vectors, weights = (
            rng.normal(size=(n, d)) * SPREADS[kind],
            np.round(rng.gamma(1.0, size=n), 2) * (rng.random(n) > 0.2),
        )
        if texts and rng.random() < 0.3:  # a near-duplicate of an earlier text
            vectors, weights = texts[int(rng.integers(len(texts)))]
            vectors = vectors * (1 + 1e-4 * rng.normal(size=vectors.shape))
        elif rng.random() < 0.1:
            weights = np.zeros(n)
        texts.append(texts[number - 3 * count // 4] if number >= 3 * count / 4 else (vectors, weights))
    offsets = np.concatenate([[0], np.cumsum([len(weights) for _, weights in texts])])
    return TokenPool(np.concatenate([v for v, _ in texts]), offsets, np.concatenate([w for _, w in texts]))


def half_store(rng: np.random.Generator, texts: int, d: int) -> TokenPool:
    """Texts on a few topics as float16 vectors, a fifth of their tokens without weight."""
    lengths = rng.integers(1, 30, texts)
    topics = rng.normal(size=(12, d))
    vectors = (topics[rng.integers(12, size=lengths.sum())] + 0.5 * rng.normal(size=(lengths.sum(), d))) * 0.4
    weights = np.round(rng.gamma(1.0, size=lengths.sum()) * 4, 2) * (rng.random(lengths.sum()) > 0.2)
    return TokenPool(vectors.astype(np.float16), np.concatenate([[0], np.cumsum(lengths)]), weights)
