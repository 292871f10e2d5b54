"""Attention over neighbours for many graphs and heads at once, as operations on one block-diagonal sparse matrix.

Each (question, head) is one block. Scores are a sampled product of dense matrices, sums over neighbours a sparse
product, and the gradients are the same two operations again, so that nothing of size edges × width is ever made. The
pattern is symmetric, hence its transpose is a permutation of the stored values.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evidence_assets.graphs.arrays import IntArray
from evidence_assets.lake.array_files import distinct
from evidence_assets.models.protocols import FloatArray

warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")


@dataclass(frozen=True)
class Pattern:
    """Who is whose neighbour: symmetric, each pair once, every node its own neighbour.

    ``offsets``, ``columns``, ``rows``: The sparse rows of all blocks; row (b · heads + k) · nodes + i is node i of
        question b under head k.
    ``transpose``: Where the value at (j, i) is stored, for each stored (i, j).
    ``pairs``, ``pair_offsets``: Per question without heads: keys i · nodes + j in stored order, and where each
        question's keys begin.
    """

    offsets: Tensor
    columns: Tensor
    rows: Tensor
    transpose: Tensor
    heads: int
    nodes: int
    pairs: IntArray
    pair_offsets: IntArray

    @classmethod
    def of(
        cls,
        graphs: Sequence[tuple[int, IntArray, IntArray]],
        heads: int,
        nodes: int,
        device: torch.device,
    ) -> Pattern:
        """Pattern of graphs given as (number of nodes, heads, tails), each padded to `nodes` rows."""
        keys = []
        for n, a, b in graphs:
            own = np.arange(n, dtype=np.int64)
            a, b = a.astype(np.int64), b.astype(np.int64)
            keys.append(distinct(np.concatenate([a * nodes + b, b * nodes + a, own * nodes + own])))
        counts = np.array([len(key) for key in keys], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(counts)])
        # Blocks in order question, head; the keys of a question are repeated for each head.
        block_sizes = np.repeat(counts, heads)
        block_starts = np.concatenate([[0], np.cumsum(block_sizes)])
        base = np.repeat(np.arange(len(block_sizes)), block_sizes) * nodes
        key = np.concatenate([np.tile(key, heads) for key in keys]) if keys else np.empty(0, np.int64)
        rows, columns = key // nodes + base, key % nodes + base
        offsets = np.zeros(len(block_sizes) * nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=len(offsets) - 1), out=offsets[1:])
        back = [np.searchsorted(key, key % nodes * nodes + key // nodes) for key in keys]
        transpose = np.concatenate([np.tile(step, heads) for step in back]) if back else np.empty(0, np.int64)
        transpose += np.repeat(block_starts[:-1], block_sizes)

        def put(array: IntArray, dtype: torch.dtype) -> Tensor:
            return torch.from_numpy(array).to(device=device, dtype=dtype)

        return cls(
            offsets=put(offsets, torch.int32),
            columns=put(columns, torch.int32),
            rows=put(rows, torch.int64),
            transpose=put(transpose, torch.int64),
            heads=heads,
            nodes=nodes,
            pairs=np.concatenate(keys) if keys else np.empty(0, np.int64),
            pair_offsets=starts,
        )

    def matrix(self, values: Tensor) -> Tensor:
        """The sparse matrix with these stored values."""
        size = len(self.offsets) - 1
        return torch.sparse_csr_tensor(self.offsets, self.columns, values, (size, size), check_invariants=False)

    def sampled_product(self, a: Tensor, b: Tensor) -> Tensor:
        """a_i · b_j for every stored (i, j)."""
        zeros = self.matrix(torch.zeros(len(self.columns), dtype=a.dtype, device=a.device))
        product: Tensor = torch.sparse.sampled_addmm(zeros, a, b.T, beta=0.0).values()
        return product

    def row_sums(self, values: Tensor) -> Tensor:
        """Sum of the stored values of each row."""
        total = torch.zeros(len(self.offsets) - 1, dtype=values.dtype, device=values.device)
        return total.index_add_(0, self.rows, values)

    def softmax(self, values: Tensor) -> Tensor:
        """Softmax over each row."""
        top = torch.full((len(self.offsets) - 1,), -torch.inf, dtype=values.dtype, device=values.device)
        top.scatter_reduce_(0, self.rows, values, "amax")
        weight = torch.exp(values - top[self.rows])
        return weight / self.row_sums(weight)[self.rows]

    def pair_weights(self, values: Tensor) -> Tensor:
        """Mean over the heads of stored values, in the order of `pairs`."""
        pieces = []
        for first, last in zip(self.pair_offsets[:-1], self.pair_offsets[1:], strict=True):
            pieces.append(values[first * self.heads : last * self.heads].view(self.heads, -1).mean(0))
        return torch.cat(pieces)

    def of_edges(self, question: int, pair_weights: FloatArray, heads: IntArray, tails: IntArray) -> FloatArray:
        """Weights (head looks at tail, tail looks at head) of the edges of one question."""
        first, last = self.pair_offsets[question : question + 2]
        keys, weights = self.pairs[first:last], pair_weights[first:last]
        there = weights[np.searchsorted(keys, heads * self.nodes + tails)]
        back = weights[np.searchsorted(keys, tails * self.nodes + heads)]
        return np.stack([there, back], axis=1)


class _Attention(torch.autograd.Function):
    """z_i = Σ_j softmax_j(scale · q_i · k_j) v_j over the pattern, with its gradient."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scale: float) -> tuple[Tensor, Tensor]:
        alpha = pattern.softmax(pattern.sampled_product(q, k) * scale)
        ctx.save_for_backward(q, k, v, alpha)
        ctx.pattern, ctx.scale = pattern, scale
        ctx.mark_non_differentiable(alpha)
        return pattern.matrix(alpha) @ v, alpha

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q, k, v, alpha = ctx.saved_tensors
        pattern: Pattern = ctx.pattern
        dz = gradients[0]
        d_alpha = alpha * pattern.sampled_product(dz, v)
        de = (d_alpha - alpha * pattern.row_sums(d_alpha)[pattern.rows]) * ctx.scale
        back = pattern.transpose
        return pattern.matrix(de) @ k, pattern.matrix(de[back]) @ q, pattern.matrix(alpha[back]) @ dz, None, None


