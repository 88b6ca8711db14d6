"""Syne Tune: a search that pauses trials, tries others and comes back to them, on Syne Tune's own backends.

    scheduler = FreezeThawScheduler(space, "val_acc", horizon=50, step="epoch", until="until")

Extra: `pip install 'epochcast[syne-tune]'`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from epochcast.errors import MissingExtraError
from epochcast.integrations.base import metric_of
from epochcast.integrations.freeze_thaw_trials import FreezeThawOptions, FreezeThawTrials, Verdict
from epochcast.integrations.trials import newest_in
from epochcast.search import FreezeThaw

try:
    from syne_tune.backend.trial_status import Trial
    from syne_tune.optimizer.scheduler import SchedulerDecision, TrialScheduler, TrialSuggestion
except ImportError:
    raise MissingExtraError("syne-tune", "syne-tune") from None

if TYPE_CHECKING:
    from typing import Unpack

    from epochcast.metric import Metric

_DECISIONS = {
    Verdict.GO_ON: SchedulerDecision.CONTINUE,
    Verdict.PAUSE: SchedulerDecision.PAUSE,
    Verdict.STOP: SchedulerDecision.STOP,
}


class FreezeThawScheduler(TrialScheduler):
    """Starts, pauses and resumes trials as [`FreezeThaw`][epochcast.FreezeThaw] says.

    Trials are resumed from their checkpoints, so the script has to write one into `--st_checkpoint_dir` before each
    report, and to begin with the one that it finds there. The search goes on until the tuner's `stop_criterion` ends
    it: `max_num_evaluations` is a budget of reports. A trial whose process dies is gone on with as a new trial, from
    the checkpoint of the old one, unless it has died at the same step before; the tuner's `max_failures` says how often
    that may happen in all.

    Args:
        config_space: Where configurations come from, as for other schedulers of Syne Tune.
        monitor: The name under which trials report the metric.
        metric: What it measures; may be left out where the name says it.
        horizon: The step at which a whole trial ends.
        step: The name under which trials report where they are, counted from 1.
        until: The name of an argument that tells the script up to which step to train. Without it a trial is killed
            where it is to be paused, and what it has trained beyond that is not heard of.
        **options: Those of [`FreezeThaw`][epochcast.FreezeThaw]: `seed`, `every`, `first` and `forecaster`.

    Raises:
        ConfigError: If what is measured is not known from the name.
        InputError: If the space or an option cannot be used.

    Examples:
        >>> from syne_tune.config_space import loguniform
        >>> from epochcast.integrations.syne_tune_freeze_thaw import FreezeThawScheduler
        >>> space = {"rate": loguniform(1e-4, 1.0)}
        >>> scheduler = FreezeThawScheduler(space, "val_acc", horizon=50, step="epoch", until="until")
    """

    def __init__(
        self,
        config_space: Mapping[str, Any],
        monitor: str,
        metric: Metric | str | None = None,
        *,
        horizon: int,
        step: str = "epoch",
        until: str | None = None,
        **options: Unpack[FreezeThawOptions],
    ) -> None:
        search = FreezeThaw(config_space, horizon, metric_of(monitor, metric), **options)
        super().__init__(random_seed=search.seed)
        self.trials = FreezeThawTrials(search)
        self._monitor, self._step, self._until = monitor, step, until
        self._gone: set[str] = set()  # trials that Syne Tune cannot resume, as their workers are gone

    @property
    def search(self) -> FreezeThaw:
        """The search itself, with `best` and all `runs`."""
        return self.trials.search

    def suggest(self) -> TrialSuggestion | None:
        """A new trial, or one to be resumed."""
        step = self.trials.next_step()
        if step is None:
            return None
        config = step.config if self._until is None else {**step.config, self._until: step.until}
        trial = self.trials.trial_of(step)
        if trial is None or trial in self._gone:
            # Nothing was told of a run without values, and a checkpoint that is not there cannot be copied.
            source = int(trial) if trial is not None and step.since > 0 else None
            return TrialSuggestion.start_suggestion(config, checkpoint_trial_id=source)
        self.trials.take_up(step, trial)
        return TrialSuggestion.resume_suggestion(int(trial), config)

    def on_trial_add(self, trial: Trial) -> None:
        """Take up the trial that was suggested."""
        step = self.trials.next_step()
        if step is not None:
            self.trials.take_up(step, str(trial.trial_id))

    def on_trial_result(self, trial: Trial, result: dict[str, Any]) -> str:
        """CONTINUE, PAUSE or STOP."""
        name = str(trial.trial_id)
        seen = newest_in(result, self._monitor, self._step, first=self.search.best is None)
        verdict = Verdict.GO_ON if seen is None else self.trials.tell(name, *seen)
        if verdict is Verdict.PAUSE and self._until is None and self.trials.goes_on(name):
            verdict = Verdict.GO_ON  # a script that knows its end has come to it
        return str(_DECISIONS[verdict])

    def on_trial_complete(self, trial: Trial, result: dict[str, Any]) -> None:
        """Close a trial that has ended by itself."""
        self.trials.close(str(trial.trial_id))

    def on_trial_error(self, trial: Trial) -> None:
        """Give back the run of a worker that is gone."""
        self._gone.add(str(trial.trial_id))
        self.trials.fail(str(trial.trial_id))

    def metric_names(self) -> list[str]:
        return [self._monitor]

    def metric_mode(self) -> str:
        return "min" if self.search.metric.minimize else "max"

    def metadata(self) -> dict[str, Any]:
        """What is written about the search."""
        return {
            "scheduler_name": type(self).__name__,
            "metric_names": self.metric_names(),
            "metric_mode": self.metric_mode(),
            "config_space": self.search.space.to_plain(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A tuner that is loaded has no workers yet, and knows nothing of those that it had when it was saved.
        self.__dict__.update(state)
        self._gone.update(self.trials.release())
