"""The reference: the posterior under the prior of LC-PFN, sampled until two independent runs tell the same story.

Tempered sequential Monte Carlo (`smc`) in coordinates made for this posterior (`collapsed`). Both runs' particles make
the forecast; their disagreement is its error bar. Where it is too large there is a second attempt with more particles,
and if that does not help an `UnsettledWarning`.

Why not a library: pocoMC 1.2 (GPL, torch) had not finished one curve in 40 s of CPU, where this takes 2 s for both
runs; dynesty 3.1 asks for one likelihood at a time, 5,000 a second against 250,000 in batches; particles 0.4 wants
numpy < 2; blackjax wants jax. And none knows the coordinates, which are worth more here than the sampler.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from epochcast.distributions import Array
from epochcast.errors import ConfigError
from epochcast.sampling import collapsed, smc
from epochcast.sampling.collapsed import LOG_SIGMA, CollapsedPosterior, CollapsedPrior
from epochcast.sampling.engine import SamplingEngine
from epochcast.sampling.posterior import Observed, check_whole

_RUNS = 2
_PRIOR_SHARE = 4  # draws from the prior per particle: many, because they cost little and are shared by all curves
_CHECKED_STEPS = 8  # at which two runs are compared
_CHECKED_PATHS = 100  # imagined futures on which two runs are compared


class UnsettledWarning(UserWarning):
    """Two runs of the sampler disagree on a forecast by more than the tolerance."""


@dataclass(frozen=True)
class ExactConfig:
    """How much work to spend on a curve, and how much two runs may differ."""

    particles: int = 2000  # of each run, at the first attempt
    moves: int = 8  # per temperature
    final_moves: int = 80  # at the last temperature
    snapshots: int = 4  # of the population during the final moves
    tolerance: float = 0.05  # nats, see `ExactDiagnostics.disagreement`
    attempts: int = 2  # each with four times the particles of the one before, until two runs agree
    components: int = 8000  # draws kept for a forecast, from both runs together
    seed: int = 0

    def __post_init__(self) -> None:
        counts = ("moves", "final_moves", "snapshots", "attempts")
        smallest = {"particles": 100, **dict.fromkeys(counts, 1), "components": 2, "seed": 0}
        check_whole(self, smallest, "the exact engine")
        if not (math.isfinite(self.tolerance) and self.tolerance > 0.0):
            raise ConfigError(f"tolerance={self.tolerance!r} must be a positive number of nats")


@dataclass(frozen=True)
class ExactDiagnostics:
    """Whether two independent runs on one curve agree.

    `disagreement` is the expected difference, in size, of the mean log-likelihood that the two runs give to the rest of
    the curve, over futures drawn from the posterior: the two-run error of the very figure that experiments report.
    """

    disagreement: float  # nats
    tolerance: float  # nats
    particles: int  # of each run, at the last attempt
    log_evidence: tuple[float, ...]  # of each run
    temperatures: int  # of the longer run
    acceptance: float  # of the final moves, mean of the runs

    @property
    def converged(self) -> bool:
        return self.disagreement <= self.tolerance


class ExactEngine(SamplingEngine[ExactDiagnostics]):
    """Forecasts from the exact posterior."""

    name = "exact"

    def __init__(self, config: ExactConfig | None = None) -> None:
        self.config = config or ExactConfig()
        self._priors: dict[float, tuple[CollapsedPrior, Array]] = {}

    def _draws(self, observed: Observed, queries: Array, horizon: float) -> tuple[Array, Array, ExactDiagnostics]:
        points, record = self.sample(observed, horizon)
        return collapsed.curves(points, queries), points[LOG_SIGMA], record

    def _doubts(self, doubtful: list[ExactDiagnostics]) -> tuple[str, type[Warning]]:
        worst = max(record.disagreement for record in doubtful)
        sentence = (
            f"two runs disagree on {len(doubtful)} of {len(self.diagnostics)} curves by more than "
            f"{doubtful[0].tolerance:g} nats (up to {worst:.3f}); raise particles, final_moves or attempts"
        )
        return sentence, UnsettledWarning

    def sample(self, observed: Observed, horizon: float) -> tuple[Array, ExactDiagnostics]:
        """Points [parameter, draw] of one curve's posterior, from both runs, and their diagnostics."""
        config = self.config
        prior, pool = self._prior(horizon)
        target = CollapsedPosterior(observed, prior, pool)
        rng = observed.generator(config.seed)
        last = float(observed.steps[-1]) if len(observed) else 0.0
        for attempt in range(config.attempts):
            particles = config.particles * 4**attempt
            # Each run starts from draws of its own: independent runs must not share them.
            starts = np.split(rng.permutation(pool.shape[1]), _RUNS)
            effort = particles, config.moves, config.final_moves
            runs = [smc.sample(target, pool[:, start], *effort, rng, config.snapshots) for start in starts]
            record = ExactDiagnostics(
                disagreement=disagreement(runs[0].points, runs[1].points, last, horizon, rng),
                tolerance=config.tolerance,
                particles=particles,
                log_evidence=tuple(run.log_evidence for run in runs),
                temperatures=max(len(run.temperatures) for run in runs),
                acceptance=float(np.mean([run.acceptance for run in runs])),
            )
            if record.converged:
                break
        share = min(config.components // _RUNS, runs[0].points.shape[1])
        points = [run.points[:, rng.permutation(run.points.shape[1])[:share]] for run in runs]
        return np.concatenate(points, axis=1), record

    def _prior(self, horizon: float) -> tuple[CollapsedPrior, Array]:
        """The prior up to a horizon and draws from it, made once and used for all curves."""
        if horizon not in self._priors:
            prior = CollapsedPrior(horizon)
            size = _RUNS * _PRIOR_SHARE * self.config.particles
            self._priors[horizon] = prior, prior.draw(size, np.random.default_rng(self.config.seed))
        return self._priors[horizon]


def disagreement(first: Array, second: Array, last: float, horizon: float, rng: np.random.Generator) -> float:
    """Expected difference of the mean log-likelihood of a future under two sets of points [parameter, draw]."""
    steps = np.linspace(last, horizon, _CHECKED_STEPS + 1)[1:]
    both = np.concatenate([first, second], axis=1)
    futures = both[:, rng.integers(both.shape[1], size=_CHECKED_PATHS)]
    paths = collapsed.curves(futures, steps)  # [step, future]
    paths += np.exp(futures[LOG_SIGMA]) * rng.standard_normal(paths.shape)
    difference = _mean_log_likelihood(first, steps, paths) - _mean_log_likelihood(second, steps, paths)
    return float(np.abs(difference).mean())


def _mean_log_likelihood(points: Array, steps: Array, paths: Array) -> Array:
    """Mean over steps of the log predictive density, [future], of paths [step, future]; constants left out."""
    means = collapsed.curves(points, steps)
    log_sigma = points[LOG_SIGMA]
    precision = np.exp(-log_sigma)
    total = np.zeros(paths.shape[1])
    for values, mean in zip(paths, means, strict=True):  # one step at a time: bounds the memory
        terms = -0.5 * ((values[:, None] - mean) * precision) ** 2 - log_sigma
        total += logsumexp(terms, axis=1)
    return total / len(steps)
