"""The prior of LC-PFN (section 3.2, table 1): a weighted sum of three basis curves plus white noise.

    y_t ~ N(f(t), sigma^2),  f = sum_k w_k f_k,  w_k ~ U(0, 1),  log sigma ~ N(-4, 1)

kept when f(1) < f(m) and all f(t) lie in [0, 1]. The paper prints log sigma^2 ~ N(-8, 2); log sigma ~ N(-4, 1) is the
authors' correction. All curves of a batch are computed at once; randomness comes only from the generator given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from epochcast.checks import count
from epochcast.prior.families import PAPER_FAMILIES, Array, Law, Normal, Uniform

LOG_SIGMA = Normal(-4.0, 1.0)
LAWS: dict[str, Law] = {
    **{f"weight.{family.name}": Uniform(0.0, 1.0) for family in PAPER_FAMILIES},
    **{f"{family.name}.{name}": law for family in PAPER_FAMILIES for name, law in family.laws.items()},
    "log_sigma": LOG_SIGMA,
}
NAMES = tuple(LAWS)
ACCEPTANCE = 0.206
# With f and sigma known nobody can score more than this mean log-likelihood, at any cutoff.
ORACLE_LOG_LIKELIHOOD = -LOG_SIGMA.mean - 0.5 * (1.0 + np.log(2.0 * np.pi))

QUIET_LOG_SIGMA = Uniform(-12.0, -6.0)  # of curves that hardly move from one step to the next

_LARGEST_BATCH = 20_000  # candidates per round: bounds the memory of the temporaries
_CANDIDATE_BLOCK = 4096  # candidates checked at once: temporaries of this size stay in the allocator
_BLOCK = 384  # curves evaluated at once: temporaries of this size stay in the cache
_MOST_VALUES = 1_000_000  # of curves evaluated at once, for long horizons


@dataclass(frozen=True)
class Draw:
    """Curves drawn from a prior; row i of every array belongs to curve i."""

    parameters: Array  # [curve, parameter], columns as in `NAMES`
    noiseless: Array  # [curve, step]
    sigma: Array  # [curve]
    noisy: Array  # [curve, step]


def evaluate(parameters: Array, steps: Array) -> Array:
    """The noiseless curves [..., step] of parameters [..., parameter] at steps [step], or [..., step] for each."""
    log_step = np.log(steps)
    column = len(PAPER_FAMILIES)
    total = np.zeros((*parameters.shape[:-1], steps.shape[-1]))
    for k, family in enumerate(PAPER_FAMILIES):
        own = [parameters[..., column + i, None] for i in range(len(family.laws))]
        total += parameters[..., k, None] * family.formula(log_step, *own)
        column += len(family.laws)
    return total


def _valid(curves: Array) -> NDArray[np.bool_]:
    """Whether each curve ends above its start and stays in [0, 1]; NaN is never valid."""
    inside = (curves >= 0.0).all(axis=-1) & (curves <= 1.0).all(axis=-1)
    return inside & (curves[..., 0] < curves[..., -1])


def log_density(parameters: Array, horizon: int = 100) -> Array:
    """Log prior density of parameter vectors [..., parameter], -inf outside the support.

    Normalised over the box of the laws: the true density is larger by the constant -log(ACCEPTANCE).
    """
    total = sum((law.log_density(parameters[..., i]) for i, law in enumerate(LAWS.values())), start=np.zeros(()))
    curves = evaluate(parameters, np.arange(1.0, horizon + 1.0))
    possible = _valid(curves) & (total > -np.inf)  # false for NaN
    return np.where(possible, total, -np.inf)


# --- drawing: parameters are [parameter, curve] and curves [step, curve], so that operations run along the curves -----

_SMALLEST_EXPONENT = -700.0  # np.exp is slow where it has to underflow
_LOG_ALPHA, _LOG_DELTA = NAMES.index("pow3.log_alpha"), NAMES.index("janoschek.log_delta")


@cache
def _products(count: int) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Primes up to `count`, and every other number with two factors of it, in rising order."""
    smallest = list(range(count + 1))
    for number in range(2, count + 1):
        for multiple in range(number * number, count + 1, number):
            smallest[multiple] = min(smallest[multiple], number)
    primes = [n for n in range(2, count + 1) if smallest[n] == n]
    return primes, [(n, smallest[n], n // smallest[n]) for n in range(2, count + 1) if smallest[n] < n]


class _Grid:
    """Curves at steps 1..horizon: `evaluate` with half of its exponentials, in memory that is used again."""

    def __init__(self, horizon: int, width: int) -> None:
        self.width = width  # curves at once
        self._powers = np.empty((horizon, 2 * width))
        self._shapes = np.stack([np.ones(horizon), -1.0 / np.log1p(np.arange(1.0, horizon + 1.0))], axis=1)

    def curves(self, parameters: Array) -> Array:
        """Noiseless curves [step, curve] of parameters [parameter, curve]; good until the next call."""
        falling, rising = slice(parameters.shape[1]), slice(self.width, self.width + parameters.shape[1])
        exponents = np.zeros(2 * self.width)
        np.negative(np.exp(parameters[_LOG_ALPHA]), out=exponents[falling])
        np.exp(parameters[_LOG_DELTA], out=exponents[rising])
        self._raise(exponents)
        return _combined(parameters, self._powers[:, falling], self._powers[:, rising], self._shapes)

    def _raise(self, exponents: Array) -> None:
        """t^exponent for every step t: the power of a product is the product of powers, so only primes need an exp."""
        primes, others = _products(len(self._powers))
        self._powers[0] = 1.0
        self._powers[np.array(primes) - 1] = np.exp(np.log(primes)[:, None] * exponents)
        rows = [self._powers[0], *self._powers]  # by step
        for number, left, right in others:
            np.multiply(rows[left], rows[right], out=rows[number])


def _combined(parameters: Array, pow3: Array, janoschek: Array, shapes: Array) -> Array:
    """Curves [step, curve] from t^-alpha and t^delta, both overwritten, and (1, -1 / log(t + 1)) for every step."""
    w1, w2, w3, c1, a1, _, alpha, beta, log_kappa, _, c3, a3, _ = parameters
    janoschek *= -np.exp(log_kappa)
    np.maximum(janoschek, _SMALLEST_EXPONENT, out=janoschek)
    np.exp(janoschek, out=janoschek)
    janoschek *= w2 * (beta - alpha)
    pow3 *= -w1 * a1
    pow3 += janoschek
    pow3 += shapes @ np.stack([w1 * c1 + w2 * alpha + w3 * c3, w3 * a3])
    return pow3


def _values_at(parameters: Array, step: float) -> Array:
    """Noiseless values [curve] at one step."""
    pow3, janoschek = np.ones((2, 1, parameters.shape[1]))
    if step != 1.0:
        np.exp(-np.log(step) * np.exp(parameters[_LOG_ALPHA]), out=pow3[0])
        np.exp(np.log(step) * np.exp(parameters[_LOG_DELTA]), out=janoschek[0])
    shapes = np.array([[1.0, -1.0 / np.log1p(step)]])
    return np.asarray(_combined(parameters, pow3, janoschek, shapes)[0])


def _valid_at_both_ends(parameters: Array, horizon: int) -> Array:
    """The candidates [parameter, candidate] whose first and last values are valid.

    The two ends reject almost all that the whole grid would, at a fraction of its cost.
    """
    first = _values_at(parameters, 1.0)
    chosen = np.flatnonzero((first >= 0.0) & (first <= 1.0))
    parameters, first = parameters.take(chosen, axis=1), first[chosen]
    last = _values_at(parameters, float(horizon))
    return parameters.take(np.flatnonzero((last > first) & (last <= 1.0)), axis=1)


def draw_parameters(size: int, rng: np.random.Generator) -> Array:
    """Draws [parameter, draw] from the laws alone, whether their curves are allowed or not."""
    drawn = np.empty((len(LAWS), size))
    for row, law in zip(drawn, LAWS.values(), strict=True):
        law.fill(row, rng)
    return drawn


def _candidates(size: int, horizon: int, rng: np.random.Generator) -> Array:
    """Draw `size` parameter vectors and keep those that are valid at both ends: [parameter, candidate]."""
    drawn = draw_parameters(size, rng)
    blocks = range(0, size, _CANDIDATE_BLOCK)
    return np.concatenate([_valid_at_both_ends(drawn[:, i : i + _CANDIDATE_BLOCK], horizon) for i in blocks], axis=1)


def sample(size: int, rng: np.random.Generator, horizon: int = 100) -> Draw:
    """Draw `size` curves over steps 1..horizon."""
    size, horizon = count(size, "size", least=0), count(horizon, "horizon", least=2)
    parameters, noiseless = _noiseless(size, horizon, rng)
    sigma = np.exp(parameters[:, NAMES.index("log_sigma")])
    noisy = np.empty_like(noiseless)
    for start in range(0, size, _BLOCK):  # a block stays in the cache from the draw to the sum
        block = slice(start, start + _BLOCK)
        rng.standard_normal(out=noisy[block])
        noisy[block] *= sigma[block, None]
        noisy[block] += noiseless[block]
    return Draw(parameters, noiseless, sigma, noisy)


def _noiseless(size: int, horizon: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Parameters [curve, parameter] and curves [curve, step] of valid draws."""
    parameters, noiseless = np.empty((size, len(NAMES))), np.empty((size, horizon))
    grid = _Grid(horizon, max(1, min(_BLOCK, 2 * size, _MOST_VALUES // horizon)))
    filled = 0
    while filled < size:
        wanted = int((size - filled) / ACCEPTANCE * 1.05) + 16
        candidates = _candidates(min(wanted, _LARGEST_BATCH), horizon, rng)
        for start in range(0, candidates.shape[1], grid.width):
            block = candidates[:, start : start + grid.width]
            curves = grid.curves(block)
            valid = np.flatnonzero((curves.min(axis=0) >= 0.0) & (curves.max(axis=0) <= 1.0))[: size - filled]
            new = slice(filled, filled + len(valid))
            parameters[new], noiseless[new] = block.take(valid, axis=1).T, curves.take(valid, axis=1).T
            filled += len(valid)
    return parameters, noiseless


def oracle_scores(draw: Draw) -> Array:
    """Log density of each value [curve, step] with curve and noise known."""
    z = (draw.noisy - draw.noiseless) / draw.sigma[:, None]
    return np.asarray(-0.5 * z**2 - np.log(draw.sigma)[:, None] - 0.5 * np.log(2.0 * np.pi))


def quieted(draw: Draw, share: float, rng: np.random.Generator) -> Draw:
    """The same curves, a share of them with far less noise than the prior would give them.

    The prior hardly knows such curves, and real runs often settle to them: a network must have seen some to be sharp.
    """
    chosen = rng.random(len(draw.sigma)) < share
    sigma = np.where(chosen, np.exp(QUIET_LOG_SIGMA.sample(len(chosen), rng)), draw.sigma)
    noisy = draw.noiseless + (sigma / draw.sigma)[:, None] * (draw.noisy - draw.noiseless)
    parameters = draw.parameters.copy()
    parameters[:, NAMES.index("log_sigma")] = np.log(sigma)
    return Draw(parameters, draw.noiseless, sigma, noisy)
