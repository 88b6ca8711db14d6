"""What the shipped models make of plain runs, and whether their paths agree with their forecasts."""

from __future__ import annotations

import numpy as np
import pytest

import epochcast as ec

RISING = 1.0 - 0.7 * np.arange(1.0, 61.0) ** -0.5


@pytest.fixture(scope="module", params=ec.models())
def forecaster(request):
    return ec.Forecaster(request.param)


def test_irregular_steps_are_close_to_the_regular_ones(forecaster):
    every = forecaster.forecast(RISING[:30], 60, "accuracy").final
    third = forecaster.forecast(RISING[2:30:3], 60, "accuracy", steps=np.arange(3, 31, 3)).final
    assert abs(every.median() - third.median()) < 0.05


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_constant_curve_gives_a_confident_finite_forecast(forecaster, value):
    f = forecaster.forecast([value] * 12, 50, "accuracy")
    low, high = f.interval(0.5)  # a real run may still take off, so the outer tenth may be wide
    assert np.isfinite([*f.interval(0.9), low, high, f.median()]).all()
    assert f.final.median() == pytest.approx(value, abs=0.1)
    assert high[-1] - low[-1] < 0.15


@pytest.mark.parametrize("model", ["real", "stream"])
def test_paths_of_prior_curves_have_the_marginals_of_the_forecast(model):
    """Ranks of the paths' values in the direct forecasts are uniform, up to how far the network is consistent."""
    curves = ec.sample_prior(12, 60, seed=4)
    ranks = []
    for seed, curve in enumerate(curves):
        f = ec.forecast(curve[:12], 60, "unit", model=model)
        ranks.append(f.cdf(f.paths(100, seed=seed))[:, [4, 19, 47]])
    pooled = np.concatenate(ranks)
    for share in (0.1, 0.5, 0.9):
        assert (pooled < share).mean(axis=0) == pytest.approx(share, abs=0.09)
