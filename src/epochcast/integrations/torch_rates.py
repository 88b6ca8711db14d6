"""What a learning-rate scheduler of torch is going to do: the rates that it would set, were it stepped to the end.

A copy is stepped with a stand-in for the optimiser, so neither the scheduler nor the training notices.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from epochcast.integrations.base import MOST_RATES

_MOST_STEPS = 200_000  # of a scheduler: half a second


def rates_of(scheduler: Any, steps: int) -> list[float] | None:
    """The rates of a run in which a fresh scheduler takes so many steps, in equal parts of it.

    None if they depend on a metric, or if there are too many.
    """
    if isinstance(scheduler, ReduceLROnPlateau) or not 1 <= steps <= _MOST_STEPS:
        return None
    optimizer = _StandIn(scheduler.optimizer)
    ahead = copy.deepcopy(scheduler, {id(scheduler.optimizer): optimizer})
    rates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the optimiser was not stepped
        for _ in range(steps):
            rates.append(float(optimizer.param_groups[0]["lr"]))
            ahead.step()
    return [rates[i] for i in np.linspace(0, steps - 1, min(steps, MOST_RATES)).round().astype(int)]


class _StandIn(torch.optim.SGD):
    """The groups of an optimiser without its parameters."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__([torch.zeros(1)], lr=1.0)
        self.param_groups = [{**group, "params": []} for group in optimizer.param_groups]
