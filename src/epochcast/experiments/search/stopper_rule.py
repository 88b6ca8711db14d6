"""`StopperRule`: the stopping rule of this library, in a loop of one's own."""

from __future__ import annotations

from epochcast.experiments.search.rule import Ending, Rule
from epochcast.experiments.task_runs import TaskRuns
from epochcast.forecaster import Forecaster
from epochcast.stopping.stopper import Stopper


class StopperRule(Rule):
    """A real `Stopper` with its defaults."""

    def __init__(self, runs: TaskRuns, forecaster: Forecaster, *, context: bool) -> None:
        self._configs = runs.configs
        self._stopper = Stopper(runs.horizon, runs.metric, forecaster=forecaster, context=context)

    def begin(self, run: int) -> None:
        self._stopper.next_run(config=None if self._configs is None else self._configs[run])

    def stops(self, step: int, value: float) -> bool:
        return self._stopper.update(step, value).stop

    def end(self, ending: Ending) -> None:
        """The beginning of the next run ends this one."""
