"""The continuous ranked probability score: how far a whole distribution is from the value that came (less is better).

CRPS(F, y) = E|X - y| - E|X - X'| / 2 for independent X, X' of F. Both terms have closed forms for mixtures of Gaussians
(Grimit et al. 2006) and for bins with half-normal tails, where E|X - X'| / 2 is the integral of F (1 - F).
"""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, softmax

from epochcast.distributions import Array, Bars, Distribution, Mixture
from epochcast.errors import InputError

_MOST_PAIRED = 128  # components whose pairs are all counted; a sampler's thousands are thinned evenly to so many
_PAIRS_AT_ONCE = 2_000_000
_ROOT_TWO_OVER_PI = math.sqrt(2.0 / math.pi)
_HALF_NORMAL_MEDIAN = float(ndtri(0.75))
# The integral of the squared normal cdf over the negative numbers.
_SQUARED_TAIL = 1.0 / math.sqrt(2.0 * math.pi) - 1.0 / (2.0 * math.sqrt(math.pi))


def crps(distribution: Distribution, y: ArrayLike) -> Array:
    """The score at each position of the distribution."""
    return crps_of(distribution, np.broadcast_to(np.asarray(y, dtype=np.float64), distribution.shape))


@singledispatch
def crps_of(distribution: Distribution, y: Array) -> Array:
    """The same by the kind of distribution; one of your own is registered here."""
    raise InputError(f"the CRPS of {type(distribution).__name__} is not known; it must be a Mixture or Bars")


@crps_of.register
def _of_mixture(mixture: Mixture, y: Array) -> Array:
    scales = np.exp(mixture.log_scales)
    distance = _mean_distance(y[..., None] - mixture.means, scales)
    return np.asarray((np.exp(mixture.log_weights) * distance).sum(axis=-1) - 0.5 * _mean_spread(mixture))


def _mean_spread(mixture: Mixture) -> Array:
    """E|X - X'| of two independent draws, at each position."""
    count = mixture.means.shape[-1]
    if count > _MOST_PAIRED:
        chosen = np.linspace(0, count - 1, _MOST_PAIRED).round().astype(int)
        mixture = Mixture.of(*(a[..., chosen] for a in (mixture.log_weights, mixture.means, mixture.log_scales)))
        count = _MOST_PAIRED
    flat = [a.reshape(-1, count) for a in (mixture.log_weights, mixture.means, mixture.log_scales)]
    left, right = np.triu_indices(count, 1)
    result = np.empty(len(flat[0]))
    size = max(1, _PAIRS_AT_ONCE // count**2)
    for start in range(0, len(result), size):
        log_weights, means, log_scales = (a[start : start + size] for a in flat)  # [position, component]
        weights, variances = np.exp(log_weights), np.exp(2.0 * log_scales)
        scale = np.sqrt(variances[:, left] + variances[:, right])  # [position, pair]
        pairs = weights[:, left] * weights[:, right] * _mean_distance(means[:, left] - means[:, right], scale)
        alike = weights**2 * np.sqrt(2.0 * variances) * _ROOT_TWO_OVER_PI
        result[start : start + size] = 2.0 * pairs.sum(axis=1) + alike.sum(axis=1)
    return result.reshape(mixture.shape)


def _mean_distance(mean: Array, scale: Array) -> Array:
    """E|N(mean, scale^2)|."""
    z = mean / scale
    return np.asarray(scale * _ROOT_TWO_OVER_PI * np.exp(-0.5 * z**2) + mean * (2.0 * ndtr(z) - 1.0))


@crps_of.register
def _of_bars(bars: Bars, y: Array) -> Array:
    low, high = bars.borders[:-1], bars.borders[1:]
    widths = high - low
    left, right = widths[0] / _HALF_NORMAL_MEDIAN, widths[-1] / _HALF_NORMAL_MEDIAN
    mass = softmax(bars.logits, axis=-1)  # [..., bin]
    value = y[..., None]
    inside = (value >= low) & (value <= high)
    split = ((value - low) ** 2 + (high - value) ** 2) / (2.0 * widths)
    distance = np.where(inside, split, np.abs(value - (low + high) / 2.0))
    distance[..., 0] = _tail_distance(y - low[1], left)
    distance[..., -1] = _tail_distance(low[-1] - y, right)
    # The cdf is a line from `below` to `above` within each bin between the tails.
    above = np.cumsum(mass, axis=-1)
    below = above - mass
    spread = widths * ((below + above) / 2.0 - (below**2 + below * above + above**2) / 3.0)
    spread[..., 0] = _tail_spread(mass[..., 0], left)
    spread[..., -1] = _tail_spread(mass[..., -1], right)
    return np.asarray((mass * distance).sum(axis=-1) - spread.sum(axis=-1))


def _tail_distance(y: Array, scale: float) -> Array:
    """E|X - y| for X = -|N(0, scale^2)|, a tail to the left of 0."""
    mean = scale * _ROOT_TWO_OVER_PI
    depth = np.maximum(-y, 0.0)
    within = 2.0 * ndtr(depth / scale) - 1.0
    inside = depth * (2.0 * within - 1.0) - mean + 2.0 * mean * np.exp(-0.5 * (depth / scale) ** 2)
    return np.where(y >= 0.0, y + mean, inside)


def _tail_spread(mass: Array, scale: float) -> Array:
    """The integral of F (1 - F) over a tail that holds `mass`."""
    return np.asarray(scale * (mass * _ROOT_TWO_OVER_PI - 4.0 * mass**2 * _SQUARED_TAIL))
