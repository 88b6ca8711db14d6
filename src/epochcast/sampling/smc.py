"""Tempered sequential Monte Carlo: a population of particles carried from a prior to a posterior.

The population passes through prior x likelihood^temperature for temperatures from 0 to 1, each chosen so that the
reweighted population keeps a given share of its effective size. After each resampling every particle makes a number of
Metropolis steps, all particles in one batch. Nothing needs tuning: proposals take their size from the population
itself, or from coordinates that are close to standard normal.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.intp]

_ESS = 0.5  # share of the effective size that a rise in temperature must leave
_SMALLEST_RISE = 1e-12  # of the temperature, at first
_SMALLEST_GROWTH = 0.02  # of the temperature, later: bounds the number of temperatures, whatever the data
_SHARES = np.array([0.3, 0.6, 1.0])  # of a block's coordinates that one proposal changes
_OUTSIDE = -1e300  # a log prior that any other one beats, yet can be subtracted from
_WHOLE_DIFFERENCES = 0.1  # share of proposals that add a whole difference, which leads from mode to mode
_SPREAD = 0.5  # of the logarithm of the length of a step
_MEMORIES = np.array([0.0, 0.5, 0.8])  # what an autoregressive proposal keeps of the old coordinate


@dataclass(frozen=True)
class Evaluation:
    """What a target knows of particles at one temperature; columns are particles."""

    points: Array  # [parameter, particle]
    log_prior: Array  # [particle], with the volume of the change of coordinates; -inf outside the support
    log_likelihood: Array  # [particle], finite


@dataclass
class Population:
    """Particles at one temperature, updated in place as proposals are accepted."""

    coordinates: Array  # [coordinate, particle]
    points: Array  # [parameter, particle]
    log_prior: Array  # [particle]
    log_likelihood: Array  # [particle]


Proposals = tuple[Array, Array]  # [coordinate, mover], and their log proposal ratios [mover]


@dataclass(frozen=True)
class Move(ABC):
    """A way to propose new coordinates, of which it changes a block."""

    block: Index

    @abstractmethod
    def propose(self, coordinates: Array, movers: Index, others: Index, rng: np.random.Generator) -> Proposals:
        """What to propose for the movers; only they and the others may be read."""


class Target(Protocol):
    """A prior and a likelihood over points, and coordinates to walk in, which may change with the temperature."""

    moves: Sequence[Move]  # taken in turns

    def log_likelihood(self, points: Array) -> Array:
        """Log-likelihood [particle] of points [parameter, particle]; -inf where it is undefined."""
        ...

    def coordinates(self, points: Array, temperature: float) -> Array:
        """Coordinates [coordinate, particle] of points."""
        ...

    def evaluate(self, coordinates: Array, temperature: float) -> Evaluation:
        """Points and densities of coordinates, after cheap checks of the support only."""
        ...

    def allowed(self, points: Array) -> Mask:
        """The expensive rest of the support, asked only for proposals that would be accepted."""
        ...

    def redraw(self, population: Population, rng: np.random.Generator) -> None:
        """Move, in place, what the likelihood does not see, leaving the prior as it is; may do nothing."""
        ...


@dataclass(frozen=True)
class Result:
    """Equally weighted draws from the posterior, and how they came about."""

    points: Array  # [parameter, draw]
    log_evidence: float
    temperatures: tuple[float, ...]
    acceptance: float  # of the moves at temperature 1


def sample(
    target: Target,
    prior_points: Array,
    particles: int,
    moves: int,
    final_moves: int,
    rng: np.random.Generator,
    snapshots: int = 1,
) -> Result:
    """Carry draws from the prior [parameter, draw], of which there may be more than particles, to the posterior.

    Several snapshots of the population during the second half of the final moves are more draws for free, though not
    independent ones.
    """
    points = prior_points
    log_likelihood = target.log_likelihood(points)
    temperature, log_evidence, temperatures = 0.0, 0.0, []
    while temperature < 1.0:
        rise = _rise(log_likelihood, temperature, _ESS * particles)
        temperature = 1.0 if rise >= 1.0 - temperature else temperature + rise
        weights = np.exp(rise * (log_likelihood - log_likelihood.max()))
        log_evidence += math.log(weights.mean()) + rise * float(log_likelihood.max())
        chosen = _resample(weights, particles, rng)
        population = _population(target, points[:, chosen], log_likelihood[chosen], temperature)
        temperatures.append(temperature)
        if temperature < 1.0:
            for turn in range(moves):
                _move_all(target, population, temperature, turn, rng)
            points, log_likelihood = population.points, population.log_likelihood
    kept, accepted = [], []
    due = set(np.linspace(final_moves, final_moves / 2, snapshots, endpoint=False).round().astype(int))
    for turn in range(final_moves):
        accepted.append(_move_all(target, population, 1.0, turn, rng))
        if turn + 1 in due:
            kept.append(population.points.copy())
    return Result(np.concatenate(kept, axis=1), log_evidence, tuple(temperatures), float(np.mean(accepted)))


def _rise(log_likelihood: Array, temperature: float, size: float) -> float:
    """The largest rise from a temperature that leaves an effective size of at least `size`, by bisection."""
    relative = log_likelihood - log_likelihood.max()

    def effective_size(rise: float) -> float:
        weights = np.exp(rise * relative)
        return float(weights.sum() ** 2 / (weights**2).sum())

    low, high = max(_SMALLEST_RISE, _SMALLEST_GROWTH * temperature), 1.0 - temperature
    if low >= high or effective_size(high) >= size:
        return high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if effective_size(middle) < size else (middle, high)
    return low


def _resample(weights: Array, count: int, rng: np.random.Generator) -> Index:
    """Systematic resampling, shuffled so that copies of a particle are not neighbours."""
    ladder = np.cumsum(weights)
    positions = (rng.random() + np.arange(count)) / count * ladder[-1]
    return rng.permutation(np.minimum(np.searchsorted(ladder, positions), len(weights) - 1))


def _population(target: Target, points: Array, log_likelihood: Array, temperature: float) -> Population:
    coordinates = target.coordinates(points, temperature)
    # Rounding may put a particle at the border just outside; it then takes the first proposal that is inside.
    log_prior = np.maximum(target.evaluate(coordinates, temperature).log_prior, _OUTSIDE)
    return Population(coordinates, points, log_prior, log_likelihood)


def _move_all(target: Target, population: Population, temperature: float, turn: int, rng: np.random.Generator) -> float:
    """One Metropolis step of every particle; returns the share accepted.

    One half moves while the other, which proposals may look at, stands still: that keeps the step reversible.
    """
    move = target.moves[turn % len(target.moves)]
    count = population.points.shape[1]
    order = rng.permutation(count)
    half = count // 2
    accepted = 0
    for movers, others in ((order[:half], order[half:]), (order[half:], order[:half])):
        proposals, log_ratio = move.propose(population.coordinates, movers, others, rng)
        accepted += _metropolis(target, population, temperature, movers, proposals, log_ratio, rng)
    target.redraw(population, rng)
    return float(accepted / count)


def _metropolis(
    target: Target,
    population: Population,
    temperature: float,
    movers: Index,
    proposals: Array,
    log_ratio: Array,
    rng: np.random.Generator,
) -> int:
    """Accept or reject a proposal for each mover; returns how many were accepted."""
    new = target.evaluate(proposals, temperature)
    log_ratio = log_ratio + new.log_prior - population.log_prior[movers]
    log_ratio += temperature * (new.log_likelihood - population.log_likelihood[movers])
    accepted = np.flatnonzero(np.log(rng.random(len(movers))) < log_ratio)
    accepted = accepted[target.allowed(new.points[:, accepted])]
    columns = movers[accepted]
    population.coordinates[:, columns] = proposals[:, accepted]
    population.points[:, columns] = new.points[:, accepted]
    population.log_prior[columns] = new.log_prior[accepted]
    population.log_likelihood[columns] = new.log_likelihood[accepted]
    return len(accepted)


def _some(size: int, count: int, rng: np.random.Generator) -> Mask:
    """A random choice, never empty, of coordinates [coordinate, mover] to change."""
    chosen = rng.random((size, count)) < rng.choice(_SHARES, size=count)
    chosen[rng.integers(size, size=count), np.arange(count)] = True
    return chosen


class Difference(Move):
    """Differential evolution: a scaled difference of two other particles, on some coordinates of a block."""

    def propose(self, coordinates: Array, movers: Index, others: Index, rng: np.random.Generator) -> Proposals:
        count = len(movers)
        first = rng.integers(len(others), size=count)
        second = (first + rng.integers(1, len(others), size=count)) % len(others)
        own = coordinates[self.block]
        changed = _some(len(self.block), count, rng)
        # 2.38 / sqrt(2 d) is the best length of a step for a Gaussian; lengths vary so that no one scale is missed.
        length = 2.38 / np.sqrt(2.0 * changed.sum(axis=0)) * np.exp(_SPREAD * rng.standard_normal(count))
        length = np.where(rng.random(count) < _WHOLE_DIFFERENCES, 1.0, length)
        proposals = coordinates[:, movers]
        proposals[self.block] += changed * length * (own[:, others[first]] - own[:, others[second]])
        return proposals, np.zeros(count)


class Autoregression(Move):
    """For coordinates close to standard normal: x' = memory x + noise, which leaves the standard normal as it is."""

    def propose(self, coordinates: Array, movers: Index, others: Index, rng: np.random.Generator) -> Proposals:
        count = len(movers)
        proposals = coordinates[:, movers]
        old = proposals[self.block]
        memory = rng.choice(_MEMORIES, size=count)
        new = memory * old + np.sqrt(1.0 - memory**2) * rng.standard_normal(old.shape)
        new = np.where(_some(len(self.block), count, rng), new, old)
        proposals[self.block] = new
        return proposals, 0.5 * (new**2 - old**2).sum(axis=0)
