"""Ray Tune: a search that pauses trials, tries others and comes back to them, on Tune's own cluster and checkpoints.

    search = FreezeThawSearcher(horizon=50, budget=1000)
    tune.TuneConfig("max", "val_acc", search_alg=search, scheduler=FreezeThawScheduler(search), num_samples=-1)

The searcher holds the search, `epochcast.FreezeThaw`, and says which trial Tune starts; the scheduler, which holds
nothing, pauses and resumes trials as the searcher says. Tune saves the searcher with the experiment, so `Tuner.restore`
goes on where the search was interrupted. Extra: `pip install 'epochcast[ray]'`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochcast.checks import count
from epochcast.errors import ConfigError, MissingExtraError
from epochcast.integrations.base import metric_of
from epochcast.integrations.freeze_thaw_trials import FreezeThawOptions, FreezeThawTrials, Verdict
from epochcast.integrations.trials import newest_in
from epochcast.metric import Metric
from epochcast.search import FreezeThaw

try:
    from ray.tune.experiment import Trial
    from ray.tune.result import TRAINING_ITERATION
    from ray.tune.schedulers import FIFOScheduler, TrialScheduler
    from ray.tune.search import Searcher
    from ray.tune.search.variant_generator import parse_spec_vars
except ImportError:
    raise MissingExtraError("ray[tune]", "ray") from None

if TYPE_CHECKING:
    from typing import Unpack

_DECISIONS = {
    Verdict.GO_ON: TrialScheduler.CONTINUE,
    Verdict.PAUSE: TrialScheduler.PAUSE,
    Verdict.STOP: TrialScheduler.STOP,
}
_log = logging.getLogger("epochcast")


class FreezeThawSearcher(Searcher):
    """Says which trial to go on with, or which new one to start, as [`FreezeThaw`][epochcast.FreezeThaw] does.

    It needs a `FreezeThawScheduler`, which pauses and resumes the trials. New configurations are drawn from the domains
    of `param_space`, of which those of a grid search are choices like others; all else in it is handed on as it is.

    Args:
        monitor: The name under which trials report the metric; by default that of the search, whose mode must agree
            with the metric's direction.
        metric: What it measures; may be left out where the name says it.
        horizon: The step at which a whole trial ends.
        step: The name of what counts the steps.
        budget: How many steps to train in all, after which the search ends. Without it, it ends by Tune's own limits,
            or when `num_samples` trials have come to the horizon.
        **options: Those of [`FreezeThaw`][epochcast.FreezeThaw]: `seed`, `every`, `first` and `forecaster`.

    Raises:
        ConfigError: When the search begins, if there is nothing to draw from, what is measured is not known, or the
            search has another direction.
        InputError: If an option cannot be used.

    Examples:
        >>> from ray import tune
        >>> from epochcast.integrations.ray_freeze_thaw import FreezeThawScheduler, FreezeThawSearcher
        >>> search = FreezeThawSearcher("val_acc", horizon=50, budget=1000)
        >>> config = tune.TuneConfig(search_alg=search, scheduler=FreezeThawScheduler(search), num_samples=-1)
    """

    def __init__(
        self,
        monitor: str | None = None,
        metric: Metric | str | None = None,
        *,
        horizon: int,
        step: str = TRAINING_ITERATION,
        budget: int | None = None,
        **options: Unpack[FreezeThawOptions],
    ) -> None:
        super().__init__()
        FreezeThaw([{}], horizon, metric or Metric.unit(), **options)  # an unusable option is refused now
        self._monitor, self._kind, self._step = monitor, metric, step
        self._horizon, self._options = horizon, options
        self._budget = math.inf if budget is None else count(budget, "budget")
        self._workers = math.inf
        self._trials: FreezeThawTrials | None = None
        self.is_scheduled = False  # whether trials are paused and resumed
        self.restored: set[str] = set()  # trials of an interrupted search that wait to be gone on with

    @property
    def trials(self) -> FreezeThawTrials:
        """The trials as runs of the search."""
        if self._trials is None:
            raise ConfigError("there is nothing to search; give Tuner(param_space=...) with at least one domain")
        return self._trials

    @property
    def search(self) -> FreezeThaw:
        """The search itself, with `best` and all `runs`."""
        return self.trials.search

    # --- what Tune asks ------------------------------------------------------------------------------------------

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Take the number of workers from `TuneConfig(max_concurrent_trials=...)`: paused trials do not count."""
        self._workers = max_concurrent
        return True

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Take the metric, its direction and the space from the search."""
        monitor = self._monitor or metric
        if monitor is None:
            raise ConfigError("give monitor=, the name under which trials report the metric, or TuneConfig(metric=...)")
        minimize = mode == "min" if mode is not None and monitor == metric else None
        search = FreezeThaw(_drawn(config), self._horizon, metric_of(monitor, self._kind, minimize), **self._options)
        most_runs = spec.get("num_samples", math.inf)
        self._trials = FreezeThawTrials(search, budget=self._budget, workers=self._workers, most_runs=most_runs)
        self._metric, self._mode = monitor, mode
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The configuration of a new trial; None while there is a paused one to go on with, or nothing at all."""
        step = self.trials.next_step()
        if step is None:
            return str(Searcher.FINISHED) if self.trials.spent else None
        if self.trials.trial_of(step) is not None:
            return None  # the scheduler resumes it
        self.trials.take_up(step, trial_id)
        return step.config

    def tell(self, trial_id: str, result: Mapping[str, Any]) -> Verdict:
        """What becomes of a trial after its newest result."""
        if not self.trials.knows(trial_id):
            return Verdict.GO_ON  # one that was begun anew after an error
        seen = newest_in(result, self._metric, self._step, first=self.search.best is None)
        return Verdict.GO_ON if seen is None else self.trials.tell(trial_id, *seen)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Nothing: the scheduler has told it, if there is one."""
        if not self.is_scheduled:
            raise ConfigError("nothing pauses the trials; give TuneConfig(scheduler=FreezeThawScheduler(search))")

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Close a trial that has ended or failed for good; one that is stopped while it is paused tells nothing."""
        if not self.trials.knows(trial_id) or (result is None and not error):
            return
        seen = newest_in(result or {}, self._metric, self._step, first=False)
        if seen is not None:  # where Tune itself has ended the trial, the scheduler was not told
            self.trials.tell(trial_id, *seen)
        self.trials.close(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Save the search; Tune does so by itself."""
        Path(checkpoint_path).write_text(self.trials.to_json(), encoding="utf-8")

    def restore(self, checkpoint_path: str) -> None:
        """Go on with a saved search, as `Tuner.restore` does: all its trials are paused."""
        self._trials = FreezeThawTrials.from_json(
            Path(checkpoint_path).read_text(encoding="utf-8"),
            self._options.get("forecaster"),
            budget=self._budget,
            workers=self._workers,
        )
        self._metric = self.search.metric.name  # Tune does not say it again
        self.restored = set(self.trials.names)


class FreezeThawScheduler(FIFOScheduler):
    """Pauses and resumes trials as a `FreezeThawSearcher` says.

    Trials are resumed from their newest checkpoint, so they have to report some: `tune.report(..., checkpoint=...)`.

    Args:
        searcher: The same that is given as `search_alg`.

    Examples:
        >>> from epochcast.integrations.ray_freeze_thaw import FreezeThawScheduler, FreezeThawSearcher
        >>> scheduler = FreezeThawScheduler(FreezeThawSearcher("val_acc", horizon=50))
    """

    _supports_buffered_results = False  # a trial would be past the step at which it is to be paused

    def __init__(self, searcher: FreezeThawSearcher) -> None:
        super().__init__()
        self._searcher = searcher

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Take a trial up; one of an interrupted search stays paused until it is its turn."""
        self._searcher.is_scheduled = True
        if trial.trial_id in self._searcher.restored:
            self._searcher.restored.discard(trial.trial_id)
            if trial.status == Trial.PENDING and not self._searcher.trials.is_over(trial.trial_id):
                trial.set_status(Trial.PAUSED)

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """CONTINUE, PAUSE or STOP."""
        verdict = self._searcher.tell(trial.trial_id, result)
        if verdict is Verdict.PAUSE and _first(tune_controller, Trial.PENDING) is None:
            verdict = Verdict.GO_ON if self._searcher.trials.goes_on(trial.trial_id) else verdict
        return str(_DECISIONS[verdict])

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """A trial that waits for a worker already, else the paused one that comes next."""
        waiting = _first(tune_controller, Trial.PENDING)
        if waiting is not None:
            return waiting
        trials = self._searcher.trials
        step = trials.next_step()
        if step is None:
            if trials.spent:
                _stop_paused(tune_controller)
            return None
        name = trials.trial_of(step)
        trial = next((trial for trial in tune_controller.get_trials() if trial.trial_id == name), None)
        if trial is None or name is None:
            return None  # the searcher starts it
        if trial.is_finished():  # somebody else has stopped it
            trials.close(name)
        if trial.status != Trial.PAUSED:
            return None  # its checkpoint is still being saved
        trials.take_up(step, name)
        if trial.checkpoint is None:
            _log.warning("trial %s has no checkpoint and begins anew; report some with tune.report", name)
        return trial

    def debug_string(self) -> str:
        """A line for Tune's own report."""
        runs = self._searcher.search.runs
        waiting = sum(run.waits for run in runs)
        return f"epochcast: {len(runs)} trials, {waiting} of them paused, {sum(run.newest for run in runs):g} steps."


def _drawn(param_space: Mapping[str, Any]) -> dict[str, Any]:
    """What of a space is drawn, at the place where it stands; the rest is as it is."""
    _, domains, grids = parse_spec_vars(param_space)
    found: dict[str, Any] = {}
    for path, domain in [*domains, *grids]:
        if not all(isinstance(name, str) for name in path):
            raise ConfigError(f"{'.'.join(map(str, path))} of param_space is drawn inside a list; give it a name")
        inner = found
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = domain
    return found


def _first(tune_controller: Any, status: str) -> Any:
    return next((trial for trial in tune_controller.get_trials() if trial.status == status), None)


def _stop_paused(tune_controller: Any) -> None:
    for trial in list(tune_controller.get_trials()):
        if trial.status == Trial.PAUSED:
            tune_controller.stop_trial(trial)
