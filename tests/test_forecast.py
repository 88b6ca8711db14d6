"""Forecaster and Forecast: the public contract, on the shipped models and on an engine with a known answer."""

from __future__ import annotations

import inspect
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

import epochcast as ec
from epochcast.distributions import Mixture
from epochcast.errors import EpochcastError, InputError, StrongContradictionWarning
from epochcast.metric import LOSS, SHARE, UNTOLD
from epochcast.question import Engine
from epochcast.runtime.weights import find

RISING = 1.0 - 0.7 * np.arange(1.0, 61.0) ** -0.5


def endless_list():
    items = []
    items.append(items)
    return items


def endless_mapping():
    items = {}
    items["inner"] = items
    return items


class Gaussian(Engine):
    """An engine that answers N(mean, sd) everywhere, in the prior's space."""

    name = "gaussian"

    def __init__(self, mean=0.6, sd=0.1):
        self.mean, self.sd = mean, sd

    def predict(self, question):
        self.kinds = question.kinds
        shape = (*question.steps.shape, 1)
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
        streamed = stream.update(loss, step=step)
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
    assert "truth" in [text.get_text() for text in ax.get_legend().get_texts()]


# What strangers' runs and arguments brought up -----------------------------------------------------------------------

EXPLODED = [0.9, 0.5, 0.3, 0.2, 4e4, 4e4, 4e4]


@pytest.mark.parametrize("values", [EXPLODED, [0.9, 0.5, 3e300, 2e300], [2.3, 1.5, 1.0, 50.0], [1.0, 1e-9, 1e20]])
def test_forecast_of_an_exploded_loss_covers_where_the_run_stands(values):
    f = ec.forecast(values, 50, "loss") if max(values) <= 1e300 else None
    if f is None:
        with pytest.raises(InputError, match="larger than"):
            ec.forecast(values, 50, "loss")
        return
    low, high = f.interval(0.9)
    assert (low <= values[-1]).all()
    assert (high >= values[-1]).all()
    assert any("left its range" in note for note in f.notes)


def test_forecast_of_an_exploded_r2_and_of_a_share_below_narrow_soft_bounds_covers_it_too():
    narrow = ec.Metric("accuracy", False, (0.0, 1.0), (0.95, 1.0))
    for values, metric in (([0.5, 0.7, -900.0, -900.0], "r2"), ([0.96, 0.97, 0.1, 0.1], narrow)):
        low, high = ec.forecast(values, 30, metric).final.interval(0.9)
        assert low <= values[-1] <= high


def test_forecast_of_a_run_that_comes_back_is_as_if_it_had_kept_its_scale():
    f = ec.forecast([0.9, 0.5, 4e4, 0.3, 0.25], 50, "loss")
    assert f.notes == ()
    assert f.final.median() < 1.0


def test_stream_of_a_run_that_explodes_answers_as_one_forecast():
    stream = ec.Forecaster().stream(50, "loss")
    for count, value in enumerate(EXPLODED, start=1):
        newest = stream.update(value)
        wanted = ec.forecast(EXPLODED[:count], 50, "loss")
        np.testing.assert_allclose(newest.median(), wanted.median(), rtol=1e-3)


def test_forecast_of_a_return_without_bounds_follows_the_scale_of_the_run():
    reward = ec.Metric("reward", minimize=False)
    rising = np.array([-200.0, -150.0, -110.0, -80.0, -60.0, -47.0, -36.0, -28.0])
    f = ec.forecast(rising, 50, reward).final
    assert -60.0 < f.median() < 100.0
    larger = ec.forecast(1000.0 * rising, 50, reward).final
    assert larger.median() == pytest.approx(1000.0 * f.median(), rel=1e-4)
    shifted = ec.forecast(rising + 500.0, 50, reward).final
    assert shifted.median() == pytest.approx(f.median() + 500.0, rel=1e-4)
    assert ec.forecast([7.0] * 9, 50, reward).final.median() == pytest.approx(7.0, abs=0.5)


