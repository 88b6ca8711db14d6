"""A bound on wrong stops: the confidence of the stopping rule, chosen on finished runs by conformal risk control.

A wrong stop ends a run that would have beaten the value it was held against. Finished runs show, for each confidence,
which of them the rule would have stopped wrongly. With n finished runs of which a share R is stopped wrongly, a new run
that is exchangeable with them is stopped wrongly with probability at most n / (n + 1) R + 1 / (n + 1), provided that R
falls as the confidence rises (Angelopoulos et al. 2022, Conformal Risk Control); `Guarantee` takes the smallest
confidence at which this is at most the risk asked for.

**What is a run held against?** The best value of a search changes with every run, so no threshold is the right one.
Without a goal the bound therefore covers every value that the best could have: a run counts as stopped wrongly when
there is any best at all that it would have beaten later, but for which the rule would have stopped it. The worst such
best lies just below the run's own outcome, which makes the loss a function of that run alone (exchangeable) that
falls with the confidence (monotone). Where only gains above `min_gain` matter, it lies that much lower. With a fixed
`goal` a run is held against the goal alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.checks import count, finite, horizon_of, not_negative, number, share
from epochcast.curve import Array, Curves, Lengths, Mask
from epochcast.encode import RunsLike, Seen, normalised, seen_of
from epochcast.errors import InputError
from epochcast.forecast import Forecast
from epochcast.forecaster import Forecaster
from epochcast.metric import Metric, as_metric
from epochcast.normalize import keep_their_scale
from epochcast.question import Engine, check
from epochcast.stopping.decision import Target, chance_to_beat, check_confidence, rest_of_run
from epochcast.stopping.state import Check, checked, known

SMALLEST_CONFIDENCE = 0.5  # by default a run that is more likely than not to win is never stopped
LARGEST_CONFIDENCE = 1.0 - 1e-12  # chances below what this leaves are rounding
_SLACK = 1e-3  # share of the chance left as a margin: engines agree on it only up to rounding
_CHUNK = 128  # runs forecast at once: bounds the memory


@dataclass(frozen=True)
class Guarantee:
    """What finished runs vouch for.

    **The bound.** Let a new run be exchangeable with the finished runs, as when all configurations are drawn
    independently from one distribution. Then the probability that the stopper stops it, although a later value
    (`target="any"`) or its final value ("final") would have beaten the best that it was held against, is at most
    `risk`. Without a goal this holds whatever the best is: it may come from anywhere, change from run to run or
    during a run, and depend on the finished runs; with `min_gain`, a stop is wrong only if the run would have
    beaten the best by more than that. With `goal` it holds for this goal, which must be known without a look at
    the finished runs; ties count as beaten. So, on average, at most a share `risk` of all runs is stopped wrongly.

    **What it does not cover.** Runs that differ from the finished ones: another task, model, metric, horizon or
    schedule of checks, or configurations proposed by a sampler that learns from results. The share of wrong stops
    among the runs that would have won: winners are rare, and a bound on all runs says less about them. A single
    set of finished runs: the probability is over the finished runs and the new one together, so one set can do
    worse than the bound and another better. Runs stopped for a value that is not finite.

    Attributes:
        risk: What was asked for.
        confidence: The smallest that keeps the risk, and at least `least_confidence`: where forecasts are good, a risk
            would often allow to stop runs that will rather win than lose.
        runs: How many finished runs it was chosen on.
        contenders: Those among them that a rule could have stopped wrongly.
        wrong_stops: Those among them that this confidence stops wrongly.
        goal: The fixed value to beat, if there is one.
        min_gain: A stop is wrong when the run would have beaten the best by more than this.
    """

    risk: float
    confidence: float
    runs: int
    contenders: int
    wrong_stops: int
    goal: float | None = None
    min_gain: float = 0.0

    @property
    def bound(self) -> float:
        """What the share of wrongly stopped runs is bounded by: at most the risk."""
        return (self.wrong_stops + 1) / (self.runs + 1)

    def __str__(self) -> str:
        rival = "the best" if self.goal is None else f"{self.goal:.4g}"
        rival += f" by more than {self.min_gain:.4g}" if self.min_gain else ""
        return (
            f"at most {100 * self.risk:.3g} % of runs are stopped although they would have beaten {rival} "
            f"(confidence {self.confidence:.6g}, chosen on {self.runs} finished runs)"
        )


_GUARANTEE: dict[str, Check] = {
    "risk": finite,
    "confidence": lambda item, _: check_confidence(item),
    **dict.fromkeys(("runs", "contenders", "wrong_stops"), partial(count, least=0)),
    "goal": known,
    "min_gain": not_negative,
}


def guarantee_of(data: Any) -> Guarantee:
    """A guarantee from its saved state."""
    guarantee = Guarantee(**checked(data, _GUARANTEE, "the guarantee"))
    if not 0.0 < guarantee.risk < 1.0 or guarantee.contenders > guarantee.runs:
        raise InputError(f"the guarantee cannot be one of {guarantee.runs} runs at a risk of {guarantee.risk}")
    return guarantee


@dataclass(frozen=True)
class FinishedRuns:
    """Complete runs on steps 1..horizon, and what their metric was before training where that is known."""

    values: Array  # [run, step]
    metric: Metric
    untrained: Array | None = None  # [run]: NaN where it is not known
    configs: tuple[Mapping[str, Any] | None, ...] = ()  # one per run, or none at all

    @classmethod
    def of(
        cls,
        values: RunsLike,
        metric: Metric | str,
        horizon: int | None = None,
        untrained: ArrayLike | None = None,
    ) -> FinishedRuns:
        """Runs from a 2-D array or a list; all must be finite and reach the horizon (by default the longest run's)."""
        metric = as_metric(metric)
        try:
            seen = seen_of(values, None, metric)
        except InputError as error:
            raise InputError(f"finished runs: {error}, or leave the run out") from None
        curves = seen.curves
        wanted = int(curves.lengths.max()) if horizon is None else horizon_of(horizon)
        if curves.single or wanted < 2:
            raise InputError("finished runs must be a batch of runs of at least 2 steps each")
        short = curves.lengths != wanted
        if short.any():
            run = int(np.argmax(short))
            raise InputError(f"finished run {run} has {curves.lengths[run]} values, not horizon={wanted}; leave it out")
        other = (curves.steps[:, :wanted] != np.arange(1.0, wanted + 1.0)).any(axis=1)
        if other.any():
            raise InputError(
                f"finished run {np.argmax(other)} has other steps than 1, 2, 3, ..., {wanted}; leave it out"
            )
        before = _per_run(untrained, len(curves))
        return cls(curves.values[:, :wanted], metric, seen.untrained if before is None else before, seen.configs)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: slice | Mask | NDArray[np.intp]) -> FinishedRuns:
        """Some of the runs."""
        before = None if self.untrained is None else self.untrained[index]
        configs = tuple(np.array(self.configs, dtype=object)[index]) if self.configs else ()
        return FinishedRuns(self.values[index], self.metric, before, configs)

    @property
    def horizon(self) -> int:
        return int(self.values.shape[1])

    def seen(self, cutoff: int) -> Seen:
        """What was known of the runs after their first values."""
        steps = np.broadcast_to(np.arange(1.0, cutoff + 1.0), (len(self), cutoff))
        lengths: Lengths = np.full(len(self), cutoff)
        return Seen(Curves(steps, self.values[:, :cutoff], lengths), self.untrained, self.configs)

    def reached(self, target: Target) -> Array:
        """At each step [run, step] what counts so far: the best value ("any"), or the newest ("final")."""
        if target == "final":
            return self.values
        return self.metric.sign * np.maximum.accumulate(self.metric.sign * self.values, axis=1)

    def to_come(self, target: Target) -> Array:
        """At each step but the last [run, step - 1] what counts of the rest: its best value, or the final one."""
        later = self.metric.sign * self.values[:, 1:]
        if target == "final":
            return self.metric.sign * np.broadcast_to(later[:, -1:], later.shape)
        return self.metric.sign * np.maximum.accumulate(later[:, ::-1], axis=1)[:, ::-1]

    def outcome(self, target: Target) -> Array:
        """What counts of each run in the end, [run]."""
        return self.reached(target)[:, -1]

    def worse_by(self, gain: float, target: Target) -> Array:
        """Values that each run's outcome beats by `gain`, [run]."""
        return np.clip(self.outcome(target) - self.metric.sign * gain, *self.metric.hard)

    def chances(self, forecaster: Forecaster, thresholds: ArrayLike, target: Target, cutoffs: Sequence[int]) -> Array:
        """What the rule compares with 1 - confidence: the chance to beat each run's threshold, [run, cutoff]."""
        limits = np.broadcast_to(np.asarray(thresholds, dtype=np.float64), (len(self),))
        chances = np.empty((len(self), len(cutoffs)))
        for part in self.parts():
            columns = [
                chance_to_beat(forecast, limits[part], target)
                for _, forecast in forecasts(forecaster, self[part], cutoffs)
            ]
            chances[part] = np.stack(columns, axis=1)
        return chances

    @cached_property
    def _keep_their_scale(self) -> Mask:
        return keep_their_scale(self.metric, self.seen(self.horizon).curves, self.untrained)

    def parts(self) -> Iterator[NDArray[np.intp]]:
        """Runs to be forecast at once; those that are seen at one scale throughout apart, as one pass serves them."""
        for rows in (np.flatnonzero(self._keep_their_scale), np.flatnonzero(~self._keep_their_scale)):
            for start in range(0, len(rows), _CHUNK):
                yield rows[start : start + _CHUNK]