class _Average(torch.autograd.Function):
    """z = A v for a fixed sparse A."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, alpha: Tensor, pattern: Pattern) -> Tensor:
        ctx.alpha, ctx.pattern = alpha, pattern
        return pattern.matrix(alpha) @ v

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        pattern: Pattern = ctx.pattern
        return pattern.matrix(ctx.alpha[pattern.transpose]) @ gradients[0], None, None


def attend(mixed: Tensor, pattern: Pattern, scale: float) -> tuple[Tensor, Tensor]:
    """Multi-head attention over neighbours.

    ``mixed``: (questions, nodes, 3 · d): queries, keys and values side by side.
    ``scale``: Factor of the scores; 1/√d in the published layer.
    Returns (questions, nodes, d) with the heads side by side, and the weights in the order of the pattern.
    """
    questions, nodes, columns = mixed.shape
    head_width = columns // 3 // pattern.heads
    parts = mixed.view(questions, nodes, 3, pattern.heads, head_width).permute(2, 0, 3, 1, 4)
    q, k, v = parts.reshape(3, -1, head_width).unbind(0)
    z, alpha = _Attention.apply(q, k, v, pattern, scale)  # type: ignore[no-untyped-call]
    return _from_blocks(z, questions, pattern), alpha


def average(mixed: Tensor, pattern: Pattern) -> tuple[Tensor, Tensor]:
    """Mean of the rows of (questions, nodes, d) over the neighbours; the weights are returned as by `attend`."""
    questions, nodes, columns = mixed.shape
    head_width = columns // pattern.heads
    v = mixed.view(questions, nodes, pattern.heads, head_width).transpose(1, 2).reshape(-1, head_width)
    counts = pattern.offsets.diff().to(mixed.dtype)
    alpha = 1 / counts[pattern.rows]
    z = _Average.apply(v, alpha, pattern)  # type: ignore[no-untyped-call]
    return _from_blocks(z, questions, pattern), alpha


def _from_blocks(z: Tensor, questions: int, pattern: Pattern) -> Tensor:
    blocks = z.view(questions, pattern.heads, pattern.nodes, -1).transpose(1, 2)
    return blocks.reshape(questions, pattern.nodes, -1)
