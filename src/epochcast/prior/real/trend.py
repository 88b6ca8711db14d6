"""How the error of a run falls: relative error over steps, 1 for the untrained model and 0 for a perfect one.

    error(s) = floor(s) + (start - floor(s)) g(clock(s))

where g decays from 1, the floor is where the run would settle at the current learning rate, and the clock counts
training in full-rate steps. Every function is one ingredient.
"""

from __future__ import annotations

import math

import numpy as np

from epochcast.prior import paper
from epochcast.prior.families import Array
from epochcast.prior.real.config import Mask
from epochcast.prior.real.grid import Grid, log_uniform

_SMALLEST_CLOCK = 1e-9
_LARGEST_LOG = 300.0  # its exponential is still finite when multiplied by any parameter


def _component(log_clock: Array, horizon: float, pace: Array, slow: Mask, rng: np.random.Generator) -> Array:
    """(1 + c x^p)^(-1/c), x = clock / tau: powers (p = 1), stretched exponentials (c to 0), sigmoids (c = 1)."""
    size = len(log_clock)
    shortest, longest = math.log(0.01 * math.sqrt(horizon)), np.log(horizon * np.where(slow, 0.5, 1.0))
    log_tau = rng.uniform(shortest, longest, size)  # all orders of magnitude alike
    # A run that is too slow shows the beginning of its decay, which often goes in proportion to the clock.
    steady = pace < 1.0
    log_tau = np.where(steady, math.log(horizon) - np.log(pace), log_tau)[:, None]
    power = np.where(slow, log_uniform(1.2, 4.0, size, rng), log_uniform(0.45, 1.2, size, rng))
    power = np.where(steady & ~slow, np.minimum(log_uniform(0.5, 2.0, size, rng), 1.0), power)[:, None]
    # A start that gathers pace goes on to gain much, and soon: its tail is hardly heavier than a sigmoid's.
    tail = np.where(slow, log_uniform(0.05, 1.5, size, rng), log_uniform(0.05, 8.0, size, rng))[:, None]
    return _left(power * (log_clock - log_tau), tail)


def _log(clock: Array) -> Array:
    return np.log(np.maximum(clock, _SMALLEST_CLOCK))


def _left(log_growth: Array, tail: Array) -> Array:
    """(1 + c x)^(-1/c) of the logarithm of x."""
    growth = np.exp(np.minimum(log_growth, _LARGEST_LOG))
    left: Array = np.exp(np.log1p(tail * growth) / -tail)
    return left


def smooth_path(grid: Grid, size: int, rng: np.random.Generator) -> Array:
    """A slowly varying path [curve, step] of about unit size: five cosines over the steps or over their logarithms."""
    of_log = np.log1p(grid.steps) / math.log1p(grid.horizon)
    place = np.where(rng.random((size, 1)) < 0.6, of_log, grid.steps / grid.horizon)
    path = np.zeros((size, len(grid.steps)))
    for k in range(1, 6):
        height = rng.standard_normal((size, 1)) / k
        path += height * np.cos(math.pi * (k * place + rng.uniform(0.0, 2.0, (size, 1))))
    return path


def warped(grid: Grid, clock: Array, sd: Array, rng: np.random.Generator) -> Array:
    """A clock that goes a little fast or slow for a while, by about `sd` [curve, 1]."""
    return clock * np.exp(sd * smooth_path(grid, len(clock), rng))


def tokens(clock: Array, horizon: float, rng: np.random.Generator) -> Array:
    """What a language model has left to learn: word frequencies at once, then a power law for the whole run."""
    size = (len(clock), 1)
    fast = log_uniform(3e-4, 0.03, size, rng) * horizon
    slow = log_uniform(1e-3, 0.3, size, rng) * horizon
    tail, power = log_uniform(0.3, 2.0, size, rng), log_uniform(0.05, 0.8, size, rng)
    easy = 1.0 - log_uniform(0.03, 0.6, size, rng)
    at_first = np.exp(np.log1p(tail * clock / fast) / -tail)
    return easy * at_first + (1.0 - easy) * (1.0 + clock / slow) ** -power


def floor_of_tokens(size: int, rng: np.random.Generator) -> Array:
    """The error [curve, 1] that a language model ends with, of the untrained one: text can't be foretold."""
    return rng.uniform(0.05, 0.5, (size, 1))


