"""The pass over the pool on a torch device: the bounds of :mod:`.bounds`, and the same margins, in torch alone.

On CUDA the pool streams to the device block by block, or stays there between calls
(:meth:`~.pool.TokenPool.keep_on`). Only one number a text comes back; exact solving stays on the processor.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from .bounds import COEFFICIENTS, LOWEST_ANGLE, UNIT, Features, gamma
from .pool import TokenPool

__all__ = ["DevicePass"]

Array = NDArray[np.float64]
BLOCK_TOKENS = 1 << 16


class DevicePass:
    """Query features on a device and the bounds of every text of a pool for each query."""

    def __init__(self, features: Features, edges: NDArray[np.int64], device: str) -> None:
        self.cost = features.cost
        self.device = torch.device(device)
        self.edges = edges.tolist()
        self.main = torch.from_numpy(features.main).to(self.device)
        self.turned = None if features.turned is None else torch.from_numpy(features.turned).to(self.device)
        self.squares = torch.from_numpy(features.squares).to(self.device)
        self.slack = features.slack

    def run(self, pool: TokenPool, masses: Array, sides: list[Array], potentials: list[Array]) -> list[Array]:
        """Bounds of all texts; ``sides`` are the queries' masses, ``potentials`` one row of duals for each query."""
        tf32 = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False  # its ten bits of mantissa are outside the margins
        try:
            with torch.inference_mode():
                parts = [self._block(pool, masses, sides, potentials, a, b) for a, b in pool.blocks(BLOCK_TOKENS)]
                return [torch.cat([p[q] for p in parts]).cpu().numpy() for q in range(len(sides))]
        finally:
            torch.backends.cuda.matmul.allow_tf32 = tf32

    def _block(
        self, pool: TokenPool, masses: Array, sides: list[Array], potentials: list[Array], first: int, last: int
    ) -> list[torch.Tensor]:
        low, high = int(pool.offsets[first]), int(pool.offsets[last])
        resident = pool.resident(self.device)
        raw = resident[low:high] if resident is not None else torch.from_numpy(np.array(pool.vectors[low:high]))
        x = raw.to(self.device).float()
        factors = None
        if pool.factors is not None:
            factors = torch.from_numpy(pool.factors[low:high]).to(self.device)
        if self.cost == "jsd":
            costs = self._jsd(x, factors)
        else:
            if factors is not None:
                x = torch.softmax(x.double() * factors[:, None], dim=1).float()
            costs = self._cosine(x) if self.cost == "cosine" else self._euclidean(x)
        weight = torch.from_numpy(masses[low:high]).to(self.device)
        lengths = torch.from_numpy(np.diff(pool.offsets[first : last + 1])).to(self.device)
        owner = torch.repeat_interleave(torch.arange(last - first, device=self.device), lengths)
        results = []
        for q, (a, u) in enumerate(zip(sides, potentials, strict=True)):
            rounded = u.astype(np.float32)
            part = costs[self.edges[q] : self.edges[q + 1]]
            reduced = (part - torch.from_numpy(rounded).to(self.device)[:, None]).amin(dim=0).double()
            moved = torch.where(weight > 0, weight * reduced, torch.zeros_like(weight))
            values = torch.zeros(last - first, dtype=torch.float64, device=self.device).index_add_(0, owner, moved)
            # Costs that are not finite make their own text unbounded and must not widen the margin of the others.
            largest = float(torch.nan_to_num(part.abs(), nan=0.0, posinf=0.0).amax())
            values += float(a @ rounded.astype(np.float64)) - 4 * UNIT * (largest + float(np.abs(rounded).max()))
            results.append(torch.where(values.isfinite(), values, torch.full_like(values, -torch.inf)))
        return results

    def _jsd(self, x: torch.Tensor, factors: torch.Tensor | None) -> torch.Tensor:
        d = x.shape[1]
        if factors is None:
            angle = x.log_().mul_(0.5).clamp_(min=LOWEST_ANGLE)
            error = torch.full((len(x),), 2.0**-23 - 2.0**-22 * LOWEST_ANGLE, device=self.device)
        else:
            angle = x.mul_((0.5 * factors).float()[:, None])
            top, low = angle.amax(dim=1), angle.amin(dim=1)
            error = 2.0**-21 * (1 + torch.maximum(top.abs(), low.abs()))
            angle.sub_(top[:, None]).clamp_(min=LOWEST_ANGLE)
        root = angle.exp()
        norm = torch.linalg.vector_norm(root, dim=1)
        angle.sub_(norm.log()[:, None])
        root /= norm[:, None]
        assert self.turned is not None
        a = self.main @ root.T
        b = self.turned[:, :d] @ (angle.cos().mul_(root)).T
        b += self.turned[:, d:] @ (angle.sin_().mul_(root)).T
        best = torch.full_like(a, -torch.inf)
        for c0, c1, c2 in COEFFICIENTS:
            # torch.maximum passes on NaN, which marks a row that float32 could not hold.
            best = torch.maximum(best, a.mul(c1).add_(c0).add_(b, alpha=c2))
        own = 3 * error + 32 * UNIT + gamma(d)
        return best.sub_(0.72 * (own + self.slack + gamma(2 * d)) + 8 * UNIT)

    def _cosine(self, x: torch.Tensor) -> torch.Tensor:
        d = x.shape[1]
        top = x.abs().amax(dim=1, keepdim=True)
        x /= torch.where(top > 0, top, torch.ones_like(top))
        norms = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        x /= torch.where(norms > 0, norms, torch.ones_like(norms))
        return (1 - 2 * gamma(d) - 16 * UNIT - self.slack) - self.main @ x.T

    def _euclidean(self, x: torch.Tensor) -> torch.Tensor:
        d = x.shape[1]
        sizes = self.squares[:, None] + (x * x).sum(dim=1)[None, :]
        square = sizes - 2 * (self.main @ x.T) - (2 * gamma(d) + 16 * UNIT) * sizes
        return square.clamp_(min=0).sqrt_().mul_(1 - 4 * UNIT)
