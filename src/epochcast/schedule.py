"""The learning rate that a run is planned with, in the words of those who train.

    Schedule.of("cosine")                        # from its largest value to 0 at the horizon
    Schedule.of("linear,warmup=5,final=0.1")     # 5 steps up, then down to a tenth
    Schedule.of("drops,at=60/80,factor=0.1")     # to a tenth after step 60, and again after step 80
    Schedule.of("wsd,hold=0.8,decay=sqrt")       # held for 80 % of the run, then down to 0 as 1 - sqrt
    Schedule.of(lambda step: 0.1 * 0.97**step)   # any function of the step
    Schedule.of([0.1] * 30 + [0.01] * 20)        # one rate for each step up to the horizon

Only ratios count: rates are taken relative to the largest one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.checks import cut, shown
from epochcast.errors import InputError
from epochcast.rates import Array, Rates

RateOf = Callable[[Array, float], Array]  # rates at steps of a run with a horizon
ScheduleLike: TypeAlias = "Schedule | str | Callable[[float], float] | ArrayLike"

_CELLS, _MOST_CELLS = 1_000, 10_000  # parts of a run that have one rate each, at least and at most
_TOLD = np.ones(1)
_LONGEST = 1_000  # characters of words
_HELD = 0.8  # share of a run for which `wsd` holds the rate, unless said otherwise
_SMALLEST_EXPONENTIAL = 0.01  # share of the rate that an exponential decay comes down by


@dataclass(frozen=True)
class Schedule:
    """Learning rates of a run up to its horizon.

    Examples:
        >>> Schedule.of("cosine").name
        'cosine'
    """

    name: str
    rate_of: RateOf

    @classmethod
    def of(cls, schedule: ScheduleLike) -> Schedule:
        """A schedule from what a user says of it.

        Args:
            schedule: Words, a function of the step, one rate per step, or a schedule.

        Returns:
            The schedule.

        Raises:
            InputError: If the words are not understood, or a rate is negative or not finite.

        Examples:
            >>> Schedule.of("linear,warmup=5,final=0.1").name
            'linear,warmup=5,final=0.1'
        """
        if isinstance(schedule, Schedule):
            return schedule
        if isinstance(schedule, str):
            return cls(schedule, _named(schedule))
        if callable(schedule):
            return cls("function", _Function(schedule))
        return cls("rates", _Listed(_positive(schedule)))

    @classmethod
    def spaced(cls, rates: ArrayLike) -> Schedule:
        """Rates of equal parts of a run, whatever its horizon.

        Args:
            rates: One rate per part.

        Returns:
            The schedule.

        Raises:
            InputError: If a rate is negative or not finite.

        Examples:
            >>> Schedule.spaced([1.0, 0.1]).name
            'rates'
        """
        return cls("rates", _Spaced(_positive(rates)))

    def check(self, horizon: float) -> None:
        """Make sure that there are rates for a run with this horizon.

        Args:
            horizon: The step at which the run is planned to end.

        Raises:
            InputError: If a function fails, a list is too short, or the decay begins after the end.

        Examples:
            >>> Schedule.of([0.1] * 30 + [0.01] * 20).check(50)
        """
        _table(self, float(horizon))

    def at(self, steps: Array, horizon: float, scale: float = 1.0) -> Rates:
        """Rates at steps [run, ...]; the clock counts `scale` for each step."""
        return _table(self, float(horizon)).at(steps, scale)


@dataclass(frozen=True)
class _Table:
    """Rates in equal parts of a run, and their sum up to the end of each."""

    rate: Array  # [cell]
    clock: Array  # [1 + cell]
    width: float  # steps per cell

    def at(self, steps: Array, scale: float) -> Rates:
        place = steps / self.width
        cell = np.clip(np.ceil(place - 1e-6).astype(np.int64) - 1, 0, len(self.rate) - 1)
        clock = self.clock[cell] + self.rate[cell] * self.width * (place - cell)
        return Rates(_TOLD, np.where(steps > 0.0, self.rate[cell], 0.0), scale * np.where(steps > 0.0, clock, 0.0))


@lru_cache(maxsize=64)
def _table(schedule: Schedule, horizon: float) -> _Table:
    per_step = math.ceil(_CELLS / horizon)  # whole steps end with a cell, so that drops are exact
    count = min(max(round(per_step * horizon), 1), _MOST_CELLS)
    width = horizon / count
    middles = np.asarray((np.arange(count) + 0.5) * width, dtype=np.float64)
    rate = np.asarray(schedule.rate_of(middles, horizon), dtype=np.float64)
    if rate.shape != (count,) or not np.isfinite(rate).all() or (rate < 0.0).any() or rate.max() <= 0.0:
        raise InputError(
            f"schedule {schedule.name!r} must give finite rates, none below 0 and some above, at all steps up to "
            f"{horizon:g}; it gave {np.array2string(rate, threshold=6, precision=4)}"
        )
    relative = np.asarray(rate / rate.max())
    return _Table(relative, np.append(0.0, np.cumsum(relative * width)), width)


# --- what a schedule can be given as ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Function:
    function: Callable[[float], float]

    def __call__(self, steps: Array, horizon: float) -> Array:
        try:
            return np.array([float(self.function(step)) for step in steps])
        except Exception as error:  # whatever a user's function raises
            raise InputError(
                f"the schedule failed between step 0 and {horizon:g}: {type(error).__name__}: {error}"
            ) from error


@dataclass(frozen=True)
class _Spaced:
    """Rates of equal parts of a run."""

    rates: tuple[float, ...]

    def __call__(self, steps: Array, horizon: float) -> Array:
        part = np.ceil(steps * len(self.rates) / horizon - 1e-6).astype(np.int64) - 1
        return np.array(self.rates)[np.clip(part, 0, len(self.rates) - 1)]


class _Listed(_Spaced):
    """The same, one for each step."""

    def __call__(self, steps: Array, horizon: float) -> Array:
        if len(self.rates) != math.ceil(horizon):
            raise InputError(
                f"the schedule lists {len(self.rates)} rates where the run has {horizon:g} steps; give one for each "
                "step up to the horizon, or a function of the step"
            )
        return super().__call__(steps, horizon)


@dataclass(frozen=True)
class _Named:
    """A form between the end of its warm-up or hold and its end, where the rate stays at a share of the largest.

    A hold is a step, that of `wsd` (warm-up, stable, decay) a share of the run, for so it is planned.
    """

    form: str
    warmup: float = 0.0
    hold: float = 0.0  # the decay begins at this step, or after this share
    end: float | None = None  # and ends at this one, by default the horizon
    final: float = 0.0
    at: tuple[float, ...] = ()
    factor: float = 0.1
    decay: str = "linear"

    def __call__(self, steps: Array, horizon: float) -> Array:
        ramp = np.minimum(steps / self.warmup, 1.0) if self.warmup > 0.0 else 1.0
        return np.asarray(ramp * (self.final + (1.0 - self.final) * self._decayed(steps, horizon)))

    def _decayed(self, steps: Array, horizon: float) -> Array:
        """From 1 to 0, unless it is constant or drops by a factor."""
        if self.form == "constant":
            return np.ones_like(steps)
        if self.form == "drops":
            return np.asarray(self.factor ** np.searchsorted(self.at, steps).astype(np.float64))
        hold = self.hold * horizon if self.form == "wsd" else self.hold
        start, end = max(self.warmup, hold), horizon if self.end is None else self.end
        if end <= start:
            raise InputError(f"the schedule ends at step {end:g}, before its decay begins at step {start:g}")
        passed = np.clip((steps - start) / (end - start), 0.0, 1.0)
        return DECAYS[self.decay if self.form == "wsd" else self.form](passed)


# How a rate goes down from 1 to 0 while v goes from 0 to 1.
DECAYS: dict[str, Callable[[Array], Array]] = {
    "linear": lambda v: np.asarray(1.0 - v),
    "cosine": lambda v: np.asarray(0.5 + 0.5 * np.cos(np.pi * v)),
    "sqrt": lambda v: np.asarray(1.0 - np.sqrt(v)),
    "exponential": lambda v: np.asarray(
        (_SMALLEST_EXPONENTIAL**v - _SMALLEST_EXPONENTIAL) / (1.0 - _SMALLEST_EXPONENTIAL)
    ),
}

# The forms that have a name, and what can be said of each.
FORMS = {
    "constant": ("warmup",),
    "cosine": ("warmup", "hold", "end", "final"),
    "linear": ("warmup", "hold", "end", "final"),
    "drops": ("warmup", "at", "factor"),
    "wsd": ("warmup", "hold", "decay", "final"),
}


def _named(words: str) -> _Named:
    form, *options = (part.strip() for part in words.split(","))
    if form not in FORMS or len(words) > _LONGEST:
        raise InputError(f"schedule {cut(words)!r} is unknown; choose {', '.join(FORMS)}, or give the rates themselves")
    given: dict[str, float | str | tuple[float, ...]] = {"hold": _HELD} if form == "wsd" else {}
    for option in options:
        key, _, value = (part.strip() for part in option.partition("="))
        if key not in FORMS[form]:
            raise InputError(f"schedule {words!r}: {form} has no {key!r}; it takes {', '.join(FORMS[form])}")
        if key == "decay":
            given[key] = _decay(value, words)
            continue
        numbers = tuple(_number(part, words, key) for part in value.split("/"))
        given[key] = tuple(sorted(numbers)) if key == "at" else numbers[0]
        if key != "at" and len(numbers) > 1:
            raise InputError(f"schedule {words!r}: {key} is one number")
    if form == "drops" and "at" not in given:
        raise InputError(f"schedule {words!r} does not say where the rate drops; try drops,at=60/80,factor=0.1")
    for share in ("final", "factor", *(["hold"] if form == "wsd" else [])):
        if not 0.0 <= float(given.get(share, 0.0)) <= 1.0:  # type: ignore[arg-type]
            whole = "run" if share == "hold" else "rate"
            raise InputError(f"schedule {words!r}: {share} is a share of the {whole}, 0 to 1")
    return _Named(form, **given)  # type: ignore[arg-type]


def _decay(word: str, words: str) -> str:
    if word not in DECAYS:
        raise InputError(f"schedule {words!r}: decay={word!r} is unknown; choose {', '.join(DECAYS)}")
    return word


def _number(text: str, words: str, key: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 <= number < math.inf:
        raise InputError(f"schedule {words!r}: {key}={text!r} should be a number, 0 or more") from None
    return number


def _positive(rates: ArrayLike) -> tuple[float, ...]:
    try:
        listed: NDArray[np.float64] = np.asarray(rates, dtype=np.float64)
    except Exception:  # whatever an object makes of being asked for numbers
        listed = np.empty(0)
    if listed.ndim != 1 or len(listed) == 0:
        raise InputError(
            f"schedule {shown(rates)} is neither words such as 'cosine' or 'drops,at=60/80', nor a function of the "
            "step, nor one rate per step"
        )
    return tuple(listed.tolist())
