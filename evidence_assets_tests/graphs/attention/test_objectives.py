"""The two training objectives against their formulas, with questions of unlike size padded to one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from evidence_assets.graphs.attention.scorer import contrastive_loss, published_loss


def case() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    projected, features = rng.standard_normal((2, 2, 5, 3))
    query = rng.standard_normal((2, 3))
    query /= np.linalg.norm(query, axis=1, keepdims=True)
    return torch.tensor(projected), torch.tensor(features), torch.tensor(query), torch.tensor([5, 2])


def cosines(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    return vectors @ query / np.linalg.norm(vectors, axis=1)


def test_the_published_loss_is_the_mean_over_real_nodes() -> None:
    projected, _, query, sizes = case()
    expected = sum(1 - cosines(projected[b, :n].numpy(), query[b].numpy()).mean() for b, n in enumerate(sizes.tolist()))
    assert published_loss(projected, query, sizes).item() == pytest.approx(expected)


def test_the_contrastive_loss_is_the_cross_entropy_over_real_nodes() -> None:
    projected, features, query, sizes = case()
    expected = 0.0
    for b, n in enumerate(sizes.tolist()):
        said = np.exp(cosines(projected[b, :n].numpy(), query[b].numpy()) / 0.2)
        target = np.exp(cosines(features[b, :n].numpy(), query[b].numpy()) / 0.2)
        expected -= float(target / target.sum() @ np.log(said / said.sum()))
    assert contrastive_loss(projected, features, query, sizes, 0.2).item() == pytest.approx(expected)


def test_only_the_contrastive_loss_objects_to_a_collapse() -> None:
    _, features, query, _ = case()
    sizes = torch.tensor([5, 5])
    collapsed = query[:, None].expand(2, 5, 3)
    assert published_loss(collapsed, query, sizes).item() == pytest.approx(0, abs=1e-9), "its minimum"
    agreeing = contrastive_loss(features, features, query, sizes, 0.1).item()
    assert contrastive_loss(collapsed, features, query, sizes, 0.1).item() > agreeing + 0.1


def test_padding_gets_no_gradient() -> None:
    projected, features, query, sizes = case()
    for loss in (lambda p: published_loss(p, query, sizes), lambda p: contrastive_loss(p, features, query, sizes, 0.1)):
        leaf = projected.clone().requires_grad_()
        loss(leaf).backward()
        assert leaf.grad is not None and not leaf.grad[1, 2:].any() and leaf.grad[1, :2].any()
