"""Adam without ``torch.optim.Optimizer``, whose first use imports torch's compiler: two seconds in each process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.optim.adam import adam


class Adam:
    """Adam with torch's fused kernel, whose results are those of ``torch.optim.Adam(..., fused=True)``."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters = list(parameters)
        self._means, self._squares = ([torch.zeros_like(p) for p in self._parameters] for _ in range(2))
        self._steps = [torch.zeros((), device=p.device) for p in self._parameters]

    def step(self, rate: float) -> None:
        """Change the parameters by their gradients, at a learning rate, and delete the gradients."""
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        options: dict[str, Any] = {
            "amsgrad": False,
            "beta1": 0.9,
            "beta2": 0.999,
            "weight_decay": 0.0,
            "eps": 1e-8,
            "maximize": False,
        }
        with torch.no_grad():
            adam(
                self._parameters, gradients, self._means, self._squares, [], self._steps, fused=True, lr=rate, **options
            )
        for parameter in self._parameters:
            parameter.grad = None
