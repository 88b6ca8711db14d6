"""The paper's posterior in ten coordinates that a sampler finds easy, in place of its thirteen parameters.

Two things make the thirteen hard. Only products of weights and levels reach the curve,

    f(t) = C + P t^-alpha + J exp(-kappa t^delta) + I / log(t + 1),

so the three weights are redundant: they are integrated out here in closed form. What is left besides the curve is how
its level C is shared among the three basis curves, which the likelihood does not see. And the data tie the coefficients
to the shapes (alpha, kappa, delta), ever more tightly as the noise falls. Given shapes and sigma the likelihood is
Gaussian in the coefficients, so they are measured from their own regularised least-squares fit in units of its
covariance: a move in the shapes then carries the coefficients along.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epochcast.prior import paper
from epochcast.prior.families import Array, Normal, Uniform
from epochcast.sampling.posterior import SMALLEST_LOG_SIGMA, Observed, constraint_grid
from epochcast.sampling.smc import Autoregression, Difference, Evaluation, Move, Population

# Rows of points, [parameter, particle]
LOG_SIGMA = 3  # after the shapes: log alpha, log kappa, log delta
_LEVEL, _POW3, _JANOSCHEK, _ILOG2 = range(4, 8)  # C, P, J, I
_COEFFICIENTS = slice(4, 8)
_POW3_LEVEL, _JANOSCHEK_LEVEL = 8, 9  # parts of C; the rest is the level of ilog2
_SHARES = slice(8, 10)

_LARGEST_LOGARITHM = 40.0  # products of such numbers still fit single precision
_COARSE_STEPS = 6  # steps that reject most forbidden curves before the whole grid is computed
_LARGEST_BATCH = 20_000  # candidates per round of drawing from the prior


def _bounds(name: str) -> tuple[float, float]:
    law = paper.LAWS[name]
    assert isinstance(law, Uniform)
    return law.low, law.high


def _moments(name: str) -> tuple[float, float]:
    law = paper.LAWS[name]
    assert isinstance(law, Normal)
    return law.mean, law.sd


class CollapsedPrior:
    """The prior of LC-PFN over shapes, log sigma, coefficients and shares of the level."""

    def __init__(self, horizon: float) -> None:
        self._grid = constraint_grid(horizon)
        few = np.unique(np.geomspace(1, len(self._grid), _COARSE_STEPS).round().astype(int)) - 1
        self._coarse = self._grid[few]
        normal = ("pow3.log_alpha", "janoschek.log_kappa", "janoschek.log_delta", "log_sigma")
        self._mean, self._sd = np.array([_moments(name) for name in normal]).T[:, :, None]
        self._largest_pow3 = _bounds("pow3.c")[1], _bounds("pow3.a")[1]
        self._largest_janoschek = _bounds("janoschek.alpha")[1], _bounds("janoschek.beta")[1]
        self._largest_ilog2 = _bounds("ilog2.c")[1], _bounds("ilog2.a")[1]

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Points [parameter, draw] from the prior."""
        found: list[Array] = []
        while (missing := size - sum(points.shape[1] for points in found)) > 0:
            count = min(int(missing / paper.ACCEPTANCE * 1.05) + 16, _LARGEST_BATCH)
            points = collapse(paper.draw_parameters(count, rng).T)
            found.append(points[:, self.allowed(points)])
        return np.concatenate(found, axis=1)[:, :size]

    def log_density(self, points: Array) -> Array:
        """Log density [particle] up to a constant; the constraints on the curve are left to `allowed`."""
        pow3_level, janoschek_level = points[_POW3_LEVEL], points[_JANOSCHEK_LEVEL]
        ilog2_level = points[_LEVEL] - pow3_level - janoschek_level
        janoschek_start = janoschek_level + points[_JANOSCHEK]
        inside = (pow3_level > 0.0) & (janoschek_level > 0.0) & (ilog2_level > 0.0) & (janoschek_start > 0.0)
        inside &= points[LOG_SIGMA] > SMALLEST_LOG_SIGMA
        # With a weight w ~ U(0, 1) and u, v uniform, (w u, w v) has the density 1 / w' - 1 up to a constant, where w'
        # is the smallest weight that can make the pair.
        weight_terms = (
            _smallest_weight(pow3_level, np.abs(points[_POW3]), self._largest_pow3),
            _smallest_weight(janoschek_level, janoschek_start, self._largest_janoschek),
            _smallest_weight(ilog2_level, np.abs(points[_ILOG2]), self._largest_ilog2),
        )
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            total = sum((np.log(1.0 / weight - 1.0) for weight in weight_terms), start=np.zeros(()))
            total = total - 0.5 * (((points[:4] - self._mean) / self._sd) ** 2).sum(axis=0)
        return np.where(inside & np.isfinite(total), total, -np.inf)

    def draw_level(self, points: Array, row: int, rng: np.random.Generator) -> Array:
        """One part of the level, drawn uniformly from what the other parts leave of it, [particle]."""
        if row == _POW3_LEVEL:
            low, other, largest = np.zeros(()), _JANOSCHEK_LEVEL, self._largest_pow3[0]
        else:
            low, other, largest = np.maximum(0.0, -points[_JANOSCHEK]), _POW3_LEVEL, self._largest_janoschek[0]
        high = np.minimum(largest, points[_LEVEL] - points[other])
        return np.asarray(low + (high - low) * rng.random(points.shape[1]))

    def allowed(self, points: Array) -> NDArray[np.bool_]:
        """Whether each curve ends above its start and stays in [0, 1]."""
        coarse = curves(points, self._coarse)
        good = _inside(coarse) & (coarse[0] < coarse[-1])
        rows = np.flatnonzero(good)
        good[rows] = _inside(curves(points[:, rows], self._grid))
        return np.asarray(good)


