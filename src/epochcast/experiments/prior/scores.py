"""Experiment 1: how close are the forecasts of prior curves to the truth, and are they calibrated?

The mean log-likelihood has a large error that comes from the noise level of the curves drawn. The oracle that knows
curve and noise has the same one, and its mean is known: subtracting its score of the same curve and adding that mean
leaves the difference between methods (a control variate).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Curves
from epochcast.distributions import Array, Distribution
from epochcast.errors import InputError
from epochcast.experiments.estimate import Estimate
from epochcast.prior import paper
from epochcast.question import Engine, Question

SHARES = (0.1, 0.2, 0.4, 0.8)
COVERAGES = (0.5, 0.8, 0.9, 0.95)
# What a calibrated model may show on 10,000 curves with one target each.
KS_TOLERANCE = 0.02
COVERAGE_TOLERANCE = dict(zip(COVERAGES, (0.015, 0.012, 0.010, 0.007), strict=True))
_CHUNK = 250
_BLOCK = 10_000  # curves drawn at once


@dataclass(frozen=True)
class Scores:
    """Scores of one engine at one cutoff, a value per curve."""

    cutoff: int
    log_likelihood: Array  # mean over the unseen steps
    oracle: Array  # the same with curve and noise known
    pit: Array  # cdf of one random unseen value
    sigma: Array

    @property
    def controlled(self) -> Array:
        """Log-likelihood with the oracle's control variate."""
        return np.asarray(self.log_likelihood - self.oracle + paper.ORACLE_LOG_LIKELIHOOD)


@dataclass(frozen=True)
class Calibration:
    """How far the PIT values of a model are from uniform."""

    ks: float  # Kolmogorov-Smirnov distance
    coverage: dict[float, float]  # central interval -> share of values inside

    @classmethod
    def of(cls, pit: Array) -> Calibration:
        ordered = np.sort(pit)
        upper = np.arange(1, len(pit) + 1) / len(pit)
        ks = max(float(np.max(upper - ordered)), float(np.max(ordered - upper + 1 / len(pit))))
        inside = {level: float(np.mean(np.abs(pit - 0.5) <= level / 2)) for level in COVERAGES}
        return cls(ks, inside)

    def passes(self, slack: float = 1.0) -> bool:
        """Whether distance and coverages stay within `slack` times the tolerances."""
        errors = (abs(found - level) <= slack * COVERAGE_TOLERANCE[level] for level, found in self.coverage.items())
        return self.ks <= slack * KS_TOLERANCE and all(errors)


def seen_part(values: Array, cutoff: int) -> Curves:
    """The first values of whole curves [curve, step]."""
    steps = np.broadcast_to(np.arange(1.0, cutoff + 1.0), (len(values), cutoff))
    return Curves(steps.copy(), values[:, :cutoff], np.full(len(values), cutoff, dtype=np.int64))


def predict(engine: Engine, values: Array, cutoff: int, queries: Array) -> Distribution:
    """The distribution at queried steps [curve, query], given the values of whole curves up to a cutoff."""
    return engine.predict(Question.of(seen_part(values, cutoff), queries, values.shape[1]))


def scores_of(distribution: Distribution, truth: Array, targets: NDArray[np.int64]) -> tuple[Array, Array]:
    """Mean log-likelihood [curve] of the values that came [curve, query], and the cdf of one of each curve's."""
    one = (np.arange(len(truth)), targets)
    return distribution.log_prob(truth).mean(axis=1), distribution[one].cdf(truth[one])


def cutoff_of(share: float, horizon: int) -> int:
    """How many values a share of the horizon is."""
    cutoff = math.ceil(share * horizon - 1e-9)
    if not 0 <= cutoff < horizon:
        raise InputError(f"cutoff {share} leaves nothing to forecast; it must be at least 0 and below 1")
    return cutoff


def score(
    engine: Engine,
    draw: paper.Draw,
    share: float,
    rng: np.random.Generator,
    advance: Callable[[int], None] | None = None,
) -> Scores:
    """Score an engine on all curves of a draw, seen up to a share of the horizon."""
    count, horizon = draw.noisy.shape
    cutoff = cutoff_of(share, horizon)
    oracle = paper.oracle_scores(draw)[:, cutoff:].mean(axis=1)
    ahead = np.arange(cutoff + 1.0, horizon + 1.0)
    target = rng.integers(len(ahead), size=(count,))
    log_likelihood, pit = np.empty(count), np.empty(count)
    for start in range(0, count, _CHUNK):
        part = slice(start, min(start + _CHUNK, count))
        truth = draw.noisy[part, cutoff:]
        distribution = predict(engine, draw.noisy[part], cutoff, np.broadcast_to(ahead, truth.shape))
        log_likelihood[part], pit[part] = scores_of(distribution, truth, target[part])
        if advance is not None:
            advance(len(truth))
    return Scores(cutoff, log_likelihood, oracle, pit, draw.sigma)


@dataclass(frozen=True)
class Row:
    """One line of the table: an engine at a cutoff."""

    model: str
    cutoff: int
    curves: int
    log_likelihood: Estimate
    controlled: Estimate
    pit_ks: float
    coverage50: float
    coverage80: float
    coverage90: float
    coverage95: float
    calibrated: bool


def row(model: str, scores: Scores) -> Row:
    calibration = Calibration.of(scores.pit)
    return Row(
        model=model,
        cutoff=scores.cutoff,
        curves=len(scores.pit),
        log_likelihood=Estimate.of(scores.log_likelihood),
        controlled=Estimate.of(scores.controlled),
        pit_ks=calibration.ks,
        **{f"coverage{100 * level:g}": share for level, share in calibration.coverage.items()},
        calibrated=calibration.passes(),
    )


def noise_thirds(sigma: Array) -> list[NDArray[np.bool_]]:
    """Masks of the curves with low, middle and high noise."""
    low, high = np.quantile(sigma, [1 / 3, 2 / 3])
    return [sigma <= low, (sigma > low) & (sigma <= high), sigma > high]


def draw_curves(count: int, seed: int = 0) -> paper.Draw:
    """The first curves of the endless row that a seed stands for: curve i is the same however many are asked for."""
    if count < 1:
        raise InputError(f"curves={count} cannot be drawn; ask for at least 1")
    blocks = [
        paper.sample(_BLOCK, np.random.default_rng([seed, 1, block])) for block in range(math.ceil(count / _BLOCK))
    ]
    parts = {
        field.name: np.concatenate([getattr(block, field.name) for block in blocks])[:count]
        for field in fields(paper.Draw)
    }
    return paper.Draw(**parts)


def evaluate(
    engine: Engine,
    curves: int,
    seed: int = 0,
    shares: Sequence[float] = SHARES,
    advance: Callable[[int], None] | None = None,
) -> list[Scores]:
    """Scores at each cutoff on fresh prior curves; the same seed gives every engine the same curves and targets."""
    if curves < 2:
        raise InputError(f"curves={curves} is too few to average; ask for at least 2")
    draw = draw_curves(curves, seed)
    return [score(engine, draw, share, np.random.default_rng([seed, 2]), advance) for share in shares]
