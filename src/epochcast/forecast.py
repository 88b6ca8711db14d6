"""A forecast: the distribution of a run's metric at every step to come, in the metric's own space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from epochcast.curve import Array, Curves
from epochcast.distributions import Distribution
from epochcast.errors import InputError
from epochcast.metric import Metric
from epochcast.normalize import Normalizer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARGIN = 1e-12  # keeps quantiles off infinite bounds
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(48)
_BANDS = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True, repr=False)
class Forecast:
    """The distribution of a metric at each future step, in the metric's own space.

    Arrays have the shape of `steps`: [step] for one run, [curve, step] for a batch. In a ragged batch, steps that a
    longer run has already seen are NaN, and so is every answer there.
    """

    steps: Array
    metric: Metric
    horizon: int
    normalised: Distribution  # in the prior's space, where larger is better
    normalizer: Normalizer
    observed: Curves  # what was seen, in the metric's space
    notes: tuple[str, ...] = ()
    at_horizon: bool = False  # narrowed to the horizon by `final`

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        if not self.observed.single:
            return f"<Forecast of {len(self.observed)} runs' {self.metric.name} up to step {self.horizon}>"
        low, high = self.final.interval(0.9)
        end = f"{self.final.median():.4g} (90 %: {low:.4g} to {high:.4g})"
        return f"<Forecast of {self.metric.name}: {end} at step {self.horizon}>"

    def __getitem__(self, index: int) -> Forecast:
        """The forecast of one curve of a batch, without the padding of ragged batches."""
        if self.steps.ndim < 2 or self.at_horizon:
            raise InputError("this is the forecast of one run; only forecasts of a batch have items")
        padding = np.isnan(self.steps[index])
        ahead = np.flatnonzero(~padding) if padding.any() else slice(None)
        return replace(
            self,
            steps=self.steps[index, ahead],
            normalised=self.normalised[index, ahead],
            normalizer=self.normalizer.at(index),
            observed=replace(self.observed[slice(index, index + 1)], single=True),
        )

    @property
    def final(self) -> Forecast:
        """The same at the horizon: every array loses its last axis."""
        if self.at_horizon:
            return self
        return replace(
            self,
            steps=self.steps[..., -1],
            normalised=self.normalised[..., -1],
            normalizer=self.normalizer.at((..., 0)),
            at_horizon=True,
        )

    # --- questions ---------------------------------------------------------------------------------------------

    def quantile(self, q: ArrayLike) -> Array:
        """The value below which a share q of the outcomes lies; several q add an axis before the steps."""
        levels = np.asarray(q, dtype=np.float64)
        if levels.ndim == 0:
            return self._quantile(levels)
        if levels.ndim > 1:
            raise InputError(f"q has {levels.ndim} dimensions; give one level or a list of levels")
        return np.stack(self._quantiles(levels), axis=self._list_axis)

    @property
    def _list_axis(self) -> int:
        """Where an axis of levels or draws goes: after the curves, before the steps."""
        return 0 if self.observed.single else 1

    def _quantiles(self, levels: Array) -> Sequence[Array]:
        """One array of quantiles per level: all at once for one run, in turn for a batch, to bound the memory."""
        if self.observed.single:
            return list(self._quantile(levels.reshape(-1, *(1,) * self.steps.ndim)))
        return [self._quantile(level) for level in levels]

    def _quantile(self, level: Array) -> Array:
        outside = ~((level > 0.0) & (level < 1.0))
        if outside.any():
            raise InputError(f"q={level[outside].flat[0]:g} must lie between 0 and 1, both excluded")
        # A decreasing map swaps the tails.
        rank = 1.0 - level if self.metric.minimize and self.metric.transform else level
        low, high = self._mass_below_image, self._mass_below_image + self._mass_in_image
        inside = np.clip(low + rank * (high - low), np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg)
        unit = self.normalised.icdf(inside)
        if self.metric.transform:
            unit = np.clip(unit, _MARGIN, 1.0 - _MARGIN)
        return self._masked(self.normalizer.inverse(unit))

    def median(self) -> Array:
        return self.quantile(0.5)

    def interval(self, coverage: float = 0.9) -> tuple[Array, Array]:
        """The central interval that holds a share `coverage` of the outcomes: (low, high)."""
        if not 0.0 < coverage < 1.0:
            raise InputError(f"coverage={coverage} must lie between 0 and 1, both excluded")
        low, high = self._quantiles(np.array([0.5 - coverage / 2, 0.5 + coverage / 2]))
        return low, high

    def mean(self) -> Array:
        if not self.metric.transform:
            return self._masked(self.normalised.mean())
        levels = 0.5 * (_NODES + 1.0)
        total = sum((w * y for w, y in zip(_NODE_WEIGHTS, self._quantiles(levels), strict=True)), np.zeros(()))
        return np.asarray(0.5 * total)

    def cdf(self, y: ArrayLike) -> Array:
        """Probability that the value is at most y; y is one number or one per step."""
        values = self._argument(y)
        rank = (self.normalised.cdf(self.normalizer.forward(values)) - self._mass_below_image) / self._mass_in_image
        rank = np.clip(rank, 0.0, 1.0)
        return self._masked(1.0 - rank if self.metric.minimize and self.metric.transform else rank)

    def log_prob(self, y: ArrayLike) -> Array:
        """Log density at y, in the metric's own space."""
        values = self._argument(y)
        low, high = self.metric.hard
        density = (
            self.normalised.log_prob(self.normalizer.forward(values))
            + self.normalizer.log_jacobian(values)
            - np.log(self._mass_in_image)
        )
        return self._masked(np.where((values >= low) & (values <= high), density, -np.inf))

    def prob_better(self, best: ArrayLike) -> Array:
        """Probability that the value at each step beats `best`: is above it, or below it for minimised metrics."""
        target = np.asarray(best, dtype=np.float64)
        if target.ndim == 1 and self.steps.ndim == 2 and len(target) == len(self.steps):
            target = target[:, None]  # one best value per curve
        below = self.cdf(target)
        return below if self.metric.minimize else 1.0 - below

    def sample(self, n: int, seed: int = 0) -> Array:
        """n draws at each step, independent across steps: [n, step], or [curve, n, step] for a batch."""
        if n < 1:
            raise InputError(f"n={n} draws were asked for; it must be at least 1")
        uniform = np.random.default_rng(seed).random((n, *self.steps.shape))
        levels = np.clip(uniform, np.finfo(float).eps, 1.0 - np.finfo(float).eps)
        return np.moveaxis(self._quantile(levels), 0, self._list_axis)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: steps, median, mean, quantiles and the notes."""
        levels = sorted({0.5 + side * band / 2 for band in _BANDS for side in (-1, 1)})
        return {
            "metric": self.metric.name,
            "minimize": self.metric.minimize,
            "horizon": self.horizon,
            "steps": _plain(self.steps),
            "median": _plain(self.median()),
            "mean": _plain(self.mean()),
            "quantiles": {f"{level:.3f}": _plain(self.quantile(level)) for level in levels},
            "notes": list(self.notes),
        }

    def plot(self, ax: Axes | None = None, *, truth: ArrayLike | None = None, **options: Any) -> Axes:
        """A fan chart of one run; `truth` draws what really came, from step 1 on. Options: title, legend."""
        from epochcast.plots import fan_chart

        if self.steps.ndim != 1:
            raise InputError("a fan chart shows one run; take one of the batch with forecast[i].plot()")
        bands = {band: self.interval(band) for band in (0.95, 0.8, 0.5)}
        seen = (self.observed.steps[0], self.observed.values[0])
        return fan_chart(self.steps, self.median(), bands, seen, self.metric.name, ax=ax, truth=truth, **options)

    # --- the part of the distribution that the metric can reach --------------------------------------------------

    @cached_property
    def _mass_below_image(self) -> Array:
        low = self.normalizer.image[0]
        return self.normalised.cdf(low) if math.isfinite(low) else np.zeros(())

    @cached_property
    def _mass_in_image(self) -> Array:
        high = self.normalizer.image[1]
        above = self.normalised.cdf(high) if math.isfinite(high) else np.ones(())
        return np.maximum(above - self._mass_below_image, np.finfo(float).tiny)

    def _argument(self, y: ArrayLike) -> Array:
        values = np.asarray(y, dtype=np.float64)
        try:
            np.broadcast_shapes(values.shape, self.steps.shape)
        except ValueError:
            raise InputError(f"y has shape {values.shape}; it must fit the steps' shape {self.steps.shape}") from None
        return values

    def _masked(self, result: Array) -> Array:
        gaps = np.isnan(self.steps)
        answer: Array = np.where(gaps, np.nan, result) if gaps.any() else np.asarray(result)
        return answer[()]  # a plain number where there is one run and one step


def _plain(array: Array) -> Any:
    """Nested lists of floats, None where nothing is known."""
    if array.ndim == 0:
        return float(array) if math.isfinite(array) else None
    return [_plain(row) for row in array]