def _smallest_weight(first: Array, second: Array, largest: tuple[float, float]) -> Array:
    return np.maximum(first / largest[0], second / largest[1])


def _inside(values: Array) -> NDArray[np.bool_]:
    return np.asarray((values.min(axis=0) >= 0.0) & (values.max(axis=0) <= 1.0))


def collapse(parameters: Array) -> Array:
    """Points [parameter, particle] of the prior's own parameter vectors [particle, parameter]."""
    own = dict(zip(paper.NAMES, parameters.T, strict=True))
    pow3, janoschek, ilog2 = (own[f"weight.{name}"] for name in ("pow3", "janoschek", "ilog2"))
    levels = pow3 * own["pow3.c"], janoschek * own["janoschek.alpha"], ilog2 * own["ilog2.c"]
    return np.stack(
        [
            own["pow3.log_alpha"],
            own["janoschek.log_kappa"],
            own["janoschek.log_delta"],
            own["log_sigma"],
            levels[0] + levels[1] + levels[2],
            -pow3 * own["pow3.a"],
            janoschek * (own["janoschek.beta"] - own["janoschek.alpha"]),
            -ilog2 * own["ilog2.a"],
            levels[0],
            levels[1],
        ]
    )


def _bases(points: Array, log_steps: Array) -> tuple[Array, Array]:
    """t^-alpha and exp(-kappa t^delta), [step, particle].

    Exponentials are most of a sampler's work and five times faster in single precision, which moves a curve by about
    1e-7: little even beside the smallest sigma that the prior allows.
    """
    log_steps = log_steps.astype(np.float32)
    alpha, kappa, delta = np.exp(np.minimum(points[:3], _LARGEST_LOGARITHM)).astype(np.float32)
    pow3 = np.exp(-alpha * log_steps)
    power = np.exp(np.minimum(delta * log_steps, np.float32(_LARGEST_LOGARITHM)))
    return pow3.astype(np.float64), np.exp(-kappa * power).astype(np.float64)


def curves(points: Array, steps: Array) -> Array:
    """Noiseless curves [step, particle]."""
    pow3, janoschek = _bases(points, np.log(steps)[:, None])
    ilog2 = 1.0 / np.log1p(steps)[:, None]
    return np.asarray(points[_LEVEL] + points[_POW3] * pow3 + points[_JANOSCHEK] * janoschek + points[_ILOG2] * ilog2)


