"""Forecaster and Forecast: the public contract, on the shipped models and on an engine with a known answer."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import integrate, stats

import epochcast as ec
from epochcast.distributions import Mixture
from epochcast.errors import InputError
from epochcast.metric import LOSS, SHARE, UNTOLD

RISING = 1.0 - 0.7 * np.arange(1.0, 61.0) ** -0.5


class Gaussian:
    """An engine that answers N(mean, sd) everywhere, in the prior's space."""

    name, grid = "gaussian", None

    def __init__(self, mean=0.6, sd=0.1):
        self.mean, self.sd = mean, sd

    def predict(self, curves, queries, horizon):
        self.kinds = curves.kinds
        shape = (*queries.shape, 1)
        return Mixture(np.zeros(shape), np.full(shape, self.mean), np.full(shape, math.log(self.sd)))


@pytest.fixture(scope="module", params=ec.models())
def forecaster(request):
    return ec.Forecaster(request.param)


def test_forecast_of_one_run_has_an_array_per_question(forecaster):
    f = forecaster.forecast(RISING[:10], horizon=60, metric="accuracy")
    assert f.steps.tolist() == list(range(11, 61))
    low, high = f.interval(0.9)
    for answer in (f.median(), f.mean(), f.quantile(0.3), low, high, f.cdf(0.5), f.log_prob(0.5), f.prob_better(0.8)):
        assert answer.shape == (50,)
        assert np.isfinite(answer).all()
    assert f.quantile([0.1, 0.5, 0.9]).shape == (3, 50)
    assert f.sample(7, seed=1).shape == (7, 50)
    assert (np.diff(f.quantile([0.05, 0.25, 0.5, 0.75, 0.95]), axis=0) > 0).all()


def test_final_is_the_same_at_the_horizon(forecaster):
    f = forecaster.forecast(RISING[:10], 60, "accuracy")
    assert np.ndim(f.final.median()) == 0
    assert f.final.median() == f.median()[-1]
    assert f.final.prob_better(0.8) == f.prob_better(0.8)[-1]
    assert f.final.quantile([0.1, 0.9]).shape == (2,)
    assert f.final.final.median() == f.final.median()


def test_final_of_a_run_with_one_step_left_is_a_number(forecaster):
    assert np.ndim(forecaster.forecast(RISING[:59], 60, "accuracy").final.median()) == 0


def test_repr_is_a_sentence(forecaster):
    assert "accuracy: 0." in repr(forecaster.forecast(RISING[:10], 60, "accuracy"))
    assert "2 runs" in repr(forecaster.forecast([RISING[:10], RISING[:5]], 60, "accuracy"))


def test_batch_gains_a_leading_axis_and_equals_the_singles(forecaster):
    batch = np.stack([RISING[:10], RISING[:10] ** 2, RISING[:10] * 0.5])
    f = forecaster.forecast(batch, 60, "accuracy")
    assert f.steps.shape == f.median().shape == (3, 50)
    assert f.quantile([0.1, 0.9]).shape == (3, 2, 50)
    assert f.sample(4).shape == (3, 4, 50)
    assert f.final.median().shape == (3,)
    assert f.final.quantile([0.1, 0.9]).shape == (3, 2)
    for i, row in enumerate(batch):
        single = forecaster.forecast(row, 60, "accuracy")
        np.testing.assert_allclose(f.median()[i], single.median(), atol=1e-5)
        np.testing.assert_allclose(f[i].log_prob(0.7), single.log_prob(0.7), atol=1e-3)


def test_batch_of_losses_normalises_each_curve_by_itself(forecaster):
    losses = np.stack([2.3 * np.arange(1.0, 9.0) ** -0.4, 70.0 * np.arange(1.0, 9.0) ** -0.4])
    f = forecaster.forecast(losses, 30, "log_loss")
    np.testing.assert_allclose(f.median()[1] / f.median()[0], 70.0 / 2.3, rtol=1e-4)
    np.testing.assert_allclose(f.final.median(), [f[0].final.median(), f[1].final.median()])


