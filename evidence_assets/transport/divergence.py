"""Jensen–Shannon divergence between distributions, in nats and float64."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import ArrayLike

from evidence_assets.models.vectors import Array

HAS_AVX512 = torch.backends.cpu.get_cpu_capability() == "AVX512"


def _logarithms(x: Array, out: Array) -> Array:
    """Write logarithms to ``out``.

    With AVX-512, numpy's takes 30 % of the time of torch's; without it, torch's takes 60 % of numpy's.
    """
    if HAS_AVX512:
        return np.log(x, out=out)
    torch.log(torch.from_numpy(x), out=torch.from_numpy(out))
    return out


def _entropy(p: Array) -> Array:
    """Shannon entropy over the last axis, in nats, with 0 ln 0 = 0."""
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    return -np.asarray(np.einsum("...d,...d->...", p, logs))


def jensen_shannon(p: ArrayLike, q: ArrayLike) -> Array:
    r"""Jensen–Shannon divergence of two distributions, or row by row, in nats.

    .. math:: \mathrm{JSD}(P, Q) = \tfrac12 \sum_l P_l \ln\frac{P_l}{M_l} + \tfrac12 \sum_l Q_l \ln\frac{Q_l}{M_l},
              \qquad M = \tfrac12 (P + Q)

    Computed as :math:`H(M) - (H(P) + H(Q)) / 2`, which agrees with the definition to about 1e-15. All axes but the last
    are broadcast. The result is between 0 and ln 2.

    >>> round(float(jensen_shannon([1.0, 0.0], [0.0, 1.0])), 6)
    0.693147
    """
    a = np.asarray(p, dtype=np.float64)
    b = np.asarray(q, dtype=np.float64)
    value = _entropy(0.5 * (a + b)) - 0.5 * (_entropy(a) + _entropy(b))
    return np.asarray(np.clip(value, 0.0, np.log(2.0)))


def jensen_shannon_matrix(p: ArrayLike, q: ArrayLike, block_elements: int = 1 << 15) -> Array:
    r"""Divergence of every row of ``p`` (n × d) from every row of ``q`` (m × d), as an n × m matrix.

    ``block_elements`` limits the scratch memory, so that it fits the CPU cache and torch uses one thread.

    >>> jensen_shannon_matrix([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]).round(6).tolist()
    [[0.0, 0.693147]]
    """
    a = np.ascontiguousarray(p, dtype=np.float64)
    b = np.ascontiguousarray(q, dtype=np.float64)
    result = np.empty((len(a), len(b)))
    rows = max(1, min(len(b), block_elements // max(a.shape[1], 1)))
    buffers = np.empty((2, rows, a.shape[1]))
    for low in range(0, len(b), rows):
        _write_mixture_entropies(a, b[low : low + rows], buffers, result[:, low : low + rows])
    result -= 0.5 * (_entropy(a)[:, None] + _entropy(b)[None, :])
    np.clip(result, 0.0, np.log(2.0), out=result)
    return result


def jensen_shannon_tensor(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """As :func:`jensen_shannon_matrix`, on the device of ``p`` and ``q``, of which ``p`` has few rows."""
    entropies = [torch.special.entr(rows).sum(dim=1) for rows in (p, q)]
    mixture_entropies = torch.stack([torch.special.entr((q + row) / 2).sum(dim=1) for row in p])
    divergences: torch.Tensor = mixture_entropies - (entropies[0][:, None] + entropies[1]) / 2
    return divergences.clamp(0, math.log(2))


def _write_mixture_entropies(p: Array, q: Array, buffers: Array, out: Array) -> None:
    """Entropy of (P + Q)/2 for all pairs of rows: with S = P + Q, which sums to 2, it is ln 2 - ½ Σ S ln S."""
    sums, logs = buffers[:, : len(q)]
    has_zeros = not (p.min(initial=1.0) > 0 or q.min(initial=1.0) > 0)
    for i, row in enumerate(p):
        np.add(q, row, out=sums)
        if has_zeros:
            # replace 0 by the smallest normal double: x ln x is under 1e-305, and log is finite
            np.maximum(sums, np.finfo(np.float64).tiny, out=sums)
        out[i] = -0.5 * np.vecdot(sums, _logarithms(sums, logs))
    out += np.log(2.0)