def staying(clock: Array, horizon: float, rng: np.random.Generator) -> Array:
    """A clock that stops for good, or all but stops."""
    at = log_uniform(0.02, 1.0, (len(clock), 1), rng) * horizon
    leak = np.where(rng.random((len(clock), 1)) < 0.6, 0.0, log_uniform(1e-3, 0.1, (len(clock), 1), rng))
    return np.minimum(clock, at) + leak * np.maximum(clock - at, 0.0)


def exploding(grid: Grid, size: int, rng: np.random.Generator) -> Array:
    """A factor [curve, step] of the loss that grows by orders of magnitude after an onset, at once or steadily."""
    onset = log_uniform(0.01, 0.9, (size, 1), rng) * grid.horizon
    width = log_uniform(0.003, 1.0, (size, 1), rng) * grid.horizon
    height = log_uniform(1.0, 50.0, (size, 1), rng)
    shape = rng.uniform(0.5, 1.5, (size, 1))
    grown = (np.maximum(grid.steps - onset, 0.0) / width) ** shape
    return np.exp(height * grown / (1.0 + grown))


def second_wind(left: Array, clock: Array, horizon: float, rng: np.random.Generator) -> Array:
    """A part that is learned late, all at once, beside what else is `left` to learn; all arrays [curve, step]."""
    size = (len(clock), 1)
    log_tau = np.log(log_uniform(0.03, 1.0, size, rng) * horizon)
    power, tail = log_uniform(2.0, 6.0, size, rng), log_uniform(0.2, 1.5, size, rng)
    weight = rng.random(size)
    return weight * left + (1.0 - weight) * _left(power * (_log(clock) - log_tau), tail)


def decay(clock: Array, horizon: float, pace: Array, second: Mask, slow_start: Mask, rng: np.random.Generator) -> Array:
    """What is left of the first error after training time `clock` [curve, step]: one decay, or a mixture of two.

    A `pace` [curve, 1] below 1 is that of a run that is too slow: the share of a decay that the horizon has room for.
    Even so it may soon learn what is easy, as the frequencies of classes are: that is its second part.
    """
    size, log_clock = len(clock), _log(clock)
    hard = 1.0 - pace[:, 0] * log_uniform(0.03, 2.0, size, rng)
    weight = np.where(second, np.where(pace[:, 0] < 1.0, hard, rng.random(size)), 1.0)[:, None]
    left = weight * _component(log_clock, horizon, pace[:, 0], slow_start, rng)
    rows = np.flatnonzero(second)
    never, full = np.zeros(len(rows), dtype=bool), np.ones(len(rows))
    left[rows] += (1.0 - weight[rows]) * _component(log_clock[rows], horizon, full, never, rng)
    return left


def paper_parameters(size: int, horizon: float, rng: np.random.Generator, *, rising: bool = False) -> Array:
    """Parameters [curve, parameter] of curves of the paper's prior that lie in [0, 1] from step 1 to the horizon.

    Some of its curves peak and fall again; `rising` ones never do from one of the steps checked to the next.
    """
    check = np.geomspace(1.0, horizon, 12)
    kept = [np.empty((0, len(paper.NAMES)))]
    missing = size
    while missing > 0:
        count = int(missing / paper.ACCEPTANCE * 1.2) + 16
        parameters = np.stack([law.sample(count, rng) for law in paper.LAWS.values()], axis=-1)
        ends = paper.evaluate(parameters, check)
        valid = (ends >= 0.0).all(axis=1) & (ends <= 1.0).all(axis=1) & (ends[:, 0] < ends[:, -1])
        if rising:
            valid &= (np.diff(ends, axis=1) >= 0.0).all(axis=1)
        kept.append(parameters[valid][:missing])
        missing -= len(kept[-1])
    return np.concatenate(kept)


def paper_decay(clock: Array, horizon: float, rng: np.random.Generator) -> Array:
    """What the paper's curves, which begin at step 1, leave to be learned after training time `clock` [curve, step].

    Only of those that rise: how runs get worse again is the business of setbacks.
    """
    learned = paper.evaluate(paper_parameters(len(clock), horizon, rng, rising=True), np.maximum(clock, 1.0))
    return np.asarray(1.0 - np.clip(learned, 0.0, 1.0) * np.minimum(clock, 1.0))


