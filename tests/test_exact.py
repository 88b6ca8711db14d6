from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import ks_2samp

from epochcast.curve import Curves
from epochcast.errors import ConfigError, InputError
from epochcast.prior import paper
from epochcast.question import Question
from epochcast.sampling import smc
from epochcast.sampling.collapsed import LOG_SIGMA, CollapsedPosterior, CollapsedPrior, collapse, curves
from epochcast.sampling.exact import ExactConfig, ExactDiagnostics, ExactEngine, UnsettledWarning, disagreement
from epochcast.sampling.posterior import SMALLEST_LOG_SIGMA, Observed
from tests import linear_gaussian

QUICK = ExactConfig(particles=200, moves=4, final_moves=8, tolerance=10.0)
QUERIES = np.array([[20.0, 60.0, 100.0]])
NOTHING = Observed(np.empty(0), np.empty(0))


@pytest.fixture(scope="module")
def prior() -> CollapsedPrior:
    return CollapsedPrior(100.0)


@pytest.fixture(scope="module")
def pool(prior: CollapsedPrior) -> np.ndarray:
    return prior.draw(12_000, np.random.default_rng(0))


# --- the sampler on a posterior that is known


class LineTarget:
    """The straight line of `linear_gaussian` as a target, in coordinates that make its prior standard normal."""

    moves: Sequence[smc.Move] = (smc.Difference(np.arange(2)), smc.Autoregression(np.arange(2)))

    def __init__(self, noise: float) -> None:
        self._line = linear_gaussian.Line(noise)

    def log_likelihood(self, points: np.ndarray) -> np.ndarray:
        return self._line.log_likelihood(points.T)

    def coordinates(self, points: np.ndarray, temperature: float) -> np.ndarray:
        return points / linear_gaussian.PRIOR_SD[:, None]

    def evaluate(self, coordinates: np.ndarray, temperature: float) -> smc.Evaluation:
        points = coordinates * linear_gaussian.PRIOR_SD[:, None]
        return smc.Evaluation(points, self._line.log_prior(points.T), self.log_likelihood(points))

    def allowed(self, points: np.ndarray) -> np.ndarray:
        return np.ones(points.shape[1], dtype=bool)

    def redraw(self, population: smc.Population, rng: np.random.Generator) -> None:
        pass


def independent_runs(assumed_noise: float, runs: int = 12, particles: int = 400) -> list[smc.Result]:
    rng = np.random.default_rng(1)
    target = LineTarget(assumed_noise)
    starts = linear_gaussian.PRIOR_SD[:, None] * rng.standard_normal((runs, 2, 2 * particles))
    return [smc.sample(target, start, particles, 4, 20, rng, snapshots=2) for start in starts]


def errors_in_standard_errors(assumed_noise: float) -> np.ndarray:
    """How far each posterior moment lies from the truth, in standard errors estimated from independent runs."""
    runs = independent_runs(assumed_noise)
    moments = np.array([linear_gaussian.standardised_moments(run.points.T).mean(axis=0) for run in runs])
    return np.abs(moments.mean(axis=0)) / (moments.std(axis=0, ddof=1) / np.sqrt(len(runs)))


def test_sampler_on_a_linear_gaussian_curve_has_every_moment_within_four_standard_errors() -> None:
    errors = errors_in_standard_errors(linear_gaussian.NOISE)
    assert (errors < 4).all(), dict(zip(linear_gaussian.MOMENTS, errors, strict=True))


def test_sampler_with_the_wrong_noise_is_rejected_by_the_same_check() -> None:
    assert (errors_in_standard_errors(1.2 * linear_gaussian.NOISE) > 4).any()


def test_sampler_on_a_linear_gaussian_curve_finds_the_evidence() -> None:
    estimates = np.array([run.log_evidence for run in independent_runs(linear_gaussian.NOISE)])
    error = estimates.std(ddof=1) / np.sqrt(len(estimates))
    # The estimate of the evidence, not of its logarithm, is unbiased: half a variance is the difference.
    bias = estimates.var(ddof=1) / 2
    assert error < 0.05
    assert abs(estimates.mean() + bias - linear_gaussian.log_evidence()) < 4 * error


