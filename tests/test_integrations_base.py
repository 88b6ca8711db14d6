"""What all callbacks share, and what the logged names of the frameworks stand for."""

from __future__ import annotations

import importlib
import logging
import pickle
import subprocess
import sys
from typing import Any

import pytest

from epochcast import Forecaster, Metric, Patience, Reason, Stopper
from epochcast.errors import ConfigError, InputError, MissingExtraError
from epochcast.integrations.base import StopperCallback, harmless, metric_of, newest
from epochcast.naming import metric_by_name

FRAMEWORKS = ("lightning", "keras", "transformers", "xgboost", "lightgbm", "catboost", "skorch")
POOR = [0.11, 0.12, 0.11, 0.12, 0.12, 0.11]


def run(callback: StopperCallback, values: list[float], horizon: int = 20) -> list[bool]:
    callback.begin(horizon)
    verdicts = [callback.check(step, {"val_acc": value}) for step, value in enumerate(values, start=1)]
    callback.end()
    return verdicts


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("monitor", "preset"),
    [
        ("val_acc", "accuracy"),
        ("val/acc", "accuracy"),
        ("eval_loss", "loss"),
        ("valid_0-auc", "auc"),
        ("validation_0-mlogloss", "log_loss"),
        ("validation-AUC:hints=skip_train~false", "auc"),
        ("test-map@10", "map"),
        ("train_loss", "loss"),
        ("rmse", "rmse"),
    ],
)
def test_name_that_is_well_known_has_its_preset(monitor: str, preset: str) -> None:
    assert metric_by_name(monitor) == Metric.named(preset)
    assert metric_of(monitor).name == monitor


@pytest.mark.parametrize("monitor", ["points", "val_gain", "inverse_accuracy", ""])
def test_name_that_is_not_known_is_not_guessed(monitor: str) -> None:
    assert metric_by_name(monitor) is None
    with pytest.raises(ConfigError, match="give metric="):
        metric_of(monitor)


def test_name_that_is_not_known_but_minimised_is_a_loss() -> None:
    metric = metric_of("regret", minimize=True)
    assert (metric.minimize, metric.hard) == (True, Metric.named("loss").hard)


def test_metric_against_the_direction_of_the_framework_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="'val_acc' is minimised by the framework, but metric 'accuracy' is maximised"
    ):
        metric_of("val_acc", minimize=True)


# --- the shell --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"confidence": 1.5}, {"min_steps": 0}, {"best": 3.0}, {"horizon": 1}, {"check_every": 2, "cutoffs": [0.1]}],
    ids=str,
)
def test_option_that_cannot_be_used_is_refused_when_the_callback_is_made(options: dict) -> None:
    with pytest.raises(InputError):
        StopperCallback("val_acc", **options)


RATES = [0.1] * 9


@pytest.mark.parametrize("monitor", [None, 3, b"val_acc", ["val_acc"]])
def test_monitor_that_is_no_name_is_refused_when_the_callback_is_made(monitor: Any) -> None:
    with pytest.raises(InputError, match=r"monitor=.* must be a name"):
        StopperCallback(monitor, "accuracy", horizon=20)


def test_schedule_that_contradicts_the_horizon_is_refused_when_the_callback_is_made() -> None:
    with pytest.raises(InputError, match="9 rates where the run has 20 steps"):
        StopperCallback("val_acc", horizon=20, schedule=RATES)
    with pytest.raises(InputError, match="'cosinus' is unknown"):
        StopperCallback("val_acc", schedule="cosinus")


@pytest.mark.parametrize("told", ["schedule", "forecaster"])
def test_schedule_that_contradicts_what_the_framework_plans_is_refused_when_training_begins(told: str) -> None:
    callback = StopperCallback("val_acc", **{told: RATES if told == "schedule" else Forecaster(schedule=RATES)})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="9 rates where the run has 20 steps"):
        callback.begin(20)
    callback.begin(9)
    assert callback.running


def test_option_that_does_not_exist_is_refused_when_the_callback_is_made() -> None:
    with pytest.raises(TypeError, match="patience"):
        StopperCallback("val_acc", patience=3)  # type: ignore[call-arg]


def test_other_rules_can_be_shared_too() -> None:
    callback = StopperCallback("val_acc", stopper=Patience(3, 20, "accuracy"))
    assert run(callback, [0.5, 0.4, 0.4, 0.4, 0.4]) == [False, False, False, True, True]


