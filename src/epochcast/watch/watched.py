"""`Watched`: what is remembered of one run between two looks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.contradiction import contradiction
from epochcast.curve import Array
from epochcast.encode import Others, seen_of
from epochcast.errors import InputError
from epochcast.forecast import Forecast
from epochcast.logs import Run, Series
from epochcast.metric import Metric
from epochcast.watch.chance import chance_of_best
from epochcast.watch.snapshot import Verdict


@dataclass(frozen=True)
class Group:
    """Runs that were forecast together."""

    forecast: Forecast  # [run, step]: at some steps up to the horizon
    finals: Array  # [run, 3]: median, low and high at the horizon
    shared: Array  # [run, step]: what all later values have in common
    counts: Array  # [run, step]: how many of them a step stands for
    others: Others | None = None  # the other runs that the model was shown

    def chances(self, best: Array) -> Array:
        """For each run, the chance that the best value it will reach beats its own of `best`."""
        return chance_of_best(self.forecast.prob_better(best), self.shared, self.counts)


@dataclass
class Watched:
    """The values of one run, and the group in which they were forecast."""

    run: Run
    series: Series  # as logged
    steps: Array  # of the finite values
    values: Array
    error: str | None = None  # why it cannot be forecast
    contradicts: bool = False  # it moves steadily against the metric's direction
    group: Group | None = None  # None until it is forecast
    position: int = 0  # in the group
    config: Mapping[str, Any] | None = None  # that the model was told

    @classmethod
    def of(cls, run: Run, series: Series, metric: Metric) -> Watched:
        """A run just read, its values checked."""
        finite = np.isfinite(series.values)
        watched = cls(run, series, series.steps[finite], series.values[finite])
        try:
            curves = seen_of(watched.values, watched.steps, metric).curves
        except InputError as error:
            watched.error = str(error)
            return watched
        watched.contradicts = contradiction(curves, metric) is not None
        return watched

    @property
    def key(self) -> tuple[Path, str]:
        """What tells runs apart."""
        return self.run.path, self.run.name

    def holds(self, series: Series) -> bool:
        """Whether these are the values remembered."""
        if series is self.series:  # of a log that was not read again
            return True
        return np.array_equal(series.steps, self.series.steps) and np.array_equal(
            series.values, self.series.values, equal_nan=True
        )

    def fixed_verdict(self, horizon: int) -> Verdict | None:
        """The verdict that needs no forecast."""
        if self.error is not None:
            return Verdict.UNUSABLE
        if len(self.series.steps) == 0:
            return Verdict.WAITING
        if not math.isfinite(self.series.values[-1]):
            return Verdict.DIVERGED
        return Verdict.FINISHED if self.series.steps[-1] >= horizon else None

    def best(self, metric: Metric) -> float | None:
        """The best value so far."""
        if self.error is not None or len(self.values) == 0:
            return None
        return metric.best_of(self.values.tolist())
