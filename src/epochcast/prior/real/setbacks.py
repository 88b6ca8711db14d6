"""What befalls a run on its way: errors that come and go, or come for good. Every function is one ingredient."""

from __future__ import annotations

import numpy as np

from epochcast.prior.families import Array
from epochcast.prior.real.grid import Grid
from epochcast.prior.real.source import Source


def wild(felt: Array, source: Source) -> Array:
    """Error [curve, step] far above the untrained one as long as a rate [curve, step] is much too high."""
    jumps = np.exp(source.uniform(0.5, 1.5) * source.white(felt.shape[1]))
    return np.asarray(source.log_uniform(0.2, 5.0) * jumps * felt)


def worsening(error: Array, source: Source) -> Array:
    """The curve mirrored at the untrained level: it gets worse as others get better, less or more than they do."""
    return np.asarray(1.0 + source.log_uniform(0.05, 3.0) * (1.0 - error))


def overfitting(grid: Grid, onset: Array, source: Source) -> Array:
    """Error that comes back after an onset [curve, 1], x^p / (1 + x^p), from unnoticed to more than was ever gained."""
    width = source.log_uniform(0.03, 3.0) * grid.horizon
    grown = (np.maximum(grid.steps - onset, 0.0) / width) ** source.uniform(0.7, 2.0)
    return np.asarray(source.log_uniform(0.002, 4.0) * grown / (1.0 + grown))


def memorising(grid: Grid, source: Source) -> Array:
    """The same from any step on."""
    return overfitting(grid, source.log_uniform(0.02, 0.9) * grid.horizon, source)


def wandering(grid: Grid, rate: Array, source: Source) -> Array:
    """A relative change [curve, step] of the error: every update leaves its mark, smaller ones at a smaller rate."""
    elapsed = np.diff(grid.steps, prepend=0.0) / grid.horizon
    walk = np.cumsum(rate * np.sqrt(elapsed) * source.white(rate.shape[1]), axis=1)
    return np.asarray(np.expm1(source.log_uniform(3e-3, 0.5) * walk))


def unstable(grid: Grid, source: Source) -> Array:
    """The share [curve, step] of its gains that a run has lost: from an onset on it wanders, mostly for the worse."""
    onset = source.log_uniform(0.01, 1.0) * grid.horizon
    elapsed = np.diff(np.maximum(grid.steps - onset, 0.0), axis=1, prepend=0.0) / grid.horizon
    walk = np.cumsum(np.sqrt(elapsed) * source.white(len(grid.steps)), axis=1)
    walk = source.log_uniform(0.5, 6.0) * np.abs(walk)
    drift = source.uniform(0.0, 4.0) * np.cumsum(elapsed, axis=1)
    return np.asarray(-np.expm1(-walk - drift))


def double_descent(grid: Grid, source: Source) -> Array:
    """Error that rises for a while and falls again."""
    centre = source.log_uniform(0.02, 0.95) * grid.horizon
    width = source.log_uniform(0.01, 0.2) * grid.horizon
    return np.asarray(source.log_uniform(0.01, 1.0) * np.exp(-0.5 * ((grid.steps - centre) / width) ** 2))


def spikes(grid: Grid, source: Source) -> Array:
    """One to four sudden errors that the run recovers from."""
    most = 4
    recovery = source.log_uniform(0.2, 0.15 * grid.horizon + 1.0)
    height = source.log_uniform(0.01, 4.0) * source.exponential(most)
    height = np.where(np.arange(most) < source.integers(1, most + 1), height, 0.0)
    at = source.uniform(0.0, grid.horizon, most)
    total = np.zeros((len(source), len(grid.steps)))
    for k in range(most):
        since = grid.steps - at[:, k, None]
        total += np.where(since >= 0.0, height[:, k, None] * np.exp(-np.maximum(since, 0.0) / recovery), 0.0)
    return total


def collapse(grid: Grid, source: Source) -> Array:
    """Share [curve, step] of the way to a lost run: at once, or over some steps; a rate too high shows early."""
    at = source.log_uniform(0.003, 1.0) * grid.horizon
    width = np.where(source.coin(0.6), 1e-9, source.log_uniform(0.005, 0.2) * grid.horizon)
    return np.asarray(-np.expm1(-np.maximum(grid.steps - at, 0.0) / width))


def lost_level(source: Source) -> Array:
    """The relative error [curve, 1] of a lost loss curve: a constant guess, or growing without bound."""
    return np.where(source.coin(0.4), 1.0, source.log_uniform(1.05, 300.0))


def exploding(grid: Grid, source: Source) -> Array:
    """A factor [curve, step] of the loss that grows by orders of magnitude after an onset, at once or steadily."""
    onset = source.log_uniform(0.01, 0.9) * grid.horizon
    width = source.log_uniform(0.003, 1.0) * grid.horizon
    grown = (np.maximum(grid.steps - onset, 0.0) / width) ** source.uniform(0.5, 1.5)
    return np.asarray(np.exp(source.log_uniform(1.0, 50.0) * grown / (1.0 + grown)))
