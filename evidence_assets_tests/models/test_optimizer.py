"""Adam without ``torch.optim``: the parameters are those that ``torch.optim.Adam`` computes, bit for bit."""

from __future__ import annotations

import torch

from evidence_assets.models.optimizer import Adam


def test_the_parameters_are_those_of_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    mine = [torch.randn(shape, generator=generator).requires_grad_() for shape in ((7, 5), (5,))]
    theirs = [p.detach().clone().requires_grad_() for p in mine]
    ours, reference = Adam(mine), torch.optim.Adam(theirs, lr=0.1, fused=True)
    for step in range(20):
        rate = 0.1 / (1 + step)
        reference.param_groups[0]["lr"] = rate
        for weight, bias in (mine, theirs):
            (torch.tanh(torch.ones(3, 7) @ weight) * bias).square().sum().backward()  # type: ignore[no-untyped-call]
        ours.step(rate)
        reference.step()
        reference.zero_grad()
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
