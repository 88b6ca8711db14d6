"""The noise of a run: how large it is at each step, how it is correlated, and what single evaluations do.

All scales are in relative error (1 for the untrained model). Every function is one ingredient.
"""

from __future__ import annotations

import numpy as np

from epochcast.prior.families import Array
from epochcast.prior.real.grid import Grid
from epochcast.prior.real.source import Mask, Source

SMALLEST, LARGEST = 1e-6, 0.1
_LARGEST_OF_GAP = 0.35  # of a rate far too high to settle
_FASTEST_DECAY = 600.0  # correlation lengths per horizon; exp of it is still finite


def base_scale(tame: Mask, source: Source) -> Array:
    """The scale [curve, 1] at the start, from invisible to useless; that of tame runs is a tenth of the others'."""
    return np.clip(10.0 ** source.normal(np.where(tame, -3.18, -2.18)[:, None], 0.58), SMALLEST, LARGEST)


def smooth(source: Source) -> Array:
    """A factor [curve, 1] that makes noise invisible beside the trend."""
    return source.log_uniform(1e-4, 0.1)


def of_tokens(source: Source) -> Array:
    """The scale [curve, 1] of a language model's loss: of a large validation set, or of single batches."""
    batches = source.coin(0.45)
    return np.asarray(10.0 ** source.normal(np.where(batches, -2.4, -4.0), np.where(batches, 0.4, 0.5)))


def quieter(source: Source) -> Array:
    """A factor [curve, 1] for the paper's curves, whose noise is that of small data sets."""
    return source.log_uniform(3e-3, 1.0)


def beside_a_walk(source: Source) -> Array:
    """A factor [curve, 1] for runs whose changes add up: most of their noise is what they carry along."""
    return source.log_uniform(0.01, 1.0)


def decaying(grid: Grid, source: Source) -> Array:
    """A factor (1 + s / tau)^-d; now and then noise grows instead."""
    tau = source.log_uniform(0.5, 0.5 * grid.horizon + 1.0)
    return np.asarray((1.0 + grid.steps / tau) ** -source.uniform(-0.4, 1.6))


def growing(grid: Grid, source: Source) -> Array:
    """A factor that grows from some step on: a calm beginning promises nothing."""
    onset, width = source.log_uniform(0.05, 0.9) * grid.horizon, source.log_uniform(0.003, 0.5) * grid.horizon
    grown = np.maximum(grid.steps - onset, 0.0) / width
    return np.asarray(1.0 + (source.log_uniform(1.5, 10.0) - 1.0) * grown / (1.0 + grown))


def following_error(error: Array, source: Source) -> Array:
    """A factor that shrinks with the error that is left."""
    return np.asarray(np.clip(error, 1e-6, 1.0) ** source.uniform(0.3, 1.5))


def silent_at_first(error: Array, source: Source) -> Array:
    """A factor that is nearly 0 while the error is still that of the untrained model."""
    return np.asarray(np.clip(np.abs(1.0 - error), 0.0, 1.0) ** source.uniform(0.3, 1.5))


def following_schedule(rate: Array, source: Source) -> Array:
    """A factor that follows the learning rate [curve, step] down to a small rest."""
    rest = source.log_uniform(1e-4, 0.3)
    return np.asarray(rest + (1.0 - rest) * rate ** source.uniform(0.3, 1.5))


def of_gap(gap: Array, loss: Mask, source: Source) -> Array:
    """A scale in proportion to the gap [curve, step] that the learning rate keeps open.

    Overconfident mistakes make a loss jump about by more than a smaller rate will ever gain.
    """
    ratio = np.where(loss[:, None], source.log_uniform(0.06, 2.0), source.log_uniform(0.025, 0.35))
    return np.minimum(ratio * gap, _LARGEST_OF_GAP)


def correlated(grid: Grid, source: Source) -> Array:
    """An Ornstein-Uhlenbeck path of unit variance at any steps: AR(1) where they are regular."""
    length = np.maximum(source.log_uniform(0.5, 0.5 * grid.horizon), grid.horizon / _FASTEST_DECAY)
    elapsed = np.diff(grid.steps, prepend=0.0)
    fresh = np.sqrt(-np.expm1(-2.0 * elapsed / length))
    fresh[:, 0] = 1.0
    # x_i = exp(-elapsed) x_(i-1) + fresh_i z_i, solved by one sum with the exponentials factored out.
    growth = np.exp(grid.steps / length)
    return np.asarray(np.cumsum(growth * fresh * source.white(len(grid.steps)), axis=1) / growth)


def correlated_share(source: Source) -> Array:
    """The share [curve, 1] of the variance that is correlated; often nearly all of it."""
    return np.where(source.coin(0.3), 1.0 - source.log_uniform(1e-4, 0.1), source.uniform())


def heavy_tails(grid: Grid, source: Source) -> Array:
    """Factors [curve, step] of a log-normal law with median 1: some evaluations are much less certain."""
    return np.asarray(np.exp(source.uniform(0.3, 1.3) * source.white(len(grid.steps))))


def dips(grid: Grid, source: Source) -> Array:
    """Extra error [curve, step] of single evaluations, always for the worse."""
    steps = len(grid.steps)
    happens = source.fresh(steps) < source.log_uniform(0.005, 0.15)
    return np.asarray(happens * source.log_uniform(1e-3, 0.3) * source.exponential(steps))


def examples(source: Source) -> Array:
    """On how many validation examples [curve, 1] an accuracy is counted."""
    return np.round(source.log_uniform(50.0, 50_000.0))


def of_few_examples(examples: Array, source: Source) -> Array:
    """The scale [curve, 1] at which an accuracy jumps because some of its examples are on the edge."""
    return np.asarray(source.log_uniform(0.02, 0.25) / np.sqrt(examples))