def forecasts(forecaster: Forecaster, runs: FinishedRuns, cutoffs: Sequence[int]) -> Iterator[tuple[int, Forecast]]:
    """Each cutoff with the forecast of all runs from it; an engine that can reads each run only once."""
    if runs._keep_their_scale.all() and runs.horizon <= longest_read(forecaster.engine, runs.horizon):
        yield from _at_one_scale(forecaster, runs, cutoffs)
        return
    for cutoff in sorted(cutoffs):
        yield cutoff, forecaster.forecast_seen(runs.seen(cutoff), runs.horizon, runs.metric)


def longest_read(engine: Engine, horizon: int) -> int:
    """How many of `horizon` values of a run an engine reads without thinning."""
    return min((limit for limit in (engine.grid, engine.most_values) if limit is not None), default=horizon)


def _at_one_scale(forecaster: Forecaster, runs: FinishedRuns, cutoffs: Sequence[int]) -> Iterator[tuple[int, Forecast]]:
    horizon, metric, whole = runs.horizon, runs.metric, runs.seen(runs.horizon)
    steps = whole.curves.steps
    question, normalizer, _ = normalised(whole, metric, steps, horizon, forecaster.schedule)
    check(forecaster.engine, question)
    for cutoff, ahead in forecaster.engine.at_cutoffs(question, cutoffs):
        observed = runs.seen(cutoff).curves
        yield cutoff, Forecast(steps[:, cutoff:], metric, horizon, ahead, normalizer, observed)


