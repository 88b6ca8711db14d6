"""A forecast: the distribution of a run's metric at every step to come, in the metric's own space."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.checks import count, generator, is_number, known, room_for
from epochcast.curve import Array, Curves, Mask, floats
from epochcast.distributions import Distribution
from epochcast.errors import InputError
from epochcast.metric import Bounds, Metric
from epochcast.normalize import Normalizer
from epochcast.question import Question

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from epochcast.paths import FirstStep

_MARGIN = 1e-12  # keeps quantiles off infinite bounds
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(48)
_DRAWS_AT_ONCE = 100_000  # bounds the memory of quantiles and draws
_PATHS_AT_ONCE = 200  # a network keeps what it has read of each
_BANDS = (0.5, 0.8, 0.9, 0.95)


class PathSource(Protocol):
    """A forecaster that draws joint futures of a run; see `epochcast.paths.draw`."""

    def draw_paths(
        self, question: Question, size: int, rng: np.random.Generator, image: Bounds
    ) -> tuple[NDArray[np.intp], Array]: ...


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
    source: PathSource | None = None  # what made it, and can draw its joint futures
    question: Question | None = None  # what that was asked

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        if not self.observed.single:
            return f"<Forecast of {len(self.observed)} runs' {self.metric.name} up to step {self.horizon}>"
        # The horizon, or the last step asked for where that was left out.
        last = self if self.at_horizon else self._at(int(np.argmax(self.steps)))
        low, high = last.interval(0.9)
        end = f"{last.median():.4g} (90 %: {low:.4g} to {high:.4g})"
        return f"<Forecast of {self.metric.name}: {end} at step {last.steps:g}>"

    def __getitem__(self, index: int) -> Forecast:
        """The forecast of one curve of a batch, without the padding of ragged batches."""
        if self.steps.ndim < 2 or self.at_horizon:
            raise InputError("this is the forecast of one run; only forecasts of a batch have items")
        if not (isinstance(index, (int, np.integer)) and -len(self) <= index < len(self)):
            raise IndexError(f"curve {index!r} is asked for; there are {len(self)}")  # ends a loop over the curves
        index = int(index) % len(self)
        padding = np.isnan(self.steps[index])
        ahead = np.flatnonzero(~padding) if padding.any() else slice(None)
        return replace(
            self,
            steps=self.steps[index, ahead],
            normalised=self.normalised[index, ahead],
            normalizer=self.normalizer.at(index),
            observed=replace(self.observed[slice(index, index + 1)], single=True),
            question=None if self.question is None else self.question[slice(index, index + 1)],
        )

    @property
    def final(self) -> Forecast:
        """The same at the horizon: every array loses its last axis."""
        if self.at_horizon:
            return self
        steps = self.steps if self.steps.ndim == 1 else self.steps[0]
        found = np.flatnonzero(steps == self.horizon)
        if len(found) == 0:
            raise InputError(f"step {self.horizon}, the horizon, was not asked for; add it to at=...")
        return self._at(int(found[0]))

    def _at(self, position: int) -> Forecast:
        """The same at one of the steps."""
        return replace(
            self,
            steps=self.steps[..., position],
            normalised=self.normalised[..., position],
            normalizer=self.normalizer.at((..., 0)),
            at_horizon=True,
        )

    # --- questions ---------------------------------------------------------------------------------------------

    def quantile(self, q: ArrayLike) -> Array:
        """The value below which a share q of the outcomes lies; several q add an axis before the steps."""
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
            unit = np.clip(unit, _MARGIN, 1.0 - _MARGIN)
        return self._masked(self.normalizer.inverse(unit))

    def median(self) -> Array:
        return self.quantile(0.5)

    def interval(self, coverage: float = 0.9) -> tuple[Array, Array]:
        """The central interval that holds a share `coverage` of the outcomes: (low, high)."""
        if not (is_number(coverage) and 0.0 < coverage < 1.0):
            raise InputError(f"coverage={coverage} must lie between 0 and 1, both excluded")
        low, high = self._quantiles(np.array([0.5 - coverage / 2, 0.5 + coverage / 2]))
        return low, high

    def mean(self) -> Array:
        if not any(map(math.isfinite, self.normalizer.image)):  # nothing is cut off
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
        target = floats(best, "best")
        if target.ndim == 1 and self.steps.ndim == 2 and len(target) == len(self.steps):
            target = target[:, None]  # one best value per curve
        below = self.cdf(target)
        return below if self.metric.minimize else 1.0 - below

    def sample(self, n: int, seed: int | None = 0) -> Array:
        """n draws at each step, independent across steps: [n, step], or [curve, n, step] for a batch.

        They tell about each step by itself; for futures that hang together from step to step see `paths`. `seed=None`
        draws afresh.
        """
        size = count(n, "n")
        rng, shape = generator(seed), self.steps.shape
        draws = room_for((size, *shape), f"{size} draws of {self.steps.size} values")
        chunk = max(1, _DRAWS_AT_ONCE // max(self.steps.size, 1))
        for start in range(0, size, chunk):
            uniform = rng.random((min(chunk, size - start), *shape))
            levels = np.clip(uniform, np.finfo(float).eps, 1.0 - np.finfo(float).eps)
            draws[start : start + chunk] = self._quantile(levels)
        return np.moveaxis(draws, 0, self._list_axis)

    # --- joint futures -------------------------------------------------------------------------------------------

    def paths(self, n: int = 200, seed: int | None = None) -> Array:
        """n joint futures of one run at its steps, [n, step]: the network's own draws, fed back to it step by step.

        Of more than 100 steps as many are drawn, evenly spread; those between keep the rank of the nearest one.
        """
        size, order = count(n, "n"), np.argsort(self.steps)
        if self.source is None or self.question is None or self.steps.ndim != 1:
            raise InputError("paths are drawn of one run, by what forecast it; take one of a batch with forecast[i]")
        if self.steps.size > 1 and (np.diff(self.steps[order]) == 0.0).any():
            raise InputError(f"paths need different steps; at={self.steps.tolist()} holds one twice")
        rng = generator(seed)
        paths = room_for((size, len(order)), f"{size} paths of {len(order)} steps")
        image = (_MARGIN, 1.0 - _MARGIN) if self.metric.transform else self.normalizer.image
        ahead = replace(self.question, steps=self.steps[order][None])
        for start in range(0, size, _PATHS_AT_ONCE):
            part = paths[start : start + _PATHS_AT_ONCE]
            positions, values = self.source.draw_paths(ahead, len(part), rng, image)
            if len(positions) < len(order):
                values = np.clip(self._filled(order, positions, values), *image)
            part[:, order] = values
        return self.normalizer.inverse(paths)

    def _filled(self, order: NDArray[np.intp], positions: NDArray[np.intp], values: Array) -> Array:
        """Normalised values at all steps, in order, from those drawn at some positions."""
        drawn = self.normalised[order[positions]]
        ranks = np.clip(drawn.cdf(values), _MARGIN, 1.0 - _MARGIN)
        nearest = np.abs(np.arange(len(order))[:, None] - positions).argmin(axis=1)
        filled = np.empty((len(values), len(order)))
        for start in range(0, len(values), max(1, _DRAWS_AT_ONCE // len(order))):
            part = slice(start, start + max(1, _DRAWS_AT_ONCE // len(order)))
            filled[part] = self.normalised[order].icdf(ranks[part][:, nearest])
        filled[:, positions] = values
        return filled

    def prob_ever(self, best: float, n: int = 1000, seed: int | None = 0) -> float:
        """The probability that any of the later values beats `best`, from n joint futures."""
        target = known(best, "best")
        paths = self.paths(n, seed)
        return float(self.metric.better(paths, target).any(axis=1).mean())

    def first_step(self, value: float, n: int = 1000, seed: int | None = 0) -> FirstStep:
        """When the run first reaches `value`, from n joint futures; at once if it has reached it already."""
        from epochcast.paths import FirstStep

        target = known(value, "value")
        if self.steps.ndim != 1:
            raise InputError("first_step is about one run; take one of the batch with forecast[i]")
        seen = self._reaches(self.observed.values[0, : self.observed.lengths[0]], target)
        if seen.any():
            step = self.observed.steps[0, int(np.argmax(seen))]
            return FirstStep(target, np.array([step]), np.ones(1), 0.0)
        order = np.argsort(self.steps)
        reached = self._reaches(self.paths(n, seed)[:, order], target)
        first = np.bincount(reached.argmax(axis=1)[reached.any(axis=1)], minlength=len(order)) / len(reached)
        return FirstStep(target, self.steps[order], first, float(1.0 - reached.any(axis=1).mean()))

    def _reaches(self, values: Array, target: float) -> Mask:
        return np.asarray(~self.metric.better(np.full(values.shape, target), values))

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


def _plain(array: Array) -> Any:
    """Nested lists of floats, None where nothing is known."""
    if array.ndim == 0:
        return float(array) if math.isfinite(array) else None
    return [_plain(row) for row in array]
