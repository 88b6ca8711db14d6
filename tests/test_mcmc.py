from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

from epochcast.curve import Curves
from epochcast.errors import ConfigError, InputError, MissingExtraError
from epochcast.prior import domhan, paper
from epochcast.question import Question
from epochcast.sampling.mcmc import (
    M1,
    M2,
    M3,
    Chain,
    ChainDiagnostics,
    McmcConfig,
    McmcEngine,
    ShortChainWarning,
    autocorrelation_time,
    run_ensemble,
    scatter,
    starting_point,
)
from epochcast.sampling.posterior import DomhanPosterior, Observed, PaperPosterior, constraint_grid, split
from tests import linear_gaussian

SHORT = McmcConfig(nsamples=30, nwalkers=100, burn_in=10, components=500)
QUERIES = np.array([[20.0, 60.0, 100.0]])


def predict(engine: McmcEngine, curves: Curves, queries: np.ndarray = QUERIES, horizon: float = 100.0):
    """A forecast from a chain too short to be trusted, which the engine is expected to say."""
    with pytest.warns(ShortChainWarning):
        return engine.predict(Question.of(curves, queries, horizon))


def prior_curve(seed: int = 0, cutoff: int = 10) -> Observed:
    noisy = paper.sample(1, np.random.default_rng(seed)).noisy[0]
    return Observed(np.arange(1.0, cutoff + 1.0), noisy[:cutoff])


# --- correctness on a posterior that is known


def errors_in_standard_errors(assumed_noise: float) -> np.ndarray:
    """How far each posterior moment of the chain lies from the truth, in Monte Carlo standard errors."""
    line = linear_gaussian.Line(assumed_noise)
    rng = np.random.default_rng(1)
    config = McmcConfig(nsamples=2500, nwalkers=20, burn_in=200)
    ensemble = scatter(line.log_density, np.zeros(2), linear_gaussian.PRIOR_SD, config.nwalkers, rng)
    chain = run_ensemble(line.log_density, ensemble, config, rng)
    assert chain.diagnostics.converged
    statistics = linear_gaussian.standardised_moments(chain.positions)  # [step, walker, moment]
    times = [autocorrelation_time(statistics[:, :, [i]]) for i in range(statistics.shape[2])]
    size = statistics.shape[0] * statistics.shape[1] / np.array(times)
    return np.abs(statistics.mean(axis=(0, 1))) / (statistics.std(axis=(0, 1)) / np.sqrt(size))


def test_chain_on_a_linear_gaussian_curve_has_every_moment_within_four_standard_errors() -> None:
    errors = errors_in_standard_errors(linear_gaussian.NOISE)
    assert (errors < 4).all(), dict(zip(linear_gaussian.MOMENTS, errors, strict=True))


def test_chain_with_the_wrong_noise_is_rejected_by_the_same_check() -> None:
    assert (errors_in_standard_errors(1.2 * linear_gaussian.NOISE) > 4).any()


@pytest.mark.parametrize("coefficient", [0.0, 0.8, 0.95])
def test_autocorrelation_time_of_an_autoregression_is_the_known_one(coefficient: float) -> None:
    rng = np.random.default_rng(2)
    walks = np.empty((4000, 50, 1))
    walks[0] = rng.standard_normal((50, 1)) / np.sqrt(1 - coefficient**2)
    for step in range(1, len(walks)):
        walks[step] = coefficient * walks[step - 1] + rng.standard_normal((50, 1))
    assert autocorrelation_time(walks) == pytest.approx((1 + coefficient) / (1 - coefficient), rel=0.1)


def test_autocorrelation_time_of_walkers_that_never_move_is_infinite() -> None:
    stuck = np.tile(np.linspace(0.1, 0.9, 20)[:, None], (300, 1, 1)).reshape(300, 20, 1)
    assert autocorrelation_time(stuck) == np.inf
    assert not ChainDiagnostics(300, np.inf, 0.0).converged


# --- the posterior densities


def test_paper_posterior_equals_prior_plus_likelihood_up_to_a_constant() -> None:
    observed = prior_curve()
    posterior = PaperPosterior(observed, 100.0)
    rng = np.random.default_rng(3)
    inside = paper.sample(50, rng).parameters
    points = np.concatenate([inside, inside + 0.5 * posterior.scales * rng.standard_normal(inside.shape)])
    residuals = paper.evaluate(points, observed.steps) - observed.values
    sigma = np.exp(points[:, -1:])
    expected = paper.log_density(points) + (-0.5 * (residuals / sigma) ** 2 - np.log(sigma)).sum(axis=1)
    computed = posterior.log_density(points)
    np.testing.assert_array_equal(np.isfinite(computed), np.isfinite(expected))
    finite = np.isfinite(expected)
    assert 50 <= finite.sum() < 100
    difference = computed[finite] - expected[finite]
    np.testing.assert_allclose(difference, difference[0], rtol=1e-9)


