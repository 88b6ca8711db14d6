"""Where a curve is evaluated: the steps of a batch, the planned horizon, and random plans to train on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epochcast.errors import InputError
from epochcast.prior.families import Array

MOST_STEPS = 200
SHORTEST, LONGEST = 2, 1000

_TYPICAL = (20.0, 200.0)  # horizons
_TYPICAL_RATE = 0.70
_LAYOUT_RATES = {"regular": 0.74, "random": 0.08, "geometric": 0.08, "dense_start": 0.10}
_ITERATIONS_RATE = 0.22  # of plans: counted in iterations, which are read as a thousand steps
_FEWEST_EVALUATIONS = 6  # of these
_SPARSER_RATE = 0.15  # of regular plans: evaluated less often than the limit asks for
_EARLY_RATE = 0.15  # of plans that are not geometric: the first evaluation comes when training has hardly begun
_EVEN = 0.4  # spread of the steps' ratios, relative to their mean, that still counts as growing geometrically
_FEWEST_RATIOS = 5


@dataclass(frozen=True)
class Grid:
    """Evaluation steps shared by a batch, rising in (0, horizon]."""

    steps: Array  # [step]
    horizon: float

    @classmethod
    def of(cls, steps: ArrayLike, horizon: float) -> Grid:
        array = np.asarray(steps, dtype=np.float64)
        if not (math.isfinite(horizon) and horizon >= SHORTEST):
            raise InputError(f"horizon={horizon!r} must be a finite number of steps, at least {SHORTEST}")
        if array.ndim != 1 or len(array) == 0:
            raise InputError(f"steps has shape {array.shape}; give a list of at least one step")
        if not (array[0] > 0.0 and array[-1] <= horizon and (np.diff(array) > 0.0).all()):
            raise InputError(f"steps must rise inside (0, horizon={horizon:g}], not run from {array[0]} to {array[-1]}")
        return cls(array, float(horizon))

    @property
    def is_geometric(self) -> bool:
        """Whether steps grow by about the same factor, as amounts of data do."""
        ratios = np.diff(np.log(self.steps))
        return len(ratios) >= _FEWEST_RATIOS and bool(ratios.std() < _EVEN * ratios.mean())

    @property
    def counts_iterations(self) -> bool:
        """Whether a run is so long that its steps are iterations rather than epochs."""
        return self.horizon >= LONGEST


def log_uniform(low: float, high: float, shape: int | tuple[int, ...], rng: np.random.Generator) -> Array:
    """Numbers whose logarithms are uniform."""
    return np.exp(rng.uniform(math.log(low), math.log(high), shape))


def regular(horizon: int, rng: np.random.Generator) -> Array:
    """Every k-th step, up to the horizon or as close as k divides."""
    every = -(-horizon // MOST_STEPS)
    if rng.random() < _SPARSER_RATE:
        every = max(every, int(log_uniform(1.0, max(horizon / 4, 1.0), 1, rng)[0]))
    return np.arange(every, horizon + 1, every, dtype=np.float64)


def iterations(rng: np.random.Generator) -> Array:
    """Every so many iterations of a run that is read as a thousand steps."""
    count = round(float(log_uniform(_FEWEST_EVALUATIONS, MOST_STEPS, 1, rng)[0]))
    return np.linspace(LONGEST / count, LONGEST, count)


def random(horizon: int, rng: np.random.Generator) -> Array:
    """Some of the steps and the last one, in no order that could be guessed."""
    most = min(MOST_STEPS, horizon)
    count = int(rng.integers(max(2, most // 4), most + 1)) if most > 2 else most
    others = rng.choice(np.arange(1, horizon), count - 1, replace=False)
    return np.append(np.sort(others), horizon).astype(np.float64)


def geometric(horizon: int, rng: np.random.Generator) -> Array:
    """Dense at first, then ever sparser, as for curves against the amount of data."""
    first = log_uniform(1e-5 if horizon >= LONGEST else 1e-3, 0.2, 1, rng)[0] * horizon
    count = int(rng.integers(2, min(MOST_STEPS, 4 + int(8 * math.log(horizon))) + 1))
    return np.append(np.geomspace(first, horizon, count)[:-1], float(horizon))


def dense_start(horizon: int, rng: np.random.Generator) -> Array:
    """Every step at first, then a few up to the horizon: a long run that has only begun."""
    begun = int(log_uniform(2.0, max(min(MOST_STEPS, 0.6 * horizon), 2.0), 1, rng)[0])
    later = np.linspace(begun, horizon, int(rng.integers(2, 40)))[1:]
    return np.unique(np.append(np.arange(1.0, begun + 1.0), later.round()))[-MOST_STEPS:]


def early(steps: Array, horizon: float, rng: np.random.Generator) -> Array:
    """The same steps after one at which training has hardly begun."""
    first = min(log_uniform(1e-5, 0.01, 1, rng)[0] * horizon, 0.5 * steps[0])
    return np.append(first, steps[max(len(steps) + 1 - MOST_STEPS, 0) :])


_LAYOUTS: dict[str, Callable[[int, np.random.Generator], Array]] = {
    "regular": regular,
    "random": random,
    "geometric": geometric,
    "dense_start": dense_start,
}


def sample_grid(rng: np.random.Generator) -> tuple[Array, float]:
    """Evaluation steps, at most 200, and the planned horizon of a random run."""
    layout = rng.choice(list(_LAYOUT_RATES), p=list(_LAYOUT_RATES.values()))
    if rng.random() < _ITERATIONS_RATE:
        steps = iterations(rng) if layout == "regular" else _LAYOUTS[layout](LONGEST, rng)
        return steps, float(LONGEST)
    low, high = _TYPICAL if rng.random() < _TYPICAL_RATE else (SHORTEST, LONGEST)
    horizon = round(float(log_uniform(low, high, 1, rng)[0]))
    steps = _LAYOUTS[layout](horizon, rng)
    if layout != "geometric" and rng.random() < _EARLY_RATE:
        steps = early(steps, horizon, rng)
    return steps, float(horizon)
