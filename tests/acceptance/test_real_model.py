"""The default model on runs that the paper's prior gets wrong."""

from __future__ import annotations

import numpy as np
import pytest

import epochcast as ec
from epochcast.benchmarks import digits_bench
from epochcast.curve import Curves
from epochcast.engines import load_engine
from epochcast.experiments.real import scores as real
from epochcast.metric import LOSS, SHARE
from epochcast.question import Question


@pytest.fixture(scope="module")
def forecaster():
    return ec.Forecaster("real")


def plateau(seed: int) -> np.ndarray:
    """Sixty epochs that settle at 0.485; then the learning rate dropped, and the run ended at 0.624."""
    steps = np.arange(1, 61)
    noise = 0.012 * np.random.default_rng(seed).standard_normal(60)
    return 0.485 - 0.4 * np.exp(-steps / 9.0) + noise


def test_interval_before_a_learning_rate_drop_contains_the_end_for_every_draw_of_the_noise(forecaster):
    runs = np.stack([plateau(seed) for seed in range(5)])
    low, high = forecaster.forecast(runs, horizon=120, metric="accuracy").final.interval(0.95)
    assert ((low < 0.624) & (high > 0.624)).all()


def test_same_interval_of_the_papers_prior_does_not(forecaster):
    """The negative control: a model that knows no schedules is sure that nothing will come."""
    low, high = ec.Forecaster("stream").forecast(plateau(0), horizon=120, metric="accuracy").final.interval(0.95)
    assert not low < 0.624 < high


def test_accuracy_that_jumps_about_is_more_likely_to_gain_late_than_a_loss_of_the_same_shape():
    runs = np.stack([plateau(seed) for seed in range(5)])
    seen = Curves.of(np.concatenate([runs, runs]))
    kinds = np.repeat([SHARE, LOSS], 5)
    late = load_engine("real").predict(Question.of(seen, np.full((10, 1), 120.0), 120.0, kinds=kinds))
    gains = 1.0 - late.cdf(np.full((10, 1), 0.58))
    assert gains[:5].mean() > 2.0 * gains[5:].mean()


def test_ten_nearly_constant_values_give_an_interval_narrower_than_a_bin_of_the_paper(forecaster):
    values = 0.8 + 1e-4 * np.random.default_rng(0).uniform(-1.0, 1.0, 10)
    low, high = forecaster.forecast(values, horizon=100, metric="accuracy").interval(0.9)
    assert high[0] - low[0] < 1e-3


def test_horizon_of_a_hundred_thousand_iterations_is_read_like_one_of_a_hundred_epochs(forecaster):
    values = 0.9 - 0.8 * np.exp(-np.arange(1, 31) / 15.0)
    epochs = forecaster.forecast(values, horizon=100, metric="accuracy").final
    steps = 1000 * np.arange(1, 31)
    iterations = forecaster.forecast(values, horizon=100_000, metric="accuracy", steps=steps).final
    assert abs(epochs.median() - iterations.median()) < 0.05


@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
@pytest.mark.parametrize("share", [0.2, 0.4, 0.8])
def test_forecasts_of_our_own_networks_beat_the_last_value_and_the_papers_prior(metric, share):
    runs = digits_bench(metric).sample(200, seed=1)
    scores = {name: real.score(load_engine(name), runs, share) for name in ("real", "stream", "last-value")}
    own = scores.pop("real")
    for name, other in scores.items():
        assert own.log_likelihood.mean() > other.log_likelihood.mean(), name
        assert own.crps.mean() < other.crps.mean(), name
