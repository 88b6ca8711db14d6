"""`Stopper`: the rule that ends hopeless runs of a search by their forecasts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import ArrayLike

from epochcast.checks import count, flag, number, shown
from epochcast.contradiction import warn_on_contradiction
from epochcast.encode import Others, RunsLike, seen_of
from epochcast.errors import ConfigError, EpochcastError, InputError
from epochcast.forecast import Forecast
from epochcast.forecaster import Forecaster, Stream, shared
from epochcast.metric import Metric, as_metric
from epochcast.others import others_of
from epochcast.schedule import ScheduleLike
from epochcast.stopping.calibration import SMALLEST_CONFIDENCE, FinishedRuns, Guarantee, calibrate, guarantee_of
from epochcast.stopping.decision import (
    MIN_SHARE,
    MIN_STEPS,
    Decision,
    Final,
    Reason,
    Target,
    check_confidence,
    decide,
    rest_of_run,
    too_early,
)
from epochcast.stopping.earlier import Config, Earlier, config_of, plain_config
from epochcast.stopping.model_name import ModelName, forecaster_of, model_name_of
from epochcast.stopping.record import RunRecord
from epochcast.stopping.search import NonFinite, Search
from epochcast.stopping.state import parsed

if TYPE_CHECKING:
    from typing import Self


class Stopper(Search):
    """Stops a run once its forecast leaves it too small a chance to beat the best of the runs before it.

    Without a best nothing is stopped, and a run that leads goes on. A value at step 0 is the untrained model's.

    Args:
        horizon: The step at which every run is planned to end.
        metric: What is measured: a name or a [`Metric`][epochcast.Metric].
        confidence: A run is stopped when its chance to beat the best is at most 1 - `confidence`.
        min_steps: No run is stopped before so many of its values were seen, by default 4.
        check_every: Every how many values a run is checked.
        best: A value to beat that is known before the search.
        min_share: No run is stopped before it has come to this share of its horizon, by default a tenth.
        cutoffs: Check once at each of these shares of the horizon, in place of `check_every`.
        target: What counts of a run: `"any"` of its values to come, or its `"final"` one.
        goal: A fixed value to beat in place of the best.
        stop_leader: Whether a run that leads is held against its own best value, and so ends once it will hardly
            improve any more.
        weigh_rest: Whether a late stop, which saves little, takes a smaller chance: 1 - `confidence` times the share
            of the run still to come.
        dry_run: Decide and log, but never stop.
        non_finite: What NaN or an infinite value does: `"stop"` the run, or `"ignore"` that value.
        schedule: How the learning rate goes, as for [`Forecaster`][epochcast.Forecaster].
        forecaster: What forecasts the runs: the default model unless given.
        context: Whether a model that reads other runs is shown those before, finished or stopped: of very many the
            newest and the best. `next_run` takes the configuration of the run to come.

    Raises:
        InputError: If an option cannot be used.

    Examples:
        >>> import epochcast as ec
        >>> stopper = ec.Stopper(horizon=50, metric="accuracy", best=0.95)
        >>> for epoch, accuracy in enumerate([0.31, 0.42, 0.45, 0.46, 0.462, 0.464, 0.465], start=1):
        ...     decision = stopper.update(epoch, accuracy)
        ...     if decision.stop:
        ...         break
        >>> print(decision)
        stop: ... chance to beat 0.95 by step 50; expected to end at ...
        >>> stopper.next_run().best
        0.46...
    """

    rule = "stopper"
    _settings = (
        *Search._settings,
        *("confidence", "min_steps", "min_share", "check_every", "cutoffs", "goal", "stop_leader", "weigh_rest"),
        "context",
    )
    _unknown_to_version_1: ClassVar[dict[str, Any]] = {"min_share": 0.0, "context": False}

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
        context: bool = True,
    ) -> None:
        self.context = flag(context, "context")
        self._earlier = Earlier()
        self._config: Config | None = None  # of the run under way
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

        What the bound says, and what it does not cover, is told by [`Guarantee`][epochcast.stopping.Guarantee]. It is
        about runs that are forecast each by itself: what a model makes of the runs before it changes during a search,
        which finished runs cannot vouch for. So the stopper has `context=False`.

        Args:
            finished_runs: Complete runs [run, step] on steps 1 to `horizon`, or a list of `Run`.
            risk: The share of runs that may be stopped wrongly.
            metric: What is measured.
            horizon: The last step of all runs: that of the longest by default.
            untrained: Their values before training, where those are known.
            min_gain: A stop is wrong only if the run would have beaten the best by more than this.
            least_confidence: The confidence is at least this; lower it to use up the risk in favour of epochs saved.
            **options: Those of `Stopper`, without the confidence.

        Returns:
            A stopper with its `confidence` chosen and its `guarantee` at hand.

        Raises:
            InputError: With the smallest risk attainable, if no confidence meets the risk; with `context=True`.

        Examples:
            >>> stopper = ec.Stopper.calibrated(ec.sample_prior(40, horizon=20), risk=0.1, metric="unit", check_every=5)
            >>> print(stopper.guarantee)
            at most 10 % of runs are stopped although they would have beaten the best (confidence ..., chosen on 40 ...)
        """
        if options.setdefault("context", False) is not False:
            raise InputError("the bound is about runs that are forecast each by itself, so context=True cannot be had")
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
            self._forecaster = shared()
        return self._forecaster

    def set_schedule(self, schedule: ScheduleLike | None) -> None:
        """How the learning rate goes in the runs to come.

        Args:
            schedule: As for [`Forecaster`][epochcast.Forecaster]; None where nothing is known.

        Raises:
            InputError: If it cannot be that of a run up to the horizon.
        """
        self._forecaster = self._checked_forecaster(self.forecaster.with_schedule(schedule))

    def _checked_forecaster(self, forecaster: Forecaster) -> Forecaster:
        schedule = forecaster_of(forecaster).schedule
        if schedule is not None:
            schedule.check(self.horizon)
        return forecaster

    # --- the run under way ---------------------------------------------------------------------------------------

    def _start_run(self) -> None:
        super()._start_run()
        self._others: Others | None = None  # the runs before, once they are asked for
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
            return self._decision(step, Reason.NO_TARGET, final=Final.of(forecast))
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
        known: dict[str, Any] = {"others": self._among() if self._learns else None}
        if self._reads_anew:
            seen = seen_of(self._values, self._steps, self.metric, config=self._config)
            self._forecast = self.forecaster.forecast_seen(seen, self.horizon, self.metric, **known)
            warn_on_contradiction(seen.curves, self.metric)
        else:
            if self._stream is None:
                self._stream = Stream(self.forecaster, self.horizon, self.metric, config=self._config, **known)
            for position in range(self._forecast_of, len(self._values)):
                self._forecast = self._stream.update(self._values[position], step=self._steps[position])
        self._forecast_of = len(self._values)
        assert self._forecast is not None
        return self._forecast

    @property
    def _reads_anew(self) -> bool:
        """Whether all values of a run are read at each check, rather than each value once."""
        return self.check_every > 1 or self.cutoffs is not None

    def _among(self) -> Others | None:
        """The runs before, as context of the one under way."""
        if self._others is None and self._earlier.runs:
            self._others = others_of(self._earlier.runs, self.metric, self.horizon)
        return self._others

    def _imputed(self) -> float | None:
        try:
            return float(self._newest_forecast().final.median())
        except EpochcastError:  # what cannot be forecast must not keep a run from ending
            return None

    # --- runs that are over --------------------------------------------------------------------------------------

    @property
    def _learns(self) -> bool:
        """Whether runs are forecast among those before."""
        return self.context and "context" in self.forecaster.engine.reads

    def next_run(self, config: Mapping[str, Any] | None = None) -> RunRecord | None:
        given = plain_config(config)  # first: a mistake must not end a run by half
        steps, values, own = self._steps, self._values, self._config
        record = super().next_run()
        if record is not None and self._learns:
            self._earlier.add(self.metric, steps, values, own, self.forecaster.engine.most_values)
        if record is not None or given is not None:  # a callback that begins a run closes the one before once more
            self._config = given
        return record

    # --- state ---------------------------------------------------------------------------------------------------

    def _extra_state(self) -> dict[str, Any]:
        model = ModelName.default() if self._forecaster is None else ModelName.of(self._forecaster)
        guarantee = None if self.guarantee is None else asdict(self.guarantee)
        return {
            "model": asdict(model),
            "guarantee": guarantee,
            "config": self._config,
            "earlier": self._earlier.to_list(),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        # A loaded network can be neither pickled nor copied, but the forecaster knows where it lies.
        return type(self).from_json, (self.to_json(), self._forecaster)

    @classmethod
    def from_json(cls, text: str, forecaster: Forecaster | None = None) -> Self:
        """A stopper from its saved state, which goes on as if nothing had happened.

        Args:
            text: What `to_json` returned.
            forecaster: The one it had; only a model that does not ship must be given again.

        Returns:
            The stopper.

        Raises:
            ConfigError: If the text is not a stopper's state, or the forecaster is another.
        """
        state = parsed(text, cls.rule)
        model = model_name_of(state.get("model"), state["version"])
        if forecaster is None:
            forecaster = model.load()
        elif not model.is_of(forecaster_of(forecaster)):
            raise ConfigError(f"the saved stopper forecasts with {model}, not with {ModelName.of(forecaster)}")
        return cls._restored(state, forecaster=forecaster)

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        given = state["guarantee"]
        self.guarantee = None if given is None else guarantee_of(given)
        self._config = config_of(state.get("config"))
        self._earlier = Earlier.from_list(state.get("earlier", []), self.horizon, self.metric)


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
