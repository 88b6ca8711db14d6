"""Runs to train on: from the paper's prior, from the prior of real curves, or from a prior of your own.

A prior of your own is a function `sampler(size, rng, steps, horizon)` that returns `size` curves [curve, step], seen
at `steps` of a run that is planned to last `horizon` steps; larger values are better, and they live about [0, 1].
"""

from __future__ import annotations

import importlib
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from epochcast.errors import ConfigError
from epochcast.metric import UNTOLD
from epochcast.prior import paper, real
from epochcast.prior.families import Array
from epochcast.question import NOTHING, Input
from epochcast.rates import Rates

OwnPrior = Callable[[int, np.random.Generator, Array, float], Array]
Targets = Literal["noisy", "antithetic", "exact"]

_VALIDATION_STEPS = np.arange(1.0, 101.0)
_GAPS_RATE = 0.15  # of batches of the paper's curves: only some of their steps are seen
_TYPICAL_STEPS = 100  # values of a run that `size` counts for: shorter runs come in larger batches
_MOST_RUNS = 8  # times as many, at most
_UNTRAINED_RATE = 0.4  # of batches: the value before training is known
_KIND_RATE = 0.88  # of runs: the kind of the metric is known
_SCHEDULE_RATE = 0.5  # of runs that have a learning rate: it is known


@dataclass(frozen=True)
class TrainingBatch:
    """Runs that share their plan: what was seen, and values that could have been seen instead."""

    steps: Array  # [step], rising
    horizon: float
    values: Array  # [run, step]
    targets: Array  # [draw, run, step]
    kinds: Array | None = None  # [run]: what is measured, as far as it is known
    rates: Rates | None = None  # [run, step]: learning rates, as far as they are known


class BatchSampler(Protocol):
    """A prior to train on."""

    @property
    def reads(self) -> frozenset[Input]:
        """What its batches supply, all or some of them: what a network trained on them learns to read."""

    def __call__(self, size: int, rng: np.random.Generator) -> TrainingBatch:
        """About `size` x 100 values of runs with a random plan."""

    def validation(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Curves [curve, step] to score forecasts on, and what to take off each value's score (a control variate)."""


def sampler_of(prior: str, horizon: int = 100, targets: Targets = "antithetic", quiet: float = 0.0) -> BatchSampler:
    """The sampler of a prior by its name: `paper` (which the other arguments are for), `real`, or `module:function` for
    one of your own."""
    if prior == "paper":
        return PaperSampler(horizon, targets, quiet)
    return RealSampler() if prior == "real" else OwnSampler(prior)


def paper_validation(size: int, rng: np.random.Generator, horizon: int) -> tuple[Array, Array]:
    """Curves of the paper's prior, and how much better or worse than usual an oracle scores on each value."""
    draw = paper.sample(size, rng, horizon)
    return draw.noisy, paper.oracle_scores(draw) - paper.ORACLE_LOG_LIKELIHOOD


@dataclass(frozen=True)
class PaperSampler:
    """Curves of the paper's prior, most of them seen at every step."""

    horizon: int
    targets: Targets = "antithetic"
    quiet: float = 0.0  # share of curves with hardly any noise, beyond what the prior has
    reads: ClassVar[frozenset[Input]] = NOTHING

    def __call__(self, size: int, rng: np.random.Generator) -> TrainingBatch:
        draw = paper.sample(size, rng, self.horizon)
        if self.quiet > 0.0:
            draw = paper.quieted(draw, self.quiet, rng)
        seen = self._seen(rng)
        values = draw.noisy[:, seen]
        targets = values[None] if self.targets == "noisy" else _mirrored(draw, rng)[..., seen]
        return TrainingBatch(seen.astype(np.float64) + 1.0, float(self.horizon), values, targets)

    def _seen(self, rng: np.random.Generator) -> NDArray[np.intp]:
        every = np.arange(self.horizon)
        if self.horizon <= 2 or rng.random() > _GAPS_RATE:
            return every
        return np.sort(rng.choice(every, int(rng.integers(2, self.horizon)), replace=False))

    def validation(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        return paper_validation(size, rng, self.horizon)


def _mirrored(draw: paper.Draw, rng: np.random.Generator) -> Array:
    """[2, curve, step]: fresh noise, mirrored. Unbiased, and the first-order part of its variance cancels."""
    noise = draw.sigma[:, None] * rng.standard_normal(draw.noiseless.shape)
    return np.stack([draw.noiseless + noise, draw.noiseless - noise])


class RealSampler:
    """Runs of the prior of real curves."""

    reads: ClassVar[frozenset[Input]] = frozenset({"untrained", "kind", "schedule"})

    def __call__(self, size: int, rng: np.random.Generator) -> TrainingBatch:
        steps, horizon = real.sample_grid(rng)
        draw = real.sample(_runs(size, steps), rng, steps, horizon)
        noise = rng.standard_normal(draw.noisy.shape)  # mirrored, as in `_mirrored`
        targets = np.stack([draw.observe(noise), draw.observe(-noise)])
        kinds = np.where(rng.random(len(draw.kinds)) < _KIND_RATE, draw.kinds, UNTOLD)
        rates = _known_rates(draw, rng)
        if rng.random() > _UNTRAINED_RATE:
            return TrainingBatch(steps, horizon, draw.noisy, targets, kinds, rates)
        before = draw.untrained[:, None]
        return TrainingBatch(
            np.append(0.0, steps),
            horizon,
            np.concatenate([before, draw.noisy], axis=1),
            np.concatenate([np.broadcast_to(before, (2, *before.shape)), targets], axis=2),
            kinds,
            rates.with_start(),
        )

    def validation(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        curves = real.sample(size, rng, _VALIDATION_STEPS, float(len(_VALIDATION_STEPS))).noisy
        return curves, np.zeros_like(curves)


def _known_rates(draw: real.RealDraw, rng: np.random.Generator) -> Rates:
    """Learning rates of some runs; an amount of data has none, and that of the paper's curves is constant."""
    known = (rng.random(len(draw.rate)) < _SCHEDULE_RATE) & ~draw.ingredients["amounts"]
    return Rates(known.astype(np.float64), draw.rate, draw.clock)


class OwnSampler:
    """Runs of somebody's own prior, whose plans are drawn as those of real runs."""

    reads: ClassVar[frozenset[Input]] = NOTHING

    def __init__(self, prior: str) -> None:
        self.prior = prior
        self._sampler = _own_prior(prior)

    def __call__(self, size: int, rng: np.random.Generator) -> TrainingBatch:
        steps, horizon = real.sample_grid(rng)
        values = self._draw(_runs(size, steps), rng, steps, horizon)
        return TrainingBatch(steps, horizon, values, values[None])

    def validation(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        curves = self._draw(size, rng, _VALIDATION_STEPS, float(len(_VALIDATION_STEPS)))
        return curves, np.zeros_like(curves)

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
