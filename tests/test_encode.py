"""From what is handed over to what an engine is asked: a `Run` wherever values are, and batches of unlike runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import epochcast as ec
from epochcast.curve import Curves
from epochcast.distributions import Mixture
from epochcast.encode import encode, normalised, seen_of
from epochcast.errors import InputError
from epochcast.metric import Metric
from epochcast.question import Engine, Input, Question
from epochcast.runtime.networks import load_network
from epochcast.schedule import Schedule
from epochcast.stopping.calibration import FinishedRuns, forecasts

ACCURACY, LOSS = Metric.named("accuracy"), Metric.named("log_loss")
RISING = [0.2, 0.35, 0.45, 0.5, 0.54]
FALLING = [2.1, 1.7, 1.5, 1.4, 1.35]
HORIZON = 30


class Recorder(Engine):
    """Remembers what it was asked; reads everything."""

    name = "recorder"
    reads: frozenset[Input] = frozenset({"untrained", "kind", "schedule", "context", "config"})
    asked: Question

    def predict(self, question: Question) -> Mixture:
        self.asked = question
        shape = (*question.steps.shape, 1)
        return Mixture(np.zeros(shape), np.full(shape, 0.5), np.full(shape, -2.0))


def same(one: ec.Forecast, other: ec.Forecast) -> bool:
    levels = [0.05, 0.5, 0.95]
    return np.array_equal(one.quantile(levels), other.quantile(levels)) and np.array_equal(one.steps, other.steps)


# --- a Run wherever values are ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "plain"),
    [
        (ec.Run(RISING), {"values": RISING}),
        (ec.Run(np.array(RISING), steps=[1, 2, 4, 8, 9]), {"values": RISING, "steps": [1, 2, 4, 8, 9]}),
        (ec.Run(RISING, untrained=0.1), {"values": RISING, "untrained": 0.1}),
        (ec.Run([0.1, *RISING], steps=range(6)), {"values": RISING, "untrained": 0.1}),
    ],
    ids=["values", "steps", "untrained", "from step 0"],
)
def test_run_is_forecast_as_its_values(run: ec.Run, plain: dict[str, Any]) -> None:
    wanted = ec.forecast(**plain, horizon=HORIZON, metric="accuracy")
    found = ec.forecast(run, horizon=HORIZON, metric="accuracy")
    assert found.median().ndim == 1
    assert same(found, wanted)
    if len(plain) > 1:
        assert not same(found, ec.forecast(RISING, HORIZON, "accuracy"))


def test_steps_and_value_before_training_beside_a_run_go_before_its_own() -> None:
    run = ec.Run(RISING, steps=[1, 2, 3, 4, 5], untrained=0.1)
    found = ec.forecast(run, HORIZON, "accuracy", steps=[2, 4, 6, 8, 10], untrained=0.05)
    assert same(found, ec.forecast(RISING, HORIZON, "accuracy", steps=[2, 4, 6, 8, 10], untrained=0.05))


def test_list_of_runs_and_plain_values_is_forecast_as_each_alone() -> None:
    runs = [
        ec.Run(RISING, steps=[1, 2, 4, 8, 9]),
        [0.3, 0.4, 0.42],
        ec.Run([0.15, 0.3], untrained=0.1),
        ec.Run([0.1, 0.2, 0.3, 0.33], steps=[0, 1, 2, 5]),
    ]
    batch = ec.forecast(runs, HORIZON, "accuracy", at=[20, 30])
    for i, run in enumerate(runs):
        alone = ec.forecast(run, HORIZON, "accuracy", at=[20, 30])
        np.testing.assert_allclose(batch[i].quantile([0.1, 0.5, 0.9]), alone.quantile([0.1, 0.5, 0.9]), atol=1e-5)


def test_list_of_runs_from_series_counts_their_index() -> None:
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(RISING, index=[2, 4, 6, 8, 10])
    seen = seen_of([ec.Run(series), ec.Run(series, steps=[1, 2, 3, 4, 5])], None, ACCURACY)
    assert seen.curves.steps.tolist() == [[2, 4, 6, 8, 10], [1, 2, 3, 4, 5]]


def test_steps_beside_a_list_of_runs_are_refused() -> None:
    with pytest.raises(InputError, match=r"a Run has its own steps; leave steps=\.\.\. out"):
        ec.forecast([ec.Run(RISING), RISING], HORIZON, "accuracy", steps=[1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (ec.Run([0.1, np.nan]), r"values\[1\].* = nan"),
        (ec.Run([0.1, 1.4]), "upper hard bound 1"),
        (ec.Run([0.1, 0.2], steps=[1]), "steps"),
        (ec.Run([0.1, 0.2], untrained=np.nan), "untrained=nan"),
        (ec.Run([0.1, 0.2], untrained=7.0), "untrained=7.0"),
    ],
)
def test_run_that_cannot_be_is_refused_as_its_values_are(run: ec.Run, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ec.forecast(run, HORIZON, "accuracy")
    with pytest.raises(InputError, match=message):
        ec.forecast([RISING, run], HORIZON, "accuracy")


def test_configurations_of_runs_reach_an_engine_that_reads_them() -> None:
    engine, config = Recorder(), {"lr": 0.1, "optimizer": "adam"}
    forecaster = ec.Forecaster.around(engine)
    forecaster.forecast(ec.Run(RISING, config=config), HORIZON, "accuracy")
    assert engine.asked.configs == (config,)
    forecaster.forecast([RISING, ec.Run(RISING, config=config)], HORIZON, "accuracy")
    assert engine.asked.configs == (None, config)
    forecaster.forecast([RISING, RISING], HORIZON, "accuracy")
    assert engine.asked.configs == ()


def test_configuration_that_a_run_carries_changes_nothing_for_a_model_that_reads_none() -> None:
    plain = ec.forecast(RISING, HORIZON, "accuracy").median()
    assert np.array_equal(ec.forecast(ec.Run(RISING, config={"lr": 0.1}), HORIZON, "accuracy").median(), plain)


# --- values at step 0 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("metric", "start", "values"), [("accuracy", 0.1, RISING), ("log_loss", 2.3, FALLING)])
@pytest.mark.parametrize("model", ec.models())
def test_batch_with_and_without_values_at_step_0_is_forecast_as_each_alone(
    model: str, metric: str, start: float, values: list[float]
) -> None:
    forecaster = ec.Forecaster(model)
    runs = [[start, *values], values, [start, *values[:2]], values[:3]]
    steps = [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [0, 1, 2], [1, 2, 3]]
    batch = forecaster.forecast(runs, HORIZON, metric, steps, at=[10, 30])
    for i, (run, at) in enumerate(zip(runs, steps, strict=True)):
        alone = forecaster.forecast(run, HORIZON, metric, at, at=[10, 30])
        np.testing.assert_allclose(batch[i].quantile([0.1, 0.5, 0.9]), alone.quantile([0.1, 0.5, 0.9]), rtol=1e-4)


def test_value_at_step_0_is_taken_out_of_the_runs_that_have_one() -> None:
    seen = seen_of([[0.1, 0.2, 0.3], [0.4, 0.5]], [[0, 1, 2], [1, 2]], ACCURACY)
    assert seen.untrained is not None
    np.testing.assert_array_equal(seen.untrained, [0.1, np.nan])
    assert seen.curves.lengths.tolist() == [2, 2]
    assert seen.curves.values[:, :2].tolist() == [[0.2, 0.3], [0.4, 0.5]]
    assert seen.curves.steps[:, :2].tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert seen_of([[0.4, 0.5]], None, ACCURACY).untrained is None


def test_run_of_which_only_the_value_before_training_is_known_has_no_values() -> None:
    seen = seen_of([[0.1], [0.4, 0.5]], [[0], [1, 2]], ACCURACY)
    assert seen.curves.lengths.tolist() == [0, 2]
    assert seen.untrained is not None
    np.testing.assert_array_equal(seen.untrained, [0.1, np.nan])


@pytest.mark.parametrize("model", ["real", "stream"])
def test_all_cutoffs_of_runs_with_and_without_a_value_before_training_equal_one_at_a_time(model: str) -> None:
    engine, values = load_network(model), np.linspace([0.1, 0.3], [0.8, 0.9], 12, axis=1)
    untrained = np.array([0.05, np.nan])
    whole = Question.of(Curves.of(values), np.empty((2, 0)), 12, untrained=untrained)
    compared = 0
    for cutoff, answer in engine.at_cutoffs(whole, (1, 5, 11)):
        ahead = np.tile(np.arange(cutoff + 1.0, 13.0), (2, 1))
        for row in range(2):
            known = None if np.isnan(untrained[row]) else untrained[[row]]
            alone = Question.of(Curves.of(values[[row], :cutoff]), ahead[[row]], 12, untrained=known)
            np.testing.assert_allclose(answer[[row]].cdf(0.6), engine.predict(alone).cdf(0.6), atol=1e-5)
            compared += 1
    assert compared == 6


# --- questions --------------------------------------------------------------------------------------------------------


def test_encoded_runs_are_normalised_with_all_that_is_known_beside_them() -> None:
    seen = seen_of([ec.Run(FALLING, untrained=2.3), FALLING[:2]], None, LOSS)
    schedule = Schedule.of("cosine")
    encoded = encode(seen, LOSS, HORIZON, schedule=schedule)
    question = encoded.question
    assert (question.horizon, question.schedule, question.configs) == (30.0, schedule, (None, None))
    assert question.kinds.tolist() == [LOSS.kind] * 2
    assert question.untrained is not None
    assert np.isfinite(question.untrained).tolist() == [True, False]
    back = encoded.normalizer.inverse(question.runs.values)
    np.testing.assert_allclose(back[0], FALLING)
    np.testing.assert_allclose(back[1, :2], FALLING[:2])
    assert np.diff(question.runs.values[0]).min() > 0.0  # larger is better
    assert np.isnan(encoded.steps).sum(axis=1).tolist() == [3, 0]
    assert not np.isnan(question.steps).any()


def test_question_does_not_depend_on_the_runs_beside_it() -> None:
    together = seen_of([FALLING, [900.0, 800.0]], None, LOSS)
    alone = seen_of([FALLING], None, LOSS)
    steps = np.full((2, 1), 30.0)
    both, one = normalised(together, LOSS, steps, 30)[0], normalised(alone, LOSS, steps[:1], 30)[0]
    np.testing.assert_array_equal(both.runs.values[0], one.runs.values[0])


# --- finished runs ----------------------------------------------------------------------------------------------------


def finished(count: int = 40) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.clip(np.linspace(0.2, 0.7, 8) + rng.normal(0.0, 0.05, (count, 8)), 0.0, 1.0)


def test_stopper_is_calibrated_on_runs_as_on_their_values() -> None:
    values, options = finished(), {"risk": 0.2, "metric": "accuracy"}
    wanted = ec.Stopper.calibrated(values, **options).guarantee
    assert ec.Stopper.calibrated([ec.Run(run) for run in values], **options).guarantee == wanted
    mixed = [ec.Run(run, steps=range(1, 9)) if i % 2 else run for i, run in enumerate(values)]
    assert ec.Stopper.calibrated(mixed, **options).guarantee == wanted


def test_stopper_is_calibrated_on_what_runs_say_of_their_start() -> None:
    values, options = finished(), {"risk": 0.2, "metric": "accuracy"}
    wanted = ec.Stopper.calibrated(values, untrained=0.1, **options).guarantee
    assert wanted != ec.Stopper.calibrated(values, **options).guarantee
    assert ec.Stopper.calibrated([ec.Run(run, untrained=0.1) for run in values], **options).guarantee == wanted
    begun = [ec.Run([0.1, *run], steps=range(9)) for run in values]
    assert ec.Stopper.calibrated(begun, **options).guarantee == wanted


@pytest.mark.parametrize("own", [True, False], ids=["untrained", "at step 0"])
@pytest.mark.parametrize(("metric", "start"), [("accuracy", 0.1), ("log_loss", 3.0)])
def test_finished_runs_of_which_some_have_a_value_before_training_are_forecast_as_each_alone(
    metric: str, start: float, own: bool
) -> None:
    values = finished(4) if metric == "accuracy" else 2.0 - finished(4)
    runs = [ec.Run(run, untrained=start if i % 2 else None) for i, run in enumerate(values)]
    begun = [ec.Run([start, *values[i]], range(9)) if i % 2 else run for i, run in enumerate(runs)]
    forecaster, together = ec.Forecaster(), FinishedRuns.of(runs if own else begun, metric)
    assert together.horizon == 8
    cutoffs = 0
    for cutoff, forecast in forecasts(forecaster, together, (2, 5)):
        cutoffs += 1
        for i, run in enumerate(runs):
            alone = forecaster.forecast(ec.Run(values[i, :cutoff], untrained=run.untrained), 8, metric)
            np.testing.assert_allclose(forecast[i].median(), alone.median(), rtol=1e-4)
    assert cutoffs == 2


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (ec.Run([0.5] * 7), "finished run 1 has 7 values, not horizon=8"),
        (ec.Run([0.5] * 8, steps=range(2, 10)), "finished run 1 has other steps than 1, 2, 3, ..., 8"),
    ],
)
def test_finished_run_that_cannot_be_used_is_named(run: ec.Run, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ec.Stopper.calibrated([finished(1)[0], run, *finished(30)], 0.2, metric="accuracy", horizon=8)


def test_finished_runs_may_carry_configurations() -> None:
    runs = [ec.Run(run, config={"lr": 0.1}) for run in finished()]
    with_configs = ec.Stopper.calibrated(runs, 0.2, metric="accuracy")
    assert with_configs.confidence == ec.Stopper.calibrated(finished(), 0.2, metric="accuracy").confidence


def test_some_finished_runs_keep_what_is_known_of_them() -> None:
    runs = [ec.Run(run, config={"number": i}, untrained=0.1 + 0.01 * i) for i, run in enumerate(finished(4))]
    for index in (slice(1, 3), np.array([3, 0]), np.array([True, False, False, True])):
        some = FinishedRuns.of(runs, "accuracy")[index]
        numbers = np.arange(4)[index]
        assert [config["number"] for config in some.configs if config is not None] == numbers.tolist()
        assert some.untrained == pytest.approx(0.1 + 0.01 * numbers)
        assert some.seen(2).configs == some.configs
        assert some.seen(2).untrained is some.untrained
