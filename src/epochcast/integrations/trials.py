"""`Trials`: what the integrations of searches share, runs side by side that are judged against each other."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from epochcast.encode import Others
from epochcast.errors import InputError
from epochcast.integrations.base import StopperOptions, harmless
from epochcast.integrations.other_trials import OtherTrials
from epochcast.metric import Metric
from epochcast.stopping import Decision, Reason, Stopper

if TYPE_CHECKING:
    from typing import Unpack

_MOST_CHECKS = 20  # of a trial: a forecast takes milliseconds
_log = logging.getLogger("epochcast")


class Trials:
    """The trials of a search, each with a stopper of its own.

    A trial has to beat the best of the other trials so far: with `target="any"` every value that one of them has
    reached counts, with "final" only the last value of those that came to the horizon. `best` is a further value to
    beat. To a model that reads other runs, the other trials, running ones too, are the context of each, with their
    configurations; `context=False` switches that off. Options are those of `epochcast.Stopper`, but a trial is checked
    about 20 times unless `check_every` is given. `decisions` holds the newest decision on each trial. Why a trial is
    stopped is logged under "epochcast", at INFO and once per trial; all other decisions at DEBUG.
    """

    def __init__(self, horizon: int, metric: Metric | str, **options: Unpack[StopperOptions]) -> None:
        self._stoppers: dict[str, TrialStopper] = {}  # of trials that are not over
        self._last_steps: dict[str, float] = {}
        self._reached: dict[str, float] = {}  # what each trial offers to beat
        self._told: set[str] = set()  # of which it was logged why they are stopped
        first = Stopper(horizon, metric, **options)  # an unusable option is refused now, not in the middle of a search
        if "cutoffs" not in options:
            options = {"check_every": max(1, first.horizon // _MOST_CHECKS), **options}
        if options.pop("schedule", None) is not None:
            options["forecaster"] = first.forecaster  # told once for all trials
        self._horizon, self._metric, self._options = horizon, metric, options
        self.metric, self._known_best = first.metric, first.best
        self.others = OtherTrials(first.horizon, first.metric)
        self.decisions: dict[str, Decision] = {}

    def check(
        self,
        trial: str,
        monitor: str,
        step_name: str,
        result: Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
    ) -> bool:
        """Whether to stop a trial after a result, which holds its newest value and its step under these names.

        A name that is missing from the first result is a mistake and raises; later results may lack it.
        """
        seen = newest_in(result, monitor, step_name, first=not self.decisions)
        if seen is None:
            return False
        decision = self.judge(trial, [seen], self._best_of_others(trial), config)
        return decision is not None and decision.stop

    def judge(
        self,
        trial: str,
        seen: Iterable[tuple[float, float]],
        best: float | None,
        config: Mapping[str, Any] | None = None,
    ) -> Decision | None:
        """The decision on a trial after what was seen of it, (step, value) each; what is known already is passed over.

        A decision to stop is kept. None if there is nothing to decide on, or if the forecast failed, which is logged.
        """
        with harmless(f"judging trial {trial}"):
            verdict = self.decisions.get(trial)
            if verdict is not None and verdict.stop:
                return verdict
            last_step = self._last_steps.get(trial, -1.0)
            newer = [(step, value) for step, value in seen if step > last_step]
            if not newer:
                return verdict
            self._prepare(trial, config)
            news = [self._update(trial, step, value, best) for step, value in newer]
            # Between two questions several values may come, and the check may have fallen on one before the newest.
            verdict = next((decision for decision in reversed(news) if decision.reason is not Reason.NOT_DUE), news[-1])
            self.decisions[trial] = verdict
            if verdict.reason.stops and trial not in self._told:  # a trial of a dry run goes on
                self._told.add(trial)
                _log.info("trial %s at step %g: %s", trial, verdict.step, verdict)
            if verdict.stop or verdict.reason is Reason.FINISHED:
                self._stoppers.pop(trial, None)  # with all that its model remembers
            return verdict
        return None

    def _prepare(self, trial: str, config: Mapping[str, Any] | None) -> None:
        """See to it that there is a stopper for the trial, which knows its configuration."""
        if trial not in self._stoppers:
            self._stoppers[trial] = stopper = TrialStopper(self._horizon, self._metric, **self._options)
            stopper.next_run(config=config)
            stopper.among = partial(self.others.beside, trial)
            if config is not None:
                self.others.add(trial, [], config)

    def _update(self, trial: str, step: float, value: float, best: float | None) -> Decision:
        stopper = self._stoppers[trial]
        self.others.add(trial, [(step, value)])
        stopper.best = self.metric.best_of((best, self._known_best))
        decision = stopper.update(step, value)
        self._last_steps[trial] = step
        if math.isfinite(value) and (stopper.target == "any" or decision.reason is Reason.FINISHED):
            before = self._reached.get(trial, value)
            self._reached[trial] = float(value if self.metric.better(value, before) else before)
        return decision

    def _best_of_others(self, trial: str) -> float | None:
        return self.metric.best_of(value for other, value in self._reached.items() if other != trial)


def newest_in(result: Mapping[str, Any], monitor: str, step_name: str, first: bool) -> tuple[Any, Any] | None:
    """Step and value that a result holds under these names; None where it lacks one, an error in the first result."""
    for name in (monitor, step_name):
        if name not in result:
            if first:
                known = sorted(key for key, item in result.items() if isinstance(item, (int, float)))
                raise InputError(f"{name!r} is not reported; these names are: {', '.join(known) or 'none'}")
            return None
    return result[step_name], result[monitor]


class TrialStopper(Stopper):
    """The stopper of one trial, to which its search tells the other trials at each check.

    It leaves it to the search, too, to tell what is news.
    """

    news_level = logging.DEBUG
    among: Callable[[], Others | None] | None = None

    @property
    def _reads_anew(self) -> bool:
        return True  # with other trials beside it, all that is known may have changed since the check before

    def _among(self) -> Others | None:
        return None if self.among is None else self.among()

    def __reduce__(self) -> tuple[Any, ...]:
        return *super().__reduce__(), {"among": self.among}
