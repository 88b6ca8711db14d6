"""What a forecast says of each step by itself: quantiles, means, probabilities and draws, in the metric's own space."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from epochcast.checks import count, generator, is_number, room_for, shown
from epochcast.curve import Array, Curves, floats
from epochcast.distributions import Distribution
from epochcast.errors import InputError
from epochcast.metric import Metric
from epochcast.normalize import Normalizer

MARGIN = 1e-12  # keeps quantiles off infinite bounds
DRAWS_AT_ONCE = 100_000  # bounds the memory of quantiles and draws
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(48)


@dataclass(frozen=True, repr=False)
class Marginals:
    """The distribution of a metric at each step, without how the steps hang together.

    A network answers in the prior's space, where larger is better; the normaliser leads from there to the metric's own,
    whose bounds cut off the part of the distribution that it cannot reach.
    """

    steps: Array
    metric: Metric
    horizon: int
    normalised: Distribution  # in the prior's space, where larger is better
    normalizer: Normalizer
    observed: Curves  # what was seen, in the metric's space

    def quantile(self, q: ArrayLike) -> Array:
        """The value below which a share `q` of the outcomes lies.

        Args:
            q: A level between 0 and 1, both excluded, or a list of levels.

        Returns:
            One value per step; a list of levels adds an axis before that of the steps.

        Raises:
            InputError: If a level does not lie between 0 and 1.

        Examples:
            >>> f.quantile([0.1, 0.9]).shape  # 45 steps are left up to the horizon
            (2, 45)
        """
        levels = floats(q, "q")
        if levels.ndim == 0:
            return self._quantile(levels)
        if levels.ndim > 1 or len(levels) == 0:
            raise InputError(f"q={reprlib.repr(q)} must be one level or a list of levels")
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
            unit = np.clip(unit, MARGIN, 1.0 - MARGIN)
        return self._masked(self.normalizer.inverse(unit))

    def median(self) -> Array:
        """The value that is exceeded as likely as not.

        Returns:
            One value per step.

        Examples:
            >>> f.median().shape
            (45,)
        """
        return self.quantile(0.5)

    def interval(self, coverage: float = 0.9) -> tuple[Array, Array]:
        """The central interval that holds a share `coverage` of the outcomes.

        Args:
            coverage: The share, between 0 and 1, both excluded.

        Returns:
            Its lower and its upper end, one value per step each.

        Raises:
            InputError: If `coverage` does not lie between 0 and 1.

        Examples:
            >>> low, high = f.interval(0.9)
            >>> bool((low < high).all())
            True
        """
        if not (is_number(coverage) and 0.0 < coverage < 1.0):
            raise InputError(f"coverage={shown(coverage)} must lie between 0 and 1, both excluded")
        low, high = self._quantiles(np.array([0.5 - coverage / 2, 0.5 + coverage / 2]))
        return low, high

    def mean(self) -> Array:
        """The expected value.

        Returns:
            One value per step.

        Examples:
            >>> f.mean().shape
            (45,)
        """
        if not any(map(math.isfinite, self.normalizer.image)):  # nothing is cut off
            return self._masked(self.normalised.mean())
        levels = 0.5 * (_NODES + 1.0)
        total = sum((w * y for w, y in zip(_NODE_WEIGHTS, self._quantiles(levels), strict=True)), np.zeros(()))
        return np.asarray(0.5 * total)

    def cdf(self, y: ArrayLike) -> Array:
        """The probability that the value is at most `y`.

        Args:
            y: One value of the metric, or one per step.

        Returns:
            One probability per step.

        Raises:
            InputError: If `y` is not a number, or does not fit the steps.

        Examples:
            >>> f.final.cdf(1.0).item()  # no accuracy is above 1
            1.0
        """
        values = self._argument(y)
        rank = (self.normalised.cdf(self.normalizer.forward(values)) - self._mass_below_image) / self._mass_in_image
        rank = np.clip(rank, 0.0, 1.0)
        return self._masked(1.0 - rank if self.metric.minimize and self.metric.transform else rank)

    def log_prob(self, y: ArrayLike) -> Array:
        """The logarithm of the probability density at `y`, in the metric's own space.

        Args:
            y: One value of the metric, or one per step.

        Returns:
            One log density per step, minus infinity outside the metric's bounds.

        Raises:
            InputError: If `y` is not a number, or does not fit the steps.

        Examples:
            >>> f.final.log_prob(1.5).item()
            -inf
        """
        values = self._argument(y)
        low, high = self.metric.hard
        density = (
            self.normalised.log_prob(self.normalizer.forward(values))
            + self.normalizer.log_jacobian(values)
            - np.log(self._mass_in_image)
        )
        return self._masked(np.where((values >= low) & (values <= high), density, -np.inf))

    def prob_better(self, best: ArrayLike) -> Array:
        """The probability that the value beats `best`: is above it, or below it for a metric that is minimised.

        Each step is taken by itself; for the chance at *any* step see [`prob_ever`][epochcast.Forecast.prob_ever].

        Args:
            best: The value to beat; for a batch one value, or one per run.

        Returns:
            One probability per step.

        Raises:
            InputError: If `best` is not a number, or does not fit the runs.

        Examples:
            >>> f.final.prob_better(1.0).item()
            0.0
        """
        target = floats(best, "best")
        if target.ndim == 1 and self.steps.ndim == 2 and len(target) == len(self.steps):
            target = target[:, None]  # one best value per curve
        below = self.cdf(target)
        return below if self.metric.minimize else 1.0 - below

    def sample(self, n: int, seed: int | None = 0) -> Array:
        """Draws at each step by itself; for futures whose steps hang together see [`paths`][epochcast.Forecast.paths].

        Args:
            n: How many draws.
            seed: Of the random numbers; None draws afresh.

        Returns:
            Draws [n, step], or [curve, n, step] of a batch.

        Raises:
            InputError: If `n` is not a positive whole number.

        Examples:
            >>> f.sample(1000).shape
            (1000, 45)
        """
        size = count(n, "n")
        rng, shape = generator(seed), self.steps.shape
        draws = room_for((size, *shape), f"{size} draws of {self.steps.size} values")
        chunk = max(1, DRAWS_AT_ONCE // max(self.steps.size, 1))
        for start in range(0, size, chunk):
            uniform = rng.random((min(chunk, size - start), *shape))
            levels = np.clip(uniform, np.finfo(float).eps, 1.0 - np.finfo(float).eps)
            draws[start : start + chunk] = self._quantile(levels)
        return np.moveaxis(draws, 0, self._list_axis)

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
        values = floats(y, "y")
        try:
            np.broadcast_shapes(values.shape, self.steps.shape)
        except ValueError:
            raise InputError(f"y has shape {values.shape}; it must fit the steps' shape {self.steps.shape}") from None
        if (np.isnan(values) & ~np.isnan(self.steps)).any():  # where there is no step, there is no value either
            raise InputError(f"y={reprlib.repr(y)} must be a number, or one per step")
        return values

    def _masked(self, result: Array) -> Array:
        gaps = np.isnan(self.steps)
        answer: Array = np.where(gaps, np.nan, result) if gaps.any() else np.asarray(result)
        return answer[()]  # a plain number where there is one run and one step
