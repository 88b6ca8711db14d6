"""The original prior of Domhan, Springenberg and Hutter (IJCAI 2015): eleven basis curves, flat on their parameters.

    y_t ~ N(f(t), sigma^2),  f = sum_k w_k f_k,  w_k >= 0

Hard constraints take the place of laws: each basis curve ends above its start, at a value in [0, 100]. As published the
prior is flat on unbounded parameters, which leaves a short curve without a proper posterior. Here every parameter has a
box, so wide that a curve of values about [0, 1] does not feel it, and sigma has a floor, below which the likelihood of
an exactly constant curve would grow without end.

Parameters are the natural ones, since flat on alpha is not flat on log alpha; only sigma is stored as its logarithm,
with the density that makes sigma itself flat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from epochcast.prior.families import Array, Family, Law, Uniform

_LARGEST_END = 100.0  # of a basis curve, as in the original

LOG_SIGMA = Uniform(math.log(1e-5), math.log(1.0))

_LEVEL = Uniform(-10.0, 10.0)  # values and amplitudes
_EXPONENT = Uniform(-10.0, 10.0)
_POSITIVE = Uniform(0.0, 10.0)  # powers and rates that make no sense below zero
_WIDE = Uniform(0.0, 1000.0)  # quantities on the scale of steps
_WEIGHT = Uniform(0.0, 10.0)


def vap(log_step: Array, a: Array, b: Array, c: Array) -> Array:
    """exp(a + b / t + c log t), the vapour pressure model"""
    return np.exp(a + b * np.exp(-log_step) + c * log_step)


def pow3(log_step: Array, c: Array, a: Array, alpha: Array) -> Array:
    """c - a t^-alpha"""
    return c - a * np.exp(-alpha * log_step)


def pow4(log_step: Array, c: Array, a: Array, b: Array, alpha: Array) -> Array:
    """c - (a t + b)^-alpha"""
    return c - np.exp(-alpha * np.log(a * np.exp(log_step) + b))


def log_log_linear(log_step: Array, a: Array, b: Array) -> Array:
    """log(a log t + b)"""
    return np.log(a * log_step + b)


def hill3(log_step: Array, theta: Array, eta: Array, kappa: Array) -> Array:
    """theta t^eta / (kappa^eta + t^eta)"""
    return theta / (1.0 + np.exp(eta * (np.log(kappa) - log_step)))


def log_power(log_step: Array, a: Array, b: Array, c: Array) -> Array:
    """a / (1 + (t / e^b)^c)"""
    return a / (1.0 + np.exp(c * (log_step - b)))


def mmf(log_step: Array, alpha: Array, beta: Array, kappa: Array, delta: Array) -> Array:
    """alpha - (alpha - beta) / (1 + (kappa t)^delta), the Morgan-Mercer-Flodin model"""
    return alpha - (alpha - beta) / (1.0 + np.exp(delta * (np.log(kappa) + log_step)))


def exp4(log_step: Array, c: Array, a: Array, b: Array, alpha: Array) -> Array:
    """c - exp(-a t^alpha + b)"""
    return c - np.exp(b - a * np.exp(alpha * log_step))


def janoschek(log_step: Array, alpha: Array, beta: Array, kappa: Array, delta: Array) -> Array:
    """alpha - (alpha - beta) exp(-kappa t^delta)"""
    return alpha - (alpha - beta) * np.exp(-kappa * np.exp(delta * log_step))


def weibull(log_step: Array, alpha: Array, beta: Array, kappa: Array, delta: Array) -> Array:
    """alpha - (alpha - beta) exp(-(kappa t)^delta)"""
    return alpha - (alpha - beta) * np.exp(-np.exp(delta * (np.log(kappa) + log_step)))


def ilog2(log_step: Array, c: Array, a: Array) -> Array:
    """c - a / log(t + 1)"""
    return c - a / np.log1p(np.exp(log_step))


@dataclass(frozen=True)
class Basis:
    """A basis curve with the point its authors start from."""

    family: Family
    default: tuple[float, ...]


_SIGMOID = {"alpha": _LEVEL, "beta": _LEVEL, "kappa": _POSITIVE, "delta": _POSITIVE}

BASES = (
    Basis(Family("vap", vap, {"a": _LEVEL, "b": _LEVEL, "c": _EXPONENT}), (-0.622028, -0.470050, 0.042322)),
    Basis(Family("pow3", pow3, {"c": _LEVEL, "a": _LEVEL, "alpha": _EXPONENT}), (0.84, 0.52, 0.01)),
    Basis(
        Family("pow4", pow4, {"c": _LEVEL, "a": _WIDE, "b": Uniform(-1000.0, 1000.0), "alpha": _EXPONENT}),
        (0.8, 200.0, 0.0, 0.1),
    ),
    Basis(Family("log_log_linear", log_log_linear, {"a": _LEVEL, "b": _LEVEL}), (1.0, 1.0)),
    Basis(Family("hill3", hill3, {"theta": _LEVEL, "eta": _POSITIVE, "kappa": _WIDE}), (0.772320, 0.586449, 2.460843)),
    Basis(Family("log_power", log_power, {"a": _LEVEL, "b": _LEVEL, "c": _EXPONENT}), (0.77, 2.98, -0.51)),
    Basis(Family("mmf", mmf, {**_SIGMOID}), (0.7, 0.1, 0.01, 5.0)),
    Basis(Family("exp4", exp4, {"c": _LEVEL, "a": _LEVEL, "b": _LEVEL, "alpha": _EXPONENT}), (0.7, 0.8, -0.8, 0.3)),
    Basis(Family("janoschek", janoschek, {**_SIGMOID}), (0.73, 0.07, 0.355, 0.46)),
    Basis(Family("weibull", weibull, {**_SIGMOID}), (0.7, 0.1, 0.01, 1.0)),
    Basis(Family("ilog2", ilog2, {"c": _LEVEL, "a": _LEVEL}), (0.78, 0.43)),
)
FAMILIES = tuple(basis.family for basis in BASES)
LAWS: dict[str, Law] = {
    **{f"weight.{family.name}": _WEIGHT for family in FAMILIES},
    **{f"{family.name}.{name}": law for family in FAMILIES for name, law in family.laws.items()},
    "log_sigma": LOG_SIGMA,
}
NAMES = tuple(LAWS)
DEFAULT_SIGMA = 0.05
DEFAULT = (
    *(1.0 / len(BASES) for _ in BASES),
    *(value for basis in BASES for value in basis.default),
    math.log(DEFAULT_SIGMA),
)

_LOW, _HIGH = np.array([(law.low, law.high) for law in LAWS.values() if isinstance(law, Uniform)]).T


def basis_curves(parameters: Array, steps: Array) -> Array:
    """The unweighted basis curves [basis, ..., step] of parameter vectors [..., parameter]; NaN where undefined."""
    log_step = np.log(steps)
    curves = np.empty((len(FAMILIES), *parameters.shape[:-1], len(steps)))
    column = len(FAMILIES)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for k, family in enumerate(FAMILIES):
            curves[k] = family.formula(log_step, *(parameters[..., column + i, None] for i in range(len(family.laws))))
            column += len(family.laws)
    return curves


def combine(parameters: Array, curves: Array) -> Array:
    """The weighted sum [..., step] of basis curves [basis, ..., step]."""
    weights = np.moveaxis(parameters[..., : len(FAMILIES)], -1, 0)[..., None]
    with np.errstate(invalid="ignore"):
        return np.asarray((weights * curves).sum(axis=0))


def evaluate(parameters: Array, steps: Array) -> Array:
    """The noiseless curves [..., step] of parameter vectors [..., parameter]."""
    return combine(parameters, basis_curves(parameters, steps))


def log_density_given_ends(parameters: Array, first: Array, last: Array) -> Array:
    """Log prior density up to a constant, given the basis curves [basis, ...] at the first step and at the horizon."""
    inside = ((parameters > _LOW) & (parameters < _HIGH)).all(axis=-1)
    # Comparisons with NaN are false, so undefined curves fall outside.
    rising = ((first < last) & (last >= 0.0) & (last <= _LARGEST_END)).all(axis=0)
    return np.where(inside & rising, parameters[..., -1], -np.inf)


def log_density(parameters: Array, horizon: float = 100.0) -> Array:
    """Log prior density of parameter vectors [..., parameter] up to a constant, -inf outside the support."""
    ends = basis_curves(parameters, np.array([1.0, horizon]))
    return log_density_given_ends(parameters, ends[..., 0], ends[..., 1])
