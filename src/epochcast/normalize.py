"""From a metric's own space to the prior's and back (paper, appendix A, with its formula corrected).

    s(x) = 1 / (1 + exp(-(x - center) / half_width))    for soft bounds center -+ half_width

stretched so that the hard bounds fall on 0 and 1. Metrics that are minimised have a negative half-width, which makes
larger always better afterwards. The map is close to linear between the soft bounds and squeezes what lies outside.

Soft bounds that a metric leaves open come from the run: from the best value possible to the untrained model's value or
to the first one, and, where no value is the best possible, around all that was seen. A run whose newest value has left
its soft bounds far behind takes them along, or it would be squeezed beyond recognition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epochcast.curve import Array, Curves, Mask
from epochcast.errors import InputError
from epochcast.metric import LARGEST_VALUE, SMALLEST_RANGE, UNIT_INTERVAL, Bounds, Metric
from epochcast.special import expit, logit

_SMALLEST_SPREAD = 1e-9  # of a run's values, as a share of their size: less is rounding
FARTHEST = 4.0  # widths of the soft bounds between the newest value and the far bound; beyond, the bounds follow it


@dataclass(frozen=True)
class Normalizer:
    """The map of one metric; `center` and `half_width` may hold one value per curve, as columns."""

    metric: Metric
    center: Array
    half_width: Array  # negative for metrics that are minimised

    @classmethod
    def of(cls, metric: Metric, reference: ArrayLike | None = None) -> Normalizer:
        """The map of a metric; `reference` stands in for missing soft bounds: an untrained or first value per curve."""
        if metric.soft is not None or not metric.transform:
            return cls.between(metric, *(metric.soft or UNIT_INTERVAL))
        if reference is None:
            raise _no_scale(metric)
        return cls.between(metric, *_bounds_up_to(metric, np.asarray(reference, dtype=np.float64)))

    @classmethod
    def between(cls, metric: Metric, low: Array | float, high: Array | float) -> Normalizer:
        """The map of soft bounds, numbers or columns of one per curve; of a metric without a transform it has none."""
        if not metric.transform:
            return cls(metric, np.zeros(()), np.ones(()))
        return cls(metric, np.asarray((low + high) / 2), np.asarray(metric.sign * (high - low) / 2))

    @classmethod
    def of_runs(cls, metric: Metric, curves: Curves, untrained: Array | None = None) -> tuple[Normalizer, Mask]:
        """The map of each run by what was seen of it, and which runs [run] have left the bounds that they began with.

        `untrained` [run] are values before training, where they are known.
        """
        if not metric.transform:
            return cls.of(metric), np.zeros(len(curves), dtype=np.bool_)
        low, high = _soft_bounds(metric, curves, untrained)
        newest = np.where(curves.lengths > 0, curves.last_value, high)
        below, above = _left_behind(newest, low, high)
        if metric.soft is not None and not (below | above).any():
            return cls.of(metric), below  # one map for all
        lower = np.where(below, high - (high - newest) / FARTHEST, low)
        higher = np.where(above, low + (newest - low) / FARTHEST, high)
        return cls.between(metric, lower[:, None], higher[:, None]), below | above

    def own_where_left(self, curves: Curves, untrained: Array | None = None) -> tuple[Normalizer, Mask]:
        """This map of a task for runs that are in its range, each run's own for those [run] that have left it."""
        left = np.zeros(len(curves), dtype=np.bool_)
        if not self.metric.transform:
            return self, left
        reach = np.abs(self.half_width)
        low, high = self.center - reach, self.center + reach
        below, above = _left_behind(np.where(curves.lengths > 0, curves.last_value, high), low, high)
        left = below | above
        if not left.any():
            return self, left
        rows = np.flatnonzero(left)
        own, _ = Normalizer.of_runs(self.metric, curves[rows], None if untrained is None else untrained[rows])
        center, half_width = (np.full((len(curves), 1), float(shared)) for shared in (self.center, self.half_width))
        center[rows], half_width[rows] = own.center, own.half_width
        return Normalizer(self.metric, center, half_width), left

    @cached_property
    def _logistic_ends(self) -> tuple[Array, Array]:
        """Where the plain logistic map puts the worst and the best value possible."""
        worst, best = reversed(self.metric.hard) if self.metric.minimize else self.metric.hard
        return expit(self._standardise(worst)), expit(self._standardise(best))

    def _standardise(self, values: ArrayLike) -> Array:
        """Values in half-widths from the center, larger is better."""
        with np.errstate(over="ignore"):
            distance = (np.asarray(values, dtype=np.float64) - self.center) / self.half_width
        return np.clip(distance, -LARGEST_VALUE, LARGEST_VALUE)

    def forward(self, values: ArrayLike) -> Array:
        """Metric space -> [0, 1], larger is better."""
        if not self.metric.transform:
            return np.asarray(values, dtype=np.float64)
        worst, best = self._logistic_ends
        return np.asarray((expit(self._standardise(values)) - worst) / (best - worst))

    def inverse(self, unit: ArrayLike) -> Array:
        """[0, 1] -> metric space; values outside [0, 1] land on the hard bounds."""
        u = np.asarray(unit, dtype=np.float64)
        if not self.metric.transform:
            return np.asarray(np.clip(u, *self.metric.hard))
        worst, best = self._logistic_ends
        distance = logit(np.clip(u, 0.0, 1.0) * (best - worst) + worst)
        return np.asarray(np.clip(self.center + self.half_width * distance, *self.metric.hard))

    def log_jacobian(self, values: ArrayLike) -> Array:
        """log |d forward / d value|."""
        if not self.metric.transform:
            return np.zeros(np.shape(values))
        worst, best = self._logistic_ends
        z = np.abs(self._standardise(values))
        log_logistic_slope = -z - 2.0 * np.log1p(np.exp(-z))
        return np.asarray(log_logistic_slope - np.log(np.abs(self.half_width)) - np.log(best - worst))

    def at(self, index: Any) -> Normalizer:
        """The map of some curves of a batch, by any index into its columns; one map for all serves any of them."""
        if self.center.ndim == 0:
            return self
        return Normalizer(self.metric, self.center[index], self.half_width[index])

    @property
    def image(self) -> tuple[float, float]:
        """The interval that `forward` maps onto: where a forecast has its mass."""
        return (0.0, 1.0) if self.metric.transform else self.metric.hard


