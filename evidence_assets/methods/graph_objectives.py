"""What the node scorer is trained on: the published loss, and one that has to tell nodes apart."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def _node_mask(sizes: Tensor, nodes: int) -> Tensor:
    """(questions, nodes), true for the rows that are no padding."""
    return torch.arange(nodes, device=sizes.device)[None] < sizes[:, None]


def published_loss(projected: Tensor, query: Tensor, sizes: Tensor) -> Tensor:
    """Σ_b mean_v (1 − cos(p_bv, q_b)): the mean over each question's nodes, summed over questions.

    The sum, and not the mean, keeps every question's gradient what it would be alone.
    """
    mask = _node_mask(sizes, projected.shape[1])
    cosine = (normalize(projected, dim=2) * query[:, None]).sum(2)
    return ((1 - cosine) * mask / sizes[:, None]).sum()


def contrastive_loss(projected: Tensor, features: Tensor, query: Tensor, sizes: Tensor) -> Tensor:
    raise NotImplementedError
