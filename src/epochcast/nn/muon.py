"""Muon: momentum whose matrix is replaced by the nearest orthogonal one, in float32.

torch.optim.Muon iterates in bfloat16, which CPUs without such units run five to ten times slower.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

# Coefficients of the quintic Newton-Schulz iteration, tuned by Jordan et al. (2024) for a steep start at zero.
_QUINTIC = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


def orthogonalise(matrix: Tensor) -> Tensor:
    """An approximation of the orthogonal factor of `matrix` [rows, columns]: singular values about one."""
    a, b, c = _QUINTIC
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """Orthogonalised Nesterov momentum for matrices, its step scaled to the size of an Adam step."""

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 2e-3,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # no closure is ever used
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group)

    def _update(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        momentum = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
        momentum.lerp_(gradient, 1.0 - group["momentum"])
        direction = orthogonalise(gradient.lerp(momentum, group["momentum"]))
        weight.mul_(1.0 - group["lr"] * group["weight_decay"])
        weight.add_(direction, alpha=-group["lr"] * 0.2 * max(weight.shape) ** 0.5)