def test_ragged_list_is_padded_and_equals_the_singles(forecaster):
    f = forecaster.forecast([RISING[:5], RISING[:30], RISING[:1]], 60, "accuracy")
    assert f.steps.shape == (3, 59)
    assert np.isnan(f.median()[1, :29]).all()
    assert np.isfinite(f.final.median()).all()
    for i, cutoff in enumerate((5, 30, 1)):
        single = forecaster.forecast(RISING[:cutoff], 60, "accuracy")
        np.testing.assert_array_equal(f[i].steps, single.steps)
        np.testing.assert_allclose(f[i].median(), single.median(), atol=1e-5)


def test_query_order_and_number_change_nothing(forecaster):
    f = forecaster.forecast(RISING[:10], 60, "accuracy")
    g = forecaster.forecast(RISING[:10], 60, "accuracy", at=[60, 15, 30])
    np.testing.assert_allclose(g.median(), f.median()[[49, 4, 19]], atol=1e-5)


def test_unsorted_steps_give_the_sorted_forecast_and_leave_the_callers_data_alone(forecaster):
    order = np.random.default_rng(0).permutation(10)
    values, steps = RISING[:10][order], np.arange(1, 11)[order]
    kept = values.copy(), steps.copy()
    f = forecaster.forecast(values, 60, "accuracy", steps)
    np.testing.assert_allclose(f.median(), forecaster.forecast(RISING[:10], 60, "accuracy").median(), atol=1e-6)
    np.testing.assert_array_equal(values, kept[0])
    np.testing.assert_array_equal(steps, kept[1])


def test_irregular_steps_are_close_to_the_regular_ones(forecaster):
    every = forecaster.forecast(RISING[:30], 60, "accuracy").final
    third = forecaster.forecast(RISING[2:30:3], 60, "accuracy", steps=np.arange(3, 31, 3)).final
    assert abs(every.median() - third.median()) < 0.05


def test_run_with_more_values_than_a_model_reads_is_thinned_with_a_note(forecaster):
    f = forecaster.forecast(np.repeat(RISING[:20], 15), 600, "accuracy")
    assert "thinned" in f.notes[0]
    assert f.steps[-1] == 600
    assert len(f.steps) == 300
    assert 0.7 < f.final.median() < 1.0


def test_horizon_of_a_million_answers_a_thousand_steps_with_a_note(forecaster):
    f = forecaster.forecast(RISING[:20], 1_000_000, "accuracy")
    assert len(f.steps) <= 1000
    assert f.steps[-1] == 1_000_000
    assert any("ask for others" in note for note in f.notes)


def test_nothing_seen_gives_the_priors_forecast_only_with_explicit_bounds(forecaster):
    f = forecaster.forecast([], 50, "accuracy")
    low, high = f.final.interval(0.9)
    assert high - low > 0.5
    with pytest.raises(InputError, match="soft"):
        forecaster.forecast([], 50, "log_loss")
    assert np.isfinite(forecaster.forecast([], 50, "log_loss", untrained=2.3).final.median())


