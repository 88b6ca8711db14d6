"""`FreezeThawTrials`: the trials of an engine as the runs of a freeze-thaw search."""

from __future__ import annotations

import json
import math
from enum import Enum
from typing import TYPE_CHECKING, TypedDict

from epochcast.integrations.base import harmless
from epochcast.search import FreezeThaw, Step

if TYPE_CHECKING:
    from typing import Self

    from epochcast.forecaster import Forecaster


class FreezeThawOptions(TypedDict, total=False):
    """Options that are handed on to `epochcast.FreezeThaw`."""

    seed: int
    every: int | None
    first: int
    forecaster: Forecaster | None


class Verdict(Enum):
    """What becomes of a trial after a result."""

    GO_ON = "go on"
    PAUSE = "pause"
    STOP = "stop"


class FreezeThawTrials:
    """Trials that are paused and resumed as a freeze-thaw search says.

    A worker that is free takes up what `next_step` says: a run to be started, as a trial that the engine makes, or one
    to be gone on with. A run may have several trials, one after the other, where an engine cannot resume a trial whose
    worker is gone.

    Args:
        search: What decides.
        budget: How many steps all runs together may take; no limit by default.
        workers: How many trials may be trained side by side; by default as many as ask.
        most_runs: How many runs may be started; no limit by default.
    """

    def __init__(
        self,
        search: FreezeThaw,
        *,
        budget: float = math.inf,
        workers: float = math.inf,
        most_runs: float = math.inf,
    ) -> None:
        self.search = search
        self._budget, self._workers, self._most_runs = budget, workers, most_runs
        self._given = 0.0  # steps that were asked for
        self._next: Step | None = None  # asked for, and not yet taken up by a worker
        self._run_of: dict[str, int] = {}  # by trial
        self._trial_of: dict[int, str] = {}  # the newest trial of a run
        self._failed_at: dict[int, float] = {}  # the newest step of a run when its worker failed

    # --- what workers are to do ----------------------------------------------------------------------------------

    @property
    def spent(self) -> bool:
        """Whether the budget is trained, or is being trained."""
        return self._given >= self._budget

    def next_step(self) -> Step | None:
        """What the next free worker is to do, the same until one takes it up; None if there is nothing for now."""
        if self._next is None and not self.spent and self._under_way() < self._workers:
            self._next = self.search.ask(new=len(self.search.runs) < self._most_runs)
            if self._next is not None:
                self._given += self._next.until - self._next.since
        return self._next

    def take_up(self, step: Step, trial: str) -> None:
        """A worker begins with what `next_step` said, as this trial."""
        self._run_of[trial], self._trial_of[step.run] = step.run, trial
        self._next = None

    def goes_on(self, trial: str) -> bool:
        """Whether the worker of a trial that is to be paused may keep it, as it is what comes next; it takes it up."""
        step = self.next_step()
        if step is None or self.trial_of(step) != trial:
            return False
        self.take_up(step, trial)
        return True

    def trial_of(self, step: Step) -> str | None:
        """The trial that is to be gone on with; None for a run that is to be started."""
        return self._trial_of.get(step.run)

    def _under_way(self) -> int:
        return sum(run.until is not None for run in self.search.runs)

    # --- what trials show ----------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """All trials, the first one first."""
        return list(self._run_of)

    def knows(self, trial: str) -> bool:
        """Whether the trial is one of the search's."""
        return trial in self._run_of

    def is_over(self, trial: str) -> bool:
        """Whether the trial is never gone on with."""
        return self.search.runs[self._run_of[trial]].over

    def tell(self, trial: str, step: float, value: float) -> Verdict:
        """Take in a result. One that cannot be used is logged, and the trial goes on; past the horizon it is over."""
        run = self._run_of[trial]
        with harmless(f"taking in trial {trial} at step {step}"):
            if step > self.search.horizon:
                self.close(trial)
            else:
                self.search.tell(run, step, value)
        known = self.search.runs[run]
        if known.over:
            return Verdict.STOP
        return Verdict.PAUSE if known.until is None else Verdict.GO_ON

    def close(self, trial: str) -> None:
        """The trial has ended and is never gone on with, however far it came."""
        run = self._run_of[trial]
        if not self.is_over(trial):
            self.search.tell(run, self.search.runs[run].newest, math.nan)
        if self._next is not None and self._next.run == run:
            self._next = None

    def fail(self, trial: str) -> None:
        """The worker of a trial is gone: its run goes on where it was told last, unless it has failed there before."""
        run = self._run_of[trial]
        newest = self.search.runs[run].newest
        if self._failed_at.get(run) == newest:
            self.close(trial)
        else:
            self._failed_at[run] = newest
            self.search.release(run)

    def release(self) -> list[str]:
        """All workers are gone: what they were training is paused where it was told last; which trials these were."""
        busy = [trial for run, trial in self._trial_of.items() if self.search.runs[run].until is not None]
        self.search.release()
        self._next = None
        return busy

    # --- state ---------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The search, which trial is which run, and how many may be started."""
        most_runs = None if math.isinf(self._most_runs) else self._most_runs
        return json.dumps({"search": self.search.to_json(), "trials": self._run_of, "most_runs": most_runs})

    @classmethod
    def from_json(cls, text: str, forecaster: Forecaster | None, *, budget: float, workers: float) -> Self:
        """The trials that `to_json` has written; no worker is there any more."""
        state = json.loads(text)
        search = FreezeThaw.from_json(state["search"], forecaster)
        most_runs = math.inf if state["most_runs"] is None else state["most_runs"]
        trials = cls(search, budget=budget, workers=workers, most_runs=most_runs)
        trials._run_of = dict(state["trials"])
        trials._trial_of = {run: trial for trial, run in trials._run_of.items()}
        trials._given = sum(run.newest for run in search.runs)
        trials.release()
        return trials
