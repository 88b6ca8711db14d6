"""Learning rates where runs are looked at, as far as they are told, in the form that the network reads.

Whoever trains knows the schedule beforehand, and much of what a run will still gain depends on it. Rates are relative
to the largest of the run; where nothing is told, every feature is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RATE_TOKEN_FEATURES = 3
RATE_QUERY_FEATURES = 4
_SMALLEST_MEAN = 1e-3  # of rates: training slower than this has stopped


@dataclass(frozen=True)
class Rates:
    """Rates at some steps of each run: axes [run or 1, ...]."""

    told: Array  # [run or 1]: 1, or 0 where nothing is known
    rate: Array
    clock: Array  # the sum of rates so far: steps at the largest rate that it is worth

    def __getitem__(self, index: Any) -> Rates:
        """The same runs at some of the steps; `index` is one into the array of each run."""
        return Rates(self.told, self.rate[:, index], self.clock[:, index])

    def pick(self, cutoffs: NDArray[np.int64]) -> Rates:
        """At positions [run or 1, cutoff] among the steps."""
        rows = np.arange(len(self.rate))[:, None]
        return Rates(self.told, self.rate[rows, cutoffs], self.clock[rows, cutoffs])

    def with_start(self) -> Rates:
        """With the start of the run, before any step, in front."""
        ahead = ((0, 0), (1, 0))
        return Rates(self.told, np.pad(self.rate, ahead), np.pad(self.clock, ahead))

    def token_features(self, steps: Array) -> Array:
        """[run, value, RATE_TOKEN_FEATURES] at the steps [run, value] of the rates."""
        mean = np.where(steps > 0.0, self.clock / np.maximum(steps, 1e-9), 1.0)
        return self._as_far_as_told(np.ones_like(mean), self.rate, _log(mean))

    def query_features(self, steps: Array, seen: Rates, newest: Array, gap: Array) -> Array:
        """[run, cutoff, query, RATE_QUERY_FEATURES] at queried steps, `seen` up to the newest steps of the cutoffs."""
        clock = seen.clock[..., None]
        mean_ahead = (self.clock - clock) / np.maximum(steps - newest, 1e-3)
        log_ratio = np.log((self.clock + gap) / (clock + gap))
        return self._as_far_as_told(np.ones_like(log_ratio), self.rate, _log(mean_ahead), log_ratio)

    def _as_far_as_told(self, *columns: Array) -> Array:
        features = np.stack(np.broadcast_arrays(*columns), axis=-1)
        return np.asarray(features * self.told.reshape(-1, *(1,) * (features.ndim - 1)))


def _log(mean: Array) -> Array:
    return np.asarray(np.log(np.maximum(mean, _SMALLEST_MEAN)))


def widened(features: Array, count: int) -> NDArray[np.float32]:
    """Features [..., feature] as the network reads them: those that nothing is told about are 0."""
    wide = np.zeros((*features.shape[:-1], count), dtype=np.float32)
    wide[..., : features.shape[-1]] = features
    return wide
