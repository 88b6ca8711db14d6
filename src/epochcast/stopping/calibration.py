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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.curve import Array, Curves, Lengths, Mask, clip_to_hard_bounds
from epochcast.distributions import Distribution
from epochcast.errors import InputError, StrongContradictionWarning
from epochcast.forecast import Forecast
from epochcast.forecaster import Forecaster
from epochcast.metric import Metric, as_metric
from epochcast.normalize import keep_their_scale
from epochcast.runtime import Engine
from epochcast.stopping.checks import count, finite, horizon_of, not_negative, number
from epochcast.stopping.decision import Target, chance_to_beat, check_confidence, rest_of_run
from epochcast.stopping.state import fields

SMALLEST_CONFIDENCE = 0.5  # by default a run that is more likely than not to win is never stopped
LARGEST_CONFIDENCE = 1.0 - 1e-12  # chances below what this leaves are rounding
_SLACK = 1e-3  # share of the chance left as a margin: engines agree on it only up to rounding
_CHUNK = 128  # runs forecast at once: bounds the memory


@runtime_checkable
class AllCutoffs(Protocol):
    """An engine that forecasts finished runs from every cutoff in one pass, such as a streaming network."""

    def predict_all_cutoffs(
        self, values: Array, horizon: int, first: int = 0, untrained: Array | None = None, kinds: Array | None = None
    ) -> Iterable[tuple[Sequence[int], Distribution]]: ...


@dataclass(frozen=True)
class Guarantee:
    """What finished runs vouch for."""

    risk: float  # asked for
    confidence: float  # the smallest that keeps the risk
    runs: int  # finished runs it was chosen on
    contenders: int  # those among them that a rule could have stopped wrongly
    wrong_stops: int  # those among them that this confidence stops wrongly
    goal: float | None = None
    min_gain: float = 0.0  # a stop is wrong when the run would have beaten the best by more than this

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


def guarantee_of(data: Any) -> Guarantee:
    """A guarantee from its saved state."""
    given = fields(data, (field.name for field in dataclass_fields(Guarantee)), "the guarantee")
    goal = given["goal"]
    guarantee = Guarantee(
        risk=finite(given["risk"], "risk"),
        confidence=check_confidence(given["confidence"]),
        **{name: count(given[name], name, least=0) for name in ("runs", "contenders", "wrong_stops")},
        goal=None if goal is None else finite(goal, "goal"),
        min_gain=not_negative(given["min_gain"], "min_gain"),
    )
    if not 0.0 < guarantee.risk < 1.0 or guarantee.contenders > guarantee.runs:
        raise InputError(f"the guarantee cannot be one of {guarantee.runs} runs at a risk of {guarantee.risk}")
    return guarantee


@dataclass(frozen=True)
class FinishedRuns:
    """Complete runs on steps 1..horizon, and what their metric was before training where that is known."""

    values: Array  # [run, step]
    metric: Metric
    untrained: Array | None = None  # [run]

    @classmethod
    def of(
        cls,
        values: ArrayLike | Sequence[ArrayLike],
        metric: Metric | str,
        horizon: int | None = None,
        untrained: ArrayLike | None = None,
    ) -> FinishedRuns:
        """Runs from a 2-D array or a list; all must be finite and reach the horizon (by default the longest run's)."""
        metric = as_metric(metric)
        try:
            curves = clip_to_hard_bounds(Curves.of(values), metric)
        except InputError as error:
            raise InputError(f"finished runs: {error}, or leave the run out") from None
        wanted = curves.values.shape[1] if horizon is None else horizon_of(horizon)
        if curves.single or wanted < 2:
            raise InputError("finished runs must be a batch of runs of at least 2 steps each")
        short = curves.lengths != wanted
        if short.any():
            run = int(np.argmax(short))
            raise InputError(f"finished run {run} has {curves.lengths[run]} values, not horizon={wanted}; leave it out")
        return cls(curves.values, metric, _per_run(untrained, len(curves)))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: slice | Mask | NDArray[np.intp]) -> FinishedRuns:
        """Some of the runs."""
        return FinishedRuns(self.values[index], self.metric, None if self.untrained is None else self.untrained[index])

    @property
    def horizon(self) -> int:
        return int(self.values.shape[1])

    @property
    def _sign(self) -> float:
        return -1.0 if self.metric.minimize else 1.0

    def reached(self, target: Target) -> Array:
        """At each step [run, step] what counts so far: the best value ("any"), or the newest ("final")."""
        if target == "final":
            return self.values
        return self._sign * np.maximum.accumulate(self._sign * self.values, axis=1)

    def to_come(self, target: Target) -> Array:
        """At each step but the last [run, step - 1] what counts of the rest: its best value, or the final one."""
        later = self._sign * self.values[:, 1:]
        if target == "final":
            return self._sign * np.broadcast_to(later[:, -1:], later.shape)
        return self._sign * np.maximum.accumulate(later[:, ::-1], axis=1)[:, ::-1]

    def outcome(self, target: Target) -> Array:
        """What counts of each run in the end, [run]."""
        return self.reached(target)[:, -1]

    def worse_by(self, gain: float, target: Target) -> Array:
        """Values that each run's outcome beats by `gain`, [run]."""
        return np.clip(self.outcome(target) - self._sign * gain, *self.metric.hard)

    def better(self, left: ArrayLike, right: ArrayLike) -> Mask:
        """Where `left` beats `right`."""
        return np.asarray(self._sign * np.asarray(left) > self._sign * np.asarray(right))

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
        return keep_their_scale(self.metric, Curves.of(self.values), self.untrained)

    def parts(self) -> Iterator[NDArray[np.intp]]:
        """Runs to be forecast at once; those that are seen at one scale throughout apart, as one pass serves them."""
        for rows in (np.flatnonzero(self._keep_their_scale), np.flatnonzero(~self._keep_their_scale)):
            for start in range(0, len(rows), _CHUNK):
                yield rows[start : start + _CHUNK]


