"""`Run`: what was seen of one training run, with all that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Run:
    """One run with all that is known of it; it can be given wherever the values of a run can.

    Args:
        values: The values of the metric.
        steps: The steps at which they were measured: 1, 2, 3, ... by default.
        config: Its configuration, by name.
        untrained: The metric of the untrained model.

    Examples:
        >>> import epochcast as ec
        >>> run = ec.Run([0.31, 0.45, 0.52], steps=[1, 2, 4], untrained=0.1)
        >>> ec.forecast(run, horizon=50, metric="accuracy")
        <Forecast of accuracy: ... at step 50>
    """

    values: ArrayLike
    steps: ArrayLike | None = None
    config: Mapping[str, Any] | None = None
    untrained: float | None = None