def test_forecast_of_a_return_told_its_end_stays_below_it():
    bounded = ec.Metric("reward", minimize=False, hard=(-math.inf, 0.0))
    _, high = ec.forecast([-200.0, -120.0, -60.0, -30.0, -14.0, -6.0], 50, bounded).interval(0.99)
    assert (high <= 0.0).all()


def test_final_is_the_horizon_whatever_the_order_of_the_steps():
    f = ec.forecast(RISING[:5], 20, "accuracy", at=[20, 10])
    assert f.final.steps == 20.0
    assert f.final.median() == f.median()[0]
    assert "at step 20" in repr(f)


def test_final_of_a_horizon_that_was_not_asked_for_is_an_error():
    f = ec.forecast(RISING[:5], 20, "accuracy", at=[15, 10])
    assert "at step 15" in repr(f)
    with pytest.raises(InputError, match=r"step 20, the horizon, was not asked for.*at="):
        _ = f.final


def test_batch_with_a_long_run_answers_each_run_as_if_alone():
    long, short = np.linspace(0.1, 0.6, 450), RISING[:30]
    for model in ec.models():
        together = ec.forecast([short, long], 5000, "accuracy", model=model)
        for i, values in enumerate((short, long)):
            alone = ec.forecast(values, 5000, "accuracy", model=model)
            assert np.array_equal(together[i].steps, alone.steps)
            np.testing.assert_allclose(together[i].median(), alone.median(), atol=1e-5)


def test_forecast_of_a_huge_horizon_asks_no_more_steps_than_of_a_thousand():
    for horizon in (10**9, 10**15):
        f = ec.forecast([0.5, 0.6], horizon, "accuracy")
        assert len(f) == 1000
        assert f.steps[[0, -1]].tolist() == [3.0, horizon]
        assert np.isfinite(f.median()).all()


@pytest.mark.parametrize("horizon", [50.5, 10**16, 10**400, math.nan, math.inf, 1, "50", None, True])
def test_horizon_that_is_no_whole_number_of_steps_is_refused_everywhere(horizon):
    for call in (
        lambda: ec.forecast([0.5, 0.6], horizon, "accuracy"),
        lambda: ec.Forecaster().stream(horizon, "accuracy"),
        lambda: ec.Stopper(horizon, "accuracy"),
    ):
        with pytest.raises(InputError, match="horizon"):
            call()


def test_untrained_value_of_an_accuracy_is_a_value_at_step_0_and_leaves_its_bounds():
    told = ec.forecast(RISING[:5], 30, "accuracy", untrained=0.1)
    at_zero = ec.forecast([0.1, *RISING[:5]], 30, "accuracy", steps=range(6))
    assert np.array_equal(told.median(), at_zero.median())
    assert told.normalizer.half_width == 0.5


@pytest.mark.parametrize("untrained", [math.nan, "2.3", True, -1.0, 0.0, 10**400])
def test_untrained_value_that_cannot_be_is_refused(untrained):
    for call in (
        lambda: ec.forecast([1.0, 0.5], 30, "loss", untrained=untrained),
        lambda: ec.Forecaster().stream(30, "loss", untrained=untrained),
    ):
        with pytest.raises(InputError, match="untrained"):
            call()


def test_forecast_of_a_plain_metric_refuses_values_beyond_its_range():
    with pytest.raises(InputError, match=r"1e\+39 is larger than 1000.*Metric with bounds"):
        ec.forecast([0.5, 0.6, 1e39, 0.7], 20, "unit")


def test_forecast_of_a_plain_metric_with_hard_bounds_stays_inside():
    low, high = ec.forecast([0.2, 0.21, 0.19], 30, ec.Metric("own", True, (0.15, 0.5), transform=False)).interval(0.999)
    assert ((low >= 0.15) & (high <= 0.5)).all()