def calibrate(
    runs: FinishedRuns,
    forecaster: Forecaster,
    cutoffs: Sequence[int],
    risk: float = 0.05,
    *,
    target: Target = "any",
    goal: float | None = None,
    min_gain: float = 0.0,
    weigh_rest: bool = False,
    least_confidence: float = SMALLEST_CONFIDENCE,
) -> Guarantee:
    """The smallest confidence at which the rule, checked at `cutoffs`, stops at most a share `risk` of runs wrongly."""
    risk, min_gain = share(risk, "risk", usual=0.05), number(min_gain, "min_gain")
    least_confidence = check_confidence(least_confidence)
    if not 0.0 <= min_gain < math.inf or (min_gain and goal is not None):
        raise InputError(f"min_gain={min_gain} must be finite, not negative, and 0 beside a goal")
    if len(cutoffs) == 0:
        raise InputError("the rule never checks a run, so there is nothing to calibrate; lower min_steps")
    options: Any = {"target": target, "goal": goal, "min_gain": min_gain, "weigh_rest": weigh_rest}
    worst = lowest_chances(runs, forecaster, cutoffs, **options)
    contenders = int(np.isfinite(worst).sum())
    confidence = smallest_confidence(worst, risk, least_confidence)
    if contenders <= _allowed(len(runs), risk):
        warnings.warn(
            f"only {contenders} of {len(runs)} finished runs could be stopped wrongly, so a risk of {risk:g} is met "
            "by stopping every run and the bound says little; lower the risk or take an easier goal",
            stacklevel=3,
        )
    wrong = int((worst <= 1.0 - confidence).sum())
    return Guarantee(risk, confidence, len(runs), contenders, wrong, goal, min_gain)


