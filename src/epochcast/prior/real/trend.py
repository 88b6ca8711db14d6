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
from epochcast.prior.real.grid import Grid
from epochcast.prior.real.source import Mask, Source

_SMALLEST_CLOCK = 1e-9
_LARGEST_LOG = 300.0  # its exponential is still finite when multiplied by any parameter
_WAVES = 5  # of a smooth path

# --- the clock --------------------------------------------------------------------------------------------------------


def smooth_path(grid: Grid, source: Source) -> Array:
    """A slowly varying path [curve, step] of about unit size: waves over the steps or over their logarithms."""
    of_log = np.log1p(grid.steps) / math.log1p(grid.horizon)
    number = np.repeat(np.arange(1, _WAVES + 1), 2)[:, None]
    shift = np.tile([0.0, 0.5], _WAVES)[:, None]  # cosines and sines
    over_log, over_steps = (np.cos(math.pi * (number * u + shift)) for u in (of_log, grid.steps / grid.horizon))
    heights: Array = source.normal(width=2 * _WAVES) / (math.sqrt(2.0) * number[:, 0])
    return np.asarray(np.where(source.coin(0.6), heights @ over_log, heights @ over_steps))


def warped(clock: Array, grid: Grid, source: Source) -> Array:
    """A clock that goes a little fast or slow for a while: no family is exact."""
    return np.asarray(clock * np.exp(source.log_uniform(0.005, 0.3) * smooth_path(grid, source)))


def warped_tokens(clock: Array, grid: Grid, source: Source) -> Array:
    """The same of language models, whose power laws are more exact."""
    return np.asarray(clock * np.exp(source.log_uniform(0.003, 0.1) * smooth_path(grid, source)))


def delayed(clock: Array, grid: Grid, source: Source) -> Array:
    """A clock that stands or hardly runs until a delay is over: the run is stuck at first, then takes off."""
    delay = source.log_uniform(0.02, 0.8) * grid.horizon
    leak = np.where(source.coin(0.8), 0.0, source.log_uniform(1e-8, 1e-3))
    return np.asarray(np.maximum(clock - delay, 0.0) + leak * clock)


def stalled(clock: Array, grid: Grid, source: Source) -> Array:
    """A clock that nearly stops for a while: a plateau on the way."""
    start = source.log_uniform(0.01, 0.7) * grid.horizon
    length = source.log_uniform(0.05, 1.0) * grid.horizon
    return np.asarray(clock - source.uniform(0.9, 1.0) * np.clip(clock - start, 0.0, length))


def staying(clock: Array, grid: Grid, source: Source) -> Array:
    """A clock that stops for good, or all but stops."""
    at = source.log_uniform(0.02, 1.0) * grid.horizon
    leak = np.where(source.coin(0.6), 0.0, source.log_uniform(1e-3, 0.1))
    return np.asarray(np.minimum(clock, at) + leak * np.maximum(clock - at, 0.0))


# --- what is left to learn --------------------------------------------------------------------------------------------


def _component(log_clock: Array, horizon: float, pace: Array, slow: Mask, source: Source) -> Array:
    """(1 + c x^p)^(-1/c), x = clock / tau: powers (p = 1), stretched exponentials (c to 0), sigmoids (c = 1).

    `pace` and `slow` are [curve, 1].
    """
    # All orders of magnitude of tau alike.
    log_tau = np.log(source.log_uniform(0.01 * math.sqrt(horizon), horizon * np.where(slow, 0.5, 1.0)))
    # A run that is too slow shows the beginning of its decay, which often goes in proportion to the clock.
    steady = pace < 1.0
    log_tau = np.where(steady, math.log(horizon) - np.log(pace), log_tau)
    power = np.where(slow, source.log_uniform(1.2, 4.0), source.log_uniform(0.45, 1.2))
    power = np.where(steady & ~slow, np.minimum(source.log_uniform(0.5, 2.0), 1.0), power)
    # A start that gathers pace goes on to gain much, and soon: its tail is hardly heavier than a sigmoid's.
    tail = np.where(slow, source.log_uniform(0.05, 1.5), source.log_uniform(0.05, 8.0))
    return _left(power * (log_clock - log_tau), tail)


