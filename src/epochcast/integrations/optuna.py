"""Optuna: a pruner that ends trials whose forecast leaves them too small a chance to beat the best trial.

    study = optuna.create_study(direction="maximize", pruner=EpochcastPruner(horizon=50, metric="accuracy"))

Extra: `pip install 'epochcast[optuna]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochcast.errors import MissingExtraError
from epochcast.integrations.base import StopperOptions, check_options, harmless, metric_of
from epochcast.integrations.trials import Trials
from epochcast.metric import Metric
from epochcast.stopping import Decision

try:
    from optuna.pruners import BasePruner
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ImportError:
    raise MissingExtraError("optuna", "optuna") from None

if TYPE_CHECKING:
    from typing import Unpack

REASON = "epochcast:reason"  # user attributes of a pruned trial
PROBABILITY = "epochcast:probability"
IMPUTED_FINAL = "epochcast:imputed_final"


class EpochcastPruner(BasePruner):
    """Prunes a trial once its forecast leaves it too small a chance to beat the best completed trial.

    The value to beat is the best that a completed trial returned, so an objective must return what it reports: its
    best or its last value. Everything is taken from the storage, which any number of processes may share. A trial
    that reports at steps 0, 1, 2, ... counts from 0: its first value belongs to one step of training.

    A pruned trial carries three user attributes: `epochcast:reason`, a sentence; `epochcast:probability`, its chance
    to beat the best; `epochcast:imputed_final`, the median of the forecast at the horizon. The sentence is also logged
    under "epochcast", at INFO and once per trial. With `dry_run` no trial is pruned, and the attributes tell what would
    have happened first.

    Args:
        horizon: How many steps a trial reports if it is not pruned.
        metric: What it reports; may be left out for losses.
        **options: Those of [`Stopper`][epochcast.Stopper], such as `confidence`, `min_steps` and `dry_run`; a trial is
            checked about 20 times unless `check_every` is given.

    Raises:
        InputError: If an option cannot be used.
        ConfigError: At the first trial, if the study has another direction than the metric.

    Examples:
        >>> import optuna
        >>> from epochcast.integrations.optuna import EpochcastPruner
        >>> pruner = EpochcastPruner(horizon=50, metric="accuracy")
        >>> study = optuna.create_study(direction="maximize", pruner=pruner)
    """

    def __init__(self, horizon: int, metric: Metric | str | None = None, **options: Unpack[StopperOptions]) -> None:
        check_options(horizon, metric or "loss", options)  # an unusable option is refused now
        self._horizon, self._metric, self._options = horizon, metric, options
        self._trials: Trials | None = None

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Whether to prune a trial after the values that it has reported.

        Args:
            study: The search.
            trial: One of its trials.

        Returns:
            True to prune it.
        """
        minimize = study.direction is StudyDirection.MINIMIZE
        metric = metric_of("value", self._metric, minimize)  # raises if the study has another direction
        if self._trials is None:
            self._trials = Trials(self._horizon, metric, **self._options)
        decision = self._trials.judge(f"{study.study_name}/{trial.number}", _seen(trial), _best(study, metric))
        if decision is None or not decision.reason.stops:
            return False
        if REASON not in trial.user_attrs:
            _explain(study, trial, decision)
        return decision.stop


def _seen(trial: FrozenTrial) -> list[tuple[float, float]]:
    """Steps and values reported, the first trained value at step 1 or later."""
    pairs = sorted(trial.intermediate_values.items())
    steps = [step for step, _ in pairs]
    if steps == [0]:
        return []  # either the untrained model or the first step of a count from 0: the next step will tell
    shift = 1 if steps[:2] == [0, 1] else 0
    return [(float(step + shift), value) for step, value in pairs]


def _best(study: Study, metric: Metric) -> float | None:
    completed = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return metric.best_of(trial.value for trial in completed)


def _explain(study: Study, trial: FrozenTrial, decision: Decision) -> None:
    """Keep the decision with the trial. A pruner is handed a frozen trial, so this goes through the storage."""
    final = None if decision.final is None else decision.final[0]
    attributes = {REASON: str(decision), PROBABILITY: decision.probability, IMPUTED_FINAL: final}
    with harmless("storing the decision"):
        for name, content in attributes.items():
            if content is not None:
                study._storage.set_trial_user_attr(trial._trial_id, name, content)
