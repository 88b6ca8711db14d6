"""The XGBoost callback in real trainings."""

from __future__ import annotations

import math
from typing import Any

import pytest

xgboost = pytest.importorskip("xgboost", reason="needs xgboost")

from epochcast import Stopper  # noqa: E402
from epochcast.errors import ConfigError  # noqa: E402
from epochcast.integrations.xgboost import ForecastStopping  # noqa: E402
from tests.callback_contract import STEPS, CallbackContract, digits  # noqa: E402


def parameters(rate: float) -> dict[str, Any]:
    return {"objective": "multi:softprob", "num_class": 10, "eta": rate, "max_depth": 2, "nthread": 1, "seed": 0}


def not_finite(_: Any, __: Any) -> tuple[str, float]:
    return "mlogloss", math.nan


class TestXgboost(CallbackContract):
    monitor, beaten, unbeatable = "valid-mlogloss", 9.9, 1e-3

    def callback(self, monitor: str | None = None, **options: Any) -> ForecastStopping:
        if "stopper" not in options:
            options["horizon"] = STEPS
        return ForecastStopping(monitor or self.monitor, **options)

    def train(self, callback: ForecastStopping, *, learns: bool = True, diverges: bool = False) -> int:
        images, labels, held_out, held_out_labels = digits()
        booster = xgboost.train(
            {**parameters(0.5 if learns else 1e-4), "disable_default_eval_metric": diverges},
            xgboost.DMatrix(images, labels),
            STEPS,
            evals=[(xgboost.DMatrix(held_out, held_out_labels), "valid")],
            custom_metric=not_finite if diverges else None,
            callbacks=[callback],
            verbose_eval=False,
        )
        return int(booster.num_boosted_rounds())


def test_callback_without_a_horizon_is_refused() -> None:
    with pytest.raises(ConfigError, match="give horizon=, the number of rounds"):
        ForecastStopping("valid-mlogloss")


def test_cross_validation_is_watched_by_its_mean() -> None:
    images, labels, _, _ = digits()
    callback = ForecastStopping("test-mlogloss", horizon=STEPS)
    table = xgboost.cv(parameters(0.5), xgboost.DMatrix(images, labels), STEPS, nfold=2, callbacks=[callback], seed=0)
    assert [value for _, value in callback.state_dict()["seen"]] == pytest.approx(table["test-mlogloss-mean"].tolist())


def test_models_of_a_search_share_the_stopper() -> None:
    from sklearn.base import clone

    images, labels, held_out, held_out_labels = digits()
    stopper = Stopper(STEPS, "log_loss")
    first = xgboost.XGBClassifier(
        n_estimators=STEPS,
        max_depth=2,
        n_jobs=1,
        learning_rate=0.5,
        callbacks=[ForecastStopping("validation_0-mlogloss", stopper=stopper)],
    )
    second = clone(first).set_params(learning_rate=1e-4)
    for model in (first, second):
        model.fit(images, labels, eval_set=[(held_out, held_out_labels)], verbose=False)
    assert [run.stopped for run in stopper.runs] == [False, True]


def test_training_of_many_rounds_is_checked_about_ten_times() -> None:
    callback = ForecastStopping("valid-mlogloss", horizon=1000)
    callback.begin(1000)
    callback.check(1, {"valid-mlogloss": 2.3})
    assert isinstance(callback.stopper, Stopper)
    assert callback.stopper.check_every == 100