def _log(clock: Array) -> Array:
    return np.log(np.maximum(clock, _SMALLEST_CLOCK))


def _left(log_growth: Array, tail: Array) -> Array:
    """(1 + c x)^(-1/c) of the logarithm of x."""
    growth = np.exp(np.minimum(log_growth, _LARGEST_LOG))
    left: Array = np.exp(np.log1p(tail * growth) / -tail)
    return left


def decay(clock: Array, horizon: float, pace: Array, second: Mask, slow_start: Mask, source: Source) -> Array:
    """What is left of the first error after training time `clock` [curve, step]: one decay, or a mixture of two.

    A `pace` [curve, 1] below 1 is that of a run that is too slow: the share of a decay that the horizon has room for.
    Even so it may soon learn what is easy, as the frequencies of classes are: that is its second part.
    """
    log_clock = _log(clock)
    hard = 1.0 - pace * source.log_uniform(0.03, 2.0)
    weight = np.where(second[:, None], np.where(pace < 1.0, hard, source.uniform()), 1.0)
    left = weight * _component(log_clock, horizon, pace, slow_start[:, None], source)
    rows = np.flatnonzero(second)
    never, full = np.zeros((len(rows), 1), dtype=bool), np.ones((len(rows), 1))
    left[rows] += (1.0 - weight[rows]) * _component(log_clock[rows], horizon, full, never, source[rows])
    return left


def second_wind(left: Array, clock: Array, horizon: float, source: Source) -> Array:
    """A part that is learned late, all at once, beside what else is `left` to learn; all arrays [curve, step]."""
    log_tau = np.log(source.log_uniform(0.03, 1.0) * horizon)
    power, tail = source.log_uniform(2.0, 6.0), source.log_uniform(0.2, 1.5)
    weight = source.uniform()
    return np.asarray(weight * left + (1.0 - weight) * _left(power * (_log(clock) - log_tau), tail))


def late_bloom(left: Array, clock: Array, horizon: float, source: Source) -> Array:
    """A small part that gathers pace when the others have slowed down, be it long after the horizon."""
    log_tau = np.log(source.log_uniform(0.2, 3.0) * horizon)
    power, tail = source.log_uniform(1.2, 4.0), source.log_uniform(0.05, 1.5)
    weight = source.log_uniform(0.02, 0.5)
    return np.asarray((1.0 - weight) * left + weight * _left(power * (_log(clock) - log_tau), tail))


def tokens(clock: Array, horizon: float, source: Source) -> Array:
    """What a language model has left to learn: word frequencies at once, then a power law for the whole run."""
    fast = source.log_uniform(3e-4, 0.03) * horizon
    slow = source.log_uniform(1e-3, 0.3) * horizon
    tail, power = source.log_uniform(0.3, 2.0), source.log_uniform(0.05, 0.8)
    easy = 1.0 - source.log_uniform(0.03, 0.6)
    at_first = np.exp(np.log1p(tail * clock / fast) / -tail)
    return np.asarray(easy * at_first + (1.0 - easy) * (1.0 + clock / slow) ** -power)


def paper_parameters(size: int, horizon: float, generator: np.random.Generator, *, rising: bool = False) -> Array:
    """Parameters [curve, parameter] of curves of the paper's prior that lie in [0, 1] from step 1 to the horizon.

    Some of its curves peak and fall again; `rising` ones never do from one of the steps checked to the next.
    """
    check = np.geomspace(1.0, horizon, 12)
    kept = [np.empty((0, len(paper.NAMES)))]
    missing = size
    while missing > 0:
        count = int(missing / paper.ACCEPTANCE * 1.2) + 16
        parameters = np.stack([law.sample(count, generator) for law in paper.LAWS.values()], axis=-1)
        ends = paper.evaluate(parameters, check)
        valid = (ends >= 0.0).all(axis=1) & (ends <= 1.0).all(axis=1) & (ends[:, 0] < ends[:, -1])
        if rising:
            valid &= (np.diff(ends, axis=1) >= 0.0).all(axis=1)
        kept.append(parameters[valid][:missing])
        missing -= len(kept[-1])
    return np.concatenate(kept)


