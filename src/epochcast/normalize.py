"""From a metric's own space to the prior's and back (paper, appendix A, with its formula corrected).

    s(x) = 1 / (1 + exp(-(a x + b))),  a = 2 / (u - l),  b = -(u + l) / (u - l)    for soft bounds (l, u)

stretched so that the hard bounds fall on 0 and 1, and reflected for metrics that are minimised: larger is always
better afterwards. The map is close to linear between the soft bounds and squeezes what lies outside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from epochcast.curve import Array, Metric
from epochcast.errors import InputError


@dataclass(frozen=True)
class Normalizer:
    """The map of one metric; `slope` and `shift` may hold one value per curve, as columns."""

    metric: Metric
    slope: Array
    shift: Array

    @classmethod
    def of(cls, metric: Metric, reference: ArrayLike | None = None) -> Normalizer:
        """The map of a metric; `reference` stands in for missing soft bounds: an untrained or first value per curve."""
        if not metric.transform:
            return cls(metric, np.ones(()), np.zeros(()))
        if metric.soft is not None:
            low, high = (np.asarray(bound, dtype=np.float64) for bound in metric.soft)
        elif reference is None:
            raise InputError(
                f"metric {metric.name!r} needs soft bounds when nothing was seen; give soft=(low, high) or untrained=..."
            )
        else:
            low, high = _bounds_from(metric, np.asarray(reference, dtype=np.float64))
        # Half-widths keep the arithmetic finite for bounds near the largest floats.
        half = high / 2 - low / 2
        return cls(metric, 1.0 / half, -(high / 2 + low / 2) / half)

    def _logistic_ends(self) -> tuple[Array, Array]:
        low, high = self.metric.hard
        start = expit(self.slope * low + self.shift) if math.isfinite(low) else np.zeros(())
        end = expit(self.slope * high + self.shift) if math.isfinite(high) else np.ones(())
        return np.asarray(start), np.asarray(end)

    def forward(self, values: ArrayLike) -> Array:
        """Metric space -> [0, 1], larger is better."""
        x = np.asarray(values, dtype=np.float64)
        if not self.metric.transform:
            return x
        start, end = self._logistic_ends()
        unit = (expit(self.slope * x + self.shift) - start) / (end - start)
        return 1.0 - unit if self.metric.minimize else np.asarray(unit)

    def inverse(self, unit: ArrayLike) -> Array:
        """[0, 1] -> metric space; values outside [0, 1] land on the hard bounds."""
        u = np.asarray(unit, dtype=np.float64)
        if not self.metric.transform:
            return u
        start, end = self._logistic_ends()
        p = np.clip(1.0 - u if self.metric.minimize else u, 0.0, 1.0) * (end - start) + start
        with np.errstate(divide="ignore"):
            x = (np.log(p) - np.log1p(-p) - self.shift) / self.slope
        return np.clip(x, *self.metric.hard)

    def log_jacobian(self, values: ArrayLike) -> Array:
        """log |d forward / d value|."""
        x = np.asarray(values, dtype=np.float64)
        if not self.metric.transform:
            return np.zeros_like(x)
        start, end = self._logistic_ends()
        z = np.abs(self.slope * x + self.shift)
        log_logistic_slope = -z - 2.0 * np.log1p(np.exp(-z))
        return np.asarray(np.log(self.slope) + log_logistic_slope - np.log(end - start))

    @property
    def image(self) -> tuple[float, float]:
        """The interval that `forward` maps onto: where a forecast has its mass."""
        return (0.0, 1.0) if self.metric.transform else (-math.inf, math.inf)


def _bounds_from(metric: Metric, reference: Array) -> tuple[Array, Array]:
    """Soft bounds between the best value possible and a reference value of each curve."""
    best = metric.hard[0] if metric.minimize else metric.hard[1]
    if not math.isfinite(best):
        raise InputError(f"metric {metric.name!r} has no finite best value; give soft=(low, high)")
    # A reference on the best value itself leaves no range; any positive width serves a curve that sits there.
    width = np.abs(reference - best)
    width = np.where(width > 0, width, np.maximum(abs(best), 1.0) * 1e-3)
    return (np.asarray(best), best + width) if metric.minimize else (best - width, np.asarray(best))
