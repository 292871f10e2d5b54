"""The two training objectives against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from evidence_assets.graphs.attention.scorer import contrastive_loss, published_loss

RNG = np.random.default_rng(0)
PROJECTED, FEATURES = torch.tensor(RNG.standard_normal((2, 5, 3)))
QUERY = torch.nn.functional.normalize(torch.tensor(RNG.standard_normal(3)), dim=0)


def cosines(vectors: torch.Tensor) -> np.ndarray:
    rows = vectors.numpy()
    return rows @ QUERY.numpy() / np.linalg.norm(rows, axis=1)


def test_the_published_loss_is_the_mean_over_the_nodes() -> None:
    assert published_loss(PROJECTED, QUERY).item() == pytest.approx(1 - cosines(PROJECTED).mean())


def test_the_contrastive_loss_is_the_cross_entropy_over_the_nodes() -> None:
    said, target = np.exp(cosines(PROJECTED) / 0.2), np.exp(cosines(FEATURES) / 0.2)
    expected = -float(target / target.sum() @ np.log(said / said.sum()))
    assert contrastive_loss(PROJECTED, FEATURES, QUERY, 0.2).item() == pytest.approx(expected)
