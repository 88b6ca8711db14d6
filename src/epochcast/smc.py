"""Tempered sequential Monte Carlo: a population of particles carried from a prior to a posterior.

The population passes through prior x likelihood^temperature for temperatures from 0 to 1, each chosen so that the
reweighted population keeps a given share of its effective size. After each resampling every particle makes a number of
Metropolis steps, whose proposals are differences of other particles (differential evolution), so that they fit the
shape of the population without tuning. All particles move in one batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_ESS = 0.5  # share of the effective size that a rise in temperature may leave
_SMALLEST_RISE = 1e-12
_SHARES = np.array([0.3, 0.6, 1.0])  # of a block's coordinates that one proposal changes
_JUMP = 0.1  # share of proposals that are a whole difference, which leads from mode to mode
_SPREAD = 0.5  # of the logarithm of the length of a step


@dataclass(frozen=True)
class Evaluation:
    """What a target knows of particles at one temperature; columns are particles."""

    points: Array  # [parameter, particle]
    log_prior: Array  # [particle], with the volume of the change of coordinates; -inf outside the support
    log_likelihood: Array  # [particle], finite


class Target(Protocol):
    """A prior and a likelihood over points, and coordinates to walk in, which may change with the temperature."""

    blocks: Sequence[NDArray[np.intp]]  # groups of coordinates that move together

    def log_likelihood(self, points: Array) -> Array:
        """Log-likelihood [particle] of points [parameter, particle]."""
        ...

    def coordinates(self, points: Array, temperature: float) -> Array:
        """Coordinates [coordinate, particle] of points."""
        ...

    def evaluate(self, coordinates: Array, temperature: float) -> Evaluation:
        """Points and densities of coordinates; cheap checks of the support only."""
        ...

    def allowed(self, points: Array) -> Mask:
        """The expensive rest of the support, asked only for proposals that would be accepted."""
        ...


@dataclass
class _Population:
    """Particles at one temperature, updated in place as proposals are accepted."""

    coordinates: Array  # [coordinate, particle]
    points: Array  # [parameter, particle]
    log_prior: Array  # [particle]
    log_likelihood: Array  # [particle]


@dataclass(frozen=True)
class Result:
    """Equally weighted draws from the posterior, and how they came about."""

    points: Array  # [parameter, particle]
    log_evidence: float
    temperatures: tuple[float, ...]
    acceptance: float  # of the moves at temperature 1


def sample(
    target: Target, prior_points: Array, particles: int, moves: int, final_moves: int, rng: np.random.Generator
) -> Result:
    """Carry draws from the prior [parameter, draw], of which there may be more than particles, to the posterior."""
    points = prior_points
    log_likelihood = target.log_likelihood(points)
    temperature, log_evidence, temperatures = 0.0, 0.0, []
    acceptance = 0.0
    while temperature < 1.0:
        rise = _rise(log_likelihood, 1.0 - temperature, _ESS * particles)
        temperature = 1.0 if rise >= 1.0 - temperature else temperature + rise
        weights = np.exp(rise * (log_likelihood - log_likelihood.max()))
        log_evidence += math.log(weights.mean()) + rise * log_likelihood.max()
        chosen = _resample(weights, particles, rng)
        population = _population(target, points[:, chosen], temperature)
        count = final_moves if temperature == 1.0 else moves
        acceptance = float(np.mean([_move_all(target, population, temperature, i, rng) for i in range(count)]))
        points, log_likelihood = population.points, population.log_likelihood
        temperatures.append(temperature)
    return Result(points, log_evidence, tuple(temperatures), acceptance)


def _rise(log_likelihood: Array, largest: float, size: float) -> float:
    """The largest rise in temperature that leaves an effective size of at least `size`, by bisection."""
    relative = log_likelihood - log_likelihood.max()

    def effective_size(rise: float) -> float:
        weights = np.exp(rise * relative)
        return float(weights.sum() ** 2 / (weights**2).sum())

    if effective_size(largest) >= size:
        return largest
    low, high = 0.0, largest
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if effective_size(middle) < size else (middle, high)
    return max(low, _SMALLEST_RISE)


def _resample(weights: Array, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Systematic resampling, shuffled so that copies of a particle are not neighbours."""
    ladder = np.cumsum(weights)
    positions = (rng.random() + np.arange(count)) / count * ladder[-1]
    return rng.permutation(np.minimum(np.searchsorted(ladder, positions), len(weights) - 1))


def _population(target: Target, points: Array, temperature: float) -> _Population:
    coordinates = target.coordinates(points, temperature)
    now = target.evaluate(coordinates, temperature)
    return _Population(coordinates, now.points.copy(), now.log_prior.copy(), now.log_likelihood.copy())


def _move_all(
    target: Target, population: _Population, temperature: float, turn: int, rng: np.random.Generator
) -> float:
    """One Metropolis step of every particle; returns the share accepted.

    Proposals of one half are differences within the other half, which stands still: that keeps the step reversible.
    """
    block = target.blocks[turn % len(target.blocks)]
    count = population.points.shape[1]
    order = rng.permutation(count)
    half = count // 2
    accepted = 0
    for movers, others in ((order[:half], order[half:]), (order[half:], order[:half])):
        proposals = population.coordinates[:, movers]
        proposals[block] += _differences(population.coordinates[block], len(movers), others, rng)
        accepted += _metropolis(target, population, temperature, movers, proposals, rng)
    return accepted / count


def _differences(coordinates: Array, count: int, others: NDArray[np.intp], rng: np.random.Generator) -> Array:
    """Scaled differences [coordinate, mover] of random pairs of particles, on random subsets of the coordinates."""
    first = rng.integers(len(others), size=count)
    second = (first + rng.integers(1, len(others), size=count)) % len(others)
    size = len(coordinates)
    changed = rng.random((size, count)) < rng.choice(_SHARES, size=count)
    changed[rng.integers(size, size=count), np.arange(count)] = True
    # 2.38 / sqrt(2 d) is the best length of a step for a Gaussian; lengths vary so that no one scale is missed.
    length = 2.38 / np.sqrt(2.0 * changed.sum(axis=0)) * np.exp(_SPREAD * rng.standard_normal(count))
    length = np.where(rng.random(count) < _JUMP, 1.0, length)
    return np.asarray(changed * length * (coordinates[:, others[first]] - coordinates[:, others[second]]))


def _metropolis(
    target: Target,
    population: _Population,
    temperature: float,
    movers: NDArray[np.intp],
    proposals: Array,
    rng: np.random.Generator,
) -> int:
    """Accept or reject a proposal for each mover; returns how many were accepted."""
    new = target.evaluate(proposals, temperature)
    log_ratio = new.log_prior - population.log_prior[movers]
    log_ratio += temperature * (new.log_likelihood - population.log_likelihood[movers])
    accepted = np.flatnonzero(np.log(rng.random(len(movers))) < log_ratio)
    accepted = accepted[target.allowed(new.points[:, accepted])]
    rows = movers[accepted]
    population.coordinates[:, rows] = proposals[:, accepted]
    population.points[:, rows] = new.points[:, accepted]
    population.log_prior[rows] = new.log_prior[accepted]
    population.log_likelihood[rows] = new.log_likelihood[accepted]
    return len(accepted)
