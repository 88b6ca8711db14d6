"""Heavy tails for a mean and a scale: real runs stand still, and jump, more often than any Gaussian admits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epochcast.distributions import Array, Mixture

SMALLEST_SCALE = 1e-6  # about what networks allow themselves: a run that stands still must not lose by it
_MULTIPLES = np.array([0.1, 0.3, 1.0, 3.0, 10.0])  # of the scale
_ANYWHERE = 0.3  # scale of one more component, which admits anything


@dataclass(frozen=True)
class Tails:
    """How often a value lies within so many scales of the mean: shares of the multiples, and of anywhere.

    The shares of each engine are those that fit digits_bench best, the curves that ship with epochcast.
    """

    shares: tuple[float, float, float, float, float, float]

    def around(self, means: Array, scales: Array) -> Mixture:
        """A mixture at each position of means and scales [...]."""
        narrow = scales[..., None] * _MULTIPLES
        wide = np.full((*scales.shape, 1), _ANYWHERE)
        log_scales = np.log(np.maximum(np.concatenate([narrow, wide], axis=-1), SMALLEST_SCALE))
        shape = log_scales.shape
        log_weights = np.broadcast_to(np.log(self.shares), shape)
        return Mixture(log_weights, np.broadcast_to(means[..., None], shape), log_scales)
