"""`FreezeThaw`: a search that pauses runs, tries others and comes back, by each run's chance to beat the best."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from epochcast.checks import count, finite, horizon_of, not_negative, number
from epochcast.curve import Array, Curves, clip_to_hard_bounds
from epochcast.errors import InputError
from epochcast.forecaster import Forecaster
from epochcast.metric import Metric, as_metric
from epochcast.others import FEWEST_VALUES, newest_and_largest
from epochcast.search.chances import Chances
from epochcast.search.space import SearchSpace, space_of
from epochcast.search.trained_run import TrainedRun
from epochcast.stopping.model_name import ModelName, forecaster_of
from epochcast.stopping.state import metric_to_dict

if TYPE_CHECKING:
    from typing import Self

FIRST = 8  # runs that are started before one is chosen by its forecast
CANDIDATES = 200  # new configurations that are weighed against the paused runs
_FIRST_PART = 50  # a new run is trained for this part of the horizon, unless `every` says otherwise
_UNTRIED = 0.25  # how often a run is started whatever is promised of those that wait
_HARDLY = 1e-3  # a chance below which nothing is to be hoped for
_GAINS = np.array([1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.4])  # shares of what is still to be gained


@dataclass(frozen=True)
class Step:
    """What to train next."""

    run: int  # a number that stands for the run
    config: dict[str, Any]
    until: int  # the step up to which to train it
    since: float = 0.0  # the step from which to go on; 0 for a run to be started


@dataclass(frozen=True)
class Best:
    """The best value that a search has found."""

    run: int
    config: dict[str, Any]
    step: float
    value: float


class FreezeThaw:
    """A search over training runs that can be paused: which of them to go on with, or which new one to start.

    Ask for a step, train that run up to the step named and tell the values that it shows; any number of workers may do
    so side by side. A run should keep its newest checkpoint, from which it is gone on with.

    Each time a number of further steps is drawn, and the run goes on, or begins, of which the largest gain over the
    best value so far is to be expected after them: what pays soon and what pays late take turns. What forecasts promise
    of configurations that were never tried is held against what those tried have come to. Every fourth time a run is
    started whatever is promised: forecasts count what is won, not what is learnt.

    Args:
        space: Where new configurations come from: a mapping of names to domains, which are `(low, high)`,
            `(low, high, "log")`, a list of choices, one value, or those of Optuna, Ray Tune, Syne Tune or ConfigSpace;
            or a list of configurations, each of which is started once.
        horizon: The step at which every run ends.
        metric: What the runs report: a name or a [`Metric`][epochcast.Metric].
        seed: Of all that is drawn: the same seed and the same values lead to the same steps.
        every: By how many steps a run is gone on with. By default it begins with a fiftieth of the horizon, and goes on
            each time for as long again as it has been trained.
        first: How many runs are started before any is gone on with: of one or two nothing tells how much they differ.
        forecaster: What forecasts the runs: the default model unless given. One that reads other runs learns from the
            whole search which configurations are worth a try.

    Raises:
        InputError: If an argument cannot be used.

    Examples:
        >>> import epochcast as ec
        >>> search = ec.FreezeThaw({"rate": (1e-4, 1.0, "log")}, horizon=10, metric="accuracy")
        >>> for _ in range(12):
        ...     step = search.ask()
        ...     for epoch in range(int(step.since) + 1, step.until + 1):
        ...         search.tell(step.run, epoch, 0.9 - 0.8 * 0.7**epoch - 0.1 * abs(step.config["rate"] - 0.1))
        >>> search.best.value > 0.5
        True
    """

    def __init__(
        self,
        space: Mapping[str, Any] | Sequence[Mapping[str, Any]] | SearchSpace,
        horizon: int,
        metric: Metric | str,
        *,
        seed: int = 0,
        every: int | None = None,
        first: int = FIRST,
        forecaster: Forecaster | None = None,
    ) -> None:
        self.space = space_of(space)
        self.horizon = horizon_of(horizon)
        self.metric = as_metric(metric)
        self.seed = count(seed, "seed", least=0)
        self.every = None if every is None else count(every, "every")
        self.first = count(first, "first")
        self._forecaster = None if forecaster is None else forecaster_of(forecaster)
        self._runs: list[TrainedRun] = []
        self._asked = 0  # how often

    @property
    def forecaster(self) -> Forecaster:
        """What forecasts the runs; the default model is loaded when it is first needed."""
        if self._forecaster is None:
            self._forecaster = _default()
        return self._forecaster

    # --- what workers do -----------------------------------------------------------------------------------------

    def ask(self, new: bool = True) -> Step | None:
        """What to train next.

        Args:
            new: Whether another run may be started.

        Returns:
            A run, its configuration, and the step up to which to train it; None if all runs are over or being trained,
            and no other can be started.
        """
        rng = np.random.default_rng([self.seed, self._asked])  # of its own each time, so that a saved search goes on
        started = [run.config for run in self._runs]
        candidates = self.space.candidates(CANDIDATES, rng, started) if new else []
        news = [TrainedRun(config) for config in candidates]
        known = self._most_promising([run for run in self._runs if not run.over])
        if not (news or any(run.waits for run in known)):
            return None
        chosen = self._choice(known, news, rng)
        self._asked += 1
        if not any(chosen is run for run in known):
            self._runs.append(chosen)
        return self._begin(chosen)

    def tell(self, run: int, step: float, value: float) -> None:
        """Take in a value that a run shows.

        A run is paused once it has told a value of the step that `ask` named. One whose value is NaN or infinite has
        broken down and is never gone on with. A step that is known already, as after a restart, changes nothing.

        Args:
            run: The number of the run.
            step: The step of the value, up to the horizon.
            value: The value of the metric.

        Raises:
            InputError: If there is no such run, the step lies past the horizon, or the metric cannot have the value.
        """
        known, step, value = self._run(run), not_negative(step, "step"), number(value, "value")
        if step > self.horizon:
            raise InputError(f"step {step:g} of run {run} lies past horizon={self.horizon}; leave it out")
        if math.isfinite(value):
            value = float(clip_to_hard_bounds(Curves.of([finite(value, "value")], [step]), self.metric).values[0, 0])
        known.take(step, value, self.horizon)

    def release(self, run: int | None = None) -> None:
        """Give back a run whose worker is gone: it is paused where it told its newest value.

        Args:
            run: The number of the run; all of them by default.

        Raises:
            InputError: If there is no such run.
        """
        for known in self._runs if run is None else [self._run(run)]:
            known.until = None

    # --- what was found ------------------------------------------------------------------------------------------

    @property
    def runs(self) -> list[TrainedRun]:
        """All runs that were started, the first one first: their numbers count from 0."""
        return list(self._runs)

    @property
    def best(self) -> Best | None:
        """The best value so far; None before there is one."""
        number = max(range(len(self._runs)), key=lambda i: self._runs[i].best(self.metric), default=None)
        if number is None or not self._runs[number].values:
            return None
        run = self._runs[number]
        at = int(np.argmax(self.metric.sign * np.array(run.values)))
        return Best(number, run.config, run.steps[at], run.values[at])

    # --- the choice ----------------------------------------------------------------------------------------------

    def _choice(self, known: list[TrainedRun], news: list[TrainedRun], rng: np.random.Generator) -> TrainedRun:
        """The run, new or waiting, of which the largest gain is to be expected after steps whose number is drawn."""
        further, best = int(rng.integers(1, self.horizon + 1)), self.best
        if news and (best is None or len(self._runs) < self.first):
            return news[0]
        if best is None:
            return next(run for run in known if run.waits)
        if news and rng.random() < _UNTRIED:
            known, further = [], self.horizon  # one that may win in the end
        options = [*known, *news]
        waits = np.array([run.waits for run in options])
        chances = self._sober_chances(options, len(known), best.value, further)
        if chances[0, waits].max() < _HARDLY:  # so soon nothing is to be gained
            chances = self._sober_chances(options, len(known), best.value, self.horizon)
        # What is gained on average is the integral over all gains of the chance to gain more.
        expected = np.where(waits, np.diff(_GAINS, prepend=0.0) @ chances, -1.0)
        order = rng.permutation(len(options))  # of several that promise the same any one
        return options[int(order[np.argmax(expected[order])])]

    def _sober_chances(self, options: list[TrainedRun], known: int, best: float, further: int) -> Array:
        """The chances [gain, run] to gain so much after so many further steps; the known runs come first."""
        goals = best + self.metric.sign * _GAINS * self._to_be_gained(best)
        chances = self._chances(options, goals, further)
        self._sober(chances, known)
        return chances[..., 0]

    def _chances(self, options: list[TrainedRun], goals: Array, further: int) -> Array:
        """The chances [goal, run, 2] of runs to reach goals after so many further steps, and at that step itself."""
        newest = np.array([run.newest for run in options])
        at = np.stack([newest + further, np.maximum(newest + 1.0, further)], axis=1)
        scales = self.space.scales
        chances = Chances(self.forecaster, self.horizon, self.metric, scales)
        found = chances.of(options, self._runs, np.minimum(at, self.horizon), goals)
        found[:, newest >= further, 1] = 0.0  # they have passed that step
        return found

    def _sober(self, chances: Array, known: int) -> None:
        """Scale the chances of new configurations, the last ones, down to what they can be on average.

        Configurations drawn alike are as good as each other on average: of n runs that were started the sum of the
        chances tells how many will have reached a goal by a step, and of n + 1 at most one more. Forecasts of runs of
        which nothing was seen are unsure, and promise more than that; a search that believed them would start runs
        without end. Which of the new ones are better than others is left to the forecasts.
        """
        if chances.shape[1] == known:
            return
        reach = (chances[:, :known, 1].sum(axis=1) + 1.0) / (len(self._runs) + 1.0)
        promised = np.maximum(chances[:, known:, 0].mean(axis=1), 1e-300)
        chances[:, known:, 0] *= np.minimum(1.0, reach / promised)[:, None]

    def _to_be_gained(self, best: float) -> float:
        """How much better than the best a value can be; where there is no limit, as much as has been gained so far."""
        if math.isfinite(self.metric.best):
            return abs(self.metric.best - best)
        every = [value for run in self._runs for value in run.values]
        return max(abs(best - value) for value in every)

    def _most_promising(self, runs: list[TrainedRun]) -> list[TrainedRun]:
        """Of very many runs the newest and the best."""
        best = np.array([run.best(self.metric) for run in runs])
        return [runs[row] for row in newest_and_largest(best)]

    def _begin(self, run: TrainedRun) -> Step:
        first = math.ceil(self.horizon / _FIRST_PART)
        further = max(first, int(run.newest)) if self.every is None else self.every
        if not run.tells:
            further = max(further, FEWEST_VALUES)  # fewer tell other runs nothing
        run.until = min(int(run.newest) + further, self.horizon)
        return Step(next(i for i, known in enumerate(self._runs) if known is run), run.config, run.until, run.newest)

    def _run(self, run: int) -> TrainedRun:
        if not (isinstance(run, int) and 0 <= run < len(self._runs)):
            raise InputError(f"run={run!r} was never started; ask() tells the number of a run")
        return self._runs[run]

    # --- state ---------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Save the whole search.

        Returns:
            Text, from which `from_json` goes on as if nothing had happened.
        """
        from epochcast.search.state import VERSION

        model = ModelName.default() if self._forecaster is None else ModelName.of(self._forecaster)
        state = {
            "search": "freeze_thaw",
            "version": VERSION,
            "horizon": self.horizon,
            "metric": metric_to_dict(self.metric),
            "seed": self.seed,
            "every": self.every,
            "first": self.first,
            "model": asdict(model),
            "space": self.space.to_plain(),
            "asked": self._asked,
            "runs": [asdict(run) for run in self._runs],
        }
        return json.dumps(state, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, forecaster: Forecaster | None = None) -> Self:
        """Restore a search. Runs that were being trained still are: `release` gives back those whose workers are gone.

        Args:
            text: What `to_json` returned.
            forecaster: What forecasts the runs; a model that does not ship must be given again.

        Returns:
            The search as it was.

        Raises:
            ConfigError: If the text is no such state, or the forecaster another one.
        """
        from epochcast.search.state import restored

        return restored(cls, text, forecaster)


@cache
def _default() -> Forecaster:
    """The default model, loaded once for all searches."""
    return Forecaster()
