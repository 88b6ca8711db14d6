"""Distributions that a network predicts, batched over leading axes: `Bars` (the paper's bins) and `Mixture`.

Both answer the same questions in numpy: log_prob, cdf, icdf, mean, variance, sample. Arguments broadcast against the
leading shape of the distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.errors import InputError
from epochcast.special import log_softmax, ndtr, ndtri, softmax

Array = NDArray[np.float64]

_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_HALF_NORMAL_MEDIAN = 0.6744897501960817
_HALF_NORMAL_MEAN = math.sqrt(2.0 / math.pi)
_LARGEST_COUNT_OF_STEPS = 100  # bisection alone needs about half of them
_TINY = float(np.finfo(float).tiny)
_LARGEST_DEVIATION = 1e150  # its square is still finite


class Distribution(Protocol):
    """What a forecast needs of a distribution of the normalised value at each step."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __getitem__(self, index: Any) -> Distribution: ...
    def log_prob(self, y: ArrayLike) -> Array: ...
    def cdf(self, y: ArrayLike) -> Array: ...
    def icdf(self, q: ArrayLike) -> Array: ...
    def mean(self) -> Array: ...
    def variance(self) -> Array: ...
    def sample(self, size: int, rng: np.random.Generator) -> Array: ...


def _levels(q: ArrayLike) -> Array:
    levels = np.asarray(q, dtype=np.float64)
    bad = ~((levels > 0.0) & (levels < 1.0))
    if bad.any():
        raise InputError(f"quantile level {levels.flat[int(np.argmax(bad))]} is not inside (0, 1)")
    return levels


def _positions(index: Any) -> tuple[Any, ...]:
    """An index over the leading axes that leaves the last axis, of bins or components, whole."""
    return (*index, slice(None)) if isinstance(index, tuple) else (index, slice(None))


