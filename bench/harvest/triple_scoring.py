"""Scoring of K-Bloom's candidates: 4,000 of a relation against 5 seeds, in batches and one pair at a time.

The baseline computes one cost matrix and calls ``ot.emd2`` for each candidate and seed. Both must give the same
distances. Sentences have four to nine words with vectors of 768 dimensions, of which the template's words carry no
mass, as in filled prompts. What the masked model takes comes on top.

    python -m bench.harvest.triple_scoring [--candidates 4000] [--seeds 5] [--relations 20]
"""

from __future__ import annotations

import numpy as np
import ot

from bench.measuring import make_parser, timed
from evidence_assets.harvest.triple_scoring import ScoredSentence, semantic_distances

DIMENSIONS = 768


def sentences(count: int, rng: np.random.Generator) -> list[ScoredSentence]:
    """Filled prompts: one or two words a side with BM25 weights, two to five words of the template without."""
    sentences = []
    for _ in range(count):
        word_count, template = int(rng.integers(2, 5)), int(rng.integers(2, 6))
        weights = np.concatenate([rng.uniform(0.5, 3.0, word_count), np.zeros(template)])
        sentences.append(
            ScoredSentence(weights, rng.standard_normal((word_count + template, DIMENSIONS)).astype(np.float32))
        )
    return sentences


def one_at_a_time(candidates: list[ScoredSentence], seeds: list[ScoredSentence]) -> np.ndarray:
    """Σ over the seeds of the exact transport cost, a call of the solver for each pair."""
    distances = np.zeros(len(candidates))
    for number, left in enumerate(candidates):
        for right in seeds:
            sides = []
            for side in (left, right):
                weighted = side.weights > 0
                vectors = side.vectors[weighted].astype(np.float64)
                sides.append((side.weights[weighted] / side.weights[weighted].sum(), vectors))
            (a, x), (b, y) = sides
            x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, y))
            distances[number] += ot.emd2(a, b, 1 - x @ y.T)
    return distances


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--candidates", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--relations", type=int, default=20)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    seeds, candidates = sentences(options.seeds, rng), sentences(options.candidates, rng)
    semantic_distances(candidates[:50], seeds)
    distances, batched = timed(semantic_distances, candidates, seeds)
    single, seconds_alone = timed(one_at_a_time, candidates, seeds)
    np.testing.assert_allclose(distances, single, atol=1e-6)
    print(
        f"{options.candidates:,} candidates × {options.seeds} seeds: together {batched:.2f} s, one pair at a time "
        f"{seconds_alone:.2f} s, ratio {seconds_alone / batched:.1f}; distances equal"
    )
    print(f"{options.relations} relations at this rate: {options.relations * batched:.0f} s")


if __name__ == "__main__":
    main()
