"""`TaskResult`: what all searches have come to on one task, in the same orders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import rankdata

from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.experiments.search.replay import Outcome
from epochcast.experiments.stopping.selection import Index, Pool
from epochcast.experiments.task_runs import TaskRuns

SHARES = np.arange(1, 201) / 200.0  # of the budget, at which tasks of any horizon are compared


@dataclass(frozen=True)
class TaskResult:
    """Outcomes in order; the first search is the baseline."""

    benchmark: str
    task: str
    horizon: int
    budget: int  # in epochs
    best: float  # of all runs of the task, oriented: larger is better
    typical: float  # the median over the runs of the best that each comes to
    worst: float  # the least of these, which stands for nothing found
    outcomes: dict[str, list[Outcome]]  # [order]

    @classmethod
    def of(cls, runs: TaskRuns, budget: int, outcomes: dict[str, list[Outcome]]) -> TaskResult:
        """With what the whole task could have come to."""
        ends = ends_of(runs)
        spread = float(ends.max()), float(np.median(ends)), float(ends.min())
        return cls(runs.benchmark, runs.task, runs.horizon, budget, *spread, outcomes)

    @property
    def searches(self) -> list[str]:
        return list(self.outcomes)

    @cached_property
    def points(self) -> Index:
        """The epochs at which searches are compared."""
        return np.maximum(np.round(SHARES * self.budget).astype(np.intp), 1)

    @property
    def scale(self) -> float:
        """The regret of a run in the middle."""
        return (self.best - self.typical) or 1.0

    def regret(self, search: str, epochs: Index | None = None) -> Array:
        """[order, epoch]: how far the best so far is from the best of the task, after each of the epochs."""
        at = self.points if epochs is None else epochs
        found = np.stack([outcome.at(at) for outcome in self.outcomes[search]])
        return np.asarray(self.best - np.where(np.isfinite(found), found, self.worst))

    @cached_property
    def ranks(self) -> Array:
        """[search, order, point]: 1 has the smallest regret; those that are level share their ranks."""
        return np.asarray(rankdata(np.stack([self.regret(search) for search in self.outcomes]), axis=0))


def ends_of(runs: TaskRuns) -> Array:
    """The best value that each run comes to, oriented, of those that have any."""
    ends = Pool.of(runs.values, runs.metric.minimize).running[:, -1]
    found: Array = ends[np.isfinite(ends)]
    if len(found) == 0:
        raise InputError(f"{runs.benchmark}, task {runs.task!r}: no run has a finite value")
    return found