@dataclass(frozen=True)
class Bars:
    """Probability per bin, flat inside each bin, with half-normal tails in place of the first and the last bin."""

    borders: Array  # [bin + 1], rising
    logits: NDArray[np.floating[Any]]  # [..., bin]; a large batch may keep them in single precision

    def __post_init__(self) -> None:
        if self.logits.shape[-1] != len(self.borders) - 1 or len(self.borders) < 4:
            raise InputError(f"{len(self.borders)} borders do not fit {self.logits.shape[-1]} bins (at least 3)")
        if not (self.borders[1:] > self.borders[:-1]).all():
            raise InputError("the borders of bins must rise strictly")

    @classmethod
    def together(cls, parts: Sequence[Bars]) -> Bars:
        """All of them, which share their borders."""
        return cls(parts[0].borders, np.concatenate([part.logits for part in parts]))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.logits.shape[:-1]

    def __getitem__(self, index: Any) -> Bars:
        return Bars(self.borders, self.logits[_positions(index)])

    @property
    def _exact_logits(self) -> Array:
        return self.logits.astype(np.float64, copy=False)

    @property
    def _tail_scales(self) -> tuple[float, float]:
        """Scales of the half-normal tails: half of a tail's mass lies within its bin."""
        widths = np.diff(self.borders)
        return float(widths[0] / _HALF_NORMAL_MEDIAN), float(widths[-1] / _HALF_NORMAL_MEDIAN)

    @cached_property
    def _mass(self) -> Array:
        """Probability of each bin. It is kept, as is the next: a forecast asks for many quantiles, one by one."""
        return softmax(self._exact_logits)

    @cached_property
    def _mass_before(self) -> Array:
        """Mass of all bins before each bin; the total is exactly one, so that no level lies past the last mass."""
        cumulative = np.cumsum(self._mass, axis=-1, dtype=np.float64)
        cumulative /= cumulative[..., -1:]
        return np.concatenate([np.zeros_like(cumulative[..., :1]), cumulative[..., :-1]], axis=-1)

    def log_prob(self, y: ArrayLike) -> Array:
        y, log_mass = self._broadcast(y, log_softmax(self._exact_logits))
        index = self._bin(y)
        left, right = self._tail_scales
        inner = -np.log(np.diff(self.borders))[index]
        lower = _half_normal_log_prob(self.borders[1] - y, left)
        upper = _half_normal_log_prob(y - self.borders[-2], right)
        return _pick(log_mass, index) + self._by_bin(index, lower, inner, upper)

    def cdf(self, y: ArrayLike) -> Array:
        y, before = self._broadcast(y, self._mass_before)
        index = self._bin(y)
        left, right = self._tail_scales
        inner = (y - self.borders[index]) / np.diff(self.borders)[index]
        lower = 2.0 * ndtr(np.minimum(y - self.borders[1], 0.0) / left)
        upper = 1.0 - 2.0 * ndtr(-np.maximum(y - self.borders[-2], 0.0) / right)
        share = self._by_bin(index, lower, inner, upper)
        own = _pick(np.broadcast_to(self._mass, before.shape), index)
        return np.clip(_pick(before, index) + own * share, 0.0, 1.0)

    def icdf(self, q: ArrayLike) -> Array:
        q, before = self._broadcast(_levels(q), self._mass_before)
        # The bin whose range of levels holds q; bins without mass are never chosen.
        index = _last_at_most(before, q)
        own = np.maximum(_pick(np.broadcast_to(self._mass, before.shape), index), _TINY)
        share = np.clip((q - _pick(before, index)) / own, 0.0, 1.0)
        left, right = self._tail_scales
        inner = self.borders[index] + share * np.diff(self.borders)[index]
        lower = self.borders[1] + left * ndtri(np.maximum(share, _TINY) / 2.0)
        # Measured from above, so that levels close to one keep their precision.
        upper = self.borders[-2] - right * ndtri(np.clip((1.0 - q) / own, _TINY, 1.0) / 2.0)
        return self._by_bin(index, lower, inner, upper)

    def mean(self) -> Array:
        return np.asarray(self._mass @ self._moments(about=0.0)[0])

    def variance(self) -> Array:
        # About the middle of the bins: far from zero the second moments would cancel.
        first, second = self._moments(about=float(np.median(self.borders)))
        return np.asarray(np.maximum(self._mass @ second - (self._mass @ first) ** 2, 0.0))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draws [size, ...], independent at each position."""
        return self.icdf(_open_uniform(rng, (size, *self.shape)))

    def _moments(self, about: float) -> tuple[Array, Array]:
        """First and second moment of each bin about a point."""
        borders = self.borders - about
        low, high = borders[:-1], borders[1:]
        first = (low + high) / 2
        second = (low**2 + low * high + high**2) / 3
        left, right = self._tail_scales
        for position, edge, scale in ((0, borders[1], -left), (-1, borders[-2], right)):
            first[position] = edge + scale * _HALF_NORMAL_MEAN
            second[position] = edge**2 + 2 * edge * scale * _HALF_NORMAL_MEAN + scale**2
        return first, second

    def _bin(self, y: Array) -> NDArray[np.intp]:
        return np.clip(np.searchsorted(self.borders, y, side="right") - 1, 0, len(self.borders) - 2)

    def _by_bin(self, index: NDArray[np.intp], lower: Array, inner: Array, upper: Array) -> Array:
        """What holds in the lower tail, in the bins between and in the upper tail, each where it applies."""
        return np.where(index == 0, lower, np.where(index == len(self.borders) - 2, upper, inner))

    def _broadcast(self, argument: ArrayLike, table: Array) -> tuple[Array, Array]:
        shape = np.broadcast_shapes(np.shape(argument), self.shape)
        wide = np.broadcast_to(table, (*shape, table.shape[-1]))
        return np.broadcast_to(np.asarray(argument, dtype=np.float64), shape), wide


def _pick(table: Array, index: NDArray[np.intp]) -> Array:
    """The entry of the last axis that `index` points at, at each position."""
    return np.take_along_axis(table, index[..., None], axis=-1)[..., 0]


def _last_at_most(rising: Array, level: Array) -> NDArray[np.intp]:
    """The last index along the rising last axis whose entry is at most `level`, by bisection; the first always is."""
    low = np.zeros(level.shape, dtype=np.intp)
    high = np.full(level.shape, rising.shape[-1], dtype=np.intp)
    for _ in range(rising.shape[-1].bit_length()):
        middle = (low + high) // 2
        at_most = _pick(rising, middle) <= level
        low, high = np.where(at_most, middle, low), np.where(at_most, high, middle)
    return low


def _half_normal_log_prob(distance: Array, scale: float) -> Array:
    z = np.clip(distance / scale, 0.0, _LARGEST_DEVIATION)
    return -0.5 * z**2 - math.log(scale) + math.log(2.0) - _LOG_ROOT_TWO_PI


def _open_uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.clip(rng.random(shape), _TINY, 1.0 - np.finfo(float).epsneg)


@dataclass(frozen=True)
class Mixture:
    """A mixture of Gaussians at each position."""

    log_weights: Array  # [..., component], normalised
    means: Array  # [..., component]
    log_scales: Array  # [..., component]

    def __post_init__(self) -> None:
        if not self.log_weights.shape == self.means.shape == self.log_scales.shape:
            shapes = self.log_weights.shape, self.means.shape, self.log_scales.shape
            raise InputError(f"weights, means and scales differ in shape: {shapes}")

    @classmethod
    def of(cls, logits: ArrayLike, means: ArrayLike, log_scales: ArrayLike) -> Mixture:
        """A mixture from unnormalised weights."""
        weights = log_softmax(np.asarray(logits, dtype=np.float64))
        return cls(weights, np.asarray(means, dtype=np.float64), np.asarray(log_scales, dtype=np.float64))

    @classmethod
    def together(cls, parts: Sequence[Mixture]) -> Mixture:
        """All of them; runs that are forecast beside others have more components than those that are forecast alone."""
        most = max(part.means.shape[-1] for part in parts)
        wide = [part.widened(most) for part in parts]
        return cls(
            np.concatenate([part.log_weights for part in wide]),
            np.concatenate([part.means for part in wide]),
            np.concatenate([part.log_scales for part in wide]),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.means.shape[:-1]

    def widened(self, components: int) -> Mixture:
        """The same distributions with so many components: the last of them counts several times, with equal shares."""
        copies = components - self.means.shape[-1] + 1
        if copies == 1:
            return self
        weights, means, scales = (
            np.concatenate([array, np.repeat(array[..., -1:], copies - 1, axis=-1)], axis=-1)
            for array in (self.log_weights, self.means, self.log_scales)
        )
        weights[..., -copies:] -= math.log(copies)
        return Mixture(weights, means, scales)

    def __getitem__(self, index: Any) -> Mixture:
        index = _positions(index)
        return Mixture(self.log_weights[index], self.means[index], self.log_scales[index])

    def _standardise(self, y: ArrayLike) -> Array:
        z = (np.asarray(y, dtype=np.float64)[..., None] - self.means) * np.exp(-self.log_scales)
        return np.clip(z, -_LARGEST_DEVIATION, _LARGEST_DEVIATION)

    def log_prob(self, y: ArrayLike) -> Array:
        z = self._standardise(y)
        terms = self.log_weights - 0.5 * z**2 - self.log_scales
        largest = terms.max(axis=-1, keepdims=True)
        return np.asarray(np.log(np.exp(terms - largest).sum(axis=-1)) + largest[..., 0] - _LOG_ROOT_TWO_PI)

    def cdf(self, y: ArrayLike) -> Array:
        z = self._standardise(y)
        return np.asarray(np.minimum((np.exp(self.log_weights) * ndtr(z)).sum(axis=-1), 1.0))

    def icdf(self, q: ArrayLike) -> Array:
        shape = np.broadcast_shapes(np.shape(q), self.shape)
        wide = (*shape, self.means.shape[-1])
        log_weights, means, log_scales = (
            np.broadcast_to(array, wide).reshape(-1, wide[-1])
            for array in (self.log_weights, self.means, self.log_scales)
        )
        levels = np.broadcast_to(_levels(q), shape).ravel()
        return Mixture(log_weights, means, log_scales)._quantiles(levels).reshape(shape)

    def _quantiles(self, q: Array) -> Array:
        """One quantile per position [position]: Newton steps on log-odds, or smaller brackets where they fail."""
        # A quantile of a mixture lies between the smallest and the largest quantile of its components.
        ends = self.means + np.exp(self.log_scales) * ndtri(q)[:, None]
        low, high = ends.min(axis=-1), ends.max(axis=-1)
        y: Array = (np.exp(self.log_weights) * ends).sum(axis=-1)
        target = np.log(q) - np.log1p(-q)
        reach = high - low  # size of the step before
        left = np.arange(len(q))  # positions that have not settled
        for _ in range(_LARGEST_COUNT_OF_STEPS):
            now = y[left]
            error, step = self[left]._newton_step(now, target[left])
            low[left] = np.where(error < 0, now, low[left])
            high[left] = np.where(error > 0, now, high[left])
            proposal, width = now - step, high[left] - low[left]
            finest = 1e-15 * np.maximum(np.abs(now), 1e-3)
            trusted = (proposal > low[left]) & (proposal < high[left]) & (np.abs(step) <= reach[left] / 2)
            settled = (np.abs(error) <= 1e-11) | (proposal == now) | (np.where(trusted, np.abs(step), width) <= finest)
            lost = np.flatnonzero(~trusted)
            proposal[lost] = self[left[lost]]._between(low[left[lost]], high[left[lost]])
            reach[left] = np.where(trusted, np.abs(step), width)
            left = left[~settled]
            if len(left) == 0:
                break
            y[left] = proposal[~settled]
        return y

    def _between(self, low: Array, high: Array) -> Array:
        """Where to look next in a bracket: at its narrowest component, which bisection would take long to find."""
        inside = (self.means > low[:, None]) & (self.means < high[:, None])
        narrowest = np.where(inside, self.log_scales, np.inf).argmin(axis=-1)[:, None]
        mean = np.take_along_axis(self.means, narrowest, axis=-1)[:, 0]
        return np.where(inside.any(axis=-1), mean, (low + high) / 2)

    def _newton_step(self, y: Array, target: Array) -> tuple[Array, Array]:
        """Error of the log-odds of the cdf at y, and the step to cancel it: infinite or NaN where the cdf is flat."""
        z = self._standardise(y)
        weights = np.exp(self.log_weights)
        # Of a component, one minus the small tail is the large one. Of the sum it is not: it would lose the small one.
        small = ndtr(-np.abs(z))
        large = 1.0 - small
        below = (weights * np.where(z < 0.0, small, large)).sum(axis=-1)
        above = (weights * np.where(z < 0.0, large, small)).sum(axis=-1)
        density = (weights * np.exp(-0.5 * z**2 - self.log_scales)).sum(axis=-1) * math.exp(-_LOG_ROOT_TWO_PI)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            error = np.log(below) - np.log(above) - target
            return error, error * below * above / density

    def mean(self) -> Array:
        return np.asarray((np.exp(self.log_weights) * self.means).sum(axis=-1))

    def variance(self) -> Array:
        spread = np.exp(2 * self.log_scales) + (self.means - self.mean()[..., None]) ** 2
        return np.asarray((np.exp(self.log_weights) * spread).sum(axis=-1))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draws [size, ...], independent at each position."""
        shape = (size, *self.shape)
        cumulative = np.cumsum(np.exp(self.log_weights), axis=-1)
        component = (rng.random(shape)[..., None] > cumulative[..., :-1]).sum(axis=-1)
        wide = (*shape, self.means.shape[-1])
        means, log_scales = (_pick(np.broadcast_to(a, wide), component) for a in (self.means, self.log_scales))
        return means + np.exp(log_scales) * rng.standard_normal(shape)


_Kind = TypeVar("_Kind", Bars, Mixture)


def joined(parts: Sequence[_Kind]) -> _Kind:
    """The distributions of all runs, from those of some each."""
    return parts[0].together(parts)