def slow_pace(size: int, rng: np.random.Generator) -> Array:
    """The pace [curve, 1] of runs whose learning rate is much too small: what share of a decay they get through."""
    return log_uniform(1e-3, 0.3, (size, 1), rng)


def delayed(clock: Array, horizon: float, rng: np.random.Generator) -> Array:
    """A clock that stands or hardly runs until a delay is over: the run is stuck at first, then takes off."""
    delay = log_uniform(0.02, 0.8, (len(clock), 1), rng) * horizon
    leak = np.where(rng.random((len(clock), 1)) < 0.8, 0.0, log_uniform(1e-8, 1e-3, (len(clock), 1), rng))
    return np.maximum(clock - delay, 0.0) + leak * clock


def stalled(clock: Array, horizon: float, rng: np.random.Generator) -> Array:
    """A clock that nearly stops for a while: a plateau on the way."""
    size = (len(clock), 1)
    start = log_uniform(0.01, 0.7, size, rng) * horizon
    length = log_uniform(0.05, 1.0, size, rng) * horizon
    return clock - rng.uniform(0.9, 1.0, size) * np.clip(clock - start, 0.0, length)


def final_error(loss: Mask, rng: np.random.Generator) -> Array:
    """The error [curve, 1] that can never be trained away; accuracies come closer to perfect than losses."""
    size = (len(loss), 1)
    return np.where(loss[:, None], rng.beta(0.7, 1.5, size), rng.beta(0.6, 1.7, size))


def solved(size: int, rng: np.random.Generator) -> Array:
    """The same of tasks that can be learned all but completely."""
    return log_uniform(1e-4, 0.1, (size, 1), rng)


def gap(felt: Array, final: Array, noisy: Mask, loss: Mask, rng: np.random.Generator) -> Array:
    """How far a learning rate [curve, step] holds the error above where it would settle at rate zero [curve, 1].

    Small rates count by a power, large ones are all alike: half of a very high rate is still too high to settle. A gap
    that no noise gives away is small; those of losses are smaller, for a high rate shakes them more than it holds them.
    """
    size = (len(felt), 1)
    height = rng.beta(1.1, 2.3, size) * (1.0 - final)
    height *= np.where(noisy[:, None], 1.0, log_uniform(0.01, 0.7, size, rng))
    height *= np.where(loss[:, None], log_uniform(0.1, 1.0, size, rng), log_uniform(0.4, 1.0, size, rng))
    power = felt ** rng.lognormal(0.15, 0.3, size)
    saturation = log_uniform(0.2, 10.0, size, rng)
    return height * (1.0 + saturation) * power / (power + saturation)


def quiet_gap(felt: Array, rng: np.random.Generator) -> Array:
    """The same of a language model: too small to be seen beside the untrained loss, too large to be left out."""
    size = (len(felt), 1)
    height = log_uniform(3e-3, 0.06, size, rng)
    power = felt ** rng.lognormal(0.1, 0.3, size)
    saturation = log_uniform(0.3, 10.0, size, rng)
    return height * (1.0 + saturation) * power / (power + saturation)


def wild(felt: Array, rng: np.random.Generator) -> Array:
    """Error [curve, step] far above the untrained one as long as a rate [curve, step] is much too high."""
    size = (len(felt), 1)
    height = log_uniform(0.2, 5.0, size, rng) * np.exp(rng.uniform(0.5, 1.5, size) * rng.standard_normal(felt.shape))
    return height * felt


def bad_start(size: int, rng: np.random.Generator) -> Array:
    """The relative error [curve] right after the first updates, when they throw the model off."""
    return log_uniform(1.05, 30.0, size, rng)


def far_start(error: Array, trained: Array, excess: Array, horizon: float, rng: np.random.Generator) -> Array:
    """The same error beneath a first guess `excess` [curve, 1] times as bad as knowing nothing, mended within some
    of the steps `trained` [curve, step]."""
    tau = log_uniform(1e-4, 0.03, excess.shape, rng) * horizon
    return error / excess + (1.0 - 1.0 / excess) * np.exp(-trained / tau)


def worsening(error: Array, rng: np.random.Generator) -> Array:
    """The curve mirrored at the untrained level: it gets worse as others get better, less or more than they do."""
    return 1.0 + log_uniform(0.05, 3.0, (len(error), 1), rng) * (1.0 - error)