def test_last_item_of_a_batch_is_whole():
    batch = ec.forecast([RISING[:5], RISING[:9]], 30, "accuracy")
    assert batch[-1].observed.values.shape == (1, 9)
    assert np.array_equal(batch[-1].median(), batch[1].median())
    assert len(list(batch)) == 2
    with pytest.raises(IndexError):
        batch[2]


def test_sample_of_many_draws_is_that_of_one_call_after_the_other():
    """In chunks, into the result: the draws of a seed do not depend on how many are made at once."""
    f = ec.forecast(RISING[:5], 1000, "accuracy")
    many = f.sample(300, seed=3)
    assert many.shape == (300, 995)
    assert np.array_equal(many[:10], f.sample(10, seed=3))
    assert not np.array_equal(f.sample(2, seed=None), f.sample(2, seed=None))


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda f: f.quantile([]), "level"),
        (lambda f: f.quantile("x"), "not a number"),
        (lambda f: f.interval("x"), "coverage"),
        (lambda f: f.sample(2.5), "whole number"),
        (lambda f: f.sample(2, seed="x"), "seed='x'"),
        (lambda f: f.sample(2, seed=-1), "seed=-1"),
        (lambda f: f.sample(10**14), "draws of 7 values take .* GB"),
        (lambda f: f.paths(2, seed=2.5), "seed=2.5"),
        (lambda f: f.paths(10**14), "paths of 7 steps take .* GB"),
        (lambda f: f.prob_ever(math.nan), "best=nan"),
        (lambda f: f.first_step(math.nan), "value=nan"),
        (lambda f: f.plot(truth="x"), "truth = 'x' is not a number"),
        (lambda f: f.prob_better("x"), "not a number"),
        (lambda f: f.cdf(None), "number"),
        (lambda f: ec.forecast([0.5], 9, "accuracy", at=[]), "at="),
        (lambda f: ec.forecast([0.5], 9, "accuracy", at=[[2, 3]]), "at="),
        (lambda f: ec.forecast([0.5], 9, "accuracy", at="x"), "at"),
        (lambda f: ec.Forecaster(threads="a"), "threads='a'"),
        (lambda f: ec.Forecaster(threads=1.5), "threads=1.5"),
        (lambda f: ec.Forecaster(threads=1_000), "threads=1000 .* 1 to 256"),
        (lambda f: ec.Forecaster(None), "model=None"),
        (lambda f: ec.forecast([0.5], 9, "accuracy", model=["real"]), "model=.'real'."),
        (lambda f: ec.sample_prior(2, seed="x"), "seed='x'"),
        (lambda f: ec.sample_prior("a"), "size='a'"),
        (lambda f: ec.sample_prior(2, horizon=9.5), "horizon=9.5"),
        (lambda f: ec.Metric("m", True, hard=(0, 10**400)), "hard bounds"),
        (lambda f: ec.Metric(1, True), "name=1"),
        (lambda f: ec.Metric("m", True, transform="no"), "transform='no'"),
        (lambda f: ec.Stopper.from_json(ec.Stopper(9, "accuracy").to_json(), forecaster="real"), "forecaster='real'"),
        (lambda f: ec.Forecaster().stream(20, "accuracy").update(None), "value=None"),
        (lambda f: ec.Forecaster().stream(20, "accuracy").update("0.5"), "value='0.5'"),
        (lambda f: ec.Forecaster().stream(20, "accuracy").update(True), "value=True"),
        (lambda f: ec.Forecaster().stream(20, "accuracy").update(0.5, step="x"), "step='x'"),
        (lambda f: ec.Forecaster().stream(math.nan, "accuracy"), "horizon=nan"),
        (lambda f: ec.forecast([0.5], 9, "accuracy", schedule=lambda step: 1 / 0), "schedule failed.*ZeroDivision"),
        (lambda f: ec.forecast([0.5], 9, "accuracy", schedule=10**400), "schedule .* is neither words"),
        (lambda f: ec.forecast([0.5], 9, "accuracy", schedule="x" * 5_000), r"schedule 'x{200}\.\.\.' is unknown"),
        (lambda f: ec.forecast([0.5], 9, "accuracy", schedule="cosine" + "," * 5_000), "is unknown"),
        (lambda f: ec.forecast([0.5], 9, "accuracy", missing="x" * 5_000), r"missing='x*\.\.\.x*' is unknown"),
        (lambda f: ec.forecast([0.5], 9, "accuracy", context=[[[1], [2, [3]]]]), "values"),
        (lambda f: ec.forecast(endless_list(), 9, "accuracy"), "are no numbers, nor lists of them|is not a number"),
        (lambda f: ec.forecast([0.5], 9, "accuracy", model=Path("/")), "/ is a folder"),
        (lambda f: f.interval("x" * 5_000), r"coverage='x*\.\.\.x*'"),
        (lambda f: ec.Metric.named(None), "metric=None must be a name"),
        (lambda f: ec.Metric("m", True, hard=np.array(None)), "hard bounds"),
        (lambda f: ec.FreezeThaw(endless_mapping(), 9, "accuracy"), "nested more than 32 deep"),
        (lambda f: ec.FreezeThaw({"lr": [1, 10**400]}, 9, "accuracy"), "the choice .* is no number"),
        (lambda f: ec.FreezeThaw({"lr": (0, 1)}, 9, "accuracy", forecaster="x" * 5_000), "must be a Forecaster"),
    ],
)
def test_argument_that_cannot_be_used_is_named(call, problem):
    with pytest.raises(EpochcastError, match=problem) as refused:
        call(ec.forecast([0.5, 0.6], 9, "accuracy"))
    assert len(str(refused.value)) < 500


