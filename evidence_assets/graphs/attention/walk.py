"""A random walk over a question's subgraph that returns to what the question is about.

Belongs here: joining what a text score says of single nodes with where the edges lead. The text score comes from
`graph_attention`; which nodes there are from `graph`.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from evidence_assets.graphs.arrays import FloatArray, IntArray

TOLERANCE = 1e-9
MOST_STEPS = 500


def visits(scores: FloatArray, heads: IntArray, tails: IntArray, temperature: float, follow: float) -> FloatArray:
    """How often a walk is at each node, as a share of the most visited one.

    With r = softmax(scores / τ), and W the step along an edge chosen evenly among those that touch a node, the visits are
    the fixed point of p = α W p + (1 − α) r (Page et al. 1999, with the restart of Haveliwala 2002). α = 0 leaves the
    scores, in another scale; α → 1 the number of edges.

    ``scores``: One a node; larger is nearer to the question.
    ``heads``, ``tails``: Positions of the ends of each edge; direction makes no difference, parallel edges count each,
        self-loops none.
    ``temperature``, ``follow``: τ and α. From a node without edges the walk always restarts.

    >>> visits(np.zeros(3), np.array([0, 1]), np.array([1, 2]), 0.2, 0.85).round(2).tolist()
    [0.53, 1.0, 0.53]
    """
    if temperature <= 0 or not 0 <= follow < 1:
        raise ValueError(f"the temperature must be above 0 and follow in [0, 1); got {temperature} and {follow}")
    n = len(scores)
    if not n:
        return np.empty(0)
    restart = np.exp((np.asarray(scores, dtype=np.float64) - np.max(scores)) / temperature)
    restart /= restart.sum()
    real = heads != tails
    ends = np.concatenate([heads[real], tails[real]]), np.concatenate([tails[real], heads[real]])
    edges = sparse.csr_array((np.ones(len(ends[0])), ends), shape=(n, n))
    degree = edges.sum(axis=0)
    share = np.divide(1.0, degree, out=np.zeros(n), where=degree > 0)
    at = restart
    for _ in range(MOST_STEPS):
        before = at
        at = follow * (edges @ (before * share) + before[degree == 0].sum() * restart) + (1 - follow) * restart
        if np.abs(at - before).sum() < TOLERANCE:
            break
    most_visited: FloatArray = at / at.max()
    return most_visited