def forecasts(forecaster: Forecaster, runs: FinishedRuns, cutoffs: Sequence[int]) -> Iterator[tuple[int, Forecast]]:
    """Each cutoff with the forecast of all runs from it; an engine that can reads each run only once."""
    engine = forecaster.engine
    one_scale = bool(runs._keep_their_scale.all())
    if one_scale and isinstance(engine, AllCutoffs) and runs.horizon <= longest_read(engine, runs.horizon):
        yield from _in_one_pass(forecaster, engine, runs, frozenset(cutoffs))
        return
    for cutoff in sorted(cutoffs):
        with warnings.catch_warnings():
            # Whether a run moves against its metric is for those to hear who watch it.
            warnings.simplefilter("ignore", StrongContradictionWarning)
            forecast = forecaster.forecast(*_seen(runs, cutoff))
        yield cutoff, forecast


def longest_read(engine: Engine, horizon: int) -> int:
    """How many of `horizon` values of a run an engine reads without thinning."""
    limits = (engine.grid, getattr(engine, "most_values", None))
    return min((int(limit) for limit in limits if limit is not None), default=horizon)


def _seen(runs: FinishedRuns, cutoff: int) -> tuple[Array, int, Metric, Array]:
    """What was known of the runs at a cutoff: the arguments of a forecast."""
    values, first = runs.values[:, :cutoff], 1
    if runs.untrained is not None:
        values, first = np.column_stack([runs.untrained, values]), 0
    return values, runs.horizon, runs.metric, np.arange(first, cutoff + 1.0)


def _in_one_pass(
    forecaster: Forecaster, engine: AllCutoffs, runs: FinishedRuns, wanted: frozenset[int]
) -> Iterator[tuple[int, Forecast]]:
    values, horizon, metric, steps = _seen(runs, 1)
    normalizer = forecaster.forecast(values, horizon, metric, steps, at=[horizon]).normalizer
    counted = np.broadcast_to(np.arange(1.0, horizon + 1.0), runs.values.shape)
    before = None
    if runs.untrained is not None and getattr(engine, "reads_untrained", False):
        before = normalizer.forward(runs.untrained[:, None])[:, 0]
    unit, kinds = normalizer.forward(runs.values), np.full(len(runs), metric.kind)
    for block, mixture in engine.predict_all_cutoffs(unit, horizon, untrained=before, kinds=kinds):
        for position, cutoff in enumerate(block):
            if cutoff not in wanted:
                continue
            lengths: Lengths = np.full(len(runs), cutoff)
            observed = Curves(counted[:, :cutoff], runs.values[:, :cutoff], lengths)
            ahead = mixture[:, position, position:]  # the block's steps start right after its first cutoff
            yield cutoff, Forecast(counted[:, cutoff:], metric, horizon, ahead, normalizer, observed)


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
    risk, min_gain = number(risk, "risk"), number(min_gain, "min_gain")
    least_confidence = check_confidence(least_confidence)
    if not 0.0 < risk < 1.0:
        raise InputError(f"risk={risk} must lie between 0 and 1, both excluded; 0.05 is usual")
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
    behind = runs.better(held, reached) if goal is None else ~runs.better(reached, held)
    wrong = behind & ~runs.better(held, to_come)  # [run, cutoff]
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