def ends(parameters: Array, horizon: float) -> Array:
    """Where curves of the paper's prior come to, by which they can be told apart."""
    return np.asarray(paper.evaluate(parameters, np.array([max(horizon / 3.0, 1.0), horizon])).mean(axis=1))


def paper_decay(clock: Array, horizon: float, source: Source) -> Array:
    """What the paper's curves, which begin at step 1, leave to be learned after training time `clock` [curve, step].

    Only of those that rise: how runs get worse again is the business of setbacks.
    """
    parameters = source.pick(
        lambda count: paper_parameters(count, horizon, source.generator, rising=True), lambda pool: ends(pool, horizon)
    )
    learned = paper.evaluate(parameters, np.maximum(clock, 1.0))
    return np.asarray(1.0 - np.clip(learned, 0.0, 1.0) * np.minimum(clock, 1.0))


def strayed(left: Array, grid: Grid, source: Source) -> Array:
    """A deviation with long memory, in proportion to what is left to learn."""
    return np.asarray(left * np.exp(source.log_uniform(0.002, 0.1) * smooth_path(grid, source)))


def slow_pace(source: Source) -> Array:
    """The pace [curve, 1] of runs whose learning rate is much too small: what share of a decay they get through."""
    return source.log_uniform(1e-3, 0.3)


# --- where it starts and where it settles -----------------------------------------------------------------------------


def final_error(loss: Mask, source: Source) -> Array:
    """The error [curve, 1] that can never be trained away; accuracies come closer to perfect than losses."""
    return np.where(loss[:, None], source.beta(0.7, 1.5), source.beta(0.6, 1.7))


def solved(source: Source) -> Array:
    """The same of tasks that can be learned all but completely."""
    return source.log_uniform(1e-4, 0.1)


def floor_of_tokens(source: Source) -> Array:
    """The same of language models: text can't be foretold."""
    return source.uniform(0.05, 0.5)


def gap(felt: Array, final: Array, noisy: Mask, loss: Mask, source: Source) -> Array:
    """How far a learning rate [curve, step] holds the error above where it would settle at rate zero [curve, 1].

    A gap that no noise gives away is smaller; those of losses are smaller, for a high rate shakes them more than it
    holds them.
    """
    height = source.beta(1.1, 2.3) * (1.0 - final)
    height *= np.where(noisy[:, None], 1.0, source.log_uniform(0.003, np.where(loss[:, None], 0.3, 0.6)))
    height *= np.where(loss[:, None], source.log_uniform(0.1, 1.0), source.log_uniform(0.4, 1.0))
    return height * _held_open(felt, np.exp(source.normal(0.15, 0.3)), source.log_uniform(0.2, 10.0))


def quiet_gap(felt: Array, source: Source) -> Array:
    """The same of a language model: too small to be seen beside the untrained loss, too large to be left out."""
    return source.log_uniform(4e-3, 0.06) * _held_open(
        felt, np.exp(source.normal(0.1, 0.3)), source.log_uniform(0.3, 10.0)
    )


def _held_open(felt: Array, power: Array, saturation: Array) -> Array:
    """The share of a gap that a rate keeps open: small rates count by a power, large ones are all alike, since half of
    a very high rate is still too high to settle."""
    counted = felt**power
    return np.asarray((1.0 + saturation) * counted / (counted + saturation))


def bad_start(source: Source) -> Array:
    """The relative error [curve, 1] right after the first updates, when they throw the model off."""
    return source.log_uniform(1.05, 30.0)


def far_start(error: Array, trained: Array, excess: Array, horizon: float, source: Source) -> Array:
    """The same error beneath a first guess `excess` [curve, 1] times as bad as knowing nothing, mended within some
    of the steps `trained` [curve, step]."""
    tau = source.log_uniform(1e-4, 0.03) * horizon
    return np.asarray(error / excess + (1.0 - 1.0 / excess) * np.exp(-trained / tau))


def miniature(error: Array, shrink: Array, source: Source) -> Array:
    """The same curve `shrink` [curve, 1] times as high, around the untrained level or another one."""
    level = np.where(source.coin(0.7), 1.0, source.uniform())
    return np.asarray(level + shrink * (error - level))
