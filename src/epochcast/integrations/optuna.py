"""Optuna: a pruner that ends trials whose forecast leaves them too small a chance to beat the best trial.

    study = optuna.create_study(direction="maximize", pruner=EpochcastPruner(horizon=50, metric="accuracy"))

Extra: `pip install 'epochcast[optuna]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochcast.checks import flag, is_number
from epochcast.errors import MissingExtraError
from epochcast.integrations.base import StopperOptions, check_options, harmless, metric_of
from epochcast.integrations.trials import Trials
from epochcast.metric import Metric
from epochcast.space import Scale
from epochcast.stopping import Decision

try:
    from optuna import TrialPruned
    from optuna.distributions import CategoricalDistribution
    from optuna.pruners import BasePruner
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, Trial, TrialState
except ImportError:
    raise MissingExtraError("optuna", "optuna") from None

if TYPE_CHECKING:
    from typing import Unpack

REASON = "epochcast:reason"  # user attributes of a pruned trial
PROBABILITY = "epochcast:probability"
IMPUTED_FINAL = "epochcast:imputed_final"
IMPUTED = "epochcast:imputed"  # whether such a trial may return its forecast


class EpochcastPruner(BasePruner):
    """Prunes a trial once its forecast leaves it too small a chance to beat the best completed trial.

    The value to beat is the best that a completed trial returned, so an objective must return what it reports: its
    best or its last value. Everything is taken from the storage, which any number of processes may share. A trial
    that reports at steps 0, 1, 2, ... counts from 0: its first value belongs to one step of training.

    To a model that reads other runs, all other trials of the study are the context of the one that is judged, finished,
    pruned or running, with their parameters as configurations and the scales of their distributions; of very many the
    newest and the best. `context=False` switches that off.

    A pruned trial carries three user attributes: `epochcast:reason`, a sentence; `epochcast:probability`, its chance
    to beat the best; `epochcast:imputed_final`, the median of the forecast at the horizon. The sentence is also logged
    under "epochcast", at INFO and once per trial. With `dry_run` no trial is pruned, and the attributes tell what would
    have happened first.

    Samplers such as TPE rank every pruned trial below every completed one, though it be hardly worse than the best.
    With `imputed=True` an objective that ends in `return pruned(trial)` completes such a trial with the value that it
    was forecast to end at, from which the sampler learns; to the pruner it remains one that nothing has to beat.

    Args:
        horizon: How many steps a trial reports if it is not pruned.
        metric: What it reports; may be left out for losses.
        imputed: Whether `pruned` completes a trial with its forecast, in place of pruning it.
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

    def __init__(
        self,
        horizon: int,
        metric: Metric | str | None = None,
        *,
        imputed: bool = False,
        **options: Unpack[StopperOptions],
    ) -> None:
        check_options(horizon, metric or "loss", options)  # an unusable option is refused now
        self._horizon, self._metric, self._options = horizon, metric, options
        self._imputed = flag(imputed, "imputed")
        self._studies: dict[str, StudyTrials] = {}

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
        if study.study_name not in self._studies:
            self._studies[study.study_name] = StudyTrials(self._horizon, metric, self._options)
        known = self._studies[study.study_name]
        with harmless("reading the other trials"):  # a storage may be locked; what was read before still holds
            known.read(study)
        decision = known.judge(study, trial)
        if decision is None or not decision.reason.stops:
            return False
        if REASON not in trial.user_attrs and trial.number not in known.explained:
            known.explained.add(trial.number)
            _explain(study, trial, decision, self._imputed)
        return decision.stop


class StudyTrials:
    """The trials of one study as this process has read them."""

    def __init__(self, horizon: int, metric: Metric, options: StopperOptions) -> None:
        self._trials = Trials(horizon, metric, **options)
        self._over: set[int] = set()  # numbers of trials that will not change any more
        self._values: dict[int, int] = {}  # of the others, how many values were read
        self._best: float | None = None
        self.explained: set[int] = set()  # trials with which the first decision against them was stored

    def read(self, study: Study) -> None:
        """Take in what is new; a trial that is over is read once."""
        for trial in study.get_trials(deepcopy=False):
            if trial.number in self._over or trial.state is TrialState.WAITING:
                continue
            if trial.state.is_finished():
                self._over.add(trial.number)
                self._values.pop(trial.number, None)
                if trial.state is TrialState.COMPLETE and IMPUTED not in trial.user_attrs:
                    self._best = self._trials.metric.best_of((self._best, trial.value))
            elif self._values.get(trial.number) == len(trial.intermediate_values):
                continue
            else:
                self._values[trial.number] = len(trial.intermediate_values)
            self._trials.others.know_scales(_scales(trial))
            self._trials.others.replace(_name(study, trial), _seen(trial), trial.params)

    def judge(self, study: Study, trial: FrozenTrial) -> Decision | None:
        """The decision on a trial that is running."""
        return self._trials.judge(_name(study, trial), _seen(trial), self._best, trial.params)


def pruned(trial: Trial) -> float:
    """What an objective returns where `trial.should_prune()` says so.

    Args:
        trial: The trial that is to be pruned.

    Returns:
        The value that the trial was forecast to end at, where its pruner has `imputed=True`.

    Raises:
        TrialPruned: Where it has not, is another one, or there was no forecast: the trial counts as pruned.
    """
    attributes = trial.study._storage.get_trial(trial._trial_id).user_attrs  # the trial's own are those of its start
    if IMPUTED not in attributes:
        raise TrialPruned
    return float(attributes[IMPUTED_FINAL])


def _name(study: Study, trial: FrozenTrial) -> str:
    return f"{study.study_name}/{trial.number}"


def _scales(trial: FrozenTrial) -> dict[str, Scale]:
    """On which scales the parameters of a trial live; choices among numbers are left to be told from their values."""
    scales: dict[str, Scale] = {}
    for name, distribution in trial.distributions.items():
        if not isinstance(distribution, CategoricalDistribution):
            scales[name] = "log" if distribution.log else "linear"
        elif not all(is_number(choice) for choice in distribution.choices):
            scales[name] = "category"
    return scales


def _seen(trial: FrozenTrial) -> list[tuple[float, float]]:
    """Steps and values reported, the first trained value at step 1 or later."""
    pairs = sorted(trial.intermediate_values.items())
    steps = [step for step, _ in pairs]
    if steps == [0]:
        return []  # either the untrained model or the first step of a count from 0: the next step will tell
    shift = 1 if steps[:2] == [0, 1] else 0
    return [(float(step + shift), value) for step, value in pairs]


def _explain(study: Study, trial: FrozenTrial, decision: Decision, imputed: bool) -> None:
    """Keep the decision with the trial. A pruner is handed a frozen trial, so this goes through the storage."""
    final = None if decision.final is None else decision.final[0]
    attributes = {REASON: str(decision), PROBABILITY: decision.probability, IMPUTED_FINAL: final}
    if imputed and decision.stop and final is not None:
        attributes[IMPUTED] = True
    with harmless("storing the decision"):
        for name, content in attributes.items():
            if content is not None:
                study._storage.set_trial_user_attr(trial._trial_id, name, content)
