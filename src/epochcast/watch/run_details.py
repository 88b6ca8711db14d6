"""`RunDetails`: all there is to say of one run of a `Snapshot`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epochcast.errors import InputError
from epochcast.forecast import Forecast
from epochcast.forecaster import Forecaster
from epochcast.logs.configuration import config_beside
from epochcast.metric import Metric
from epochcast.stopping.decision import Final
from epochcast.watch.fan import Fan, forecast_of
from epochcast.watch.lines import Line
from epochcast.watch.past_forecasts import PastForecast, past_forecasts
from epochcast.watch.snapshot import Row, Snapshot, Verdict

MOST_POINTS = 600  # of a line to be drawn
_PATHS = 300  # of which the first step at a value is told
_WITHOUT_FAN = (Verdict.UNUSABLE, Verdict.DIVERGED, Verdict.FINISHED, Verdict.WAITING)
_EVEN, _EARLY, _LATE = 0.5, 0.1, 0.9


@dataclass(frozen=True)
class Alone:
    """The forecast of a run by itself, where the table's also reads other runs or configurations."""

    fan: Fan
    final: Final

    def to_dict(self) -> dict[str, Any]:
        return {"fan": self.fan.to_dict(), "final": self.final._asdict()}


@dataclass(frozen=True)
class RunDetails:
    """One run: what was seen, what may come, what was expected earlier, and what to do."""

    row: Row
    seen: Line
    fan: Fan | None  # as in the table: in the light of the other runs where the model reads them
    alone: Alone | None
    earlier: tuple[PastForecast, ...]  # each of the run by itself
    config: Mapping[str, Any]
    sentence: str | None  # of the decision

    @classmethod
    def of(cls, row: Row, snapshot: Snapshot, forecaster: Forecaster) -> RunDetails:
        """A closer look at one row of a snapshot."""
        line, horizon, metric = Line.of(row.series), snapshot.horizon, snapshot.metric
        usable = row.verdict is not Verdict.UNUSABLE
        decision = row.decision(horizon)
        return cls(
            row,
            line.thinned(MOST_POINTS),
            fan_of(row, horizon, metric, forecaster),
            alone_of(row, horizon, metric, forecaster),
            past_forecasts(line, horizon, metric, forecaster) if usable else (),
            (None if row.logged is None else config_beside(row.logged)) or {},
            None if decision is None else str(decision),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; what is not finite is None."""
        return {
            **self.row.to_dict(),
            "rival": self.row.rival,
            "sentence": self.sentence,
            "seen": {"steps": self.seen.steps.tolist(), "values": self.seen.values.tolist()},
            "fan": None if self.fan is None else self.fan.to_dict(),
            "earlier": [earlier.to_dict() for earlier in self.earlier],
            "alone": None if self.alone is None else self.alone.to_dict(),
            "others": 0 if self.row.others is None else len(self.row.others),
            "config": dict(self.config),
        }


def fan_of(row: Row, horizon: int, metric: Metric, forecaster: Forecaster) -> Fan | None:
    """What may come of a run, forecast as for the table; None where it is over or cannot be used."""
    if row.verdict in _WITHOUT_FAN:
        return None
    forecast = _as_in_the_table(row, horizon, metric, forecaster)
    return None if forecast is None else Fan.of(forecast)


def alone_of(row: Row, horizon: int, metric: Metric, forecaster: Forecaster) -> Alone | None:
    """What may come of a run by itself; None where the table's forecast tells that already."""
    if row.verdict in _WITHOUT_FAN or (row.others is None and not row.config):
        return None
    forecast = forecast_of(Line.of(row.series), horizon, metric, forecaster)
    return None if forecast is None else Alone(Fan.of(forecast), Final.of(forecast))


def _as_in_the_table(row: Row, horizon: int, metric: Metric, forecaster: Forecaster) -> Forecast | None:
    line = Line.of(row.series)
    return forecast_of(line, horizon, metric, forecaster, others=row.others, config=row.config)


def first_reach(row: Row, snapshot: Snapshot, forecaster: Forecaster, value: float) -> dict[str, float | None]:
    """When a run will first reach a value: the steps by which it has with a chance of 10, 50 and 90 %, and the chance
    that it never does. A step is None where that chance is not reached."""
    forecast = None
    if row.verdict not in (Verdict.UNUSABLE, Verdict.DIVERGED, Verdict.WAITING):
        forecast = _as_in_the_table(row, snapshot.horizon, snapshot.metric, forecaster)
    if forecast is None:
        raise InputError(f"{row.name} is {row.verdict.value}: there is nothing ahead of it to ask about")
    first = forecast.first_step(value, _PATHS)
    early, even, late = (first.quantile(level) for level in (_EARLY, _EVEN, _LATE))
    return {
        "value": value,
        "early": early if math.isfinite(early) else None,
        "even": even if math.isfinite(even) else None,
        "late": late if math.isfinite(late) else None,
        "never": first.never,
    }