class CollapsedPosterior:
    """The posterior of one observed curve as a target of `smc.sample`.

    Coordinates: shapes and log sigma as they are; the four coefficients standardised; the shares of the level that
    belong to pow3 and janoschek.
    """

    moves: Sequence[Move] = (
        Difference(np.arange(4)),  # shapes and log sigma, with the coefficients carried along
        Autoregression(np.arange(4, 8)),  # coefficients
        Difference(np.arange(8)),
        Autoregression(np.arange(4, 8)),
    )

    def __init__(self, observed: Observed, prior: CollapsedPrior, prior_points: Array) -> None:
        self._prior = prior
        self._values = observed.values[:, None]
        self._log_steps = np.log(observed.steps)[:, None]
        self._ilog2 = 1.0 / np.log1p(observed.steps)[:, None]
        self._constant = -0.5 * len(observed) * math.log(2.0 * math.pi)
        # A Gaussian with the prior's moments keeps the fit of the coefficients defined where data are few.
        coefficients = prior_points[_COEFFICIENTS]
        self._precision = np.linalg.inv(np.cov(coefficients))
        self._shift = self._precision @ coefficients.mean(axis=1)

    def log_likelihood(self, points: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # t^-alpha below step 1 has no bound
            total = self._log_likelihood(points, *_bases(points, self._log_steps))
        return np.where(np.isnan(total), -np.inf, total)

    def _log_likelihood(self, points: Array, pow3: Array, janoschek: Array) -> Array:
        residuals = points[_POW3] * pow3
        residuals += points[_JANOSCHEK] * janoschek
        residuals += points[_ILOG2] * self._ilog2
        residuals += points[_LEVEL] - self._values
        squares = np.einsum("ij,ij->j", residuals, residuals)
        log_sigma = points[LOG_SIGMA]
        return np.asarray(self._constant - len(residuals) * log_sigma - 0.5 * squares * np.exp(-2.0 * log_sigma))

    def coordinates(self, points: Array, temperature: float) -> Array:
        root, centre = self._fit(points, temperature, *_bases(points, self._log_steps))
        deviation = points[_COEFFICIENTS] - centre
        standardised = [(root[i:, i] * deviation[i:]).sum(axis=0) for i in range(4)]
        return np.concatenate([points[:4], standardised, points[_SHARES] / points[_LEVEL]])

    def evaluate(self, coordinates: Array, temperature: float) -> Evaluation:
        # Proposals may lie anywhere: what overflows there has no prior density either.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            shapes = coordinates[:4].copy()
            shapes[LOG_SIGMA] = np.maximum(shapes[LOG_SIGMA], SMALLEST_LOG_SIGMA)
            bases = _bases(shapes, self._log_steps)
            root, centre = self._fit(shapes, temperature, *bases)
            coefficients = centre + _solve_transposed(root, coordinates[_COEFFICIENTS])
            points = np.concatenate([shapes, coefficients, coordinates[_SHARES] * coefficients[0]])
            volume = 2.0 * np.log(coefficients[0]) - sum(np.log(root[i, i]) for i in range(4))
            log_prior = self._prior.log_density(points) + volume
            log_likelihood = self._log_likelihood(points, *bases)
        known = np.isfinite(log_prior) & np.isfinite(log_likelihood) & (coordinates[LOG_SIGMA] > SMALLEST_LOG_SIGMA)
        return Evaluation(points, np.where(known, log_prior, -np.inf), np.where(known, log_likelihood, 0.0))

    def allowed(self, points: Array) -> NDArray[np.bool_]:
        return self._prior.allowed(points)

    def redraw(self, population: Population, rng: np.random.Generator) -> None:
        """Share the level anew: the curve, and so the likelihood, stays as it is."""
        for row in (_POW3_LEVEL, _JANOSCHEK_LEVEL):
            points = population.points.copy()
            points[row] = self._prior.draw_level(points, row, rng)
            with np.errstate(invalid="ignore"):  # inf - inf for a particle just outside: no change
                change = self._prior.log_density(points) - self._prior.log_density(population.points)
            accepted = np.flatnonzero(np.log(rng.random(len(change))) < change)
            population.points[row, accepted] = points[row, accepted]
            population.coordinates[row, accepted] = points[row, accepted] / points[_LEVEL, accepted]
            population.log_prior[accepted] += change[accepted]

    def _fit(self, points: Array, temperature: float, pow3: Array, janoschek: Array) -> tuple[Array, Array]:
        """The Gaussian of the coefficients given the rest: root of its precision [4, 4, particle], mean."""
        ilog2, values = self._ilog2, self._values
        columns = (np.ones_like(ilog2), pow3, janoschek, ilog2)
        scale = temperature * np.exp(-2.0 * points[LOG_SIGMA])
        precision = np.empty((4, 4, points.shape[1]))
        projection = np.empty((4, points.shape[1]))
        for i, column in enumerate(columns):
            projection[i] = np.einsum("ij,ij->j", column, np.broadcast_to(values, column.shape))
            for j in range(i + 1):
                product = np.einsum("ij,ij->j", *np.broadcast_arrays(column, columns[j]))
                precision[i, j] = scale * product + self._precision[i, j]
        root = _cholesky(precision)
        centre = _solve_transposed(root, _solve(root, scale * projection + self._shift[:, None]))
        return root, centre


def _cholesky(matrices: Array) -> Array:
    """Lower roots of small matrices [row, column, particle], all particles at once; reads the lower half only."""
    root = np.zeros_like(matrices)
    for j in range(len(matrices)):
        root[j, j] = np.sqrt(matrices[j, j] - (root[j, :j] ** 2).sum(axis=0))
        for i in range(j + 1, len(matrices)):
            root[i, j] = (matrices[i, j] - (root[i, :j] * root[j, :j]).sum(axis=0)) / root[j, j]
    return root


def _solve(root: Array, vectors: Array) -> Array:
    """Solutions x of root x = vectors, [row, particle]."""
    x = np.empty_like(vectors)
    for i in range(len(vectors)):
        x[i] = (vectors[i] - (root[i, :i] * x[:i]).sum(axis=0)) / root[i, i]
    return x


def _solve_transposed(root: Array, vectors: Array) -> Array:
    """Solutions x of root' x = vectors, [row, particle]."""
    x = np.empty_like(vectors)
    for i in reversed(range(len(vectors))):
        x[i] = (vectors[i] - (root[i + 1 :, i] * x[i + 1 :]).sum(axis=0)) / root[i, i]
    return x
