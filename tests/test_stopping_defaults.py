"""From when on a run may be stopped: one default everywhere, under which good runs live."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import epochcast as ec
from epochcast.benchmarks import CurveSet
from epochcast.errors import MissingExtraError
from epochcast.integrations.base import StopperCallback
from epochcast.integrations.trials import Trials
from epochcast.metric import Metric
from epochcast.stopping import MIN_SHARE, MIN_STEPS, Stopper
from epochcast.stopping.decision import too_early
from tests.checkout import in_a_checkout, research

RUNS = Path(ec.__file__).parent / "data" / "runs"
CALLBACKS = ("catboost", "keras", "lightgbm", "lightning", "skorch", "transformers", "xgboost")
SETTINGS = {"min_steps": MIN_STEPS, "min_share": MIN_SHARE}


def classes_of(framework: str) -> list[type]:
    """The classes that an integration offers; it is left out where its framework is not installed."""
    try:
        module = importlib.import_module(f"epochcast.integrations.{framework}")
    except MissingExtraError as error:
        pytest.skip(str(error))
    return [item for item in vars(module).values() if inspect.isclass(item) and item.__module__ == module.__name__]


def test_default_of_the_stopper_is_the_one_that_is_defined() -> None:
    signature = inspect.signature(Stopper)
    assert {name: signature.parameters[name].default for name in SETTINGS} == SETTINGS
    signature = inspect.signature(too_early)
    assert {name: signature.parameters[name].default for name in SETTINGS} == SETTINGS
    stopper = Stopper(50, "accuracy")
    assert {name: getattr(stopper, name) for name in SETTINGS} == SETTINGS


@pytest.mark.parametrize("framework", [*CALLBACKS, "optuna", "ray_tune", "syne_tune"])
def test_default_of_no_integration_is_its_own(framework: str) -> None:
    for integration in classes_of(framework):
        assert not SETTINGS.keys() & inspect.signature(integration).parameters.keys()  # handed on to the stopper


@pytest.mark.parametrize("framework", CALLBACKS)
def test_default_of_each_callback_is_that_of_the_stopper(framework: str) -> None:
    (callback,) = (item("accuracy", horizon=50) for item in classes_of(framework) if issubclass(item, StopperCallback))
    callback.begin(50)
    stopper = callback._ready(None)
    assert {name: getattr(stopper, name) for name in SETTINGS} == SETTINGS


def test_default_of_searches_is_that_of_the_stopper() -> None:
    trials = Trials(50, "accuracy")
    trials.judge("first", [(1.0, 0.5)], None)
    (stopper,) = trials._stoppers.values()
    assert {name: getattr(stopper, name) for name in SETTINGS} == SETTINGS


@pytest.mark.parametrize(
    ("values", "step", "horizon", "early"),
    [
        (3, 3, 10, True),
        (4, 4, 10, False),
        (4, 4, 41, True),
        (5, 5, 50, False),
        (5, 0.3, 3, False),  # 0.1 x 3 is more than 0.3 in binary
        (900, 900.0, 10_000, True),
        (4, 1_000.0, 10_000, False),
    ],
)
def test_too_early_is_before_the_fourth_value_or_the_tenth_part(
    values: int, step: float, horizon: int, early: bool
) -> None:
    assert too_early(values, step, horizon) is early


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return research("wrong_stops")


@in_a_checkout
def test_runs_with_steps_of_their_own_are_held_to_the_same_rule(script: ModuleType) -> None:
    even = CurveSet.of("even", np.exp(-0.1 * np.arange(12.0)) * [[1.0], [0.9], [1.1]], Metric.named("loss"))
    regular = script.Task.of(even, "even", ec.Forecaster("stream"), 3)
    uneven = script.Task._uneven(even, "even", ec.Forecaster("stream"))
    np.testing.assert_allclose(uneven.reach[:, :-1], regular.reach[:, :-1], rtol=1e-4)
    pool = script.Pool.of(regular.values, regular.minimize)
    checked = np.isfinite(regular.limits(pool, 2, 0.5).table)
    assert checked.tolist() == [[False] * 5 + [True] * 6 + [False]] * 3
