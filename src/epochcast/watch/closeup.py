"""`Closeup`: all there is to say of one run of a `Snapshot`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epochcast.errors import InputError
from epochcast.forecaster import Forecaster
from epochcast.logs.configuration import configuration_of
from epochcast.metric import Metric
from epochcast.run import Run
from epochcast.stopping.decision import final_of
from epochcast.watch.fan import Fan, forecast_of
from epochcast.watch.hindsight import Earlier, earlier_forecasts
from epochcast.watch.lines import Line
from epochcast.watch.snapshot import Row, Snapshot, Verdict

MOST_POINTS = 600  # of a line to be drawn
_MOST_OTHERS = 64  # runs that a model is shown beside the one it is asked about
_PATHS = 300  # of which the first step at a value is told
_WITHOUT_FAN = (Verdict.UNUSABLE, Verdict.DIVERGED, Verdict.FINISHED, Verdict.WAITING)
_EVEN, _EARLY, _LATE = 0.5, 0.1, 0.9


@dataclass(frozen=True)
class WithOthers:
    """The forecast by a model that also reads the other runs."""

    runs: int
    fan: Fan
    final: tuple[float, float, float]

    def to_dict(self) -> dict[str, Any]:
        return {"runs": self.runs, "fan": self.fan.to_dict(), "final": _named(self.final)}


@dataclass(frozen=True)
class Closeup:
    """One run: what was seen, what may come, what was expected earlier, and what to do."""

    row: Row
    seen: Line
    fan: Fan | None
    earlier: tuple[Earlier, ...]
    with_others: WithOthers | None
    config: Mapping[str, Any]
    sentence: str | None  # of the decision

    @classmethod
    def of(cls, row: Row, snapshot: Snapshot, forecaster: Forecaster) -> Closeup:
        """A closer look at one row of a snapshot."""
        line, horizon, metric = Line.of(row.series), snapshot.horizon, snapshot.metric
        usable = row.verdict is not Verdict.UNUSABLE
        decision = row.decision(horizon)
        return cls(
            row,
            line.thinned(MOST_POINTS),
            fan_of(row, horizon, metric, forecaster),
            earlier_forecasts(line, horizon, metric, forecaster) if usable else (),
            with_other_runs(row, snapshot, forecaster),
            configuration_of(row.path),
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
            "with_others": None if self.with_others is None else self.with_others.to_dict(),
            "config": dict(self.config),
        }


def fan_of(row: Row, horizon: int, metric: Metric, forecaster: Forecaster) -> Fan | None:
    """What may come of a run, by itself; None where it is over or cannot be used."""
    if row.verdict in _WITHOUT_FAN:
        return None
    forecast = forecast_of(Line.of(row.series), horizon, metric, forecaster)
    return None if forecast is None else Fan.of(forecast)


def with_other_runs(row: Row, snapshot: Snapshot, forecaster: Forecaster) -> WithOthers | None:
    """What may come of a run in the light of the others; None where the model does not read them, or none is there."""
    if "context" not in forecaster.engine.reads or row.verdict in _WITHOUT_FAN:
        return None
    with_config = "config" in forecaster.engine.reads
    others = [other for other in snapshot.rows if other is not row and other.best is not None][:_MOST_OTHERS]
    runs = [_run_of(other, with_config) for other in others]
    config = configuration_of(row.path) if with_config else None
    line, horizon = Line.of(row.series), snapshot.horizon
    forecast = forecast_of(line, horizon, snapshot.metric, forecaster, others=runs, config=config)
    if forecast is None or not runs:
        return None
    return WithOthers(len(runs), Fan.of(forecast), final_of(forecast))


def _run_of(row: Row, with_config: bool) -> Run:
    line = Line.of(row.series)
    return Run(line.values, line.steps, (configuration_of(row.path) or None) if with_config else None)


def first_reach(row: Row, snapshot: Snapshot, forecaster: Forecaster, value: float) -> dict[str, float | None]:
    """When a run will first reach a value: the steps by which it has with a chance of 10, 50 and 90 %, and the chance
    that it never does. A step is None where that chance is not reached."""
    forecast = None
    if row.verdict not in (Verdict.UNUSABLE, Verdict.DIVERGED, Verdict.WAITING):
        forecast = forecast_of(Line.of(row.series), snapshot.horizon, snapshot.metric, forecaster)
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


def _named(final: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip(("median", "low", "high"), final, strict=True))