def test_sampler_raises_temperatures_from_zero_to_one() -> None:
    (run,) = independent_runs(linear_gaussian.NOISE, runs=1)
    assert len(run.temperatures) > 2
    assert (np.diff(run.temperatures) > 0).all()
    assert run.temperatures[-1] == 1.0
    assert run.points.shape == (2, 800)


# --- the collapsed posterior


def test_collapse_keeps_the_curves_of_the_prior() -> None:
    draw = paper.sample(100, np.random.default_rng(2))
    steps = np.arange(1.0, 101.0)
    np.testing.assert_allclose(curves(collapse(draw.parameters), steps).T, draw.noiseless, atol=1e-6)


def test_coordinates_and_back_give_the_same_points(prior: CollapsedPrior, pool: np.ndarray) -> None:
    observed = Observed(np.arange(1.0, 11.0), paper.sample(1, np.random.default_rng(3)).noisy[0, :10])
    target = CollapsedPosterior(observed, prior, pool)
    points = pool[:, :200]
    back = target.evaluate(target.coordinates(points, 0.3), 0.3)
    np.testing.assert_allclose(back.points, points, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(back.log_likelihood, target.log_likelihood(points), rtol=1e-5)


def test_log_likelihood_is_that_of_independent_gaussians(prior: CollapsedPrior, pool: np.ndarray) -> None:
    observed = Observed(np.array([1.0, 4.0]), np.array([0.3, 0.5]))
    sigma = np.exp(pool[LOG_SIGMA])
    residuals = (observed.values[:, None] - curves(pool, observed.steps)) / sigma
    expected = (-0.5 * residuals**2 - np.log(sigma * np.sqrt(2 * np.pi))).sum(axis=0)
    np.testing.assert_allclose(CollapsedPosterior(observed, prior, pool).log_likelihood(pool), expected, rtol=1e-9)


def statistics_of(points: np.ndarray) -> dict[str, np.ndarray]:
    names = ("log alpha", "log kappa", "log delta", "log sigma", "level", "pow3", "janoschek", "ilog2", "c1", "c2")
    start, end = curves(points, np.array([1.0, 100.0]))
    return {**dict(zip(names, points, strict=True)), "f(1)": start, "f(100)": end}


def smallest_p_value(target: CollapsedPosterior, pool: np.ndarray) -> float:
    """Compare the prior's draws with what moves without any data make of them: a right density changes nothing."""
    rng = np.random.default_rng(4)
    moved = smc.sample(target, pool[:, :6000], 3000, 1, 60, rng).points
    before, after = statistics_of(pool[:, 6000:]), statistics_of(moved)
    return min(ks_2samp(before[name], after[name]).pvalue for name in before)


def test_moves_without_data_leave_the_prior_as_it_is(prior: CollapsedPrior, pool: np.ndarray) -> None:
    assert smallest_p_value(CollapsedPosterior(NOTHING, prior, pool), pool) > 1e-4


@pytest.mark.parametrize("forgotten", ["shares", "weights"])
def test_moves_with_a_wrong_density_are_rejected_by_the_same_check(
    prior: CollapsedPrior, pool: np.ndarray, forgotten: str
) -> None:
    class Wrong(CollapsedPosterior):
        def evaluate(self, coordinates: np.ndarray, temperature: float) -> smc.Evaluation:
            right = super().evaluate(coordinates, temperature)
            with np.errstate(all="ignore"):
                level = np.log(right.points[4])
                error = 2 * level if forgotten == "shares" else np.log(np.abs(right.points[5]))
            return smc.Evaluation(right.points, right.log_prior - error, right.log_likelihood)

    assert smallest_p_value(Wrong(NOTHING, prior, pool), pool) < 1e-4


def test_prior_draws_equal_in_law_those_of_the_paper_module(pool: np.ndarray) -> None:
    reference = statistics_of(collapse(paper.sample(5000, np.random.default_rng(5)).parameters))
    drawn = statistics_of(pool)
    assert min(ks_2samp(reference[name], drawn[name]).pvalue for name in reference) > 1e-4


# --- the engine


def test_engine_after_two_noisy_values_agrees_with_importance_sampling() -> None:
    values, steps = np.array([0.42, 0.55]), np.array([1.0, 5.0])
    draw = paper.sample(40_000, np.random.default_rng(6))
    residuals = (draw.noiseless[:, [0, 4]] - values) / draw.sigma[:, None]
    weights = np.exp((-0.5 * residuals**2).sum(axis=1)) / draw.sigma**2
    weights /= weights.sum()
    size = 1 / (weights**2).sum()
    assert size > 300
    final = draw.noiseless[:, -1]
    mean = weights @ final
    sd = np.sqrt(weights @ (final - mean) ** 2)
    config = ExactConfig(particles=1000, final_moves=40, tolerance=10.0)
    forecast = ExactEngine(config).predict(Question.of(Curves.of(values, steps), np.array([[100.0]]), 100.0))
    error = 4 * sd / np.sqrt(size)
    assert forecast.mean()[0, 0] == pytest.approx(mean, abs=error)
    spread = np.sqrt(weights @ (final - mean) ** 2 + weights @ draw.sigma**2)
    assert np.sqrt(forecast.variance()[0, 0]) == pytest.approx(spread, abs=error)


def test_engine_gives_a_forecast_and_diagnostics_per_curve() -> None:
    noisy = paper.sample(2, np.random.default_rng(7)).noisy
    engine = ExactEngine(QUICK)
    forecast = engine.predict(Question.of(Curves.of(noisy[:, :10]), np.repeat(QUERIES, 2, axis=0), 100.0))
    assert engine.name == "exact"
    assert forecast.shape == (2, 3)
    assert np.isfinite(forecast.log_prob(0.5)).all()
    assert len(engine.diagnostics) == 2
    for record in engine.diagnostics:
        assert 0 < record.disagreement < 10
        assert len(record.log_evidence) == 2
        assert record.temperatures >= 2
        assert 0.05 < record.acceptance < 0.9
        assert record.converged


def test_engine_on_a_batch_equals_single_curves_whatever_the_queries() -> None:
    noisy = paper.sample(2, np.random.default_rng(8)).noisy
    engine = ExactEngine(QUICK)
    batch = engine.predict(Question.of(Curves.of([noisy[0, :5], noisy[1, :9]]), np.repeat(QUERIES, 2, axis=0), 100.0))
    single = ExactEngine(QUICK).predict(Question.of(Curves.of(noisy[1, :9]), QUERIES[:, ::-1], 100.0))
    np.testing.assert_array_equal(batch.means[1], single.means[0, ::-1])


@pytest.mark.parametrize(
    "values",
    [[], [0.5], [0.5] * 10, [0.5] * 90, [0.0] * 5, [1.0] * 5, [0.9, 0.5, 0.1], [7.0, 8.0], [1e-9, 1e-8], [1e3]],
    ids=lambda values: str(values)[:30],
)
def test_engine_on_a_degenerate_curve_gives_finite_numbers(values: list[float]) -> None:
    forecast = ExactEngine(QUICK).predict(Question.of(Curves.of(values), np.array([[95.0, 100.0]]), 100.0))
    assert np.isfinite(forecast.mean()).all()
    assert (forecast.variance() > 0).all()


def test_engine_on_a_constant_curve_is_confident() -> None:
    forecast = ExactEngine(QUICK).predict(Question.of(Curves.of([0.7] * 40), QUERIES, 100.0))
    np.testing.assert_allclose(forecast.mean(), 0.7, atol=1e-4)
    assert (np.sqrt(forecast.variance()) < 1e-3).all()
    assert (forecast.log_scales > SMALLEST_LOG_SIGMA).all()


def test_engine_warns_when_two_runs_disagree() -> None:
    config = ExactConfig(particles=100, moves=1, final_moves=1, snapshots=1, attempts=1, tolerance=1e-4)
    engine = ExactEngine(config)
    with pytest.warns(UnsettledWarning, match=r"disagree on 1 of 1 curves by more than 0.0001 nats"):
        engine.predict(Question.of(Curves.of([0.1, 0.2, 0.3]), QUERIES, 100.0))
    assert not engine.diagnostics[0].converged


def test_engine_tries_again_with_more_particles_until_two_runs_agree() -> None:
    curve = Curves.of([0.30, 0.40, 0.45, 0.47, 0.50])
    settings = {"particles": 100, "moves": 2, "final_moves": 8, "components": 100_000}
    once, twice = ExactEngine(ExactConfig(**settings, attempts=1, tolerance=10.0)), ExactEngine(ExactConfig(**settings))
    few = once.predict(Question.of(curve, QUERIES, 100.0))
    first = once.diagnostics[0].disagreement
    with pytest.warns(UnsettledWarning):
        more = twice.predict(Question.of(curve, QUERIES, 100.0))
    assert once.diagnostics[0].particles == 100
    assert twice.diagnostics[0].particles == 400
    assert more.means.shape[-1] == 4 * few.means.shape[-1]
    assert twice.diagnostics[0].disagreement < first


def test_disagreement_of_two_populations_falls_with_their_size_and_sees_a_shift(pool: np.ndarray) -> None:
    def gap(first: np.ndarray, second: np.ndarray) -> float:
        return disagreement(first, second, 10.0, 100.0, np.random.default_rng(9))

    small, large = gap(pool[:, :500], pool[:, 500:1000]), gap(pool[:, :6000], pool[:, 6000:])
    assert large < 0.6 * small
    shifted = pool[:, 6000:].copy()
    shifted[LOG_SIGMA] += 2.0
    assert gap(pool[:, :6000], shifted) > 2 * large


def test_engine_with_another_horizon_stays_in_the_prior_up_to_it() -> None:
    engine = ExactEngine(QUICK)
    forecast = engine.predict(
        Question.of(Curves.of([0.2, 0.3], steps=[1.5, 200.0]), np.array([[500.0, 2000.0]]), 2000.0)
    )
    assert ((forecast.means >= 0) & (forecast.means <= 1)).all()


def test_engine_on_steps_below_one_gives_finite_numbers() -> None:
    curve = Curves.of([0.1, 0.2, 0.3, 0.35], steps=[1e-3, 0.02, 0.5, 1.0])
    forecast = ExactEngine(QUICK).predict(Question.of(curve, QUERIES, 100.0))
    assert np.isfinite(forecast.mean()).all()


def test_engine_on_step_zero_raises() -> None:
    with pytest.raises(InputError, match="count steps from 1"):
        ExactEngine(QUICK).predict(Question.of(Curves.of([0.1, 0.2], steps=[0, 1]), QUERIES, 100.0))


def test_engine_on_a_value_far_from_the_unit_interval_raises() -> None:
    with pytest.raises(InputError, match=r"value 1e\+200 is not normalised"):
        ExactEngine(QUICK).predict(Question.of(Curves.of([0.1, 1e200]), QUERIES, 100.0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"particles": 10}, "particles=10"),
        ({"moves": 0}, "moves=0"),
        ({"final_moves": 1.5}, "final_moves=1.5"),
        ({"tolerance": 0.0}, "tolerance=0.0"),
        ({"tolerance": float("nan")}, "tolerance=nan"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_config_with_a_bad_setting_raises(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExactConfig(**settings)


def test_diagnostics_at_the_tolerance_are_converged() -> None:
    assert ExactDiagnostics(0.05, 0.05, 2000, (0.0, 0.0), 3, 0.2).converged
    assert not ExactDiagnostics(0.051, 0.05, 2000, (0.0, 0.0), 3, 0.2).converged
