"""The prior of LC-PFN (section 3.2, table 1): a weighted sum of three basis curves plus white noise.

    y_t ~ N(f(t), sigma^2),  f = sum_k w_k f_k,  w_k ~ U(0, 1),  log sigma ~ N(-4, 1)

kept when f(1) < f(m) and all f(t) lie in [0, 1]. The paper prints log sigma^2 ~ N(-8, 2); log sigma ~ N(-4, 1) is the
authors' correction. All curves of a batch are computed at once; randomness comes only from the generator given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.errors import InputError
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
_BLOCK = 128  # curves evaluated at once: temporaries of this size stay in the cache and in the allocator


@dataclass(frozen=True)
class Draw:
    """Curves drawn from a prior; row i of every array belongs to curve i."""

    parameters: Array  # [curve, parameter], columns as in `NAMES`
    noiseless: Array  # [curve, step]
    sigma: Array  # [curve]
    noisy: Array  # [curve, step]


def evaluate(parameters: Array, steps: Array) -> Array:
    """The noiseless curves [..., step] of parameter vectors [..., parameter]."""
    log_step = np.log(steps)
    column = len(PAPER_FAMILIES)
    total = np.zeros((*parameters.shape[:-1], len(steps)))
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


def _candidates(size: int, steps: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw `size` parameter vectors and keep the valid ones, with their curves."""
    parameters = np.stack([law.sample(size, rng) for law in LAWS.values()], axis=-1)
    # A few steps reject most candidates at a fraction of the cost of the whole grid.
    few = np.unique(np.geomspace(1.0, len(steps), 5).round())
    parameters = parameters[_valid(evaluate(parameters, few))]
    curves = np.empty((len(parameters), len(steps)))
    for start in range(0, len(parameters), _BLOCK):
        block = slice(start, start + _BLOCK)
        curves[block] = evaluate(parameters[block], steps)
    keep = _valid(curves)
    return parameters[keep], curves[keep]


def sample(size: int, rng: np.random.Generator, horizon: int = 100) -> Draw:
    """Draw `size` curves over steps 1..horizon."""
    if size < 0:
        raise InputError(f"size={size} curves cannot be drawn; ask for 0 or more")
    if horizon < 2:
        raise InputError(f"horizon={horizon} is too short for the prior; it must be at least 2")
    steps = np.arange(1.0, horizon + 1.0)
    parameters, noiseless = np.empty((size, len(NAMES))), np.empty((size, horizon))
    filled = 0
    while filled < size:
        wanted = int((size - filled) / ACCEPTANCE * 1.05) + 16
        new_parameters, new_curves = _candidates(min(wanted, _LARGEST_BATCH), steps, rng)
        take = min(len(new_curves), size - filled)
        parameters[filled : filled + take] = new_parameters[:take]
        noiseless[filled : filled + take] = new_curves[:take]
        filled += take
    sigma = np.exp(parameters[:, NAMES.index("log_sigma")])
    noisy = rng.standard_normal(noiseless.shape)
    noisy *= sigma[:, None]
    noisy += noiseless
    return Draw(parameters, noiseless, sigma, noisy)


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