def test_schedule_that_contradicts_the_horizon_is_refused_when_a_stream_begins():
    for schedule in ([0.1] * 30, "cosine,warmup=60", lambda step: -1.0):
        with pytest.raises(InputError, match="schedule"):
            ec.Forecaster(schedule=schedule).stream(50, "loss")


def test_forecaster_survives_a_pickle_with_its_threads_and_schedule():
    forecaster = ec.Forecaster(threads=2, schedule="cosine")
    again = pickle.loads(pickle.dumps(forecaster))
    assert again.engine.source.threads == 2
    assert again.name == "real@cosine"


def test_own_model_named_like_one_that_ships_survives_a_pickle_as_itself(tmp_path):
    shipped = find("lcpfn")
    for file in (shipped.graph, shipped.weights):
        text = file.read_bytes().replace(b"lcpfn.safetensors", b"strea.safetensors") if file is shipped.graph else None
        (tmp_path / f"strea{file.suffix}").write_bytes(text or file.read_bytes())
    own = ec.Forecaster(tmp_path / "strea.onnx")
    again = pickle.loads(pickle.dumps(own))
    assert again.engine.source.model == str(tmp_path / "strea.onnx")
    (tmp_path / "strea.safetensors").write_bytes(find("stream").weights.read_bytes())
    with pytest.raises(EpochcastError):
        pickle.loads(pickle.dumps(own))


def test_forecast_names_all_its_arguments():
    names = set(inspect.signature(ec.Forecaster.forecast).parameters) - {"self"}
    assert set(inspect.signature(ec.forecast).parameters) == names | {"model", "schedule"}


def test_forecast_of_a_tensor_with_gradients_or_of_half_precision_is_that_of_its_numbers():
    torch = pytest.importorskip("torch")
    wanted = ec.forecast([0.5, 0.625, 0.6875], 20, "accuracy").median()
    values = torch.tensor([0.5, 0.625, 0.6875], requires_grad=True)
    for given in (values, values.bfloat16(), list(values), [v.detach() for v in values], values.half().detach()):
        assert np.array_equal(ec.forecast(given, 20, "accuracy").median(), wanted)
    assert ec.Forecaster().stream(20, "accuracy").update(values[0]).median().shape == (19,)


