"""Adam without ``torch.optim.Optimizer``, whose first use imports torch's compiler: two seconds in each process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.optim.adam import adam

_SETTINGS: Any = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False, "maximize": False}


class Adam:
    """Adam with torch's fused kernel, whose results are those of ``torch.optim.Adam(..., fused=True)``."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters = list(parameters)
        means, squares = ([torch.zeros_like(p) for p in self._parameters] for _ in range(2))
        self._state = means, squares, list[torch.Tensor](), [torch.zeros((), device=p.device) for p in means]

    def step(self, rate: float) -> None:
        """Change the parameters by their gradients, at a learning rate, and delete the gradients."""
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        with torch.no_grad():
            adam(self._parameters, gradients, *self._state, lr=rate, fused=True, **_SETTINGS)
        for parameter in self._parameters:
            parameter.grad = None
