"""`ReachTable`: how far each run of a task can still get, at every check and confidence.

One pass of a streaming network gives all of it; then any order of the runs, and any best, is a look into the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epochcast.curve import Array
from epochcast.experiments.stopping.selection import Index
from epochcast.experiments.task_runs import TaskRuns
from epochcast.forecaster import Forecaster
from epochcast.stopping.calibration import forecasts, longest_read
from epochcast.stopping.reach import reach


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