def lowest_chances(
    runs: FinishedRuns,
    forecaster: Forecaster,
    cutoffs: Sequence[int],
    *,
    target: Target = "any",
    goal: float | None = None,
    min_gain: float = 0.0,
    weigh_rest: bool = False,
) -> Array:
    """The chance at the worst moment of each run, [run]: it is stopped wrongly when 1 - confidence is no smaller.

    With `weigh_rest` it is the chance over the share of the run still to come. Only cutoffs count at which a stop
    would be wrong; runs without any have an infinite chance.
    """
    steps = np.asarray(sorted(cutoffs), dtype=np.int64)
    index = steps - 1
    reached, to_come = runs.reached(target)[:, index], runs.to_come(target)[:, index]
    thresholds = runs.worse_by(min_gain, target) if goal is None else np.full(len(runs), float(goal))
    held = thresholds[:, None]
    # A run may be stopped unless it leads, and wrongly so if what comes reaches the threshold. A best just below the
    # threshold stands behind a run's own outcome, so there a run that has reached the threshold leads already.
    behind = runs.metric.better(held, reached) if goal is None else ~runs.metric.better(reached, held)
    wrong = behind & ~runs.metric.better(held, to_come)  # [run, cutoff]
    worst = np.full(len(runs), np.inf)
    some: Mask = np.any(wrong, axis=1)
    if some.any():
        chances = runs[some].chances(forecaster, thresholds[some], target, cutoffs)
        if weigh_rest:
            chances = chances / rest_of_run(steps, runs.horizon)
        worst[some] = np.where(wrong[some], chances, np.inf).min(axis=1)
    return worst


def smallest_confidence(worst: Array, risk: float, least: float = SMALLEST_CONFIDENCE) -> float:
    """The smallest confidence whose share R of wrong stops among n runs has n / (n + 1) R + 1 / (n + 1) <= risk.

    It is at least `least`.
    """
    runs = len(worst)
    allowed = _allowed(runs, risk)
    always = int((worst <= 1.0 - LARGEST_CONFIDENCE).sum())
    if allowed < always:
        attainable = (always + 1) / (runs + 1)
        raise InputError(
            f"no confidence keeps the risk at {risk:g}: the smallest that {runs} finished runs can vouch for is "
            f"{attainable:.3g}; give more runs (at least {math.ceil(1.0 / risk) - 1}), raise min_steps, or accept "
            "that risk"
        )
    first_kept = float(np.sort(worst)[allowed]) if allowed < runs else math.inf
    return 1.0 - min(first_kept * (1.0 - _SLACK), 1.0 - least)


def _allowed(count: int, risk: float) -> int:
    """How many of the finished runs may be stopped wrongly."""
    return math.floor(risk * (count + 1) + 1e-9) - 1


def _per_run(untrained: ArrayLike | None, count: int) -> Array | None:
    if untrained is None:
        return None
    try:
        values = np.asarray(untrained, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.array(np.nan)
    if values.shape not in ((), (count,)) or not np.isfinite(values).all():
        raise InputError(f"untrained must be one finite value, or one for each of the {count} finished runs")
    return np.broadcast_to(values, (count,))
