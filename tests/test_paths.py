"""Joint futures: their marginals are the forecast's, and what only whole paths tell."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

import epochcast as ec
from epochcast.distributions import Mixture
from epochcast.errors import InputError
from epochcast.question import Engine

RISING = 1.0 - 0.7 * np.arange(1.0, 61.0) ** -0.5


class Walk(Engine):
    """A random walk: each step adds N(0, sd), so that the marginals after the newest value are known."""

    name = "walk"

    def __init__(self, sd=0.02):
        self.sd = sd

    def predict(self, question):
        curves, queries = question.runs, question.steps
        ahead = queries - curves.last_step[:, None]
        means = np.repeat(curves.last_value[:, None], queries.shape[1], axis=1)
        scales = np.log(self.sd * np.sqrt(ahead))
        return Mixture(np.zeros((*queries.shape, 1)), means[..., None], scales[..., None])


@pytest.fixture(scope="module")
def forecast():
    return ec.forecast(RISING[:10], 60, "accuracy")


def test_paths_have_a_row_per_draw_and_a_column_per_step_inside_the_bounds(forecast):
    paths = forecast.paths(50, seed=1)
    assert paths.shape == (50, 50)
    assert ((paths >= 0.0) & (paths <= 1.0)).all()


def test_paths_of_one_seed_are_the_same_and_of_none_are_not(forecast):
    assert np.array_equal(forecast.paths(5, seed=1), forecast.paths(5, seed=1))
    assert not np.array_equal(forecast.paths(5, seed=1), forecast.paths(5, seed=2))
    assert not np.array_equal(forecast.paths(5), forecast.paths(5))


def test_paths_of_a_walk_move_together_where_samples_do_not():
    f = ec.Forecaster.around(Walk()).forecast([0.5], 50, ec.Metric.unit())
    paths, marginals = f.paths(400, seed=0), f.sample(400, seed=0)
    assert np.corrcoef(paths[:, -1], paths[:, -2])[0, 1] > 0.9
    assert abs(np.corrcoef(marginals[:, -1], marginals[:, -2])[0, 1]) < 0.2
    assert paths[:, -1].std() == pytest.approx(0.02 * 7.0, rel=0.15)


def test_prob_ever_of_a_walk_is_twice_that_of_its_end():
    """The reflection principle; a maximum over independent draws would be near one."""
    f = ec.Forecaster.around(Walk()).forecast([0.5], 200, ec.Metric.unit(), at=np.arange(2.0, 201.0, 2.0))
    ever, end = f.prob_ever(0.78, n=2000), float(f.final.prob_better(0.78))
    assert end == pytest.approx(0.16, abs=0.01)
    assert 1.5 * end < ever < 2.2 * end
    assert (f.sample(500) > 0.78).any(axis=1).mean() > 0.9  # what marginals would say


def test_first_step_of_a_walk_sums_to_one_with_never(forecast):
    f = ec.Forecaster.around(Walk()).forecast([0.5], 100, ec.Metric.unit())
    first = f.first_step(0.6, n=500)
    assert first.probability.sum() + first.never == pytest.approx(1.0)
    assert first.never == pytest.approx(1.0 - f.prob_ever(0.6, n=500))
    assert first.quantile(0.2) < first.median()
    assert "0.6" in repr(first)
    assert f.first_step(5.0, n=50).median() == math.inf


class Doubtful(Walk):
    """Expects more of a run the fewer values it was given, so that paths fall short of the direct forecast."""

    def predict(self, question):
        answer = super().predict(question)
        return replace(answer, means=answer.means - 0.1 * (question.runs.lengths[:, None, None] - 1))


def test_prob_ever_is_never_less_than_the_chance_at_a_single_step():
    f = ec.Forecaster.around(Doubtful()).forecast([0.5], 20, ec.Metric.unit())
    end = float(f.final.prob_better(0.52))
    assert (f.paths(200, seed=0) > 0.52).any(axis=1).mean() < end - 0.1
    first = f.first_step(0.52, n=200)
    assert f.prob_ever(0.52, n=200) == pytest.approx(end)
    assert 1.0 - first.never == pytest.approx(end)
    assert first.probability.sum() == pytest.approx(end)
    none = f.first_step(0.7, n=1)  # where no path gets there
    assert none.probability.sum() == pytest.approx(float(f.final.prob_better(0.7)))
    assert f.prob_ever(math.inf, n=1) == 0.0


def test_first_step_of_a_value_already_seen_is_when_it_was(forecast):
    first = forecast.first_step(float(RISING[3]))
    assert (first.median(), first.never) == (4.0, 0.0)


def test_first_step_of_a_loss_is_when_it_falls_that_low():
    f = ec.forecast([2.0, 1.5, 1.2, 1.0], 30, "loss")
    assert f.first_step(1.5).median() == 2.0
    assert f.first_step(0.01, n=100).never > 0.5


def test_paths_of_many_steps_are_drawn_at_some_and_filled_in_between():
    f = ec.forecast(RISING[:40], 2000, "accuracy")
    paths = f.paths(40, seed=0)
    assert paths.shape == (40, 1000)
    assert np.isfinite(paths).all()
    assert (np.abs(np.diff(paths, axis=1)).max(axis=1) > 0.0).all()


@pytest.mark.xfail(strict=True, reason="0.32 with version 19 of real, whose forecasts of far steps rise as values come")
def test_paths_of_many_steps_lie_where_the_forecast_does():
    f = ec.forecast(RISING[:40], 2000, "accuracy")
    assert f.cdf(f.paths(40, seed=0))[:, ::97].mean() == pytest.approx(0.5, abs=0.15)


def test_paths_at_steps_out_of_order_keep_their_order(forecast):
    f = ec.forecast(RISING[:10], 60, "accuracy", at=[60, 20, 40])
    paths = f.paths(60, seed=3)
    assert paths.shape == (60, 3)
    assert np.median(paths, axis=0) == pytest.approx(f.median(), abs=0.03)


@pytest.mark.parametrize("model", ["lcpfn", "last-value", "power-law"])
def test_paths_of_engines_that_do_not_stream_are_drawn_too(model):
    f = ec.forecast(RISING[:10], 20, "accuracy", model=model)
    assert f.paths(8, seed=0).shape == (8, 10)


def test_paths_of_a_batch_are_those_of_its_members(forecast):
    batch = ec.forecast([RISING[:10], RISING[:7]], 60, "accuracy")
    with pytest.raises(InputError, match=r"forecast\[i\]"):
        batch.paths(3)
    np.testing.assert_allclose(batch[0].paths(3, seed=5), forecast.paths(3, seed=5), atol=1e-4)


@pytest.mark.parametrize("model", ["real", "empirical-gp"])
def test_paths_of_a_shorter_run_of_a_ragged_batch_are_those_of_that_run(model):
    curve = 0.9 - 0.7 * np.exp(-np.arange(1.0, 12.0) / 6.0)
    batch = ec.forecast([curve[:5], curve], 30, "accuracy", model=model)
    alone = ec.forecast(curve[:5], 30, "accuracy", model=model)
    np.testing.assert_allclose(batch[0].paths(3, seed=5), alone.paths(3, seed=5), atol=1e-4)


def test_paths_of_a_stream_are_those_of_its_values(forecast):
    stream = ec.Forecaster().stream(60, "accuracy")
    for value in RISING[:10]:
        newest = stream.update(value)
    np.testing.assert_allclose(newest.paths(3, seed=5), forecast.paths(3, seed=5), atol=1e-3)


def test_paths_survive_a_pickle(forecast):
    again = pickle.loads(pickle.dumps(forecast))
    assert np.array_equal(again.paths(3, seed=5), forecast.paths(3, seed=5))


def test_paths_that_cannot_be_drawn_say_why(forecast):
    for n in (0, 2.5, "3", True):
        with pytest.raises(InputError, match="whole number"):
            forecast.paths(n)
    with pytest.raises(InputError, match="not a number"):
        forecast.prob_ever("high")
    with pytest.raises(InputError, match="twice"):
        ec.forecast(RISING[:10], 60, "accuracy", at=[20, 20]).paths(3)


def test_paths_of_many_steps_at_the_edge_of_what_numbers_can_hold_are_finite():
    metric = ec.Metric("own", True, hard=(-math.inf, 5.2e296), soft=(5.09e296, 5.12e296))
    f = ec.forecast(np.full(16, 1e15), 10**12, metric, steps=1000.0 * np.arange(1, 17))
    assert np.isfinite(f.paths(50, seed=0)).all()


def test_untrained_value_far_outside_a_plain_metric_is_refused():
    with pytest.raises(InputError, match="exceeds 1000"):
        ec.forecast([0.1, 0.2], 19, ec.Metric("own", False, transform=False), untrained=2.6e48)
