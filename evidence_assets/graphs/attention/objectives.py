"""What the node scorer is trained on: the published loss, and one that has to tell nodes apart."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def node_mask(sizes: Tensor, nodes: int) -> Tensor:
    """(questions, nodes), true for the rows that are no padding."""
    return torch.arange(nodes, device=sizes.device)[None] < sizes[:, None]


def published_loss(projected: Tensor, query: Tensor, sizes: Tensor) -> Tensor:
    """Σ_b mean_v (1 − cos(p_bv, q_b)): the mean over each question's nodes, summed over questions.

    The sum, and not the mean, keeps every question's gradient what it would be alone. `query` has unit rows.
    """
    mask = node_mask(sizes, projected.shape[1])
    cosine = (normalize(projected, dim=2) * query[:, None]).sum(2)
    return ((1 - cosine) * mask / sizes[:, None]).sum()


def contrastive_loss(projected: Tensor, features: Tensor, query: Tensor, sizes: Tensor, temperature: float) -> Tensor:
    """Cross-entropy between what the network says of the nodes and what the encoder says of them.

    With p(v) = softmax_v(cos(W_q h_v, q) / τ) over the nodes of the question and t(v) = softmax_v(cos(x_v, q) / τ)
    from the untrained vectors, the loss of a question is −Σ_v t(v) log p(v): every node is a negative of every other
    one, so drawing all of them to the query gains nothing.
    """
    mask = node_mask(sizes, projected.shape[1])
    said = (normalize(projected, dim=2) * query[:, None]).sum(2) / temperature
    target = (normalize(features, dim=2) * query[:, None]).sum(2) / temperature
    said = said.masked_fill(~mask, -torch.inf).log_softmax(1).masked_fill(~mask, 0.0)
    target = target.masked_fill(~mask, -torch.inf).softmax(1)
    return -(target * said).sum()
