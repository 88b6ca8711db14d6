"""The posterior of one curve's parameters under a prior: what a sampler needs to know, as fast batched functions.

A posterior answers for many parameter vectors at once. The steps on which the prior's constraints are checked and the
steps that were observed are evaluated together, since a call with a few dozen vectors costs mostly overhead.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from epochcast.curve import Curves
from epochcast.distributions import Mixture
from epochcast.errors import ConfigError, InputError
from epochcast.prior import domhan, paper
from epochcast.prior.families import PAPER_FAMILIES, Array, Family, Uniform

# Eight standard deviations below the prior's mean: an exactly constant curve would drive sigma below what numbers hold.
SMALLEST_LOG_SIGMA = paper.LOG_SIGMA.mean - 8.0 * paper.LOG_SIGMA.sd

_LARGEST_VALUE = 1e3
_LARGEST_GRID = 1000  # steps on which constraints are checked; longer horizons are thinned


@dataclass(frozen=True)
class Observed:
    """What was seen of one run: steps above zero and their values, without padding."""

    steps: Array  # [value]
    values: Array  # [value]

    def __len__(self) -> int:
        return len(self.values)

    def generator(self, seed: int) -> np.random.Generator:
        """Randomness that depends on the seed and on this curve alone, so that a batch equals its single curves."""
        content = zlib.crc32(self.values.tobytes(), zlib.crc32(self.steps.tobytes()))
        return np.random.default_rng([seed, content])


def check_whole(config: object, smallest: Mapping[str, int], owner: str) -> None:
    """Raise unless these settings are whole numbers, none smaller than given."""
    for name, least in smallest.items():
        value = getattr(config, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ConfigError(f"{name}={value!r} of {owner} must be a whole number, at least {least}")


def split(curves: Curves) -> list[Observed]:
    """The curves of a batch one by one."""
    observed = []
    for i, length in enumerate(curves.lengths):
        steps, values = curves.steps[i, :length].copy(), curves.values[i, :length].copy()
        where = "" if curves.single else f" of curve {i}"
        if length and steps[0] <= 0.0:
            raise InputError(f"step {steps[0]:g}{where}: the prior's curves start above 0; count steps from 1")
        if length and not np.abs(values).max() <= _LARGEST_VALUE:
            value = values[np.argmax(np.abs(values))]
            raise InputError(f"value {value:g}{where} is not normalised: the prior's curves live about [0, 1]")
        observed.append(Observed(steps, values))
    return observed


def check_queries(curves: Curves, queries: Array, horizon: float) -> None:
    """Raise unless there is one row of usable steps per curve and a usable horizon."""
    if len(curves) == 0:
        raise InputError("there are no curves to forecast")
    if queries.ndim != 2 or len(queries) != len(curves):
        raise InputError(f"queries of shape {queries.shape} do not fit {len(curves)} curves; give [curve, query]")
    if not (np.isfinite(queries) & (queries > 0.0)).all():
        raise InputError("queried steps must be finite and above 0")
    if not (math.isfinite(horizon) and horizon >= 2.0):
        raise InputError(f"horizon={horizon} must be a number of steps, at least 2")


def constraint_grid(horizon: float) -> Array:
    """Steps 1, 2, ..., horizon on which a curve must obey the prior; a long horizon is thinned, its ends kept."""
    if horizon <= _LARGEST_GRID:
        grid = np.arange(1.0, math.floor(horizon) + 1.0)
    else:
        grid = np.unique(np.geomspace(1.0, math.floor(horizon), _LARGEST_GRID).round())
    return grid if grid[-1] == horizon else np.append(grid, horizon)


def equal_mixture(means: Sequence[Array], log_scales: Sequence[Array]) -> Mixture:
    """A mixture [curve, query] of equally likely draws, from means [query, draw] and log scales [draw] per curve."""
    stacked = np.stack(means)  # [curve, query, draw]
    scales = np.broadcast_to(np.stack(log_scales)[:, None, :], stacked.shape)
    return Mixture(np.broadcast_to(-math.log(stacked.shape[-1]), stacked.shape), stacked, scales)


def log_likelihood(residuals: Array, log_sigma: Array) -> Array:
    """Gaussian log-likelihood [...] of residuals [..., value] without its constant; -inf where a residual is NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("...i,...i->...", residuals, residuals)
        total = -residuals.shape[-1] * log_sigma - 0.5 * squares * np.exp(-2.0 * log_sigma)
    return np.where(np.isnan(total), -np.inf, total)


