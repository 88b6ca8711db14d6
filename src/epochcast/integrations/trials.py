"""`Trials`: what the integrations of searches share, runs side by side that are judged against each other."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from epochcast.errors import InputError
from epochcast.integrations.base import StopperOptions, harmless
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
    beat. Options are those of `epochcast.Stopper`, but a trial is checked about 20 times unless `check_every` is given.
    `decisions` holds the newest decision on each trial. Why a trial is stopped is logged under "epochcast", at INFO
    and once per trial; all other decisions at DEBUG.
    """

    def __init__(self, horizon: int, metric: Metric | str, **options: Unpack[StopperOptions]) -> None:
        self._stoppers: dict[str, Stopper] = {}  # of trials that are not over
        self._last_steps: dict[str, float] = {}
        self._reached: dict[str, float] = {}  # what each trial offers to beat
        self._told: set[str] = set()  # of which it was logged why they are stopped
        first = Stopper(horizon, metric, **options)  # an unusable option is refused now, not in the middle of a search
        if "cutoffs" not in options:
            options = {"check_every": max(1, first.horizon // _MOST_CHECKS), **options}
        if options.pop("schedule", None) is not None:
            options["forecaster"] = first.forecaster  # told once for all trials
        self._horizon, self._metric, self._options = horizon, metric, options
        self.minimize, self._known_best = first.metric.minimize, first.best
        self.decisions: dict[str, Decision] = {}

    def check(self, trial: str, monitor: str, step_name: str, result: Mapping[str, Any]) -> bool:
        """Whether to stop a trial after a result, which holds its newest value and its step under these names.

        A name that is missing from the first result is a mistake and raises; later results may lack it.
        """
        for name in (monitor, step_name):
            if name not in result:
                if not self.decisions:
                    known = sorted(key for key, item in result.items() if isinstance(item, (int, float)))
                    raise InputError(f"{name!r} is not reported; these names are: {', '.join(known) or 'none'}")
                return False
        decision = self.judge(trial, [(result[step_name], result[monitor])], self._best_of_others(trial))
        return decision is not None and decision.stop

    def judge(self, trial: str, seen: Iterable[tuple[float, float]], best: float | None) -> Decision | None:
        """The decision on a trial after what was seen of it, (step, value) each; what is known already is passed over.

        A decision to stop is kept. None if there is nothing to decide on, or if the forecast failed, which is logged.
        """
        with harmless(f"judging trial {trial}"):
            verdict = self.decisions.get(trial)
            if verdict is not None and verdict.stop:
                return verdict
            last_step = self._last_steps.get(trial, -1.0)
            news = [self._update(trial, step, value, best) for step, value in seen if step > last_step]
            if not news:
                return verdict
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

    def _update(self, trial: str, step: float, value: float, best: float | None) -> Decision:
        if trial not in self._stoppers:
            self._stoppers[trial] = self._new_stopper()
        stopper = self._stoppers[trial]
        stopper.best = best if self._known_best is None else self._better(best, self._known_best)
        decision = stopper.update(step, value)
        self._last_steps[trial] = step
        if math.isfinite(value) and (stopper.target == "any" or decision.reason is Reason.FINISHED):
            self._reached[trial] = self._better(self._reached.get(trial), float(value))
        return decision

    def _best_of_others(self, trial: str) -> float | None:
        best = None
        for other, value in self._reached.items():
            if other != trial:
                best = self._better(best, value)
        return best

    def _better(self, one: float | None, other: float) -> float:
        if one is None:
            return other
        return min(one, other) if self.minimize else max(one, other)

    def _new_stopper(self) -> Stopper:
        return _quiet(Stopper(self._horizon, self._metric, **self._options))

    # --- state -----------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        # Searches save themselves by pickling what they hold, which a stopper's memory of a run does not survive.
        return {**vars(self), "_stoppers": {trial: stopper.to_json() for trial, stopper in self._stoppers.items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({"_told": set(), **state})
        forecaster = self._options.get("forecaster")
        self._stoppers = {
            trial: _quiet(Stopper.from_json(text, forecaster)) for trial, text in state["_stoppers"].items()
        }


def _quiet(stopper: Stopper) -> Stopper:
    """A stopper that leaves it to its search to tell what is news."""
    stopper.news_level = logging.DEBUG
    return stopper
