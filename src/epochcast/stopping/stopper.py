"""Rules that end hopeless runs of a search: `Stopper` by forecasts, `Patience` by stagnation, `NoStopping` never."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import ArrayLike

from epochcast.checks import count, flag, not_negative, number, shown
from epochcast.encode import RunsLike
from epochcast.errors import ConfigError, EpochcastError, InputError
from epochcast.forecast import Forecast
from epochcast.forecaster import Forecaster, Stream
from epochcast.metric import Metric, as_metric
from epochcast.schedule import ScheduleLike
from epochcast.stopping.calibration import SMALLEST_CONFIDENCE, FinishedRuns, Guarantee, calibrate, guarantee_of
from epochcast.stopping.decision import (
    MIN_SHARE,
    MIN_STEPS,
    Decision,
    Reason,
    Target,
    check_confidence,
    decide,
    final_of,
    rest_of_run,
    too_early,
)
from epochcast.stopping.model_name import ModelName, model_name_of
from epochcast.stopping.search import NonFinite, Search
from epochcast.stopping.state import parsed

if TYPE_CHECKING:
    from typing import Self


class Stopper(Search):
    """Stops a run once its forecast leaves it too small a chance to beat the best of the runs before it.

        stopper = Stopper(horizon=50, metric="accuracy")
        for epoch in range(1, 51):
            decision = stopper.update(epoch, train_and_validate())
            if decision.stop:
                break
        stopper.next_run()

    A run is stopped when its chance to beat the best is at most 1 - `confidence`: with `target="any"` at every step
    up to the horizon, with "final" at the horizon. Without a best nothing is stopped. `goal` is a fixed value to beat
    in place of the best. No run is stopped before `min_steps` of its values were seen, nor before it has come to
    `min_share` of its horizon. Runs are checked at every `check_every`-th value, or, if `cutoffs` are given, once at
    each of these shares of the horizon. A value at step 0 is the untrained model's.

    A run that leads goes on, unless `stop_leader` holds it against its own best value too: it then ends once it will
    hardly improve any more. A late stop saves little; with `weigh_rest` it takes a smaller chance, 1 - `confidence`
    times the share of the run still to come. `schedule` says how the learning rate goes, as for `Forecaster`. Further
    arguments: see `Search`.
    """

    rule = "stopper"
    _settings = (
        *Search._settings,
        *("confidence", "min_steps", "min_share", "check_every", "cutoffs", "goal", "stop_leader", "weigh_rest"),
    )
    _unknown_to_version_1: ClassVar[dict[str, Any]] = {"min_share": 0.0}

    def __init__(
        self,
        horizon: int,
        metric: Metric | str,
        confidence: float = 0.95,
        min_steps: int = MIN_STEPS,
        check_every: int = 1,
        best: float | None = None,
        *,
        min_share: float = MIN_SHARE,
        cutoffs: Sequence[float] | None = None,
        target: Target = "any",
        goal: float | None = None,
        stop_leader: bool = False,
        weigh_rest: bool = False,
        dry_run: bool = False,
        non_finite: NonFinite = "stop",
        schedule: ScheduleLike | None = None,
        forecaster: Forecaster | None = None,
    ) -> None:
        super().__init__(horizon, metric, best=best, target=target, dry_run=dry_run, non_finite=non_finite)
        self.confidence = check_confidence(confidence)
        self.min_steps = count(min_steps, "min_steps")
        self.min_share = number(min_share, "min_share")
        if not 0.0 <= self.min_share < 1.0:  # false for NaN too
            raise InputError(f"min_share={self.min_share} must be a share of the horizon, 0 to less than 1")
        self.check_every = count(check_every, "check_every")
        self.cutoffs = None if cutoffs is None else _shares(cutoffs, self.check_every)
        self.goal = None if goal is None else self._finite(goal, "goal")
        self.stop_leader, self.weigh_rest = flag(stop_leader, "stop_leader"), flag(weigh_rest, "weigh_rest")
        if self.stop_leader and (self.target != "any" or self.goal is not None):
            raise InputError("stop_leader holds a run against its own best value: it needs target='any' and no goal")
        self.guarantee: Guarantee | None = None
        self._forecaster = None if forecaster is None else self._checked_forecaster(forecaster)
        if schedule is not None:
            self.set_schedule(schedule)

    @classmethod
    def calibrated(
        cls,
        finished_runs: RunsLike,
        risk: float = 0.05,
        *,
        metric: Metric | str,
        horizon: int | None = None,
        untrained: ArrayLike | None = None,
        min_gain: float = 0.0,
        least_confidence: float = SMALLEST_CONFIDENCE,
        **options: Any,
    ) -> Self:
        """A stopper whose confidence is chosen on finished runs so that wrong stops stay below a bound.

        `finished_runs` are complete runs [run, step] on steps 1..horizon, or a list of `Run`; `untrained` holds their
        values before training where those are known. Options are those of `Stopper`, without the confidence. The
        confidence is at least `least_confidence`: where forecasts are good, a risk would often allow to stop runs that
        will rather win than lose. Lower it to use up the risk in favour of the epochs saved.

        **The bound.** Let a new run be exchangeable with the finished runs, as when all configurations are drawn
        independently from one distribution. Then the probability that this stopper stops it, although a later value
        (`target="any"`) or its final value ("final") would have beaten the best that it was held against, is at most
        `risk`. Without a goal this holds whatever the best is: it may come from anywhere, change from run to run or
        during a run, and depend on the finished runs; with `min_gain`, a stop is wrong only if the run would have
        beaten the best by more than that. With `goal` it holds for this goal, which must be known without a look at
        `finished_runs`; ties count as beaten. So, on average, at most a share `risk` of all runs is stopped wrongly.

        **What it does not cover.** Runs that differ from the finished ones: another task, model, metric, horizon or
        schedule of checks, or configurations proposed by a sampler that learns from results. The share of wrong stops
        among the runs that would have won: winners are rare, and a bound on all runs says less about them. A single
        set of finished runs: the probability is over the finished runs and the new one together, so one set can do
        worse than the bound and another better. Runs stopped for a value that is not finite.

        Raises InputError, with the smallest risk attainable, if no confidence meets the risk.
        """
        runs = FinishedRuns.of(finished_runs, as_metric(metric), horizon, untrained)
        stopper = cls(runs.horizon, runs.metric, **options)
        if stopper.stop_leader:
            raise InputError("the bound is about runs that trail the best, so stop_leader cannot be calibrated")
        cutoffs = [step for step in range(1, stopper.horizon) if stopper._is_checked(step - 1.0, step, count=step)]
        stopper.guarantee = calibrate(
            runs,
            stopper.forecaster,
            cutoffs,
            risk,
            target=stopper.target,
            goal=stopper.goal,
            min_gain=min_gain,
            weigh_rest=stopper.weigh_rest,
            least_confidence=least_confidence,
        )
        stopper.confidence = stopper.guarantee.confidence
        return stopper

    @property
    def forecaster(self) -> Forecaster:
        """What forecasts the runs; the default model is loaded when it is first needed."""
        if self._forecaster is None:
            self._forecaster = _default()
        return self._forecaster

    def set_schedule(self, schedule: ScheduleLike | None) -> None:
        """How the learning rate goes in the runs to come, or that nothing is known of it.

        A schedule that cannot be that of a run up to the horizon is refused here.
        """
        self._forecaster = self._checked_forecaster(self.forecaster.with_schedule(schedule))

    def _checked_forecaster(self, forecaster: Forecaster) -> Forecaster:
        schedule = _a_forecaster(forecaster).schedule
        if schedule is not None:
            schedule.check(self.horizon)
        return forecaster

    # --- the run under way ---------------------------------------------------------------------------------------

    def _start_run(self) -> None:
        super()._start_run()
        self._stream: Stream | None = None
        self._forecast: Forecast | None = None
        self._forecast_of = 0  # how many values the forecast has seen

    def _judge(self, step: float) -> Decision:
        trained = sum(seen > 0.0 for seen in self._steps)
        before = self._steps[-2] if len(self._steps) > 1 else 0.0
        if self._too_early(trained, step):
            return self._decision(step, Reason.WARM_UP)
        if not self._is_checked(before, step, trained):
            return self._decision(step, Reason.NOT_DUE)
        forecast = self._newest_forecast()
        rival = self._rival()
        if rival is None:
            return self._decision(step, Reason.NO_TARGET, final=final_of(forecast))
        verdict = decide(forecast, rival, self._confidence_at(step), self.target)
        known = {"probability": verdict.probability, "best": verdict.best, "final": verdict.final}
        return self._decision(step, verdict.reason, **known)

    def _rival(self) -> float | None:
        """The value to beat: the goal or the best, for leaders perhaps their own."""
        if self.goal is not None:
            return self.goal
        earlier = [] if self.best is None else [self.best]
        own = [value for value, at in zip(self._values, self._steps, strict=True) if at > 0.0]
        return self.metric.best_of([*earlier, *own] if self.stop_leader else earlier)

    def _confidence_at(self, step: float) -> float:
        if not self.weigh_rest:
            return self.confidence
        chance = (1.0 - self.confidence) * float(rest_of_run(step, self.horizon))
        return min(1.0 - chance, math.nextafter(1.0, 0.0))

    def _too_early(self, values: int, step: float) -> bool:
        return too_early(values, step, self.horizon, self.min_steps, self.min_share)

    def _is_checked(self, before: float, step: float, count: int) -> bool:
        """Whether a run is checked at a step that follows step `before` and brings its `count`-th value."""
        if self._too_early(count, step):
            return False
        if self.cutoffs is None:
            return count % self.check_every == 0
        # Shares such as 0.1 are a hair off in binary.
        return any(before < math.ceil(share * self.horizon - 1e-9) <= step for share in self.cutoffs)

    def _newest_forecast(self) -> Forecast:
        """The forecast from all values seen.

        Values enter a stream one by one, so that a stopper restored from its state answers exactly as before. Where
        most values are not checked, a stream would make forecasts for nothing.
        """
        if self._forecast is not None and self._forecast_of == len(self._values):
            return self._forecast
        if self.check_every > 1 or self.cutoffs is not None:
            self._forecast = self.forecaster.forecast(self._values, self.horizon, self.metric, self._steps)
        else:
            if self._stream is None:
                self._stream = self.forecaster.stream(self.horizon, self.metric)
            for position in range(self._forecast_of, len(self._values)):
                self._forecast = self._stream.update(self._values[position], step=self._steps[position])
        self._forecast_of = len(self._values)
        assert self._forecast is not None
        return self._forecast

    def _imputed(self) -> float | None:
        try:
            return float(self._newest_forecast().final.median())
        except EpochcastError:  # what cannot be forecast must not keep a run from ending
            return None

    # --- state ---------------------------------------------------------------------------------------------------

    def _extra_state(self) -> dict[str, Any]:
        model = ModelName.default() if self._forecaster is None else ModelName.of(self._forecaster)
        guarantee = None if self.guarantee is None else asdict(self.guarantee)
        return {"model": asdict(model), "guarantee": guarantee}

    @classmethod
    def from_json(cls, text: str, forecaster: Forecaster | None = None) -> Self:
        """A stopper from what `to_json` returned; a model that does not ship must be given again."""
        state = parsed(text, cls.rule)
        model = model_name_of(state.get("model"), state["version"])
        if forecaster is None:
            forecaster = model.load()
        elif not model.is_of(_a_forecaster(forecaster)):
            raise ConfigError(f"the saved stopper forecasts with {model}, not with {ModelName.of(forecaster)}")
        return cls._restored(state, forecaster=forecaster)

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        given = state["guarantee"]
        self.guarantee = None if given is None else guarantee_of(given)


def _a_forecaster(item: Any) -> Forecaster:
    if not isinstance(item, Forecaster):
        raise InputError(f"forecaster={shown(item)} must be a Forecaster, such as Forecaster('stream')")
    return item


@cache
def _default() -> Forecaster:
    """The default model, loaded once for all stoppers."""
    return Forecaster()


def _shares(cutoffs: Sequence[float], check_every: int) -> list[float]:
    if check_every != 1:
        told = f"check_every={check_every} and cutoffs={shown(cutoffs)}"
        raise InputError(f"{told} contradict each other; give one of them")
    try:
        shares = [number(share, "cutoff") for share in cutoffs]
    except TypeError:  # not a sequence at all
        shares = []
    if not shares or not all(0.0 < share < 1.0 for share in shares):
        raise InputError(f"cutoffs={shown(cutoffs)} must be shares of the horizon between 0 and 1, both excluded")
    return sorted(shares)


class Patience(Search):
    """Stops a run after `k` values in a row that do not improve on its own best value by more than `min_delta`."""

    rule = "patience"
    _settings = (*Search._settings, "k", "min_delta")

    def __init__(self, k: int, horizon: int, metric: Metric | str, *, min_delta: float = 0.0, **options: Any) -> None:
        self.k, self.min_delta = count(k, "k"), not_negative(min_delta, "min_delta")
        super().__init__(horizon, metric, **options)

    def _judge(self, step: float) -> Decision:
        return self._decision(step, Reason.NO_PROGRESS if self._values_without_gain() >= self.k else Reason.PROGRESSING)

    def _values_without_gain(self) -> int:
        sign = self.metric.sign
        record, waited = -math.inf, 0
        for value in self._values:
            if sign * value > record + self.min_delta:
                record, waited = sign * value, 0
            else:
                waited += 1
        return waited


class NoStopping(Search):
    """Lets every run finish: what other rules are measured against."""

    rule = "no_stopping"

    def _judge(self, step: float) -> Decision:
        return self._decision(step, Reason.NEVER)
