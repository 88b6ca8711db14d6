"""The paper's baseline: an ensemble of Markov chains (emcee) on the parameters of a prior.

`mcmc-pp` samples the prior of LC-PFN, `mcmc-op` the original one of Domhan et al. 2015. A forecast is the mixture of
N(f_i(t), sigma_i^2) over the chain. Chains this short have rarely converged (the paper says so too); each one is
measured against its own autocorrelation time, and a `ShortChainWarning` tells when to distrust it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epochcast.distributions import Array
from epochcast.errors import ConfigError, InputError, MissingExtraError
from epochcast.prior.families import Family, Uniform
from epochcast.sampling.engine import SamplingEngine
from epochcast.sampling.posterior import DomhanPosterior, Observed, PaperPosterior, Posterior, check_whole

LogDensity = Callable[[Array], Array]  # [walker, parameter] -> [walker]
Start = Literal["lse", "map", "default"]
PriorName = Literal["pp", "op"]

POSTERIORS: dict[str, type[PaperPosterior] | type[DomhanPosterior]] = {"pp": PaperPosterior, "op": DomhanPosterior}
_STARTS = ("lse", "map", "default")
_BALL = 1e-3  # radius of the first ensemble, in units of each parameter's scale
_SMALLEST_BALL = 1e-9
_LENGTH_IN_TIMES = 50  # a chain shorter than this many autocorrelation times is not to be trusted
_LONGEST_TRACE = 10_000  # steps kept to estimate the autocorrelation time


class ShortChainWarning(UserWarning):
    """A chain is shorter than 50 of its autocorrelation times: its forecast depends on where it started."""


@dataclass(frozen=True)
class McmcConfig:
    """How long to sample and from where; the defaults are the paper's M1."""

    nsamples: int = 2000  # steps of every walker after the burn-in
    nwalkers: int = 100
    burn_in: int = 500
    thin: int = 1  # keep every so many steps
    start: Start = "lse"
    seed: int = 0
    components: int = 2000  # draws kept for a forecast, spread evenly over the chain

    def __post_init__(self) -> None:
        smallest = {"nsamples": 1, "nwalkers": 2, "burn_in": 0, "thin": 1, "seed": 0, "components": 1}
        check_whole(self, smallest, "a chain")
        if self.thin > self.nsamples:
            raise ConfigError(f"thin={self.thin} leaves nothing of nsamples={self.nsamples}")
        if self.start not in _STARTS:
            raise ConfigError(f"start={self.start!r} is unknown; choose one of {', '.join(_STARTS)}")


M1 = McmcConfig()
M2 = McmcConfig(nsamples=4000, burn_in=100, thin=100)
M3 = McmcConfig(nsamples=4000)


@dataclass(frozen=True)
class ChainDiagnostics:
    """How well a chain explored its posterior."""

    steps: int  # after the burn-in
    autocorrelation_time: float  # of the slowest parameter, in steps; infinite for one that never moved
    acceptance: float  # share of proposals accepted

    @property
    def converged(self) -> bool:
        """Whether the chain is long enough for its autocorrelation time to mean something."""
        return self.steps >= _LENGTH_IN_TIMES * self.autocorrelation_time