def test_domhan_posterior_equals_prior_plus_likelihood() -> None:
    observed = prior_curve()
    posterior = DomhanPosterior(observed, 100.0)
    rng = np.random.default_rng(4)
    points = posterior.default + 0.1 * posterior.scales * rng.standard_normal((50, len(posterior.default)))
    residuals = domhan.evaluate(points, observed.steps) - observed.values
    sigma = np.exp(points[:, -1:])
    expected = domhan.log_density(points) + (-0.5 * (residuals / sigma) ** 2 - np.log(sigma)).sum(axis=1)
    finite = np.isfinite(expected)
    assert 5 < finite.sum() < 50
    np.testing.assert_array_equal(np.isfinite(posterior.log_density(points)), finite)
    np.testing.assert_allclose(posterior.log_density(points)[finite], expected[finite], rtol=1e-9)


@pytest.mark.parametrize(
    ("horizon", "last", "size"), [(2.0, 2.0, 2), (100.0, 100.0, 100), (22.5, 22.5, 23), (1e6, 1e6, 1000)]
)
def test_constraint_grid_reaches_from_one_to_the_horizon(horizon: float, last: float, size: int) -> None:
    grid = constraint_grid(horizon)
    assert grid[0] == 1.0
    assert grid[-1] == last
    assert len(grid) <= size
    assert (np.diff(grid) > 0).all()


# --- where chains start


@pytest.mark.parametrize("posterior_type", [PaperPosterior, DomhanPosterior])
def test_start_by_least_squares_beats_the_default_point(posterior_type: type) -> None:
    posterior = posterior_type(prior_curve(), 100.0)
    points = np.stack([starting_point(posterior, start) for start in ("lse", "default")])
    lse, default = posterior.log_density(points)
    assert np.isfinite(default)
    assert lse > default + 10


def test_start_by_map_is_at_least_as_likely_as_least_squares() -> None:
    posterior = PaperPosterior(prior_curve(), 100.0)
    points = np.stack([starting_point(posterior, start) for start in ("map", "lse")])
    best, lse = posterior.log_density(points)
    assert best > lse


def test_start_that_the_prior_forbids_falls_back_to_the_default_point() -> None:
    falling = Observed(np.arange(1.0, 11.0), np.linspace(0.9, 0.1, 10))
    posterior = PaperPosterior(falling, 100.0)
    np.testing.assert_array_equal(starting_point(posterior, "lse"), posterior.default)


def test_scatter_without_an_allowed_point_raises() -> None:
    def nowhere(points: np.ndarray) -> np.ndarray:
        return np.full(len(points), -np.inf)

    with pytest.raises(InputError, match="no chain can start: 8 of 8 walkers"):
        scatter(nowhere, np.zeros(3), np.ones(3), 8, np.random.default_rng(0))


def test_scatter_near_a_border_keeps_every_walker_inside() -> None:
    def positive(points: np.ndarray) -> np.ndarray:
        return np.where((points > 0).all(axis=1), 0.0, -np.inf)

    ensemble = scatter(positive, np.full(2, 1e-5), np.ones(2), 50, np.random.default_rng(0))
    assert (ensemble > 0).all()
    assert len(np.unique(ensemble[:, 0])) == 50


# --- the engine


@pytest.mark.parametrize("prior", ["pp", "op"])
def test_engine_on_a_prior_curve_gives_a_finite_forecast_and_diagnostics(prior: str) -> None:
    engine = McmcEngine(prior, SHORT)
    observed = prior_curve()
    forecast = predict(engine, Curves.of(observed.values))
    assert engine.name == f"mcmc-{prior}"
    assert forecast.shape == (1, 3)
    assert forecast.means.shape[-1] == SHORT.components
    assert np.isfinite(forecast.log_prob(0.5)).all()
    (record,) = engine.diagnostics
    assert record.steps == SHORT.nsamples
    assert 0.02 < record.acceptance < 0.9
    assert 1 <= record.autocorrelation_time < np.inf
    assert not record.converged


DEGENERATE = ([], [0.5], [0.5] * 10, [0.0] * 5, [1.0] * 5, [0.9, 0.5, 0.1], [7.0, 8.0], [1e-9, 1e-8])


@pytest.mark.parametrize(
    ("prior", "values"),
    [*(("pp", values) for values in DEGENERATE), *(("op", values) for values in DEGENERATE[:4])],
    ids=str,
)
def test_engine_on_a_degenerate_curve_gives_finite_numbers(prior: str, values: list[float]) -> None:
    forecast = predict(McmcEngine(prior, SHORT), Curves.of(values))
    assert np.isfinite(forecast.mean()).all()
    assert (forecast.variance() > 0).all()


def test_engine_on_a_batch_equals_single_curves_whatever_the_queries() -> None:
    noisy = paper.sample(2, np.random.default_rng(5)).noisy
    engine = McmcEngine("pp", SHORT)
    batch = predict(engine, Curves.of([noisy[0, :5], noisy[1, :9]]), np.repeat(QUERIES, 2, axis=0))
    single = predict(engine, Curves.of(noisy[1, :9]), QUERIES[:, ::-1])
    np.testing.assert_array_equal(batch.means[1], single.means[0, ::-1])