def task_bounds(metric: Metric, others: Curves, untrained: Array, untrained_of_others: Array) -> Bounds:
    """Soft bounds that all runs of a task share, found so that they stay while new values of a run come in.

    Those of the metric, where it has them. For a loss they reach from the best value possible to the untrained
    model's: the median of the values before training, of the runs asked about or else of the others, or else of the
    first values of the others. Where no value is the best possible they hold the values of the others, but for runs
    that have left the range of most.
    """
    if metric.soft is not None or not metric.transform:
        return metric.soft or UNIT_INTERVAL
    if not math.isfinite(metric.best):
        return _around_most(others)
    known = [array[np.isfinite(array)] for array in (untrained, untrained_of_others, others.values[:, 0])]
    low, high = _bounds_up_to(metric, np.asarray(np.median(next(array for array in known if len(array)))))
    return float(low), float(high)


def _around_most(runs: Curves) -> Bounds:
    """The lowest and the highest value of runs, but for values far from where most runs are."""
    unknown = np.full(len(runs), np.nan)
    low, high = (float(np.median(ends)) for ends in _around_the_run(runs, unknown))
    values = runs.values[runs.seen]
    near = values[~np.logical_or(*_left_behind(values, low, high))]
    if 2 * len(near) <= len(values):  # there is no place where most of them are
        near = values
    whole = Curves(np.zeros((1, len(near))), near[None], np.array([len(near)]))
    lowest, highest = _around_the_run(whole, unknown[:1])
    return float(lowest[0]), float(highest[0])


def keep_their_scale(metric: Metric, runs: Curves, untrained: Array | None = None) -> Mask:
    """Which runs [run] have one map from their first value to their last."""
    if not metric.transform:
        return np.ones(len(runs), dtype=np.bool_)
    if metric.soft is None and not math.isfinite(metric.best):
        return np.zeros(len(runs), dtype=np.bool_)
    low, high = (np.reshape(bound, (-1, 1)) for bound in _soft_bounds(metric, runs, untrained))
    below, above = _left_behind(runs.values, low, high)
    return np.asarray(~((below | above) & runs.seen).any(axis=1))


def _left_behind(values: Array, low: Array | float, high: Array | float) -> tuple[Mask, Mask]:
    """Where a value is so far below, or above, soft bounds that they follow it."""
    far = FARTHEST * (high - low)
    return values < high - far, values > low + far


def _soft_bounds(metric: Metric, curves: Curves, untrained: Array | None) -> tuple[Array | float, Array | float]:
    """Low and high soft bound of all runs or of each [run]: the metric's, or those that its values suggest."""
    if metric.soft is not None:
        return metric.soft
    unknown = np.full(len(curves), np.nan) if untrained is None else untrained
    if (np.isnan(unknown) & (curves.lengths == 0)).any():
        raise _no_scale(metric)
    if not math.isfinite(metric.best):
        return _around_the_run(curves, unknown)
    first = curves.values[:, 0] if curves.values.shape[1] else unknown
    return _bounds_up_to(metric, np.where(np.isnan(unknown), first, unknown))


def _no_scale(metric: Metric) -> InputError:
    return InputError(
        f"metric {metric.name!r} needs soft bounds when nothing is seen; give soft=(low, high) or untrained=..."
    )


def _around_the_run(curves: Curves, untrained: Array) -> tuple[Array, Array]:
    """The lowest and the highest value of each run; around a run that has not moved, as much as its size."""
    low = np.where(curves.seen, curves.values, np.inf).min(axis=1, initial=np.inf)
    high = np.where(curves.seen, curves.values, -np.inf).max(axis=1, initial=-np.inf)
    low, high = np.fmin(low, untrained), np.fmax(high, untrained)
    size = np.maximum(np.abs(low), np.abs(high))
    spare = np.where(size > 0.0, size, 1.0) / 2
    still = high - low <= _SMALLEST_SPREAD * size
    return np.where(still, low - spare, low), np.where(still, high + spare, high)


def _bounds_up_to(metric: Metric, reference: Array) -> tuple[Array | float, Array | float]:
    """Soft bounds between the best value possible and a reference value of each curve."""
    if not math.isfinite(metric.best):
        raise InputError(f"metric {metric.name!r} has no finite best value; give soft=(low, high)")
    if not np.isfinite(reference).all():
        raise InputError(f"the reference value of metric {metric.name!r} must be finite, not {reference}")
    # A reference on the best value itself leaves no range; any width of the metric's own size serves such a curve.
    hard_range = metric.hard[1] - metric.hard[0]
    spare = hard_range if math.isfinite(hard_range) else 1e-3 * max(abs(metric.best), 1.0)
    width = np.abs(reference - metric.best)
    width = np.where(width >= SMALLEST_RANGE, width, spare)
    return (metric.best, metric.best + width) if metric.minimize else (metric.best - width, metric.best)