class Posterior(Protocol):
    """The parameters of one observed curve; the last parameter is always the logarithm of sigma."""

    observed: Observed
    families: tuple[Family, ...]  # weights come first, then the parameters of each family
    default: Array  # [parameter], where a chain starts when it knows nothing better
    scales: Array  # [parameter], the order of magnitude on which each parameter varies

    def log_density(self, parameters: Array) -> Array:
        """Log prior plus log-likelihood [walker] of parameter vectors [walker, parameter], up to a constant."""
        ...

    def curves(self, parameters: Array, steps: Array) -> Array:
        """Noiseless curves [walker, step]."""
        ...


class PaperPosterior:
    """The posterior under the prior of LC-PFN."""

    families: tuple[Family, ...] = PAPER_FAMILIES
    default: Array = np.array(
        [
            *(1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0),
            *(0.84, 0.52, math.log(0.01)),  # pow3: c, a, log alpha
            *(0.73, 0.07, math.log(0.355), math.log(0.46)),  # janoschek: alpha, beta, log kappa, log delta
            *(0.78, 0.43),  # ilog2: c, a
            math.log(domhan.DEFAULT_SIGMA),
        ]
    )
    _low = np.array([law.low if isinstance(law, Uniform) else -np.inf for law in paper.LAWS.values()])
    _low[-1] = SMALLEST_LOG_SIGMA
    _high = np.array([law.high if isinstance(law, Uniform) else np.inf for law in paper.LAWS.values()])
    _mean = np.array([0.0 if isinstance(law, Uniform) else law.mean for law in paper.LAWS.values()])
    _precision = np.array([0.0 if isinstance(law, Uniform) else law.sd**-2.0 for law in paper.LAWS.values()])
    scales: Array = np.array(
        [law.high - law.low if isinstance(law, Uniform) else law.sd for law in paper.LAWS.values()]
    )

    def __init__(self, observed: Observed, horizon: float) -> None:
        self.observed = observed
        grid = constraint_grid(horizon)
        self._grid = len(grid)
        self._steps = np.concatenate([grid, observed.steps])

    def log_density(self, parameters: Array) -> Array:
        total = np.full(len(parameters), -np.inf)
        inside = np.flatnonzero(((parameters > self._low) & (parameters < self._high)).all(axis=-1))
        if len(inside) == 0:
            return total
        chosen = parameters[inside]
        with np.errstate(over="ignore", invalid="ignore"):  # t^-alpha below step 1 has no bound
            curves = paper.evaluate(chosen, self._steps)
        grid = curves[:, : self._grid]
        allowed = (grid.min(axis=-1) >= 0.0) & (grid.max(axis=-1) <= 1.0) & (grid[:, 0] < grid[:, -1])
        log_prior = -0.5 * (chosen - self._mean) ** 2 @ self._precision
        likelihood = log_likelihood(curves[:, self._grid :] - self.observed.values, chosen[:, -1])
        total[inside] = np.where(allowed, log_prior + likelihood, -np.inf)
        return total

    def curves(self, parameters: Array, steps: Array) -> Array:
        return paper.evaluate(parameters, steps)


class DomhanPosterior:
    """The posterior under the original prior of Domhan et al. 2015."""

    families: tuple[Family, ...] = domhan.FAMILIES
    default: Array = np.array(domhan.DEFAULT)
    scales: Array = np.maximum(np.abs(np.array(domhan.DEFAULT)), 0.1)

    def __init__(self, observed: Observed, horizon: float) -> None:
        self.observed = observed
        self._steps = np.concatenate([[1.0, horizon], observed.steps])

    def log_density(self, parameters: Array) -> Array:
        bases = domhan.basis_curves(parameters, self._steps)
        log_prior = domhan.log_density_given_ends(parameters, bases[..., 0], bases[..., 1])
        total = np.full(len(parameters), -np.inf)
        inside = np.flatnonzero(np.isfinite(log_prior))
        curves = domhan.combine(parameters[inside], bases[:, inside, 2:])
        likelihood = log_likelihood(curves - self.observed.values, parameters[inside, -1])
        total[inside] = log_prior[inside] + likelihood
        return total

    def curves(self, parameters: Array, steps: Array) -> Array:
        return domhan.evaluate(parameters, steps)
