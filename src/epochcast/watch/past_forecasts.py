"""`PastForecast`: a forecast as it was when less of the run was known, and how it held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epochcast.forecaster import Forecaster
from epochcast.metric import Metric
from epochcast.stopping.decision import COVERAGE, Final
from epochcast.watch.fan import forecast_of, steps_ahead
from epochcast.watch.lines import Line

_PARTS = 8  # of the horizon: a forecast is looked at again at the end of each
_FEWEST_VALUES = 2
_MOST_CHECKED = 200  # later values that a forecast is compared with
_STEPS = 40  # of its line


@dataclass(frozen=True)
class PastForecast:
    """What was expected after some step of a run that has gone on since."""

    step: float  # the newest that was known
    line: Line  # the median, up to the horizon
    final: Final
    checked: int  # values that came since
    inside: int  # of them, those inside their 90 % interval

    def to_dict(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "steps": self.line.steps.tolist(),
            "median": self.line.values.tolist(),
            "final": self.final._asdict(),
            "checked": self.checked,
            "inside": self.inside,
        }


def past_forecasts(line: Line, horizon: int, metric: Metric, forecaster: Forecaster) -> tuple[PastForecast, ...]:
    """The forecasts after each eighth of the horizon that the run has passed, the first one first.

    They are made anew from what was known then, by the model that is used now.
    """
    found: list[PastForecast] = []
    seen = len(line.steps)
    for part in range(1, _PARTS):
        known = line.until(part / _PARTS * horizon)
        repeats = bool(found) and found[-1].step == known.steps[-1]
        if not _FEWEST_VALUES <= len(known.steps) < seen or repeats:
            continue
        earlier = _made_after(known, line, horizon, metric, forecaster)
        if earlier is not None:
            found.append(earlier)
    return tuple(found)


def _made_after(known: Line, line: Line, horizon: int, metric: Metric, forecaster: Forecaster) -> PastForecast | None:
    count = len(known.steps)
    since = Line(line.steps[count:], line.values[count:]).until(horizon)
    chosen = np.unique(np.linspace(0, len(since.steps) - 1, min(len(since.steps), _MOST_CHECKED)).astype(int))
    since = Line(since.steps[chosen], since.values[chosen])
    drawn = steps_ahead(float(known.steps[-1]), horizon, _STEPS)
    at = np.union1d(drawn, since.steps)
    forecast = forecast_of(known, horizon, metric, forecaster, at=at)
    if forecast is None:
        return None
    low, high = forecast.interval(COVERAGE)
    came = np.searchsorted(at, since.steps)
    inside = (since.values >= low[came]) & (since.values <= high[came])
    median = forecast.median()[np.searchsorted(at, drawn)]
    return PastForecast(float(known.steps[-1]), Line(drawn, median), Final.of(forecast), len(came), int(inside.sum()))
