"""`replay`: one search on recorded runs, until its budget of epochs is spent, and the `Outcome`."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from epochcast.curve import Array
from epochcast.experiments.search.search import Search
from epochcast.experiments.stopping.selection import Index, Pool
from epochcast.experiments.task_runs import TaskRuns


@dataclass(frozen=True)
class Outcome:
    """What a search has found, and what it did."""

    epochs: list[int]  # after which the best value so far was a better one
    best: list[float]  # that value, oriented: larger is better
    spent: int  # epochs in all: fewer than the budget where no run was left
    runs: int  # begun
    stopped: int  # given up for good
    wrong: int  # of those, how many would later on have beaten the best so far, their own values included
    seconds: float  # of processor time that the search took to decide

    def at(self, epochs: Index) -> Array:
        """The best value after so many epochs; the first counts as if it had been there before, -inf without any."""
        if not self.best:
            return np.full(len(epochs), -math.inf)
        place = np.searchsorted(self.epochs, epochs, side="right") - 1
        return np.array(self.best, dtype=np.float64)[np.maximum(place, 0)]


def replay(runs: TaskRuns, search: Search, budget: int) -> Outcome:
    """Train what the search asks for, an epoch at a time. A value that is not finite ends a run, its epoch is spent."""
    pool = Pool.of(runs.values, runs.metric.minimize)
    steps = np.zeros(len(pool), dtype=np.intp)  # that each run has been trained
    epochs, best = list[int](), list[float]()
    stopped = wrong = spent = 0
    seconds = 0.0
    while spent < budget:
        started = time.process_time()
        run = search.ask()
        seconds += time.process_time() - started
        if run is None:
            break
        steps[run] += 1
        spent += 1
        step = int(steps[run])
        reached = float(pool.running[run, step - 1])
        if reached > (best[-1] if best else -math.inf):
            epochs.append(spent)
            best.append(reached)
        started = time.process_time()
        given_up = search.tell(run, step, float(runs.values[run, step - 1]))
        seconds += time.process_time() - started
        if given_up and step < pool.lengths[run]:  # a stop after the last epoch saves nothing and is none
            stopped += 1
            wrong += bool(pool.later[run, step - 1] > best[-1])
    return Outcome(epochs, best, spent, int((steps > 0).sum()), stopped, wrong, seconds)
