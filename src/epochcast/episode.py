"""Runs to train on, of any horizon and on any steps: from the prior of real curves, or from a prior of your own.

A prior of your own is a function `sampler(size, rng, steps, horizon)` that returns `size` curves [curve, step], seen
at `steps` of a run that is planned to last `horizon` steps; larger values are better, and they live about [0, 1].
"""

from __future__ import annotations

import importlib
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from epochcast.errors import ConfigError
from epochcast.prior import real
from epochcast.prior.families import Array

OwnPrior = Callable[[int, np.random.Generator, Array, float], Array]

_TYPICAL_STEPS = 100  # values of a run that `size` counts for: shorter runs come in larger batches
_MOST_RUNS = 8  # times as many, at most
_UNTRAINED_RATE = 0.4  # of batches: the value before training is known


@dataclass(frozen=True)
class Episode:
    """Runs that share their plan: what was seen, and values that could have been seen instead."""

    steps: Array  # [step], rising
    horizon: float
    values: Array  # [run, step]
    targets: Array  # [draw, run, step]


class Episodes(Protocol):
    """A prior to train on."""

    def __call__(self, size: int, rng: np.random.Generator) -> Episode:
        """About `size` x 100 values of runs with a random plan."""

    def curves(self, size: int, rng: np.random.Generator, horizon: int) -> Array:
        """Curves [curve, step] on steps 1..horizon."""


def episodes_of(prior: str) -> Episodes:
    """Episodes of a prior by its name: `real`, or `module:function` for one of your own."""
    return RealEpisodes() if prior == "real" else OwnEpisodes(prior)


class RealEpisodes:
    """Runs of the prior of real curves."""

    def __call__(self, size: int, rng: np.random.Generator) -> Episode:
        steps, horizon = real.sample_grid(rng)
        draw = real.sample(_runs(size, steps), rng, steps, horizon)
        # Fresh noise, mirrored: unbiased, and the first-order part of its variance cancels.
        noise = rng.standard_normal(draw.noisy.shape)
        targets = np.stack([draw.observe(noise), draw.observe(-noise)])
        if rng.random() > _UNTRAINED_RATE:
            return Episode(steps, horizon, draw.noisy, targets)
        before = draw.untrained[:, None]
        return Episode(
            np.append(0.0, steps),
            horizon,
            np.concatenate([before, draw.noisy], axis=1),
            np.concatenate([np.broadcast_to(before, (2, *before.shape)), targets], axis=2),
        )

    def curves(self, size: int, rng: np.random.Generator, horizon: int) -> Array:
        return real.sample(size, rng, np.arange(1.0, horizon + 1.0), float(horizon)).noisy


class OwnEpisodes:
    """Runs of somebody's own prior, whose plans are drawn as those of real runs."""

    def __init__(self, prior: str) -> None:
        self.prior = prior
        self._sampler = _own_prior(prior)

    def __call__(self, size: int, rng: np.random.Generator) -> Episode:
        steps, horizon = real.sample_grid(rng)
        values = self._draw(_runs(size, steps), rng, steps, horizon)
        return Episode(steps, horizon, values, values[None])

    def curves(self, size: int, rng: np.random.Generator, horizon: int) -> Array:
        return self._draw(size, rng, np.arange(1.0, horizon + 1.0), float(horizon))

    def _draw(self, size: int, rng: np.random.Generator, steps: Array, horizon: float) -> Array:
        return _checked(self._sampler(size, rng, steps, horizon), self.prior, (size, len(steps)))


def _runs(size: int, steps: Array) -> int:
    return max(round(size * min(_TYPICAL_STEPS / len(steps), _MOST_RUNS)), 1)


def _own_prior(prior: str) -> OwnPrior:
    module_name, colon, function_name = prior.partition(":")
    if not colon:
        raise ConfigError(f"prior {prior!r} is unknown; choose paper, real, or module:function for one of your own")
    try:
        function = getattr(importlib.import_module(module_name), function_name, None)
    except ImportError as error:
        raise ConfigError(f"prior {prior!r}: {error}; is its folder on PYTHONPATH?") from None
    if not callable(function):
        raise ConfigError(f"prior {prior!r}: {module_name} has no function {function_name!r}")
    sampler: OwnPrior = function
    return sampler


def _checked(values: object, prior: str, wanted: tuple[int, int]) -> Array:
    found = np.asarray(values)
    if found.shape != wanted or found.dtype.kind != "f":
        raise ConfigError(f"prior {prior!r} returned {reprlib.repr(values)}; it must be floats of shape {wanted}")
    if not np.isfinite(found).all():
        raise ConfigError(f"prior {prior!r} returned values that are not finite")
    return found.astype(np.float64)
