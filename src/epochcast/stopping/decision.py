"""Whether to stop a run: a pure function of its forecast and of the value it has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from epochcast.checks import choice, finite, share
from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.forecast import Forecast

Target = Literal["any", "final"]
TARGETS = ("any", "final")
COVERAGE = 0.9  # of the interval told with a decision
FINAL_LEVELS = (0.5, 0.5 - COVERAGE / 2, 0.5 + COVERAGE / 2)
# Before a run may be stopped, unless a rule says otherwise. Chosen so that on every collection that we have less than
# 5 % of the stops are wrong (docs/research/stopping.md).
MIN_STEPS = 4  # values that it must have shown
MIN_SHARE = 0.1  # of its horizon that it must have reached


class Reason(Enum):
    """Why a run is stopped or goes on.

    Attributes:
        UNLIKELY: The run has too small a chance to beat the best.
        NO_PROGRESS: The run has not improved for as long as its patience lasts.
        NON_FINITE: The newest value is NaN or infinite.
        PROMISING: The run may still beat the best.
        LEADING: The run already beats the best.
        PROGRESSING: The run has improved recently enough.
        NO_TARGET: There is nothing to beat yet.
        WARM_UP: Fewer values than `min_steps`, or less than `min_share` of the run, were seen.
        NOT_DUE: No check falls on this step.
        IGNORED: The newest value is NaN or infinite and was left out.
        NEVER: The rule stops no run.
        FINISHED: The run has reached its last step.

    Examples:
        >>> Reason.UNLIKELY.stops, Reason.LEADING.stops
        (True, False)
    """

    UNLIKELY = "unlikely"
    NO_PROGRESS = "no_progress"
    NON_FINITE = "non_finite"
    PROMISING = "promising"
    LEADING = "leading"
    PROGRESSING = "progressing"
    NO_TARGET = "no_target"
    WARM_UP = "warm_up"
    NOT_DUE = "not_due"
    IGNORED = "ignored"
    NEVER = "never"
    FINISHED = "finished"

    @property
    def stops(self) -> bool:
        """Whether a run is stopped for this reason, unless the rule runs dry."""
        return self in (Reason.UNLIKELY, Reason.NO_PROGRESS, Reason.NON_FINITE)


class Final(NamedTuple):
    """The value to expect at the horizon, with the ends of its 90 % interval."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, forecast: Forecast) -> Final:
        """That of one run."""
        return cls(*forecast.final.quantile(FINAL_LEVELS).tolist())


@dataclass(frozen=True)
class Decision:
    """What to do with a run after its newest value, and why; `str(decision)` says it in a sentence.

    Attributes:
        stop: Whether to stop the run.
        probability: The chance to beat `best`; None where no forecast was asked.
        best: The value to beat, None if there is none yet.
        reason: Why.
        final: The value to expect at the horizon: median, and low and high of a 90 % interval.
        step: The newest step.
        horizon: The last step of the run.
        target: What counts of a run, "any" of its values or its "final" one.

    Examples:
        >>> print(ec.Stopper(horizon=50, metric="accuracy").update(1, 0.31))
        go on: too little of the run was seen to judge it
    """

    stop: bool
    probability: float | None
    best: float | None
    reason: Reason
    final: Final | None
    step: float
    horizon: int
    target: Target = "any"

    def __str__(self) -> str:
        if self.reason is Reason.FINISHED:
            return f"the run is over: step {self.step:g} of {self.horizon}"
        verdict = "stop" if self.stop else "would stop (dry run)" if self.reason.stops else "go on"
        ending = "" if self.final is None else f"; expected to end at {_interval(*self.final)}"
        return f"{verdict}: {self._because()}{ending}"

    def _because(self) -> str:
        if self.reason in (Reason.UNLIKELY, Reason.PROMISING):
            when = "by" if self.target == "any" else "at"
            return f"{_percent(self.probability)} chance to beat {self.best:.4g} {when} step {self.horizon}"
        if self.reason is Reason.LEADING:
            return f"the run already beats {self.best:.4g}"
        return _SENTENCES[self.reason].format(step=self.step)

    def to_dict(self) -> dict[str, Any]:
        """The decision in plain JSON types.

        Returns:
            All fields by name.
        """
        return {**vars(self), "reason": self.reason.value, "final": None if self.final is None else [*self.final]}


