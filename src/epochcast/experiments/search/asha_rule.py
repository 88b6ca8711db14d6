"""`AshaRule`: Syne Tune's asynchronous successive halving, driven without a backend."""

from __future__ import annotations

import datetime
from typing import Any

from epochcast.errors import MissingExtraError
from epochcast.experiments.search.rule import Ending, Rule
from epochcast.experiments.task_runs import TaskRuns

try:
    from syne_tune.backend.trial_status import Trial
    from syne_tune.config_space import randint
    from syne_tune.optimizer.scheduler import SchedulerDecision
    from syne_tune.optimizer.schedulers.asha import AsynchronousSuccessiveHalving
except ImportError:
    raise MissingExtraError("syne-tune", "syne-tune") from None

_VALUE, _EPOCH, _RUN = "value", "epoch", "run"  # names in the results and the configurations


class AshaRule(Rule):
    """The scheduler hears of trials as Syne Tune's `Tuner` tells it of them; which runs come is the order's choice."""

    def __init__(self, runs: TaskRuns, seed: int) -> None:
        self._horizon = runs.horizon
        self._scheduler = AsynchronousSuccessiveHalving(
            {_RUN: randint(0, max(len(runs) - 1, 1))},
            metric=_VALUE,
            time_attr=_EPOCH,
            max_t=runs.horizon,
            do_minimize=runs.metric.minimize,
            random_seed=seed,
        )
        self._trial: Any = None

    def begin(self, run: int) -> None:
        self._trial = Trial(run, {_RUN: run}, creation_time=datetime.datetime.now(datetime.timezone.utc))
        self._scheduler.on_trial_add(self._trial)

    def stops(self, step: int, value: float) -> bool:
        verdict = self._scheduler.on_trial_result(self._trial, {_VALUE: value, _EPOCH: step})
        return bool(verdict == SchedulerDecision.STOP) and step < self._horizon  # at the horizon it ends every trial

    def end(self, ending: Ending) -> None:
        self._scheduler.on_trial_remove(self._trial)