def miniature(error: Array, shrink: Array, rng: np.random.Generator) -> Array:
    """The same curve `shrink` [curve, 1] times as high, around the untrained level or another one."""
    size = (len(error), 1)
    level = np.where(rng.random(size) < 0.7, 1.0, rng.random(size))
    return level + shrink * (error - level)


def overfitting(grid: Grid, onset: Array, rng: np.random.Generator) -> Array:
    """Error that comes back after an onset [curve, 1], x^p / (1 + x^p), from unnoticed to more than was ever gained."""
    size = len(onset)
    width = log_uniform(0.03, 3.0, (size, 1), rng) * grid.horizon
    grown = (np.maximum(grid.steps - onset, 0.0) / width) ** rng.uniform(0.7, 2.0, (size, 1))
    return log_uniform(0.002, 4.0, (size, 1), rng) * grown / (1.0 + grown)


def wandering(grid: Grid, rate: Array, rng: np.random.Generator) -> Array:
    """A relative change [curve, step] of the error: every update leaves its mark, smaller ones at a smaller rate."""
    elapsed = np.diff(grid.steps, prepend=0.0) / grid.horizon
    walk = np.cumsum(rate * np.sqrt(elapsed) * rng.standard_normal(rate.shape), axis=1)
    return np.expm1(log_uniform(3e-3, 0.5, (len(rate), 1), rng) * walk)


def unstable(grid: Grid, size: int, rng: np.random.Generator) -> Array:
    """The share [curve, step] of its gains that a run has lost: from an onset on it wanders, mostly for the worse."""
    onset = log_uniform(0.01, 1.0, (size, 1), rng) * grid.horizon
    elapsed = np.diff(np.maximum(grid.steps - onset, 0.0), axis=1, prepend=0.0) / grid.horizon
    walk = np.cumsum(np.sqrt(elapsed) * rng.standard_normal(elapsed.shape), axis=1)
    walk = log_uniform(0.5, 6.0, (size, 1), rng) * np.abs(walk)
    drift = rng.uniform(0.0, 4.0, (size, 1)) * np.cumsum(elapsed, axis=1)
    return -np.expm1(-walk - drift)


def double_descent(grid: Grid, size: int, rng: np.random.Generator) -> Array:
    """Error that rises for a while and falls again."""
    centre = log_uniform(0.02, 0.95, (size, 1), rng) * grid.horizon
    width = log_uniform(0.01, 0.2, (size, 1), rng) * grid.horizon
    return log_uniform(0.01, 1.0, (size, 1), rng) * np.exp(-0.5 * ((grid.steps - centre) / width) ** 2)


def spikes(grid: Grid, size: int, rng: np.random.Generator) -> Array:
    """One to four sudden errors that the run recovers from."""
    total = np.zeros((size, len(grid.steps)))
    recovery = log_uniform(0.2, 0.15 * grid.horizon + 1.0, (size, 1), rng)
    depth = log_uniform(0.01, 4.0, (size, 1), rng)
    count = rng.integers(1, 5, (size, 1))
    for k in range(4):
        at = rng.uniform(0.0, grid.horizon, (size, 1))
        height = np.where(k < count, depth * rng.exponential(1.0, (size, 1)), 0.0)
        since = grid.steps - at
        total += np.where(since >= 0.0, height * np.exp(-np.maximum(since, 0.0) / recovery), 0.0)
    return total


def collapse(grid: Grid, size: int, rng: np.random.Generator) -> Array:
    """Share [curve, step] of the way to a lost run: at once, or over some steps; a rate too high shows early."""
    at = log_uniform(0.003, 1.0, (size, 1), rng) * grid.horizon
    width = np.where(rng.random((size, 1)) < 0.6, 1e-9, log_uniform(0.005, 0.2, (size, 1), rng) * grid.horizon)
    return -np.expm1(-np.maximum(grid.steps - at, 0.0) / width)


def lost_level(size: int, rng: np.random.Generator) -> Array:
    """The relative error [curve] of a lost loss curve: a constant guess, or growing without bound."""
    return np.where(rng.random(size) < 0.4, 1.0, log_uniform(1.05, 300.0, size, rng))