def test_metric_that_comes_and_goes_is_taken_when_it_is_there() -> None:
    callback = StopperCallback("val_acc")
    callback.begin(20)
    assert not callback.check(1, {"val_acc": 0.5})
    assert not callback.check(2, {"loss": 1.0})
    assert callback.state_dict()["seen"] == [[1, 0.5]]


def test_horizon_that_is_given_goes_before_the_framework() -> None:
    callback = StopperCallback("val_acc", horizon=50)
    run(callback, POOR)
    assert callback.decision is not None
    assert callback.decision.horizon == 50


def test_shared_stopper_of_another_horizon_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    run(StopperCallback("val_acc", stopper=Stopper(50, "accuracy")), POOR, horizon=20)
    assert "training ends at step 20, the forecasts at 50" in caplog.messages


def test_value_outside_the_bounds_is_a_warning_that_names_it(caplog: pytest.LogCaptureFixture) -> None:
    assert run(StopperCallback("val_acc", best=0.9), [57.3, 58.1]) == [False, False]
    assert any("57.3" in message and "training goes on" in message for message in caplog.messages)


def test_restored_run_is_held_against_the_best_it_had_not_against_itself() -> None:
    first = StopperCallback("val_acc", best=0.6)
    run(first, [0.5, 0.7])
    resumed = StopperCallback("val_acc", min_steps=3, check_every=1)
    resumed.load_state_dict(first.state_dict())
    resumed.begin(20)
    resumed.check(3, {"val_acc": 0.71})
    assert resumed.decision is not None
    assert (resumed.decision.best, resumed.decision.reason) == (0.6, Reason.LEADING)


def test_callback_with_a_forecaster_of_its_own_survives_pickling() -> None:
    callback = StopperCallback("val_acc", best=0.9, forecaster=Forecaster("last-value"))
    stopped = run(callback, POOR)
    copy = pickle.loads(pickle.dumps(callback))
    assert any(stopped)
    assert run(copy, POOR) == stopped
    assert copy.stopper.forecaster.name == "last-value"


def test_training_without_a_single_value_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    run(StopperCallback("val_acc"), [])
    assert "training is over, and no value of val_acc came: nothing was forecast" in caplog.messages
    caplog.clear()
    run(StopperCallback("val_acc"), [0.5])
    assert not caplog.messages


def test_run_that_broke_off_is_over_when_the_next_begins() -> None:
    callback = StopperCallback("val_acc", best=0.9, dry_run=True)
    callback.begin(20)
    callback.check(1, {"val_acc": 0.95})
    run(callback, POOR)
    assert callback.stopper is not None
    assert [run.values for run in callback.stopper.runs] == [1, len(POOR)]
    assert callback.stopper.best == 0.95


def test_failure_is_a_warning_but_an_interrupt_is_not(caplog: pytest.LogCaptureFixture) -> None:
    with harmless("dividing"):
        raise ZeroDivisionError("by zero")
    assert "dividing failed, training goes on: by zero" in caplog.messages
    with pytest.raises(KeyboardInterrupt), harmless("waiting"):
        raise KeyboardInterrupt


def test_newest_values_are_named_by_data_and_metric() -> None:
    assert newest({"train": {"auc": [0.5, 0.6]}, "valid": {"auc": [0.4], "f1": []}}) == {
        "train-auc": 0.6,
        "valid-auc": 0.4,
    }


def test_decisions_of_a_run_are_logged_in_one_sentence_each(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="epochcast"):
        run(StopperCallback("val_acc", best=0.9, dry_run=True), POOR)
    assert [message.split(":")[0] for message in caplog.messages[:-1]] == [
        f"val_acc at step {step}" for step in range(1, len(POOR) + 1)
    ]


# --- imports ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_integration_without_its_framework_names_the_extra(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = f"epochcast.integrations.{framework}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, framework, None)  # as if it were not installed
    for name in [name for name in sys.modules if name.startswith(f"{framework}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    told = "pip install xgboost$" if framework == "xgboost" else rf"pip install 'epochcast\[{framework}\]'"
    with pytest.raises(MissingExtraError, match=told):  # no extra brings XGBoost
        importlib.import_module(module)


def test_what_callbacks_share_imports_no_framework() -> None:
    code = "import sys, epochcast.integrations.base; print([name for name in sys.argv[1:] if name in sys.modules])"
    told = subprocess.run(
        [sys.executable, "-c", code, *FRAMEWORKS, "torch"], check=True, capture_output=True, text=True
    )
    assert told.stdout.strip() == "[]"
