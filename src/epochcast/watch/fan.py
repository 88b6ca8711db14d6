"""`Fan`: what may come of one run, as lines to be drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from epochcast.curve import Array
from epochcast.encode import Others, seen_of
from epochcast.errors import EpochcastError
from epochcast.forecast import Forecast
from epochcast.forecaster import Forecaster
from epochcast.metric import Metric
from epochcast.run import Run
from epochcast.watch.lines import Line

BANDS = (0.5, 0.8, 0.95)
MOST_STEPS = 100  # of a fan
_MEDIAN = 0.5


@dataclass(frozen=True)
class Fan:
    """The median and the central bands of what may come."""

    steps: Array  # [step], the horizon last
    median: Array
    bands: dict[float, tuple[Array, Array]]

    @classmethod
    def of(cls, forecast: Forecast) -> Fan:
        """The fan of a forecast of one run."""
        levels = [_MEDIAN, *(0.5 + side * band / 2 for band in BANDS for side in (-1, 1))]
        median, *sides = forecast.quantile(levels)
        bands = {band: (sides[2 * i], sides[2 * i + 1]) for i, band in enumerate(BANDS)}
        return cls(forecast.steps, median, bands)

    def to_dict(self) -> dict[str, Any]:
        return {
            "steps": self.steps.tolist(),
            "median": self.median.tolist(),
            "bands": {f"{band:g}": [low.tolist(), high.tolist()] for band, (low, high) in self.bands.items()},
        }


def steps_ahead(last: float, horizon: int, most: int = MOST_STEPS) -> Array:
    """Whole steps after the last one seen, evenly spread, the horizon last."""
    return np.unique(np.linspace(math.floor(last) + 1.0, horizon, most).round())


def forecast_of(
    line: Line,
    horizon: int,
    metric: Metric,
    forecaster: Forecaster,
    *,
    at: Array | None = None,
    others: Others | None = None,
    config: Mapping[str, Any] | None = None,
) -> Forecast | None:
    """The forecast of a run from what was seen of it; None where there is nothing ahead or it cannot be used.

    `others` and `config` are for a model that reads them.
    """
    if len(line.steps) == 0 or line.steps[-1] >= horizon:
        return None
    at = steps_ahead(float(line.steps[-1]), horizon) if at is None else at
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            seen = seen_of(Run(line.values, line.steps, config), None, metric)
            forecast = forecaster.forecast_seen(seen, horizon, metric, at=at, others=others)
            usable = bool(np.isfinite(forecast.quantile([0.5 - max(BANDS) / 2, 0.5 + max(BANDS) / 2])).all())
    except EpochcastError:
        return None
    return forecast if usable else None
