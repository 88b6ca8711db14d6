"""From a metric's own space to the prior's and back (paper, appendix A, with its formula corrected).

    s(x) = 1 / (1 + exp(-(x - center) / half_width))    for soft bounds center -+ half_width

stretched so that the hard bounds fall on 0 and 1. Metrics that are minimised have a negative half-width, which makes
larger always better afterwards. The map is close to linear between the soft bounds and squeezes what lies outside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.metric import LARGEST_VALUE, SMALLEST_RANGE, Metric
from epochcast.special import expit, logit


@dataclass(frozen=True)
class Normalizer:
    """The map of one metric; `center` and `half_width` may hold one value per curve, as columns."""

    metric: Metric
    center: Array
    half_width: Array  # negative for metrics that are minimised

    @classmethod
    def of(cls, metric: Metric, reference: ArrayLike | None = None) -> Normalizer:
        """The map of a metric; `reference` stands in for missing soft bounds: an untrained or first value per curve."""
        if not metric.transform:
            return cls(metric, np.zeros(()), np.ones(()))
        sign = -1.0 if metric.minimize else 1.0
        if metric.soft is not None:
            low, high = metric.soft
            return cls(metric, np.asarray((low + high) / 2), np.asarray(sign * (high - low) / 2))
        if reference is None:
            raise InputError(
                f"metric {metric.name!r} needs soft bounds when nothing is seen; give soft=(low, high) or untrained=..."
            )
        half_width = sign * _width_from(metric, np.asarray(reference, dtype=np.float64)) / 2
        return cls(metric, metric.best - half_width, half_width)

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
            return u
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
        return (0.0, 1.0) if self.metric.transform else (-math.inf, math.inf)


def _width_from(metric: Metric, reference: Array) -> Array:
    """Width of the soft bounds between the best value possible and a reference value of each curve."""
    if not math.isfinite(metric.best):
        raise InputError(f"metric {metric.name!r} has no finite best value; give soft=(low, high)")
    if not np.isfinite(reference).all():
        raise InputError(f"the reference value of metric {metric.name!r} must be finite, not {reference}")
    # A reference on the best value itself leaves no range; any width of the metric's own size serves such a curve.
    hard_range = metric.hard[1] - metric.hard[0]
    spare = hard_range if math.isfinite(hard_range) else 1e-3 * max(abs(metric.best), 1.0)
    width = np.abs(reference - metric.best)
    return np.where(width >= SMALLEST_RANGE, width, spare)
