"""`OptunaRule`: a pruner of Optuna in a real study, which is shown recorded values."""

from __future__ import annotations

from typing import Any

from epochcast.errors import MissingExtraError
from epochcast.experiments.search.rule import Ending, Rule
from epochcast.experiments.task_runs import TaskRuns

try:
    from optuna import logging, pruners, samplers, storages, study
    from optuna.trial import TrialState
except ImportError:
    raise MissingExtraError("optuna", "optuna") from None


class OptunaRule(Rule):
    """Every run is a trial that reports at steps 0, 1, 2, ..., as Optuna's pruners expect.

    A trial that comes to the end returns the best value that it has shown. Its parameters are choices among the values
    that are recorded, so that a pruner that reads them is told nothing of their scales.

    Hyperband draws its brackets from the name of the study, which is therefore given.
    """

    def __init__(self, runs: TaskRuns, pruner: pruners.BasePruner, study_name: str) -> None:
        self._runs, self._values = runs, list[float]()
        before = logging.get_verbosity()
        logging.set_verbosity(logging.WARNING)  # that a study begins is no news here
        self._study = study.create_study(
            study_name=study_name,
            storage=storages.InMemoryStorage(),
            direction="minimize" if runs.metric.minimize else "maximize",
            sampler=samplers.RandomSampler(0),  # which has nothing to choose
            pruner=pruner,
        )
        logging.set_verbosity(before)
        self._choices = _choices(runs)
        self._trial: Any = None

    def begin(self, run: int) -> None:
        config = {} if self._runs.configs is None else self._runs.configs[run]
        if config:
            self._study.enqueue_trial(config)
        self._trial, self._values = self._study.ask(), []
        for name in config:
            self._trial.suggest_categorical(name, self._choices[name])

    def stops(self, step: int, value: float) -> bool:
        self._values.append(value)
        self._trial.report(value, step - 1)
        return bool(self._trial.should_prune())

    def end(self, ending: Ending) -> None:
        if ending is Ending.FINISHED:
            self._study.tell(self._trial, self._runs.metric.best_of(self._values))
        else:
            self._study.tell(self._trial, state=TrialState.PRUNED if ending is Ending.STOPPED else TrialState.FAIL)


def _choices(runs: TaskRuns) -> dict[str, list[float]]:
    """The values that occur of each entry of the configurations."""
    found: dict[str, set[float]] = {}
    for config in runs.configs or ():
        for name, value in config.items():
            found.setdefault(name, set()).add(value)
    return {name: sorted(values) for name, values in found.items()}