@dataclass(frozen=True)
class Chain:
    """Draws of an ensemble after burn-in and thinning."""

    positions: Array  # [step, walker, parameter]
    diagnostics: ChainDiagnostics

    def draws(self, count: int) -> Array:
        """At most `count` positions [draw, parameter], spread evenly over steps and walkers."""
        steps, walkers, size = self.positions.shape
        if steps * walkers <= count:
            return self.positions.reshape(-1, size)
        # The walker advances with every draw: a plain stride through the chain could meet the same few walkers only.
        index = np.arange(count)
        return np.asarray(self.positions[index * steps // count, index % walkers])


class McmcEngine(SamplingEngine[ChainDiagnostics]):
    """Forecasts by MCMC."""

    def __init__(self, prior: PriorName = "pp", config: McmcConfig = M1) -> None:
        if prior not in POSTERIORS:
            raise ConfigError(f"prior={prior!r} is unknown; choose 'pp' (the paper's) or 'op' (the original one)")
        size = len(POSTERIORS[prior].default)
        if config.nwalkers < 2 * size:
            raise ConfigError(f"nwalkers={config.nwalkers} is too few for {size} parameters; use at least {2 * size}")
        _emcee()  # a missing extra is told now, not in the middle of an experiment
        self.name = f"mcmc-{prior}"
        self.config = config
        self._posterior = POSTERIORS[prior]

    def _draws(self, observed: Observed, queries: Array, horizon: float) -> tuple[Array, Array, ChainDiagnostics]:
        posterior = self._posterior(observed, horizon)
        chain = self.sample(posterior)
        draws = chain.draws(self.config.components)
        return posterior.curves(draws, queries).T, draws[:, -1], chain.diagnostics

    def _doubts(self, doubtful: list[ChainDiagnostics]) -> tuple[str, type[Warning]]:
        slowest = max(chain.autocorrelation_time for chain in doubtful)
        sentence = (
            f"{len(doubtful)} of {len(self.diagnostics)} chains of {doubtful[0].steps} steps are shorter than "
            f"{_LENGTH_IN_TIMES} autocorrelation times (up to {slowest:.0f} steps); raise nsamples, or use the engine "
            "'exact'"
        )
        return sentence, ShortChainWarning

    def sample(self, posterior: Posterior) -> Chain:
        """The chain of one curve."""
        rng = posterior.observed.generator(self.config.seed)
        start = starting_point(posterior, self.config.start)
        ensemble = scatter(posterior.log_density, start, posterior.scales, self.config.nwalkers, rng)
        return run_ensemble(posterior.log_density, ensemble, self.config, rng)


def _emcee() -> Any:
    try:
        import emcee
    except ImportError:
        raise MissingExtraError("emcee", "mcmc") from None
    return emcee


def run_ensemble(log_density: LogDensity, ensemble: Array, config: McmcConfig, rng: np.random.Generator) -> Chain:
    """Move an ensemble [walker, parameter] with emcee's stretch move and keep what `config` asks for."""
    walkers, size = ensemble.shape
    sampler = _emcee().EnsembleSampler(walkers, size, log_density, vectorize=True)
    # emcee draws from a legacy generator of its own; a state of our making keeps runs repeatable.
    sampler.random_state = np.random.MT19937(rng.integers(2**32)).state
    kept = np.empty((config.nsamples // config.thin, walkers, size))
    stride = math.ceil(config.nsamples / _LONGEST_TRACE)
    trace = np.empty((config.nsamples // stride, walkers, size), dtype=np.float32)
    total, accepted, previous = config.burn_in + config.nsamples, 0, ensemble
    states = sampler.sample(ensemble, iterations=total, store=False, skip_initial_state_check=True)
    for done, state in enumerate(states, start=1):
        step = done - config.burn_in
        if step > 0:
            accepted += int((state.coords != previous).any(axis=1).sum())
            if step % config.thin == 0:
                kept[step // config.thin - 1] = state.coords
            if step % stride == 0:
                trace[step // stride - 1] = state.coords
        previous = state.coords.copy()  # emcee moves its walkers in place
    time = stride * autocorrelation_time(trace)
    return Chain(kept, ChainDiagnostics(config.nsamples, time, accepted / (config.nsamples * walkers)))


def autocorrelation_time(trace: NDArray[np.floating[Any]]) -> float:
    """Integrated autocorrelation time of the slowest parameter of an ensemble [step, walker, parameter], in steps.

    Sokal's window (five times the estimate). Deviations are taken from the mean of all walkers, not from each one's
    own: walkers that sit in different places and stay there are slow, not settled.
    """
    return max(_slowness(trace[:, :, i].astype(np.float64)) for i in range(trace.shape[2]))


def _slowness(walks: Array) -> float:
    steps = len(walks)
    deviations = walks - walks.mean()
    padded = 2 ** math.ceil(math.log2(2 * steps))
    spectrum = np.abs(np.fft.rfft(deviations, n=padded, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum.mean(axis=1), n=padded)[:steps]
    # Rounding leaves a walk that never moved with a variance just above zero.
    if not covariance[0] > 1e-12 * steps * max(1e-12, float((walks**2).mean())) or (walks == walks[0]).all():
        return math.inf
    times = 2.0 * np.cumsum(covariance / covariance[0]) - 1.0
    outside = np.arange(steps) >= 5.0 * times
    window = int(np.argmax(outside)) if outside.any() else steps - 1
    return float(max(times[window], 1.0))


def scatter(log_density: LogDensity, start: Array, scales: Array, walkers: int, rng: np.random.Generator) -> Array:
    """An ensemble [walker, parameter] in a small ball around a point, all of it inside the support."""
    radius = _BALL
    ensemble = np.tile(start, (walkers, 1))
    outside = np.arange(walkers)
    while len(outside) and radius >= _SMALLEST_BALL:
        ensemble[outside] = start + radius * scales * rng.standard_normal((len(outside), len(start)))
        outside = outside[~np.isfinite(log_density(ensemble[outside]))]
        radius *= 0.7
    if len(outside):
        raise InputError(
            f"no chain can start: {len(outside)} of {walkers} walkers found no point that the prior allows; "
            "check that the curve is normalised to about [0, 1] and that the horizon is right"
        )
    return ensemble


def starting_point(posterior: Posterior, start: Start) -> Array:
    """Where a chain begins; what the prior forbids is replaced by its default point, as in the paper."""
    if start == "default":
        return posterior.default
    point = _least_squares(posterior)
    if not np.isfinite(posterior.log_density(point[None])[0]):
        point = posterior.default
    return _maximum(posterior, point) if start == "map" else point


def _least_squares(posterior: Posterior) -> Array:
    """Each basis curve fitted to the values on its own, all with the same weight."""
    observed = posterior.observed
    if len(observed) == 0:
        return posterior.default
    point = posterior.default.copy()
    column = len(posterior.families)
    for family in posterior.families:
        own = slice(column, column + len(family.laws))
        point[own] = _fit(family, point[own], observed)
        column = own.stop
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        residuals = posterior.curves(point[None], observed.steps)[0] - observed.values
    if np.isfinite(residuals).all():
        point[-1] = math.log(max(float(np.sqrt((residuals**2).mean())), 1e-3))
    return point


def _fit(family: Family, start: Array, observed: Observed) -> Array:
    """Parameters of one basis curve by nonlinear least squares inside the bounds of its laws."""
    from scipy.optimize import least_squares

    low = np.array([law.low if isinstance(law, Uniform) else -20.0 for law in family.laws.values()])
    high = np.array([law.high if isinstance(law, Uniform) else 20.0 for law in family.laws.values()])
    margin = 1e-6 * (high - low)
    log_steps = np.log(observed.steps)

    def residuals(parameters: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            values = family.formula(log_steps, *parameters) - observed.values
        return np.clip(np.nan_to_num(values, nan=1e3, posinf=1e3, neginf=-1e3), -1e3, 1e3)

    fit = least_squares(residuals, np.clip(start, low + margin, high - margin), bounds=(low, high), max_nfev=200)
    return np.clip(np.asarray(fit.x, dtype=np.float64), low + margin, high - margin)


def _maximum(posterior: Posterior, point: Array) -> Array:
    """The mode of the posterior near a point, by a simplex search that never leaves the support."""
    from scipy.optimize import minimize

    def loss(offset: Array) -> float:
        density = float(posterior.log_density((point + posterior.scales * offset)[None])[0])
        return -density if math.isfinite(density) else 1e300

    size = len(point)
    simplex = np.concatenate([np.zeros((1, size)), 0.05 * np.eye(size)])
    options = {"maxfev": 5000, "initial_simplex": simplex, "adaptive": True, "fatol": 1e-3, "xatol": 1e-4}
    found = minimize(loss, np.zeros(size), method="Nelder-Mead", options=options)
    return np.asarray(point + posterior.scales * found.x, dtype=np.float64)