def test_forecast_of_a_series_or_of_one_column_is_one_run_at_the_steps_of_its_index():
    pandas = pytest.importorskip("pandas")
    values = [0.5, 0.6, 0.65]
    by_fives = ec.forecast(values, 50, "accuracy", steps=[5, 10, 15])
    counted = ec.forecast(values, 50, "accuracy")
    series = pandas.Series(values, index=pandas.Index([5, 10, 15], name="epoch"))
    for given in (series, series.to_frame("acc")):
        assert np.array_equal(ec.forecast(given, 50, "accuracy").median(), by_fives.median())
    for given in (pandas.Series(values), pandas.Series(values, index=list("abc")), pandas.DataFrame({"acc": values})):
        assert np.array_equal(ec.forecast(given, 50, "accuracy").median(), counted.median())
    batch = ec.forecast([series, pandas.Series(values)], 50, "accuracy")
    np.testing.assert_allclose(batch[0].median(), by_fives.median(), atol=1e-5)
    np.testing.assert_allclose(batch[1].median(), counted.median(), atol=1e-5)


NOISY_ACCURACY = 0.96 - 0.35 * np.exp(-np.arange(30) / 6.0) + 0.01 * np.random.default_rng(0).standard_normal(30)


def test_accuracy_told_to_be_an_error_warns_once_with_both_readings():
    with pytest.warns(StrongContradictionWarning) as caught:
        ec.forecast(NOISY_ACCURACY, 50, "error")
    assert len(caught) == 1
    message = str(caught[0].message)
    assert "for error" in message
    assert "metric='accuracy'" in message


def test_shares_told_to_be_percentages_warn_once_with_both_readings():
    with pytest.warns(StrongContradictionWarning) as caught:
        ec.forecast(NOISY_ACCURACY, 50, "accuracy%")
    assert len(caught) == 1
    message = str(caught[0].message)
    assert "as accuracy%" in message
    assert "metric='accuracy'" in message


@pytest.mark.parametrize("model", ec.models())
def test_ragged_batch_takes_its_own_median_as_an_argument(model):
    f = ec.Forecaster(model).forecast([[0.1, 0.2, 0.3], [0.4]], 10, "accuracy")
    known = ~np.isnan(f.steps)
    assert 0 < known.sum() < known.size
    np.testing.assert_allclose(f.cdf(f.median())[known], 0.5, atol=1e-6)
    for ask in (f.cdf, f.prob_better, f.log_prob):
        assert (np.isnan(ask(f.median())) == ~known).all()
    with pytest.raises(InputError, match="must be a number, or one per step"):
        f.cdf(np.where(known, np.nan, 0.5))


def test_mean_of_an_untransformed_metric_stays_within_its_hard_bounds():
    metric = ec.Metric("own", False, (0.0, 0.5), transform=False)
    f = ec.forecast([0.45, 0.49, 0.5, 0.5, 0.5, 0.5], 30, metric)
    assert f.normalised.mean().max() > 0.5  # what lies beyond is cut off
    assert ((f.mean() > 0.4) & (f.mean() <= 0.5)).all()


def test_untransformed_metric_whose_bounds_the_network_never_reaches_stays_within_them():
    f = ec.forecast([], 30, ec.Metric("own", False, (300.0, 308.0), transform=False))
    for answer in (*f.interval(0.9), f.mean(), f.sample(5), f.quantile([0.01, 0.99])):
        assert ((answer > 300.0 - 1e-9) & (answer < 308.0 + 1e-9)).all()


def test_stream_of_a_run_that_gets_worse_warns_once():
    stream = ec.Forecaster().stream(50, "loss")
    for step in range(4):
        stream.update(0.3 + 0.05 * step)
    with pytest.warns(StrongContradictionWarning):
        stream.update(0.5)
    for step in range(5, 20):  # a warning would be an error here
        stream.update(0.3 + 0.05 * step)
