"""Attention over neighbours as operations on one block-diagonal sparse matrix.

Scores are sampled dense products, sums over neighbours are sparse products, and gradients use the same two operations,
so no tensor of size edges × width is allocated."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evidence_assets.graphs.arrays import IntArray
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.models.protocols import FloatArray

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
    torch.sparse_csr_tensor([0, 0], [], [], (1, 1), check_invariants=False)  # torch warns once in a process


@dataclass(frozen=True)
class NeighbourPattern:
    """Sparsity pattern of the neighbours: symmetric, without duplicates, with self-loops.

    ``offsets``, ``columns``, ``rows``: The sparse rows of all blocks; row k · nodes + i is node i under head k.
    ``transpose``: Position of (j, i) for each stored (i, j).
    ``pairs``: Keys i · nodes + j of a block, in storage order.
    """

    offsets: Tensor
    columns: Tensor
    rows: Tensor
    transpose: Tensor
    heads: int
    nodes: int
    pairs: IntArray

    @classmethod
    def of(cls, nodes: int, ends: tuple[IntArray, IntArray], heads: int, device: torch.device) -> NeighbourPattern:
        """Build the pattern of a graph from the ends of its edges."""
        a, b = (end.astype(np.int64) for end in ends)
        loops = np.arange(nodes, dtype=np.int64) * (nodes + 1)
        pairs = sorted_unique(np.concatenate([a * nodes + b, b * nodes + a, loops]))
        row, column = np.divmod(pairs, nodes)
        transpose = np.searchsorted(pairs, column * nodes + row)
        block = np.arange(heads)[:, None]
        rows = (row + block * nodes).ravel()
        to_tensor = partial(torch.as_tensor, device=device)
        return cls(
            offsets=to_tensor(np.searchsorted(rows, np.arange(heads * nodes + 1)), dtype=torch.int32),
            columns=to_tensor((column + block * nodes).ravel(), dtype=torch.int32),
            rows=to_tensor(rows),
            transpose=to_tensor((transpose + block * len(pairs)).ravel()),
            heads=heads,
            nodes=nodes,
            pairs=pairs,
        )

    def matrix(self, values: Tensor) -> Tensor:
        """The sparse matrix with these stored values."""
        size = len(self.offsets) - 1
        return torch.sparse_csr_tensor(self.offsets, self.columns, values, (size, size), check_invariants=False)

    def sampled_product(self, a: Tensor, b: Tensor) -> Tensor:
        """a_i · b_j for every stored (i, j)."""
        zeros = self.matrix(a.new_zeros(len(self.columns)))
        product: Tensor = torch.sparse.sampled_addmm(zeros, a, b.T, beta=0.0).values()
        return product

    def row_sums(self, values: Tensor) -> Tensor:
        """Sum of the stored values of each row."""
        return values.new_zeros(len(self.offsets) - 1).index_add_(0, self.rows, values)

    def softmax(self, values: Tensor) -> Tensor:
        """Softmax over each row."""
        top = values.new_full((len(self.offsets) - 1,), -torch.inf).scatter_reduce_(0, self.rows, values, "amax")
        weight = torch.exp(values - top[self.rows])
        return weight / self.row_sums(weight)[self.rows]

    def of_edges(self, values: Tensor, heads: IntArray, tails: IntArray) -> FloatArray:
        """Attention of each edge, mean over the attention heads: (head to tail, tail to head)."""
        weights = values.view(self.heads, -1).mean(0).cpu().numpy()
        forward = weights[np.searchsorted(self.pairs, heads * self.nodes + tails)]
        backward = weights[np.searchsorted(self.pairs, tails * self.nodes + heads)]
        return np.stack([forward, backward], axis=1)


class _NeighbourAttention(torch.autograd.Function):
    """z_i = Σ_j softmax_j(scale · q_i · k_j) v_j over the pattern, with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, pattern: NeighbourPattern, scale: float
    ) -> tuple[Tensor, Tensor]:
        alpha = pattern.softmax(pattern.sampled_product(q, k) * scale)
        ctx.save_for_backward(q, k, v, alpha)
        ctx.pattern = pattern
        ctx.scale = scale
        ctx.mark_non_differentiable(alpha)
        return pattern.matrix(alpha) @ v, alpha

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q, k, v, alpha = ctx.saved_tensors
        pattern: NeighbourPattern = ctx.pattern
        dz = gradients[0]
        d_alpha = alpha * pattern.sampled_product(dz, v)
        de = (d_alpha - alpha * pattern.row_sums(d_alpha)[pattern.rows]) * ctx.scale
        t = pattern.transpose
        return pattern.matrix(de) @ k, pattern.matrix(de[t]) @ q, pattern.matrix(alpha[t]) @ dz, None, None


def neighbour_attention(mixed: Tensor, pattern: NeighbourPattern, scale: float) -> tuple[Tensor, Tensor]:
    """Multi-head attention over neighbours.

    ``mixed``: (nodes, 3 · d): concatenated queries, keys and values.
    ``scale``: Factor of the scores; 1/√d in the published layer.
    Returns (nodes, d) with concatenated heads, and the weights in the order of the pattern.
    """
    width = mixed.shape[1] // (3 * pattern.heads)
    blocks = mixed.view(pattern.nodes, 3, pattern.heads, width).permute(1, 2, 0, 3).reshape(3, -1, width)
    z, alpha = _NeighbourAttention.apply(*blocks, pattern, scale)  # type: ignore[no-untyped-call]
    return z.view(pattern.heads, pattern.nodes, width).transpose(0, 1).reshape(pattern.nodes, -1), alpha