def test_value_at_step_zero_is_the_untrained_models(forecaster):
    losses = 2.3 * np.arange(1.0, 9.0) ** -0.4
    with_zero = forecaster.forecast([2.9, *losses], 30, "log_loss", steps=range(9))
    given = forecaster.forecast(losses, 30, "log_loss", untrained=2.9)
    np.testing.assert_allclose(with_zero.median(), given.median(), rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_constant_curve_gives_a_confident_finite_forecast(forecaster, value):
    f = forecaster.forecast([value] * 12, 50, "accuracy")
    low, high = f.interval(0.5)  # a real run may still take off, so the outer tenth may be wide
    assert np.isfinite([*f.interval(0.9), low, high, f.median()]).all()
    assert f.final.median() == pytest.approx(value, abs=0.1)
    assert high[-1] - low[-1] < 0.15


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_huge_and_tiny_values_give_finite_forecasts(forecaster, scale):
    f = forecaster.forecast(np.array([3.0, 2.0, 1.5, 1.3]) * scale, 20, "loss")
    assert np.isfinite(f.median()).all()
    assert (f.median() > 0).all()


def test_direction_flip_mirrors_the_forecast(forecaster):
    up = forecaster.forecast(RISING[:10], 60, "accuracy")
    down = forecaster.forecast(1.0 - RISING[:10], 60, "error")
    np.testing.assert_allclose(down.median(), 1.0 - up.median(), atol=1e-5)
    np.testing.assert_allclose(down.quantile(0.05), 1.0 - up.quantile(0.95), atol=1e-5)
    np.testing.assert_allclose(down.prob_better(0.2), up.prob_better(0.8), atol=1e-5)


def test_percentages_are_an_explicit_scale(forecaster):
    share = forecaster.forecast(RISING[:10], 60, "accuracy")
    percent = forecaster.forecast(100 * RISING[:10], 60, "accuracy%")
    np.testing.assert_allclose(percent.median(), 100 * share.median(), rtol=1e-5)
    with pytest.raises(InputError, match="trailing %"):
        forecaster.forecast(100 * RISING[:10], 60, "accuracy")


@pytest.mark.parametrize("metric", ["accuracy", "error", "log_loss", "r2", "unit"])
def test_density_integrates_to_one_in_the_users_space(metric):
    f = ec.Forecaster.around(Gaussian(0.85, 0.2)).forecast([0.5, 0.6], 10, metric).final
    low, high = f.metric.hard
    total, _ = integrate.quad(lambda y: math.exp(f.log_prob(y)), max(low, -30), min(high, 30), limit=500, points=[0, 1])
    assert total == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("metric", ["accuracy", "error", "log_loss", "unit"])
def test_quantiles_are_ordered_and_invert_the_cdf(metric):
    f = ec.Forecaster.around(Gaussian(0.9, 0.2)).forecast([0.5, 0.6], 10, metric)
    levels = np.array([0.001, 0.05, 0.5, 0.95, 0.999])
    quantiles = f.quantile(levels)
    assert (np.diff(quantiles, axis=0) > 0).all()
    for level, values in zip(levels, quantiles, strict=True):
        np.testing.assert_allclose(f.cdf(values), level, atol=1e-6)


def test_prob_better_respects_the_direction():
    up = ec.Forecaster.around(Gaussian(0.6, 0.01)).forecast([0.5], 5, "accuracy")
    down = ec.Forecaster.around(Gaussian(0.6, 0.01)).forecast([0.5], 5, "error")
    np.testing.assert_allclose(up.prob_better(0.2), 1.0)
    np.testing.assert_allclose(down.prob_better(0.2), 0.0, atol=1e-12)
    np.testing.assert_allclose(down.prob_better(0.8), 1.0)


def test_prob_better_takes_one_best_value_per_curve():
    f = ec.Forecaster.around(Gaussian(0.6, 0.1)).forecast([[0.5], [0.5]], 5, "unit")
    found = f.prob_better([0.6, 0.7])
    np.testing.assert_allclose(found[:, 0], stats.norm.sf([0.0, 1.0]), atol=1e-9)


def test_mean_and_samples_agree_with_the_density():
    f = ec.Forecaster.around(Gaussian(0.7, 0.2)).forecast([2.0, 1.5], 10, "log_loss").final
    draws = f.sample(20_000, seed=3)
    assert draws.mean() == pytest.approx(float(f.mean()), abs=4 * draws.std() / math.sqrt(20_000))
    assert stats.kstest(draws, lambda y: f.cdf(y)).pvalue > 1e-4
    np.testing.assert_array_equal(f.sample(5, seed=3), f.sample(5, seed=3))


def test_to_dict_is_json_with_ordered_quantiles(forecaster):
    data = json.loads(json.dumps(forecaster.forecast(RISING[:10], 20, "accuracy").to_dict()))
    assert data["steps"] == list(range(11, 21))
    at_end = [values[-1] for _, values in sorted(data["quantiles"].items())]
    assert at_end == sorted(at_end)


def test_stream_equals_the_batch_at_every_step(forecaster):
    stream = forecaster.stream(horizon=60, metric="accuracy")
    for cutoff in range(1, 20):
        streamed = stream.update(RISING[cutoff - 1])
        batch = forecaster.forecast(RISING[:cutoff], 60, "accuracy")
        np.testing.assert_allclose(streamed.median(), batch.median(), atol=1e-5)
        np.testing.assert_allclose(streamed.log_prob(0.7), batch.log_prob(0.7), atol=1e-3, rtol=1e-4)


def test_stream_with_irregular_steps_and_a_loss_equals_the_batch(forecaster):
    steps, losses = [1, 2.5, 7, 8, 20], [2.3, 1.9, 1.2, 1.1, 0.8]
    stream = forecaster.stream(horizon=60, metric="log_loss")
    for i, (step, loss) in enumerate(zip(steps, losses, strict=True), start=1):
        streamed = stream.update(loss, step)
        batch = forecaster.forecast(losses[:i], 60, "log_loss", steps[:i])
        np.testing.assert_allclose(streamed.median(), batch.median(), rtol=1e-4)


@pytest.mark.parametrize(("metric", "kind"), [("accuracy", SHARE), ("log_loss", LOSS), ("unit", UNTOLD)])
def test_engine_is_told_what_is_measured(metric, kind):
    engine = Gaussian()
    ec.Forecaster.around(engine).forecast([[0.3, 0.4], [0.5, 0.6]], 10, metric)
    assert (engine.kinds == [kind, kind]).all()
    ec.Forecaster.around(engine).stream(10, metric).update(0.3)
    assert (engine.kinds == [kind]).all()


def test_stream_refuses_to_go_back_and_keeps_its_state(forecaster):
    stream = forecaster.stream(horizon=60, metric="accuracy")
    first = stream.update(0.3)
    with pytest.raises(InputError, match="only moves forward"):
        stream.update(0.4, step=1)
    with pytest.raises(InputError, match="nan"):
        stream.update(float("nan"))
    again = stream.update(0.4)
    assert len(again.steps) == len(first.steps) - 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": [0.1, np.nan, 0.3]}, r"values\[1\] = nan"),
        ({"values": [0.1, np.inf]}, r"values\[1\] = inf"),
        ({"values": [0.1, 1.2]}, r"values\[1\] = 1.2 .*hard bound 1"),
        ({"values": [0.1] * 50}, "nothing is left to forecast"),
        ({"values": [0.1] * 51}, "past the horizon"),
        ({"values": [0.1, 0.2], "steps": [3, 3]}, "step 3 .*twice"),
        ({"values": [0.1, 0.2], "steps": [-1, 3]}, "not negative"),
        ({"values": [0.1, "0.2"]}, "is not a number"),
        ({"values": "0.1"}, "is not a number"),
        ({"values": [[0.1, 0.2], [0.1, 0.2]], "steps": [[1, 2]]}, "steps holds 1"),
        ({"values": [0.1], "metric": "acuracy"}, "'acuracy' is unknown"),
        ({"values": [0.1], "horizon": 1}, "horizon=1"),
        ({"values": [0.1], "missing": "skip"}, "missing='skip'"),
        ({"values": [0.1, 0.2], "at": [1]}, "at="),
        ({"values": np.zeros((2, 2, 2))}, "3 dimensions"),
    ],
)
def test_bad_input_raises_an_error_that_names_it(forecaster, arguments, message):
    with pytest.raises(InputError, match=message):
        forecaster.forecast(**({"horizon": 50, "metric": "accuracy"} | arguments))


