"""A run as libraries for time series want it: values at even distances, and how many of these distances to look ahead.

Evenly spaced runs pass through unchanged. Others are put on an even grid by interpolation: of steps, or of their
logarithms where that makes the distances far more even, as for training-set sizes that double.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from epochcast.curve import Array, Curves

_EVEN = 1e-9  # relative deviation of a gap that is rounding


@dataclass(frozen=True)
class Series:
    """The values seen of one run at even distances, and the distances to its queries."""

    values: Array  # [value]
    ahead: Array  # [query], in distances from the newest value, at least 1

    @property
    def count(self) -> int:
        """How many values to forecast so that all queries are covered."""
        return int(np.ceil(self.ahead.max()))

    @classmethod
    def of(cls, curves: Curves, row: int, queries: Array) -> Series:
        """Of one curve of a batch and its queries [query]."""
        length = int(curves.lengths[row])
        steps, values = curves.steps[row, :length], curves.values[row, :length]
        if length < 2:
            return cls(values, np.maximum(queries - curves.last_step[row], 1.0))
        scale = _scale_of(steps)
        places, asked = scale(steps), scale(queries)
        distance = (places[-1] - places[0]) / (length - 1)
        even = np.linspace(places[0], places[-1], length)
        if not np.allclose(places, even, rtol=0.0, atol=_EVEN * distance * length):
            values = np.interp(even, places, values)
        return cls(values, np.maximum((asked - places[-1]) / distance, 1.0))

    def at_queries(self, table: Array) -> Array:
        """Forecasts [query, column] from those of the next values [value, column], by interpolation."""
        nexts = np.arange(1.0, len(table) + 1.0)
        return np.stack([np.interp(self.ahead, nexts, column) for column in table.T], axis=-1)


def _scale_of(steps: Array) -> Callable[[Array], Array]:
    """Steps themselves, or their logarithms where these are far more even."""
    if steps[0] <= 0.0:
        return np.asarray
    return np.log if _unevenness(np.log(steps)) < 0.5 * _unevenness(steps) - _EVEN else np.asarray


def _unevenness(places: Array) -> float:
    gaps = np.diff(places)
    return float(gaps.std() / gaps.mean())
