"""The noise of a run: how large it is at each step, how it is correlated, and what single evaluations do.

All scales are in relative error (1 for the untrained model). Every function is one ingredient.
"""

from __future__ import annotations

import numpy as np

from epochcast.prior.families import Array
from epochcast.prior.real.config import Mask
from epochcast.prior.real.grid import Grid, log_uniform

SMALLEST, LARGEST = 1e-6, 0.1
_LARGEST_OF_GAP = 0.35  # of a rate far too high to settle
_FASTEST_DECAY = 600.0  # correlation lengths per horizon; exp of it is still finite


def base_scale(tame: Mask, rng: np.random.Generator) -> Array:
    """The scale [curve] at the start, from invisible to useless; that of tame runs is a tenth of the others'."""
    return np.clip(10.0 ** rng.normal(np.where(tame, -3.18, -2.18), 0.58), SMALLEST, LARGEST)


def smooth(size: int, rng: np.random.Generator) -> Array:
    """A factor [curve] that makes noise invisible beside the trend."""
    return log_uniform(1e-4, 0.1, size, rng)


def of_tokens(size: int, rng: np.random.Generator) -> Array:
    """The scale [curve] of a language model's loss: of a large validation set, or of single batches."""
    batches = rng.random(size) < 0.45
    return 10.0 ** np.where(batches, rng.normal(-2.4, 0.4, size), rng.normal(-4.0, 0.5, size))


def quieter(size: int, rng: np.random.Generator) -> Array:
    """A factor [curve] for the paper's curves, whose noise is that of small data sets."""
    return log_uniform(3e-3, 1.0, size, rng)


def beside_a_walk(size: int, rng: np.random.Generator) -> Array:
    """A factor [curve] for runs whose changes add up: most of their noise is what they carry along."""
    return log_uniform(0.01, 1.0, size, rng)


def decaying(grid: Grid, size: int, rng: np.random.Generator) -> Array:
    """A factor (1 + s / tau)^-d; now and then noise grows instead."""
    tau = log_uniform(0.5, 0.5 * grid.horizon + 1.0, (size, 1), rng)
    return (1.0 + grid.steps / tau) ** -rng.uniform(-0.4, 1.6, (size, 1))


def following_error(error: Array, rng: np.random.Generator) -> Array:
    """A factor that shrinks with the error that is left."""
    return np.clip(error, 1e-6, 1.0) ** rng.uniform(0.3, 1.5, (len(error), 1))


def silent_at_first(error: Array, rng: np.random.Generator) -> Array:
    """A factor that is nearly 0 while the error is still that of the untrained model."""
    return np.clip(np.abs(1.0 - error), 0.0, 1.0) ** rng.uniform(0.3, 1.5, (len(error), 1))


def following_schedule(rate: Array, rng: np.random.Generator) -> Array:
    """A factor that follows the learning rate [curve, step] down to a small rest."""
    size = (len(rate), 1)
    rest = log_uniform(1e-4, 0.3, size, rng)
    return rest + (1.0 - rest) * rate ** rng.uniform(0.3, 1.5, size)


def of_gap(gap: Array, loss: Mask, rng: np.random.Generator) -> Array:
    """A scale in proportion to the gap [curve, step] that the learning rate keeps open.

    Overconfident mistakes make a loss jump about by more than a smaller rate will ever gain.
    """
    size = (len(gap), 1)
    ratio = np.where(loss[:, None], log_uniform(0.06, 2.0, size, rng), log_uniform(0.015, 0.35, size, rng))
    return np.minimum(ratio * gap, _LARGEST_OF_GAP)


def correlated(grid: Grid, size: int, rng: np.random.Generator) -> Array:
    """An Ornstein-Uhlenbeck path of unit variance at any steps: AR(1) where they are regular."""
    length = np.maximum(log_uniform(0.5, 0.5 * grid.horizon, (size, 1), rng), grid.horizon / _FASTEST_DECAY)
    elapsed = np.diff(grid.steps, prepend=0.0)
    fresh = np.sqrt(-np.expm1(-2.0 * elapsed / length))
    fresh[:, 0] = 1.0
    # x_i = exp(-elapsed) x_(i-1) + fresh_i z_i, solved by one sum with the exponentials factored out.
    growth = np.exp(grid.steps / length)
    return np.cumsum(growth * fresh * rng.standard_normal(fresh.shape), axis=1) / growth


def correlated_share(size: int, rng: np.random.Generator) -> Array:
    """The share [curve] of the variance that is correlated; often nearly all of it."""
    return np.where(rng.random(size) < 0.3, 1.0 - log_uniform(1e-4, 0.1, size, rng), rng.random(size))


def heavy_tails(grid: Grid, size: int, rng: np.random.Generator) -> Array:
    """Factors [curve, step] of a log-normal law with median 1: some evaluations are much less certain."""
    return np.exp(rng.uniform(0.3, 1.3, (size, 1)) * rng.standard_normal((size, len(grid.steps))))


def dips(grid: Grid, size: int, rng: np.random.Generator) -> Array:
    """Extra error [curve, step] of single evaluations, always for the worse."""
    shape = (size, len(grid.steps))
    happens = rng.random(shape) < log_uniform(0.005, 0.15, (size, 1), rng)
    return happens * log_uniform(1e-3, 0.3, (size, 1), rng) * rng.standard_exponential(shape)


def examples(size: int, rng: np.random.Generator) -> Array:
    """On how many validation examples [curve] an accuracy is counted."""
    return np.round(log_uniform(50.0, 50_000.0, size, rng))


def of_few_examples(examples: Array, rng: np.random.Generator) -> Array:
    """The scale [curve] at which an accuracy jumps because some of its examples are on the edge."""
    return log_uniform(0.02, 0.25, len(examples), rng) / np.sqrt(examples)