def test_bad_questions_raise_an_error_that_names_them(forecaster):
    f = forecaster.forecast([0.1, 0.2], 50, "accuracy")
    for ask in (lambda: f.quantile(1.0), lambda: f.quantile([0.5, 1.5]), lambda: f.interval(1.0), lambda: f.sample(0)):
        with pytest.raises(InputError):
            ask()
    with pytest.raises(InputError, match="shape"):
        f.log_prob([0.1, 0.2, 0.3])
    with pytest.raises(InputError, match="only forecasts of a batch"):
        f[0]


def test_missing_values_are_dropped_when_asked(forecaster):
    f = forecaster.forecast([0.1, np.nan, 0.3], 50, "accuracy", missing="drop")
    g = forecaster.forecast([0.1, 0.3], 50, "accuracy", steps=[1, 3])
    np.testing.assert_allclose(f.median(), g.median(), atol=1e-9)


def test_shortcut_uses_the_default_model():
    a = ec.forecast(RISING[:10], 60, "accuracy")
    b = ec.Forecaster().forecast(RISING[:10], 60, "accuracy")
    np.testing.assert_array_equal(a.median(), b.median())


def test_plot_draws_the_fan_and_the_truth(tmp_path):
    import matplotlib

    matplotlib.use("Agg")
    ax = ec.forecast(RISING[:10], 60, "accuracy").plot(truth=RISING)
    ax.figure.savefig(tmp_path / "fan.png")
    assert (tmp_path / "fan.png").stat().st_size > 10_000
    assert "what came" in [text.get_text() for text in ax.get_legend().get_texts()]
