"""Learning-rate schedules: the rate at each step, relative to its largest, and the sum of rates as a training clock.

Integrals are closed forms, so a curve does not depend on the grid it is seen through. After the end of a schedule the
rate stays at its last value, unless said otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epochcast.prior.families import Array
from epochcast.prior.real.grid import Grid
from epochcast.prior.real.source import Mask, Rows, Source

_ROUNDING = 1e-9
_ROUND_RATE = 0.5  # of runs with drops: they are where people put them, at round shares of the run
_ROUND_PLACES = (0.2, 0.25, 0.3, 1 / 3, 0.4, 0.5, 0.5, 0.6, 2 / 3, 0.7, 0.75, 0.75, 0.8, 0.9)

_ROUND_DECAYS = (0.05, 0.1, 0.1, 0.1, 0.15, 0.2, 0.2, 0.2, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8)  # shares of the run
_AT_ONCE, _AN_INSTANT = 0.5, 0.3  # of runs with drops: their gain comes within so many steps


@dataclass(frozen=True)
class Schedule:
    """Schedules of a batch; `turn` is [curve], the others [curve, step]."""

    rate: Array  # in [0, 1]
    felt: Array  # the rate as the level of the curve follows it: drops are felt over some steps
    clock: Array  # integral of the rate: how many steps at the full rate it is worth
    turn: Array  # where the rate falls all of a sudden; infinite where it never does

    def __getitem__(self, rows: Rows) -> Schedule:
        return Schedule(self.rate[rows], self.felt[rows], self.clock[rows], self.turn[rows])

    def put(self, rows: Rows, part: Schedule) -> None:
        """Replace the schedules of some rows."""
        self.rate[rows], self.felt[rows] = part.rate, part.felt
        self.clock[rows], self.turn[rows] = part.clock, part.turn


@dataclass(frozen=True)
class Outline:
    """What schedules of any form have in common; every array is [curve, 1]."""

    start: Array  # the step until which the rate is held
    end: Array  # the step at which the schedule ends
    rest: Array  # the rate at the end

    def __getitem__(self, rows: Rows) -> Outline:
        return Outline(self.start[rows], self.end[rows], self.rest[rows])


def constant(grid: Grid, size: int) -> Schedule:
    """No schedule."""
    ones = np.ones((size, len(grid.steps)))
    return Schedule(ones, ones.copy(), ones * grid.steps, np.full(size, np.inf))


def draw_outlines(grid: Grid, has: dict[str, Mask], source: Source) -> Outline:
    """Most schedules end at the horizon; some hold the rate first, some end above zero."""
    ends, holds, rests = (has[name][:, None] for name in ("ends_at_horizon", "hold", "rest"))
    end = grid.horizon * np.where(ends, 1.0, source.log_uniform(0.3, 3.0))
    start = end * np.where(holds, source.uniform(0.1, 0.9), 0.0)
    return Outline(start, end, np.where(rests, source.log_uniform(1e-3, 0.3), 0.0))


def _annealed(grid: Grid, outline: Outline, rate: Array, worth: Array) -> Schedule:
    """A rate that decays from 1 to 0 between start and end, and the mean of it up to each step, [curve, step] both."""
    clock = np.minimum(grid.steps, outline.start) + (outline.end - outline.start) * worth
    rate = outline.rest + (1.0 - outline.rest) * rate
    turn = np.where(outline.start > 0.0, outline.start, np.inf)[:, 0]
    return Schedule(rate, rate, outline.rest * grid.steps + (1.0 - outline.rest) * clock, turn)


def _decayed_share(grid: Grid, outline: Outline) -> Array:
    return np.clip((grid.steps - outline.start) / (outline.end - outline.start), 0.0, 1.0)


def _cosine(v: Array) -> tuple[Array, Array]:
    """The rate, and the mean of it up to there, when a share v of its decay is over."""
    return 0.5 + 0.5 * np.cos(np.pi * v), 0.5 * v + np.sin(np.pi * v) / (2.0 * np.pi)


def cosine(grid: Grid, outline: Outline, source: Source) -> Schedule:
    """(1 + cos(pi v)) / 2"""
    return _annealed(grid, outline, *_cosine(_decayed_share(grid, outline)))


def polynomial(grid: Grid, outline: Outline, source: Source) -> Schedule:
    """(1 - v)^p, mostly linear"""
    v = _decayed_share(grid, outline)
    power = np.where(source.coin(0.6), 1.0, source.log_uniform(0.4, 3.0))
    rate = (1.0 - v) ** power
    return _annealed(grid, outline, rate, (1.0 - rate * (1.0 - v)) / (power + 1.0))


def exponential(grid: Grid, outline: Outline, source: Source) -> Schedule:
    """r^v"""
    log_ratio = np.log(source.log_uniform(1e-4, 0.3))
    rate = np.exp(log_ratio * np.minimum(grid.steps / outline.end, 1.0))
    clock = outline.end * (rate - 1.0) / log_ratio + rate * np.maximum(grid.steps - outline.end, 0.0)
    return Schedule(rate, rate, clock, np.full(len(rate), np.inf))


def drops(grid: Grid, outline: Outline, source: Source) -> Schedule:
    """One to three drops by a factor, often at round shares of the run, each felt at once or over some steps."""
    most = 3
    anywhere, planned = source.uniform(0.1, 1.0, most), source.choice(_ROUND_PLACES, most)
    at = np.sort(np.where(source.coin(_ROUND_RATE), planned, anywhere), axis=1) * outline.end
    factor = source.log_uniform(0.05, 0.6)
    before = factor ** np.arange(most)  # the rate before each drop
    fall = np.where(np.arange(most) < source.integers(1, most + 1), before * (1.0 - factor), 0.0)
    wait = np.where(source.coin(_AT_ONCE), _AN_INSTANT, source.log_uniform(0.1, 0.1 * grid.horizon + 1.0))
    schedule = constant(grid, len(source))
    for k in range(most):
        since = np.maximum(grid.steps - at[:, k, None], 0.0)
        schedule.rate[:] -= fall[:, k, None] * (since > 0.0)
        schedule.felt[:] += fall[:, k, None] * np.expm1(-since / wait)
        schedule.clock[:] -= fall[:, k, None] * since
    schedule.turn[:] = at[:, 0]
    return schedule


def restarts(grid: Grid, outline: Outline, source: Source) -> Schedule:
    """Two to eight cosine cycles of equal length, which go on after the end."""
    cycle = outline.end / source.integers(2, 9)
    done = np.ceil(grid.steps / cycle - _ROUNDING) - 1.0  # the last step of a cycle still belongs to it
    rate, worth = _cosine(grid.steps / cycle - done)
    return Schedule(rate, rate, cycle * (0.5 * done + worth), np.full(len(rate), np.inf))


def hold_decay(grid: Grid, outline: Outline, source: Source) -> Schedule:
    """The rate is held for most of the run, then goes down all at once: linear, 1 - sqrt(v), r^v - r or a cosine."""
    decay = np.where(source.coin(_ROUND_RATE), source.choice(_ROUND_DECAYS), source.uniform(0.03, 0.9))
    held = Outline(outline.end * (1.0 - decay), outline.end, outline.rest)
    v = _decayed_share(grid, held)
    end = source.log_uniform(0.01, 0.2)
    log_end = np.log(end)
    forms = [
        (1.0 - v, v - 0.5 * v**2),
        (1.0 - np.sqrt(v), v - v**1.5 / 1.5),
        ((np.exp(log_end * v) - end) / (1.0 - end), (np.expm1(log_end * v) / log_end - end * v) / (1.0 - end)),
        _cosine(v),
    ]
    form = source.choice(range(len(forms)), p=(0.45, 0.25, 0.1, 0.2)).astype(np.int64)
    rate, worth = (np.choose(form, list(options)) for options in zip(*forms, strict=True))
    return _annealed(grid, held, rate, worth)


def warmup(grid: Grid, schedule: Schedule, source: Source) -> Schedule:
    """The rate grows in proportion to the step at first; the clock is exact where it would be constant otherwise."""
    length = source.log_uniform(0.005, 0.2) * grid.horizon
    ramp = np.minimum(grid.steps / length, 1.0)
    mean_ramp = np.where(grid.steps < length, 0.5 * ramp, 1.0 - 0.5 * length / grid.steps)
    return Schedule(schedule.rate * ramp, schedule.felt * ramp, schedule.clock * mean_ramp, schedule.turn)
