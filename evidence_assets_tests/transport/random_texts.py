"""Texts drawn at random: measures with near-duplicates, zeros and ties, and stores of half precision."""

from __future__ import annotations

import numpy as np

from evidence_assets.models.vectors import softmax
from evidence_assets.transport import TokenMeasure, TokenPool


def random_measures(rng: np.random.Generator, count: int, d: int, most: int, kind: str) -> list[TokenMeasure]:
    """Texts whose points are distributions, which every cost can compare."""
    measures: list[TokenMeasure] = []
    spread = {"flat": 0.05, "peaky": 12.0, "mixed": 2.0}[kind]
    for _ in range(count):
        n = int(rng.integers(1, most + 1))
        vectors = rng.normal(size=(n, d)) * spread
        if measures and rng.random() < 0.3:  # a near-duplicate of an earlier text
            other = measures[int(rng.integers(len(measures)))]
            points = np.clip(other.points * (1 + 1e-4 * rng.normal(size=other.points.shape)), 0, None)
            measures.append(TokenMeasure(points, other.weights))
            continue
        points = softmax(vectors)
        if rng.random() < 0.3:
            points[rng.integers(n)] = points[0]  # identical points
        if rng.random() < 0.2:
            points[0] = np.eye(d)[rng.integers(d)]  # zeros in a distribution
        weights = rng.gamma(0.7, size=n) * (rng.random(n) > 0.2)
        measures.append(TokenMeasure(points, weights if rng.random() > 0.1 else np.zeros(n)))
    return measures


def half_store(rng: np.random.Generator, texts: int, d: int) -> TokenPool:
    """Texts on a few topics as float16 vectors, a fifth of their tokens without weight."""
    lengths = rng.integers(1, 30, texts)
    topics = rng.normal(size=(12, d))
    vectors = (topics[rng.integers(12, size=lengths.sum())] + 0.5 * rng.normal(size=(lengths.sum(), d))) * 0.4
    weights = np.round(rng.gamma(1.0, size=lengths.sum()) * 4, 2) * (rng.random(lengths.sum()) > 0.2)
    return TokenPool(vectors.astype(np.float16), np.concatenate([[0], np.cumsum(lengths)]), weights)
