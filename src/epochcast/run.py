"""`Run`: what was seen of one training run, with all that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Run:
    """One run: its values, the steps at which they were measured, its configuration, and its value before training.

    It can be given wherever the values of a run can. Without `steps` the values belong to steps 1, 2, 3, ...
    `horizon` is the step at which it was planned to end, where that is not the horizon of the call: other runs of a
    task may be longer or shorter than the one that is forecast.

    >>> import epochcast as ec
    >>> run = ec.Run([0.31, 0.45, 0.52], steps=[1, 2, 4], untrained=0.1)
    >>> ec.forecast(run, horizon=50, metric="accuracy")  # doctest: +ELLIPSIS
    <Forecast of accuracy: ... at step 50>
    """

    values: ArrayLike
    steps: ArrayLike | None = None
    config: Mapping[str, Any] | None = None
    untrained: float | None = None
    horizon: int | None = None
