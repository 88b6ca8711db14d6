"""The LightGBM callback in real trainings."""

from __future__ import annotations

import math
from typing import Any

import pytest

lightgbm = pytest.importorskip("lightgbm", reason="needs epochcast[lightgbm]")

from epochcast.errors import ConfigError  # noqa: E402
from epochcast.integrations.lightgbm import ForecastStopping  # noqa: E402
from tests.callback_contract import STEPS, CallbackContract, digits  # noqa: E402

PARAMETERS = {"objective": "multiclass", "num_class": 10, "num_leaves": 4, "num_threads": 1, "verbose": -1, "seed": 0}


def not_finite(_: Any, __: Any) -> tuple[str, float, bool]:
    return "multi_logloss", math.nan, False


def train(callback: ForecastStopping, rate: float = 0.5, feval: Any = None, **parameters: Any) -> Any:
    images, labels, held_out, held_out_labels = digits()
    data = lightgbm.Dataset(images, labels, params={"verbose": -1})
    return lightgbm.train(
        {**PARAMETERS, "learning_rate": rate, **parameters},
        data,
        STEPS,
        valid_sets=[data.create_valid(held_out, held_out_labels)],
        feval=feval,
        callbacks=[callback],
    )


class TestLightgbm(CallbackContract):
    monitor, beaten, unbeatable = "valid_0-multi_logloss", 9.9, 1e-3

    def callback(self, monitor: str | None = None, **options: Any) -> ForecastStopping:
        return ForecastStopping(monitor or self.monitor, **options)

    def train(self, callback: ForecastStopping, *, learns: bool = True, diverges: bool = False) -> int:
        broken = {"feval": not_finite, "metric": "None"} if diverges else {}
        return int(train(callback, 0.5 if learns else 1e-4, **broken).current_iteration())


def test_stopped_training_tells_where_it_ended() -> None:
    booster = train(ForecastStopping("valid_0-multi_logloss", best=1e-3), 1e-4)
    assert booster.best_iteration == booster.current_iteration() < STEPS
    assert "multi_logloss" in booster.best_score["valid_0"]


def test_metric_of_an_unknown_name_takes_its_direction_from_the_framework() -> None:
    def surprise(_: Any, __: Any) -> tuple[str, float, bool]:
        return "surprise", 3.0, False

    callback = ForecastStopping("valid_0-surprise")
    train(callback, feval=surprise)
    assert callback.stopper is not None
    assert callback.stopper.metric.minimize


def test_unknown_metric_that_grows_needs_bounds() -> None:
    def gain(_: Any, __: Any) -> tuple[str, float, bool]:
        return "gain", 3.0, True

    with pytest.raises(ConfigError, match="what 'valid_0-gain' measures is not known from its name"):
        train(ForecastStopping("valid_0-gain"), feval=gain)


def test_metric_against_the_framework_direction_is_refused() -> None:
    with pytest.raises(ConfigError, match="'valid_0-multi_logloss' is minimised by the framework"):
        train(ForecastStopping("valid_0-multi_logloss", metric="accuracy"))


def test_cross_validation_is_watched_by_its_mean() -> None:
    images, labels, _, _ = digits()
    callback = ForecastStopping("valid-multi_logloss")
    data = lightgbm.Dataset(images, labels, params={"verbose": -1})
    table = lightgbm.cv(PARAMETERS, data, STEPS, nfold=2, callbacks=[callback])
    assert [value for _, value in callback.state_dict()["seen"]] == table["valid multi_logloss-mean"]
