"""Forecasts of libraries that give quantiles, or a point, but no density: what can be scored of them.

Between two quantiles the cdf is a line; what lies beyond the outermost ones sits on them. So a single quantile is a
point forecast, whose CRPS is its absolute error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epochcast.distributions import Array
from epochcast.errors import InputError
from epochcast.experiments.crps import crps_of


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of the same levels at each position."""

    levels: Array  # [level], rising inside (0, 1)
    values: Array  # [..., level], never falling

    def __post_init__(self) -> None:
        levels = self.levels
        if levels.ndim != 1 or len(levels) == 0 or self.values.shape[-1] != len(levels):
            raise InputError(f"levels of shape {list(levels.shape)} do not fit quantiles {list(self.values.shape)}")
        if not (levels[0] > 0.0 and levels[-1] < 1.0 and (np.diff(levels) > 0.0).all()):
            raise InputError(f"levels must rise inside (0, 1), not be {levels.tolist()}")
        if not np.isfinite(self.values).all():
            raise InputError("quantiles must be finite numbers")
        if (np.diff(self.values, axis=-1) < 0.0).any():
            raise InputError("quantiles must not fall from one level to the next; sort them along their last axis")

    @classmethod
    def point(cls, values: Array) -> Quantiles:
        """A forecast without any spread."""
        return cls(np.array([0.5]), values[..., None])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape[:-1]

    def __getitem__(self, index: Any) -> Quantiles:
        positions = index if isinstance(index, tuple) else (index,)
        return Quantiles(self.levels, self.values[(*positions, slice(None))])

    def log_prob(self, y: ArrayLike) -> Array:
        """NaN: quantiles say nothing about the density."""
        return np.full(np.broadcast_shapes(np.shape(y), self.shape), np.nan)

    def cdf(self, y: ArrayLike) -> Array:
        """The cdf, and in the middle of a jump where there is one: a point forecast that is right has rank 1/2."""
        values = np.asarray(y, dtype=np.float64)
        below = (self.values < values[..., None]).sum(axis=-1)
        up_to = (self.values <= values[..., None]).sum(axis=-1)
        return (self._limit(values, below) + self._limit(values, up_to)) / 2.0

    def _limit(self, y: Array, count: Any) -> Array:
        """The cdf at y with `count` quantiles on its left."""
        last = len(self.levels) - 1
        if last == 0:
            return np.where(count > 0, 1.0, 0.0)
        left = np.clip(count - 1, 0, last - 1)
        wide = np.broadcast_to(self.values, (*left.shape, last + 1))
        low, high = (np.take_along_axis(wide, i[..., None], axis=-1)[..., 0] for i in (left, left + 1))
        share = np.clip((y - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
        inside = self.levels[left] + share * np.diff(self.levels)[left]
        return np.where(count == 0, 0.0, np.where(count > last, 1.0, inside))

    def icdf(self, q: ArrayLike) -> Array:
        q = np.asarray(q, dtype=np.float64)
        last = len(self.levels) - 1
        shape = np.broadcast_shapes(q.shape, self.shape)
        if last == 0:
            return np.array(np.broadcast_to(self.values[..., 0], shape))
        left = np.clip(np.searchsorted(self.levels, q, side="right") - 1, 0, last - 1)
        share = np.clip((q - self.levels[left]) / np.diff(self.levels)[left], 0.0, 1.0)
        index = np.broadcast_to(left, shape)[..., None]
        wide = np.broadcast_to(self.values, (*shape, last + 1))
        low, high = (np.take_along_axis(wide, i, axis=-1)[..., 0] for i in (index, index + 1))
        return np.asarray(low + share * (high - low))

    def mean(self) -> Array:
        return self._moment(0.0, 1)

    def variance(self) -> Array:
        center = self.mean()
        return self._moment(center, 2)

    def _moment(self, about: ArrayLike, power: int) -> Array:
        """E (X - about)^power, for power 1 or 2."""
        x = self.values - np.asarray(about)[..., None]
        low, high = x[..., :-1], x[..., 1:]
        inner = (low + high) / 2.0 if power == 1 else (low**2 + low * high + high**2) / 3.0
        ends = self.levels[0] * x[..., 0] ** power + (1.0 - self.levels[-1]) * x[..., -1] ** power
        return np.asarray(ends + (np.diff(self.levels) * inner).sum(axis=-1))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draws [size, ...], independent at each position."""
        return self.icdf(rng.random((size, *self.shape)))


@crps_of.register
def _of_quantiles(quantiles: Quantiles, y: Array) -> Array:
    """The integral of (F(x) - 1{x >= y})^2, piece by piece: between two quantiles F is a line."""
    value, values, levels = y[..., None], quantiles.values, quantiles.levels
    low, high = values[..., :-1], values[..., 1:]
    split = np.clip(value, low, high)  # [..., piece]: left of it the indicator is 0, right of it 1
    share = (split - low) / np.where(high > low, high - low, 1.0)
    start, end = levels[:-1], levels[1:]
    middle = start + share * (end - start)
    pieces = (split - low) * _mean_square(start, middle) + (high - split) * _mean_square(1.0 - middle, 1.0 - end)
    outside = np.maximum(values[..., 0] - y, 0.0) + np.maximum(y - values[..., -1], 0.0)
    return np.asarray(outside + pieces.sum(axis=-1))


def _mean_square(start: Array, end: Array) -> Array:
    """The mean of the square of a line that goes from start to end."""
    return np.asarray((start**2 + start * end + end**2) / 3.0)
