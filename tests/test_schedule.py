"""Learning-rate schedules in the words of those who train, and the rates that the network reads."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import epochcast as ec
from epochcast.curve import Curves
from epochcast.engines import model_and_words
from epochcast.errors import ConfigError, InputError
from epochcast.features.run import QUERY_FEATURES, TOKEN_FEATURES, RunFeatures
from epochcast.prior import real
from epochcast.prior.real.grid import Grid
from epochcast.prior.real.schedule import Outline, cosine
from epochcast.prior.real.source import Source
from epochcast.prior.real.table import SCHEDULES, TABLE
from epochcast.question import Question
from epochcast.rates import RATE_QUERY_FEATURES, RATE_TOKEN_FEATURES, Rates, widened
from epochcast.schedule import Schedule
from epochcast.stopping.model_name import model_name_of

STEPS = np.arange(1.0, 101.0)[None]


def rates_of(schedule, steps=STEPS, horizon=100.0):
    return Schedule.of(schedule).at(steps, horizon)


def test_constant_rates_count_every_step_in_full():
    rates = rates_of("constant")
    np.testing.assert_allclose(rates.rate, 1.0)
    np.testing.assert_allclose(rates.clock, STEPS)


def test_cosine_is_half_way_in_the_middle_and_over_at_the_horizon():
    rates = rates_of("cosine")
    np.testing.assert_allclose(rates.rate[0, [49, 99]], [0.5, 0.0], atol=2e-3)
    np.testing.assert_allclose(rates.clock[0, -1], 50.0, rtol=1e-6)


def test_warmup_hold_final_and_end_shape_a_linear_decay():
    rates = rates_of("linear,warmup=10,hold=20,end=80,final=0.1").rate[0]
    np.testing.assert_allclose(rates[[4, 9, 19]], [0.5, 1.0, 1.0], atol=0.01)
    np.testing.assert_allclose(rates[[49, 79, 99]], [0.55, 0.1, 0.1], atol=0.01)


@pytest.mark.parametrize(
    ("decay", "half_way"), [("linear", 0.5), ("sqrt", 1.0 - 0.5**0.5), ("cosine", 0.5), ("exponential", 1.0 / 11.0)]
)
def test_wsd_warms_up_holds_for_a_share_of_the_run_and_decays(decay, half_way):
    rates = rates_of(f"wsd,hold=0.8,decay={decay},warmup=10").rate[0]
    np.testing.assert_allclose(rates[[4, 9, 79]], [0.5, 1.0, 1.0], atol=0.01)
    np.testing.assert_allclose(rates[[89, 99]], [half_way, 0.0], atol=0.03)


def test_wsd_holds_the_same_share_at_any_horizon():
    short, long = (rates_of("wsd", np.array([[0.79, 0.9]]) * horizon, horizon).rate for horizon in (50.0, 50_000.0))
    np.testing.assert_allclose(short, long, atol=0.03)
    np.testing.assert_allclose(long, [[1.0, 0.5]], atol=0.01)


@pytest.mark.parametrize(
    ("words", "problem"), [("wsd,hold=40", "hold is a share of the run"), ("wsd,decay=square", "choose linear")]
)
def test_wsd_of_a_step_or_an_unknown_decay_is_refused(words, problem):
    with pytest.raises(InputError, match=problem):
        Schedule.of(words)


def test_drops_come_right_after_their_steps():
    rates = rates_of("drops,at=80/60,factor=0.5").rate[0]
    np.testing.assert_allclose(rates[[59, 60, 79, 80]], [1.0, 0.5, 0.5, 0.25])


@pytest.mark.parametrize(
    "same",
    [
        [0.3] * 60 + [0.03] * 40,
        np.array([2.0] * 60 + [0.2] * 40),
        lambda step: 7.0 if step <= 60.0 else 0.7,
    ],
)
def test_rates_in_numbers_say_the_same_as_words_and_only_their_ratios_count(same):
    words, numbers = rates_of("drops,at=60"), rates_of(same)
    np.testing.assert_allclose(numbers.rate, words.rate)
    np.testing.assert_allclose(numbers.clock, words.clock)


@pytest.mark.parametrize("horizon", [2.0, 7.5, 300_000.0])
def test_clock_is_the_sum_of_rates_at_any_horizon(horizon):
    steps = np.linspace(0.0, horizon, 50)[None]
    rates = rates_of("linear", steps, horizon)
    np.testing.assert_allclose(rates.clock, steps - steps**2 / (2.0 * horizon), atol=1e-3 * horizon)
    assert (np.diff(rates.clock) >= 0.0).all()


def test_clock_counts_in_the_unit_that_is_asked_for():
    whole, half = (Schedule.of("cosine").at(STEPS, 100.0, scale) for scale in (1.0, 0.5))
    np.testing.assert_allclose(half.clock, 0.5 * whole.clock)


def test_before_training_there_is_no_rate():
    rates = rates_of("cosine", np.zeros((1, 1)))
    assert rates.rate == 0.0
    assert rates.clock == 0.0


@pytest.mark.parametrize("words", ["cosine,end=80,hold=20,final=0.1", "cosine"])
def test_words_mean_what_the_network_was_trained_on(words):
    start, end, rest = (20.0, 80.0, 0.1) if "hold" in words else (0.0, 100.0, 0.0)
    outline = Outline(*(np.full((1, 1), number) for number in (start, end, rest)))
    drawn = cosine(Grid.of(STEPS[0], 100.0), outline, Source(np.random.default_rng(0), len(outline.end)))
    said = rates_of(words)
    np.testing.assert_allclose(said.rate, drawn.rate, atol=3e-3)
    np.testing.assert_allclose(said.clock, drawn.clock, atol=0.02)


@pytest.mark.parametrize("schedule", ["cosine,warmup=5", [1.0, 0.5]])
def test_schedule_survives_pickling(schedule):
    known = Schedule.of(schedule)
    assert pickle.loads(pickle.dumps(known)) == known


@pytest.mark.parametrize(
    ("schedule", "complaint"),
    [
        ("cosin", "'cosin' is unknown; choose constant, cosine, linear, drops"),
        ("cosine,warmpu=5", "cosine has no 'warmpu'; it takes warmup, hold, end, final"),
        ("cosine,warmup=soon", "warmup='soon' should be a number"),
        ("cosine,warmup=-1", "warmup='-1' should be a number, 0 or more"),
        ("cosine,warmup=1/2", "warmup is one number"),
        ("linear,final=2", "final is a share of the rate, 0 to 1"),
        ("drops", "does not say where the rate drops; try drops,at=60/80"),
        ("drops,at=", "at='' should be a number"),
        ("cosine,end=5,hold=10", "ends at step 5, before its decay begins at step 10"),
        ([], "neither words"),
        ([[1.0]], "neither words"),
        (["fast", "slow"], "neither words"),
        (None, "neither words"),
        ([1.0, 0.5], "lists 2 rates where the run has 100 steps"),
        ([np.nan] * 100, "must give finite rates"),
        ([0.0] * 100, "none below 0 and some above"),
        (lambda step: -1.0, "none below 0"),
    ],
)
def test_bad_schedule_says_what_is_wrong(schedule, complaint):
    with pytest.raises(InputError, match=complaint):
        rates_of(schedule)


# What the network reads -----------------------------------------------------------------------------------------------


def drawn(size=8, horizon=60.0):
    steps = np.arange(1.0, horizon + 1.0)
    draw = real.sample(size, np.random.default_rng(0), steps, horizon)
    return np.broadcast_to(steps, draw.noisy.shape), draw


def test_run_without_a_schedule_has_no_rate_features_beside_those_with_one():
    steps, draw = drawn()
    known = np.arange(8) % 2.0
    rates = Rates(known, draw.rate, draw.clock)
    run_features = RunFeatures.of(steps, draw.noisy, 60.0, rates=rates)
    seen = run_features.at(np.array([[20]]))
    queries = seen.queries(np.full((1, 1, 1), 60.0), rates[np.array([[59]])])
    assert run_features.tokens.shape[-1] == TOKEN_FEATURES + RATE_TOKEN_FEATURES
    assert queries.shape == (8, 1, 1, QUERY_FEATURES + RATE_QUERY_FEATURES)
    for features, own in ((run_features.tokens, TOKEN_FEATURES), (queries, QUERY_FEATURES)):
        assert (features[known == 0.0, ..., own:] == 0.0).all()
        assert (features[known == 1.0, ..., own] == 1.0).all()
    plain = RunFeatures.of(steps, draw.noisy, 60.0)
    np.testing.assert_array_equal(run_features.tokens[..., :TOKEN_FEATURES], plain.tokens)


def test_rate_features_of_a_cutoff_know_nothing_of_later_rates():
    steps, draw = drawn()
    same = rates_of("drops,at=30", steps, 60.0)
    other = rates_of("constant", steps, 60.0)
    first, second = (RunFeatures.of(steps, draw.noisy, 60.0, rates=rates).tokens for rates in (same, other))
    np.testing.assert_allclose(first[:, :31], second[:, :31])
    assert not np.allclose(first[:, 31:], second[:, 31:])


def test_queries_behind_a_drop_are_reached_slowly():
    steps, draw = drawn()
    seen = RunFeatures.of(steps, draw.noisy, 60.0, rates=rates_of("drops,at=30,factor=0.01", steps, 60.0)).at(
        np.array([[30]])
    )
    asked = np.full((1, 1, 1), 60.0)
    rate, log_mean, log_ratio = seen.queries(asked, rates_of("drops,at=30,factor=0.01", asked, 60.0))[0, 0, 0, -3:]
    np.testing.assert_allclose([rate, np.exp(log_mean)], 0.01, rtol=1e-6)
    np.testing.assert_allclose(log_ratio, np.log(31.3 / 31.0), rtol=1e-6)


def test_rate_features_stay_small_on_a_hundred_kinds_of_runs():
    rng = np.random.default_rng(2)
    for _ in range(100):
        steps, horizon = real.sample_grid(rng)
        draw = real.sample(8, rng, steps, horizon)
        rates = Rates(np.ones(8), draw.rate, draw.clock)
        run_features = RunFeatures.of(np.broadcast_to(steps, draw.noisy.shape), draw.noisy, horizon, rates=rates)
        cutoffs = np.arange(len(steps))
        last = np.full((len(steps), 1), len(steps) - 1)
        queries = run_features.at(cutoffs[None]).queries(steps[last][None], rates[last])
        assert np.abs(run_features.tokens).max() < 12.0
        assert np.abs(queries).max() < 12.0


def test_features_that_nothing_is_told_about_are_zero():
    wide = widened(np.ones((2, 3)), 5)
    assert wide.dtype == np.float32
    np.testing.assert_array_equal(wide, [[1, 1, 1, 0, 0]] * 2)


def test_constant_and_toggling_runs_have_schedules_like_any_other():
    config = real.RealPriorConfig(paper=0.0, constant=0.5, toggling=0.5)
    draw = real.sample(4_000, np.random.default_rng(3), STEPS[0], 100.0, config)
    planned = sum(config[form.name] for form in TABLE.among(SCHEDULES))
    assert abs(draw.ingredients["scheduled"].mean() - planned) < 0.03
    assert (draw.rate[draw.ingredients["scheduled"]].min(axis=1) < 1.0).mean() > 0.95  # some drops would come later


# Models that know the schedule ----------------------------------------------------------------------------------------

RISING = 1.0 - 0.9 * np.arange(1.0, 31.0) ** -0.4


@pytest.fixture(scope="module")
def with_cosine():
    return ec.Forecaster(schedule="cosine")


def test_stream_batch_and_all_cutoffs_agree_under_a_schedule(with_cosine):
    stream = with_cosine.stream(40, "accuracy")
    for value in RISING[:12]:
        last = stream.update(value)
    whole = with_cosine.forecast(RISING[:12], 40, "accuracy")
    np.testing.assert_allclose(last.median(), whole.median(), atol=1e-5)
    engine, values = with_cosine.engine, np.linspace(0.2, 0.8, 40)
    known = {"kinds": np.array([ec.Metric.named("accuracy").kind]), "schedule": with_cosine.schedule}
    seen = Question.of(Curves.of(values[:12]), np.array([[40.0]]), 40.0, **known)
    wanted = engine.predict(seen).icdf(np.full((1, 1), 0.5))
    every = dict(engine.at_cutoffs(Question.of(Curves.of(values), np.empty((1, 0)), 40.0, **known), range(40)))
    np.testing.assert_allclose(every[12][:, -1:].icdf(np.full((1, 1), 0.5)), wanted, atol=1e-5)
    unknown = engine.predict(replace(seen, schedule=None)).icdf(np.full((1, 1), 0.5))
    assert abs(unknown - wanted) > 1e-3  # else all of them could have left the schedule out


def test_forecaster_whose_schedule_is_taken_back_forecasts_as_one_that_never_had_any(with_cosine):
    def end(forecaster):
        return forecaster.forecast(RISING[:10], 60, "accuracy").final.median()

    plain, without = ec.Forecaster(), with_cosine.with_schedule(None)
    assert (plain.schedule, without.schedule) == (None, None)
    assert (plain.name, without.name, with_cosine.name) == ("real", "real", "real@cosine")
    assert end(without) == end(plain)
    assert abs(end(with_cosine) - end(plain)) > 1e-3
    assert without.engine is with_cosine.engine  # not a copy that could differ


def test_schedule_of_a_forecaster_can_be_another_for_other_runs(with_cosine):
    other = with_cosine.with_schedule("constant")
    assert (other.name, with_cosine.name) == ("real@constant", "real@cosine")
    wanted = ec.Forecaster(schedule="constant").forecast(RISING[:10], 60, "accuracy")
    assert np.array_equal(other.forecast(RISING[:10], 60, "accuracy").median(), wanted.median())


def test_name_with_words_behind_it_is_read_as_a_model_and_its_schedule(with_cosine):
    model, words = model_and_words("default@cosine")
    again = ec.Forecaster(model, schedule=words)
    assert again.name == with_cosine.name
    assert again.schedule == with_cosine.schedule
    assert model_and_words("stream") == ("stream", "")


def test_name_of_a_file_that_exists_has_no_words_behind_it(tmp_path):
    (tmp_path / "mine@cosine").touch()
    assert model_and_words(str(tmp_path / "mine@cosine")) == (str(tmp_path / "mine@cosine"), "")


@pytest.mark.parametrize("schedule", ["cosine,warmup=3", [1.0] * 20 + [0.1] * 20])
def test_forecaster_with_a_schedule_survives_pickling(schedule):
    forecaster = ec.Forecaster(schedule=schedule)
    again = pickle.loads(pickle.dumps(forecaster))
    wanted, found = (f.forecast(RISING[:9], 40, "accuracy").final.median() for f in (forecaster, again))
    assert found == wanted


def test_saved_stopper_remembers_words_and_asks_for_rates_again():
    stopper = ec.Stopper(40, "accuracy", forecaster=ec.Forecaster(schedule="cosine"))
    assert ec.Stopper.from_json(stopper.to_json()).forecaster.name == "real@cosine"
    numbers = ec.Forecaster(schedule=[1.0] * 40)
    stopper = ec.Stopper(40, "accuracy", forecaster=numbers)
    with pytest.raises(ConfigError, match=r"'real', sha256 \w+\.\.\., schedule 'rates', which does not ship; pass"):
        ec.Stopper.from_json(stopper.to_json())
    assert ec.Stopper.from_json(stopper.to_json(), numbers).forecaster is numbers


@pytest.mark.parametrize(
    ("saved", "name"), [("real@cosine,warmup=5", "real@cosine,warmup=5"), ("stream", "stream"), ("lcpfn", "lcpfn")]
)
def test_model_whose_name_is_enough_is_loaded_from_a_saved_name(saved, name):
    assert model_name_of(saved, version=1).load().name == name


@pytest.mark.parametrize("saved", ["real@rates", "mine@cosine", "mine"])
def test_model_whose_name_is_not_enough_is_asked_for(saved):
    with pytest.raises(ConfigError, match="does not ship; pass forecaster="):
        model_name_of(saved, version=1).load()


@pytest.mark.parametrize("model", ["stream", "lcpfn", "mcmc-pp", "last-value"])
def test_models_that_read_no_rates_say_so(model):
    with pytest.raises(InputError, match=r"learning rates; leave schedule='cosine' out"):
        ec.Forecaster(model, schedule="cosine")


def test_wrong_number_of_rates_is_refused_when_the_horizon_is_known():
    with pytest.raises(InputError, match="lists 3 rates where the run has 40 steps"):
        ec.forecast(RISING[:9], 40, "accuracy", schedule=[1.0, 0.5, 0.1])
