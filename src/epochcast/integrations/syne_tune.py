"""Syne Tune: a scheduler around any other, which stops trials that have too small a chance to beat the others.

    scheduler = EpochcastScheduler(RandomSearch(space, metrics=["val_acc"], do_minimize=False), horizon=50)

Extra: `pip install 'epochcast[syne-tune]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epochcast.errors import ConfigError, MissingExtraError
from epochcast.integrations.base import StopperOptions, metric_of
from epochcast.integrations.trials import Trials
from epochcast.search.space import known_scales

try:
    from syne_tune.backend.trial_status import Trial
    from syne_tune.optimizer.scheduler import SchedulerDecision, TrialScheduler, TrialSuggestion
except ImportError:
    raise MissingExtraError("syne-tune", "syne-tune") from None

if TYPE_CHECKING:
    from typing import Unpack

    from epochcast.metric import Metric


class EpochcastScheduler(TrialScheduler):
    """Lets another scheduler suggest the trials, and stops those that have too small a chance to beat the others.

    With `target="any"` a trial has to beat every value that another has reached so far, with "final" the last values of
    those that came to the horizon. The other trials, with their configurations, are what a model that reads other runs
    knows beside the trial; `context=False` switches that off.

    Args:
        scheduler: Suggests the trials, hears of every result and may stop trials too. Its metric is monitored.
        metric: What that measures; may be left out where the name says it.
        horizon: How many steps a whole trial has.
        step: The name under which trials report where they are, counted from 1.
        **options: Those of [`Stopper`][epochcast.Stopper]; a trial is checked about 20 times unless `check_every` is
            given.

    Raises:
        ConfigError: If the scheduler has several metrics, or another direction than the metric.
        InputError: If an option cannot be used.

    Examples:
        >>> from syne_tune.config_space import loguniform
        >>> from syne_tune.optimizer.baselines import RandomSearch
        >>> from epochcast.integrations.syne_tune import EpochcastScheduler
        >>> search = RandomSearch({"rate": loguniform(1e-4, 1.0)}, metrics=["val_acc"], do_minimize=False)
        >>> scheduler = EpochcastScheduler(search, horizon=50, step="epoch")
    """

    def __init__(
        self,
        scheduler: TrialScheduler,
        metric: Metric | str | None = None,
        *,
        step: str = "epoch",
        horizon: int,
        **options: Unpack[StopperOptions],
    ) -> None:
        super().__init__(random_seed=scheduler.random_seed)
        names = scheduler.metric_names()
        if len(names) != 1:
            raise ConfigError(f"the scheduler has {len(names)} metrics, {', '.join(names)}; only one can be forecast")
        self.scheduler = scheduler
        self._monitor, self._step = names[0], step
        kind = metric_of(self._monitor, metric, minimize=scheduler.metric_mode() == "min")
        self.trials = Trials(horizon, kind, **options)
        self.trials.others.know_scales(known_scales(getattr(scheduler, "config_space", {})))

    def on_trial_result(self, trial: Trial, result: dict[str, Any]) -> str:
        """STOP, or what the scheduler inside says."""
        verdict = str(self.scheduler.on_trial_result(trial=trial, result=result))
        stop = self.trials.check(str(trial.trial_id), self._monitor, self._step, result, trial.config)
        return SchedulerDecision.STOP if stop else verdict

    def suggest(self) -> TrialSuggestion | None:
        return self.scheduler.suggest()

    def on_trial_add(self, trial: Trial) -> None:
        self.scheduler.on_trial_add(trial=trial)

    def on_trial_error(self, trial: Trial) -> None:
        self.scheduler.on_trial_error(trial=trial)

    def on_trial_complete(self, trial: Trial, result: dict[str, Any]) -> None:
        self.scheduler.on_trial_complete(trial=trial, result=result)

    def on_trial_remove(self, trial: Trial) -> None:
        self.scheduler.on_trial_remove(trial=trial)

    def metric_names(self) -> list[str]:
        return list(self.scheduler.metric_names())

    def metric_mode(self) -> str:
        return str(self.scheduler.metric_mode())

    def metadata(self) -> dict[str, Any]:
        """What is written about the search: that of the scheduler inside, under both names."""
        inside = dict(self.scheduler.metadata())
        return {**inside, "scheduler_name": f"{type(self).__name__}({inside.get('scheduler_name', '')})"}
