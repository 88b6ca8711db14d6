"""The chances of many runs to beat some values at steps of their own, beside all other runs of the search."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Array
from epochcast.encode import Others, normalised, seen_of
from epochcast.errors import StrongContradictionWarning
from epochcast.forecast import Forecast
from epochcast.forecaster import Forecaster
from epochcast.metric import Metric
from epochcast.others import newest_and_largest, others_of
from epochcast.question import answer
from epochcast.search.trained_run import TrainedRun
from epochcast.space import Space

# No run is shown itself. A context for each would cost the most: so many parts of the runs are left out in turn.
_PARTS = 8


class Chances:
    """Forecasts of runs of one search among each other."""

    def __init__(self, forecaster: Forecaster, horizon: int, metric: Metric, scales: Space | None) -> None:
        self._forecaster, self._horizon, self._metric, self._scales = forecaster, horizon, metric, scales

    def of(self, asked: Sequence[TrainedRun], every: Sequence[TrainedRun], at: Array, goals: Array) -> Array:
        """The chances [goal, run, step] of the runs asked about to beat each of the goals at steps `at` [run, step]."""
        part, members = self._parts(asked, every)
        found = np.empty((len(goals), *at.shape))
        for left_out in np.unique(part):
            rows = np.flatnonzero(part == left_out).tolist()
            others = self._without(int(left_out), members)
            found[:, rows] = self._chances([asked[row] for row in rows], others, at[rows], goals)
        return found

    def _parts(
        self, asked: Sequence[TrainedRun], every: Sequence[TrainedRun]
    ) -> tuple[NDArray[np.intp], list[TrainedRun]]:
        """To which part of the context each of the runs belongs, -1 for none, and the context."""
        engine = self._forecaster.engine
        telling = self._telling(every) if "context" in engine.reads else []
        best = np.array([run.best(self._metric) for run in telling])
        members = [telling[int(row)] for row in newest_and_largest(best)]
        place = {id(run): index % _PARTS for index, run in enumerate(members)}
        return np.array([place.get(id(run), -1) for run in asked], dtype=np.intp), members

    def _telling(self, every: Sequence[TrainedRun]) -> list[TrainedRun]:
        """The runs that tell others something; one that broke down tells that it came to the worst value of all."""
        worst = min((self._metric.sign * value for run in every for value in run.values), default=None)
        if worst is None:
            return []
        told = [run.come_to(self._metric.sign * worst) if run.broken(self._horizon) else run for run in every]
        return [run for run in told if run.tells]

    def _without(self, part: int, members: list[TrainedRun]) -> Others | None:
        most = self._forecaster.engine.most_values
        rest = [run.shown(most) for index, run in enumerate(members) if part < 0 or index % _PARTS != part]
        return others_of(rest, self._metric, self._horizon, space=self._scales) if rest else None

    def _chances(self, runs: list[TrainedRun], others: Others | None, steps: Array, goals: Array) -> Array:
        metric, horizon, engine = self._metric, self._horizon, self._forecaster.engine
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StrongContradictionWarning)  # a search has runs that get worse
            seen = seen_of([run.shown(None) for run in runs], None, metric)
            question, normalizer, _ = normalised(seen, metric, steps, horizon, self._forecaster.schedule, others)
            distribution, _ = answer(engine, question)
        forecast = Forecast(steps, metric, horizon, distribution, normalizer, seen.curves)
        return np.stack([forecast.prob_better(np.full(len(runs), goal)) for goal in goals])