def test_engine_with_another_seed_gives_another_forecast() -> None:
    curve = Curves.of(prior_curve().values)
    first, same, other = (
        predict(McmcEngine("pp", McmcConfig(nsamples=30, burn_in=0, seed=seed)), curve).mean() for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, same)
    assert (first != other).all()


def test_engine_with_another_horizon_and_steps_of_its_own_gives_a_forecast() -> None:
    observed = Curves.of([0.1, 0.2, 0.35], steps=[1e-3, 0.5, 7.0])
    forecast = predict(McmcEngine("pp", SHORT), observed, np.array([[8.0, 22.0]]), horizon=22.0)
    assert np.isfinite(forecast.mean()).all()


def test_engine_warns_of_short_chains_once_and_counts_them() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        McmcEngine("pp", SHORT).predict(
            Question.of(Curves.of([[0.1, 0.2], [0.2, 0.3]]), np.repeat(QUERIES, 2, axis=0), 100.0)
        )
    (warning,) = caught
    assert warning.category is ShortChainWarning
    assert "2 of 2 chains of 30 steps" in str(warning.message)


def test_diagnostics_of_a_long_enough_chain_are_converged() -> None:
    assert ChainDiagnostics(steps=2000, autocorrelation_time=40.0, acceptance=0.3).converged
    assert not ChainDiagnostics(steps=1999, autocorrelation_time=40.0, acceptance=0.3).converged


def test_draws_of_a_chain_are_spread_over_steps_and_walkers() -> None:
    step, walker = np.meshgrid(np.arange(2000), np.arange(100), indexing="ij")
    chain = Chain(np.stack([step, walker], axis=-1).astype(float), ChainDiagnostics(2000, 1.0, 0.3))
    draws = chain.draws(2000)
    assert len(np.unique(draws, axis=0)) == 2000
    assert (np.bincount(draws[:, 1].astype(int), minlength=100) == 20).all()
    assert len(np.unique(draws[:, 0])) == 2000
    assert len(chain.draws(10**6)) == 200_000


def test_presets_are_those_of_the_paper() -> None:
    rows = [(c.nsamples, c.nwalkers, c.burn_in, c.thin) for c in (M1, M2, M3)]
    assert rows == [(2000, 100, 500, 1), (4000, 100, 100, 100), (4000, 100, 500, 1)]


# --- bad input


def test_engine_on_step_zero_raises() -> None:
    with pytest.raises(InputError, match=r"step 0: the prior's curves start above 0; count steps from 1"):
        McmcEngine("pp", SHORT).predict(Question.of(Curves.of([0.1, 0.2], steps=[0, 1]), QUERIES, 100.0))


@pytest.mark.parametrize(
    ("queries", "horizon", "message"),
    [
        (np.ones((2, 3)), 100.0, "do not fit 1 curves"),
        (np.array([[np.nan]]), 100.0, "finite and above 0"),
        (QUERIES, 1.0, "horizon=1.0"),
        (QUERIES, np.inf, "horizon=inf"),
    ],
)
def test_engine_on_bad_queries_raises(queries: np.ndarray, horizon: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        McmcEngine("pp", SHORT).predict(Question.of(Curves.of([0.1, 0.2]), queries, horizon))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nsamples": 0}, "nsamples=0"),
        ({"nwalkers": 1}, "nwalkers=1"),
        ({"burn_in": -1}, "burn_in=-1"),
        ({"thin": 0}, "thin=0"),
        ({"thin": 3000}, "thin=3000 leaves nothing of nsamples=2000"),
        ({"start": "random"}, "start='random'"),
        ({"nsamples": 10.5}, "nsamples=10.5"),
        ({"seed": True}, "seed=True"),
    ],
)
def test_config_with_a_bad_setting_raises(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        McmcConfig(**settings)


def test_engine_with_too_few_walkers_names_the_least_number() -> None:
    with pytest.raises(ConfigError, match="nwalkers=50 is too few for 48 parameters; use at least 96"):
        McmcEngine("op", McmcConfig(nwalkers=50))


def test_engine_with_an_unknown_prior_raises() -> None:
    with pytest.raises(ConfigError, match="prior='xx'"):
        McmcEngine("xx")  # type: ignore[arg-type]


def test_engine_without_emcee_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "emcee", None)
    with pytest.raises(MissingExtraError, match=r"epochcast\[mcmc\]"):
        McmcEngine("pp")


def test_engine_without_curves_raises() -> None:
    with pytest.raises(InputError, match="no curves"):
        McmcEngine("pp", SHORT).predict(Question.of(Curves.of(np.empty((0, 3))), np.empty((0, 2)), 100.0))


def test_split_of_a_padded_batch_drops_the_padding() -> None:
    first, second = split(Curves.of([[0.1], [0.2, 0.3]]))
    np.testing.assert_array_equal(first.values, [0.1])
    np.testing.assert_array_equal(second.steps, [1.0, 2.0])
