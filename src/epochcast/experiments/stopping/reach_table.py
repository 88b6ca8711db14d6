"""`ReachTable`: how far each run of a task can still get, at every check and confidence.

One pass of a streaming network gives all of it; then any order of the runs, and any best, is a look into the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epochcast.benchmarks import CurveSet
from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.experiments.stopping.selection import Index
from epochcast.forecaster import Forecaster
from epochcast.metric import Metric
from epochcast.stopping.calibration import FinishedRuns, forecasts, longest_read
from epochcast.stopping.reach import reach


@dataclass(frozen=True)
class TaskRuns:
    """All runs of one task on steps 1..horizon, or on its multiples counted; NaN from where a run broke down."""

    benchmark: str
    task: str
    values: Array  # [run, step]
    metric: Metric
    untrained: Array | None = None  # [run], where it is known of all

    @classmethod
    def of(cls, curves: CurveSet, task: str, most: int | None = None, seed: int = 0) -> TaskRuns:
        """The runs of a task, or `most` of them drawn at random."""
        part = curves.of_task(task)
        if most is not None:
            part = part.sample(most, seed)
        every = float(part.steps[0]) if part.steps.ndim == 1 and len(part.steps) else 1.0
        horizon = int(part.horizons.max(initial=0) / every)
        regular = part.steps.ndim == 1 and np.array_equal(part.steps[:horizon], every * np.arange(1.0, horizon + 1.0))
        if not regular or horizon < 2 or (part.horizons != every * horizon).any():
            raise InputError(
                f"{curves.name}, task {task!r}: runs must share one horizon and be measured at the same steps, such as "
                "1, 2, 3, ... or 50, 100, 150, ...; name other tasks, another benchmark or --horizon"
            )
        known = part.untrained is not None and bool(np.isfinite(part.untrained).all())
        metric = curves.metrics[curves.task_names.index(task)]
        return cls(curves.name, task, part.values[:, :horizon], metric, part.untrained if known else None)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def horizon(self) -> int:
        return int(self.values.shape[1])

    def filled(self, steps: Index) -> FinishedRuns:
        """Complete runs on the given steps: a run that broke down goes on at its last value, for nobody asks there."""
        values = self.values[:, steps - 1]
        known = np.isfinite(values)
        newest = np.maximum.accumulate(np.where(known, np.arange(len(steps)), 0), axis=1)
        values = np.take_along_axis(values, newest, axis=1)
        spare = self.metric.soft[0] if self.metric.soft else 1.0
        before = np.full(len(self), spare) if self.untrained is None else self.untrained
        return FinishedRuns(np.where(np.isnan(values), before[:, None], values), self.metric, self.untrained)


@dataclass(frozen=True)
class ReachTable:
    """The reach of each run, oriented so that larger is better."""

    checks: Index  # [check]: steps after which a run is checked, counted from 1
    reach: Array  # [confidence, run, check]
    confidences: tuple[float, ...]

    @classmethod
    def of(cls, forecaster: Forecaster, runs: TaskRuns, confidences: Sequence[float]) -> ReachTable:
        """Forecast every run from every step but the last; runs longer than the engine reads are thinned for it."""
        every = -(-runs.horizon // longest_read(forecaster.engine, runs.horizon))
        steps = np.arange(runs.horizon, 0, -every)[::-1]  # counted back from the horizon, which must be among them
        finished = runs.filled(steps)
        sign = runs.metric.sign
        table = np.empty((len(confidences), len(runs), len(steps) - 1))
        for part in finished.parts():
            for cutoff, forecast in forecasts(forecaster, finished[part], range(1, len(steps))):
                for which, confidence in enumerate(confidences):
                    table[which, part, cutoff - 1] = sign * reach(forecast, confidence)
        return cls(steps[:-1], table, tuple(confidences))

    def at(self, confidence: float) -> Array:
        """[run, check]"""
        table: Array = self.reach[self.confidences.index(confidence)]
        return table