_SENTENCES = {
    Reason.NO_PROGRESS: "the run made no progress for as long as its patience lasts",
    Reason.NON_FINITE: "the value at step {step:g} is not finite",
    Reason.PROGRESSING: "the run has made progress recently",
    Reason.NO_TARGET: "there is no earlier run to beat",
    Reason.WARM_UP: "too little of the run was seen to judge it",
    Reason.NOT_DUE: "no check is due at step {step:g}",
    Reason.IGNORED: "the value at step {step:g} is not finite and was left out",
    Reason.NEVER: "this rule never stops a run",
}


def _percent(probability: float | None) -> str:
    percent = 100.0 * (probability or 0.0)
    if 0.1 <= percent <= 99.9:
        return f"{percent:.2g} %" if percent < 10.0 else f"{percent:.3g} %"
    return "under 0.1 %" if percent < 50.0 else "over 99.9 %"


def _interval(median: float, low: float, high: float) -> str:
    return f"{median:.4g} ({COVERAGE:.0%}: {low:.4g} to {high:.4g})".replace("%", " %")


def decide(forecast: Forecast, best: float, confidence: float = 0.95, target: Target = "any") -> Decision:
    """The rule of Domhan et al. (2015): stop a run that will not beat `best`, as far as `confidence` goes.

    A run that beats `best` already goes on; with target "final" its newest value must.

    Args:
        forecast: Of one run.
        best: The value to beat.
        confidence: The run is stopped when its chance is at most 1 - `confidence`,
        target: `"any"`: at every step up to the horizon, `"final"`: at the horizon.

    Returns:
        Whether to stop, and why.

    Raises:
        InputError: If the forecast is that of a batch, or an argument cannot be used.

    Examples:
        >>> decide(f, best=0.05).reason
        <Reason.LEADING: 'leading'>
    """
    confidence, best = check_confidence(confidence), finite(best, "best")
    if forecast.steps.ndim != 1:
        raise InputError("a decision is about one run; take one of the batch with forecast[i]")
    probability = float(chance_to_beat(forecast, best, target))
    seen = forecast.observed.values[0, : forecast.observed.lengths[0]]
    rivals = seen if target == "any" else seen[-1:]
    leads = bool(np.any(forecast.metric.better(rivals, best)))
    reason = reason_for(probability, leads, confidence)
    return Decision(
        stop=reason.stops,
        probability=probability,
        best=best,
        reason=reason,
        final=Final.of(forecast),
        step=float(forecast.observed.last_step[0]),
        horizon=forecast.horizon,
        target=target,
    )


def too_early(
    values: int, step: float, horizon: float, min_steps: int = MIN_STEPS, min_share: float = MIN_SHARE
) -> bool:
    """Whether too little was seen of a run to stop it: so many values, the newest at a step of so many."""
    return values < min_steps or step < min_share * horizon * (1.0 - 1e-9)  # shares such as 0.1 are a hair off


def reason_for(probability: float, leads: bool, confidence: float) -> Reason:
    """The rule itself: what follows from a run's chance to beat the best, unless it `leads` already."""
    if leads:
        return Reason.LEADING
    return Reason.UNLIKELY if probability <= 1.0 - confidence else Reason.PROMISING


def chance_to_beat(forecast: Forecast, best: ArrayLike, target: Target) -> Array:
    """The probability that the rule compares with 1 - confidence: one number, or one per run of a batch.

    `best` is one value, or one per run.
    """
    choice(target, "target", TARGETS)
    return np.asarray(
        forecast.final.prob_better(best) if target == "final" else forecast.prob_better(best).max(axis=-1)
    )


def rest_of_run(step: ArrayLike, horizon: int) -> Array:
    """The share of a run that is still to come after a step: what a stop there saves."""
    return np.asarray(1.0 - np.asarray(step, dtype=np.float64) / horizon)


def check_confidence(confidence: float) -> float:
    return share(confidence, "confidence", usual=0.95)
