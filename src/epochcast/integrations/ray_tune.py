"""Ray Tune: a stopper and a scheduler that end trials which have too small a chance to beat the best of the others.

    tune.RunConfig(stop=EpochcastStopper("val_acc", horizon=50))
    tune.TuneConfig(metric="val_acc", mode="max", scheduler=EpochcastScheduler(horizon=50))

Use one of the two. The scheduler takes metric and mode from the search; the stopper leaves the place of the scheduler
free for another. After `Tuner.restore` both go on where the search was interrupted: Tune saves the stopper, and the
scheduler, which Tune does not save, reads what the trials have reported. Extra: `pip install 'epochcast[ray]'`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochcast.errors import ConfigError, MissingExtraError
from epochcast.integrations.base import StopperOptions, check_options, harmless, metric_of
from epochcast.integrations.trials import Trials
from epochcast.logs import jsonl
from epochcast.metric import Metric
from epochcast.search.space import known_scales

try:
    from ray.tune import Stopper as TuneStopper
    from ray.tune.result import EXPR_RESULT_FILE
    from ray.tune.schedulers import FIFOScheduler, TrialScheduler
except ImportError:
    raise MissingExtraError("ray[tune]", "ray") from None

if TYPE_CHECKING:
    from typing import Unpack

STEP = "training_iteration"  # how Tune counts the results of a trial, from 1


class EpochcastStopper(TuneStopper):
    """Stops a trial once its forecast leaves it too small a chance to beat the best of the other trials.

    With `target="any"` a trial has to beat every value that another has reached so far, with "final" the last values of
    those that came to the horizon. The other trials, with their configurations, are what a model that reads other runs
    knows beside the trial; `context=False` switches that off.

    Args:
        monitor: The name under which trials report the metric.
        metric: What it measures; may be left out where the name says it.
        horizon: How many steps a whole trial has.
        step: The name of what counts the steps.
        space: The `param_space` of the search, which tells a model that reads other runs on which scales parameters
            live; without it they are recognised by their values.
        **options: Those of [`Stopper`][epochcast.Stopper]; a trial is checked about 20 times unless `check_every` is
            given.

    Raises:
        ConfigError: If what is measured is not known from the name.
        InputError: If an option cannot be used.

    Examples:
        >>> from ray import tune
        >>> from epochcast.integrations.ray_tune import EpochcastStopper
        >>> config = tune.RunConfig(stop=EpochcastStopper("val_acc", horizon=50))
    """

    def __init__(
        self,
        monitor: str,
        metric: Metric | str | None = None,
        *,
        horizon: int,
        step: str = STEP,
        space: Mapping[str, Any] | None = None,
        **options: Unpack[StopperOptions],
    ) -> None:
        self._monitor, self._step = monitor, step
        self.trials = Trials(horizon, metric_of(monitor, metric), **options)
        self.trials.others.know_scales(known_scales(space or {}))

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether to stop a trial after its newest result."""
        return self.trials.check(trial_id, self._monitor, self._step, result, result.get("config"))

    def stop_all(self) -> bool:
        """The search itself goes on."""
        return False


class EpochcastScheduler(FIFOScheduler):
    """Runs trials in the order of their submission, and stops those that `EpochcastStopper` would stop.

    Args:
        monitor: The name under which trials report the metric; by default that of the search, whose mode must agree
            with the metric's direction.
        metric: What it measures; may be left out where the name says it.
        horizon: How many steps a whole trial has.
        step: The name of what counts the steps.
        space: As for `EpochcastStopper`.
        **options: As for `EpochcastStopper`.

    Raises:
        ConfigError: When the search begins, if what is measured is not known, or the search has another direction.
        InputError: If an option cannot be used.

    Examples:
        >>> from ray import tune
        >>> from epochcast.integrations.ray_tune import EpochcastScheduler
        >>> config = tune.TuneConfig(metric="val_acc", mode="max", scheduler=EpochcastScheduler(horizon=50))
    """

    def __init__(
        self,
        monitor: str | None = None,
        metric: Metric | str | None = None,
        *,
        horizon: int,
        step: str = STEP,
        space: Mapping[str, Any] | None = None,
        **options: Unpack[StopperOptions],
    ) -> None:
        super().__init__()
        self._monitor, self._kind, self._step = monitor, metric, step
        self._horizon, self._options = horizon, options
        self._scales = known_scales(space or {})
        self.trials: Trials | None = None
        if monitor is not None:
            self._begin(monitor, None)
        else:
            check_options(horizon, metric, options)  # an unusable option is refused now

    def _begin(self, monitor: str, mode: str | None) -> Trials:
        minimize = None if mode is None else mode == "min"
        self._monitor = monitor
        self.trials = Trials(self._horizon, metric_of(monitor, self._kind, minimize), **self._options)
        self.trials.others.know_scales(self._scales)
        return self.trials

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Take the metric and its direction from the search."""
        monitor = self._monitor or metric
        if monitor is None:
            raise ConfigError("give monitor=, the name under which trials report the metric, or TuneConfig(metric=...)")
        self._begin(monitor, mode if monitor == metric else None)
        return bool(super().set_search_properties(metric, mode, **spec))

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Take a trial up; one that comes from an interrupted search brings what it has reported."""
        super().on_trial_add(tune_controller, trial)
        if self.trials is None or self._monitor is None or trial.trial_id in self.trials.decisions:
            return
        if self._monitor in trial.last_result:
            with harmless(f"recalling trial {trial.trial_id}"):
                seen = _reported(trial, self._monitor, self._step)
                self.trials.judge(trial.trial_id, seen, best=None, config=trial.config)

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """STOP or CONTINUE."""
        if self.trials is None or self._monitor is None:
            raise ConfigError("the scheduler was not told its metric; give monitor= or TuneConfig(metric=...)")
        stop = self.trials.check(trial.trial_id, self._monitor, self._step, result, trial.config)
        return str(TrialScheduler.STOP if stop else TrialScheduler.CONTINUE)

    def debug_string(self) -> str:
        """A line for Tune's own report."""
        stopped = sum(decision.stop for decision in self.trials.decisions.values()) if self.trials else 0
        return f"epochcast: {stopped} trials stopped for lack of a chance to win."


def _reported(trial: Any, monitor: str, step: str) -> list[tuple[float, float]]:
    """Steps and values that a trial of an interrupted search has reported, by the log that Tune keeps of them."""
    path = f"{trial.storage.trial_fs_path}/{EXPR_RESULT_FILE}"
    try:
        with trial.storage.storage_filesystem.open_input_stream(path) as file:
            run = jsonl.parse(file.read(), path).run(trial.trial_id, Path(path), "jsonl", step)
    except FileNotFoundError:  # the search broke down before its log was stored
        return [(trial.last_result[step], trial.last_result[monitor])]
    _, series = run.metric(monitor)
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))
