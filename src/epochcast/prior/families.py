"""Basis growth curves and the laws of their parameters, as tables.

A family is a row: a name, a formula and one law per parameter. Parameters that live on a log scale are stored as
logarithms, so that every law is uniform or normal and a sampler may walk in the same space.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.special import ndtr

Array = NDArray[np.float64]

_LARGEST_EXPONENT = 700.0  # np.exp overflows just above 709


class _Drawn(ABC):
    @abstractmethod
    def fill(self, out: Array, rng: np.random.Generator) -> Array:
        """Draws into memory that is there."""

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        return self.fill(np.empty(size), rng)


@dataclass(frozen=True)
class Uniform(_Drawn):
    """The uniform law on (low, high)."""

    low: float
    high: float

    def fill(self, out: Array, rng: np.random.Generator) -> Array:
        return _placed(rng.random(out=out), self.low, self.high - self.low)

    def log_density(self, x: Array) -> Array:
        inside = (x > self.low) & (x < self.high)
        return np.where(inside, -math.log(self.high - self.low), -np.inf)

    def cdf(self, x: Array) -> Array:
        return np.clip((x - self.low) / (self.high - self.low), 0.0, 1.0)


@dataclass(frozen=True)
class Normal(_Drawn):
    """The normal law with the given mean and standard deviation."""

    mean: float
    sd: float

    def log_density(self, x: Array) -> Array:
        z = (x - self.mean) / self.sd
        return -0.5 * z**2 - math.log(self.sd) - 0.5 * math.log(2 * math.pi)

    def cdf(self, x: Array) -> Array:
        return np.asarray(ndtr((x - self.mean) / self.sd))

    def fill(self, out: Array, rng: np.random.Generator) -> Array:
        return _placed(rng.standard_normal(out=out), self.mean, self.sd)


Law = Uniform | Normal


def _placed(standard: Array, shift: float, scale: float) -> Array:
    """Draws of a standard law, scaled and shifted in place."""
    standard *= scale
    standard += shift
    return standard


@dataclass(frozen=True)
class Family:
    """One basis curve: `formula(log_step, *parameters)` with arrays that broadcast against each other."""

    name: str
    formula: Callable[..., Array]
    laws: dict[str, Law]


def _exp(x: Array) -> Array:
    return np.exp(np.minimum(x, _LARGEST_EXPONENT))


def pow3(log_step: Array, c: Array, a: Array, log_alpha: Array) -> Array:
    """c - a t^-alpha"""
    return c - a * np.exp(-_exp(log_alpha) * log_step)


def janoschek(log_step: Array, alpha: Array, beta: Array, log_kappa: Array, log_delta: Array) -> Array:
    """alpha - (alpha - beta) exp(-kappa t^delta)"""
    return alpha - (alpha - beta) * np.exp(-_exp(log_kappa + _exp(log_delta) * log_step))


def ilog2(log_step: Array, c: Array, a: Array) -> Array:
    """c - a / log(t + 1)"""
    return c - a / np.log1p(np.exp(log_step))


PAPER_FAMILIES = (
    Family("pow3", pow3, {"c": Uniform(0.0, 1.25), "a": Uniform(-0.6, 0.6), "log_alpha": Normal(0.0, 2.0)}),
    Family(
        "janoschek",
        janoschek,
        {
            "alpha": Uniform(0.0, 1.0),
            "beta": Uniform(0.0, 2.0),
            "log_kappa": Normal(-2.0, 1.0),
            "log_delta": Normal(0.0, 0.5),
        },
    ),
    Family("ilog2", ilog2, {"c": Uniform(0.0, 1.0), "a": Uniform(-0.5, 0.5)}),
)
