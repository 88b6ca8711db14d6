from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import ndtri

from epochcast.benchmarks import CurveSet
from epochcast.distributions import Array, Mixture
from epochcast.errors import InputError
from epochcast.experiments.crps import crps
from epochcast.experiments.real.scores import score
from epochcast.metric import Metric
from epochcast.question import Engine, Question
from tests.checkout import research

Quantiles = research("peers.quantiles").Quantiles

LEVELS = np.arange(1, 20) / 20.0


def gaussian(mean: Array, scale: float, levels: Array = LEVELS) -> Quantiles:
    return Quantiles(levels, np.asarray(mean)[..., None] + scale * ndtri(levels))


def integrated(quantiles: Quantiles, y: float) -> float:
    """The CRPS of a single position by its definition: the integral of (F(x) - 1{x >= y})^2."""
    total = 0.0
    for ends, step in (((-4.0, y), 0.0), ((y, 5.0), 1.0)):
        grid = np.linspace(*ends, 200_001)
        total += float(trapezoid((quantiles.cdf(grid) - step) ** 2, grid))
    return total


@pytest.mark.parametrize("y", [-1.0, 0.2, 0.5, 0.53, 1.0, 2.0])
def test_crps_of_quantiles_equals_the_integral(y: float) -> None:
    values = np.sort(np.random.default_rng(0).random(5))
    quantiles = Quantiles(np.array([0.1, 0.3, 0.5, 0.6, 0.95]), values[None])
    assert crps(quantiles, [y])[0] == pytest.approx(integrated(quantiles, y), abs=1e-4)


def test_crps_of_a_point_is_its_absolute_error() -> None:
    point = Quantiles.point(np.array([0.2, 0.7, 0.7]))
    np.testing.assert_allclose(crps(point, [0.5, 0.1, 0.7]), [0.3, 0.6, 0.0], atol=1e-15)


def test_crps_of_many_quantiles_of_a_gaussian_is_that_of_the_gaussian() -> None:
    truth = np.linspace(0.2, 0.9, 15)
    shape = (15, 1)
    exact = crps(Mixture(np.zeros(shape), np.full(shape, 0.5), np.full(shape, math.log(0.1))), truth)
    fine = gaussian(np.full(15, 0.5), 0.1, np.arange(1, 400) / 400.0)
    np.testing.assert_allclose(crps(fine, truth), exact, atol=2e-4)


def test_crps_is_smallest_for_the_true_quantiles() -> None:
    values = np.random.default_rng(0).normal(0.5, 0.1, 20_000)

    def mean_score(mean: float, scale: float) -> float:
        return float(crps(gaussian(np.full(len(values), mean), scale), values).mean())

    best = mean_score(0.5, 0.1)
    assert all(mean_score(*wrong) > best + 1e-3 for wrong in ((0.5, 0.05), (0.5, 0.2), (0.56, 0.1)))


def test_cdf_undoes_icdf_between_the_outermost_levels() -> None:
    quantiles = gaussian(np.array([0.2, 0.6]), 0.1)
    for level in (0.06, 0.31, 0.5, 0.77, 0.94):
        np.testing.assert_allclose(quantiles.cdf(quantiles.icdf(level)), level, atol=1e-12)


def test_cdf_beyond_the_outermost_quantiles_is_zero_and_one() -> None:
    quantiles = gaussian(np.array([0.5]), 0.1)
    assert quantiles.cdf([-1.0])[0] == 0.0
    assert quantiles.cdf([2.0])[0] == 1.0


def test_cdf_of_a_point_that_is_right_is_one_half_and_any_other_is_not() -> None:
    point = Quantiles.point(np.full(3, 0.5))
    assert point.cdf([0.4, 0.5, 0.6]).tolist() == [0.0, 0.5, 1.0]
    constant = Quantiles(LEVELS, np.full((1, len(LEVELS)), 0.5))
    assert constant.cdf([0.5])[0] == 0.5


def test_moments_agree_with_draws() -> None:
    quantiles = Quantiles(np.array([0.1, 0.4, 0.9]), np.array([[0.0, 0.5, 0.6]]))
    draws = quantiles.sample(200_000, np.random.default_rng(0))[:, 0]
    assert quantiles.mean()[0] == pytest.approx(draws.mean(), abs=5.0 * draws.std() / math.sqrt(len(draws)))
    assert quantiles.variance()[0] == pytest.approx(draws.var(), rel=0.02)


def test_log_prob_is_not_known() -> None:
    assert np.isnan(gaussian(np.zeros((2, 3)), 0.1).log_prob(0.5)).all()


@pytest.mark.parametrize(
    ("levels", "values", "said"),
    [
        ([0.5, 0.4], [[0.1, 0.2]], "rise"),
        ([0.0, 0.5], [[0.1, 0.2]], "rise"),
        ([0.1, 0.5], [[0.3, 0.2]], "fall"),
        ([0.1, 0.5], [[0.1, 0.2, 0.3]], "fit"),
        ([0.1, 0.5], [[0.1, np.nan]], "finite"),
    ],
)
def test_quantiles_that_make_no_sense_are_refused(levels: list[float], values: list[list[float]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Quantiles(np.array(levels), np.array(values))


class Walker(Engine):
    """Quantiles of the truth: the value at step t is t / 100, give or take 0.01."""

    name = "walker"
    scale = 0.01

    def predict(self, question: Question) -> Quantiles:
        return gaussian(question.steps / 100.0, self.scale, np.arange(1, 40) / 40.0)


class Boaster(Walker):
    scale = 0.003


def rising(count: int = 200, length: int = 50) -> CurveSet:
    noise = 0.01 * np.random.default_rng(0).standard_normal((count, length))
    return CurveSet.of("rising", np.arange(1.0, length + 1.0) / 100.0 + noise, Metric.unit())


def test_score_of_a_quantile_engine_has_all_but_the_likelihood_and_a_boaster_is_found_out() -> None:
    true, boast = (score(engine, rising(), 0.4) for engine in (Walker(), Boaster()))
    assert np.isnan(true.log_likelihood).all()
    assert true.squared_error.mean() == pytest.approx(1e-4, rel=0.1)
    assert true.inside90.mean() == pytest.approx(0.9, abs=0.02)
    assert boast.inside90.mean() < 0.6
    assert boast.crps.mean() > 1.05 * true.crps.mean()
