"""The CatBoost callback in real trainings."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

catboost = pytest.importorskip("catboost", reason="needs epochcast[catboost]")

from epochcast import Reason  # noqa: E402
from epochcast.errors import ConfigError  # noqa: E402
from epochcast.integrations.catboost import ForecastStopping  # noqa: E402
from tests.callback_contract import STEPS, CallbackContract, digits  # noqa: E402


def train(callback: ForecastStopping, rate: float = 0.5, fit: dict[str, Any] | None = None, **options: Any) -> Any:
    images, labels, held_out, held_out_labels = digits()
    options = {"iterations": STEPS, "allow_writing_files": False, **options}
    model = catboost.CatBoostClassifier(
        learning_rate=rate, depth=2, thread_count=1, verbose=False, use_best_model=False, random_seed=0, **options
    )
    return model.fit(images, labels, eval_set=(held_out, held_out_labels), callbacks=[callback], **(fit or {}))


class TestCatboost(CallbackContract):
    monitor, beaten, unbeatable = "validation-MultiClass", 9.9, 1e-3
    missing_metric = catboost.CatBoostError  # which quotes our error

    def callback(self, monitor: str | None = None, **options: Any) -> ForecastStopping:
        if "stopper" not in options:
            options["horizon"] = STEPS
        return ForecastStopping(monitor or self.monitor, **options)

    def train(self, callback: ForecastStopping, *, learns: bool = True, diverges: bool = False) -> int:
        return int(train(callback, 0.5 if learns else 1e-4).tree_count_)

    def test_value_that_is_not_finite_stops_the_training(self) -> None:
        # A metric of CatBoost's that is not finite ends its training with an error; here is what the callback would do.
        callback = self.callback(best=self.beaten)
        assert callback.after_iteration(SimpleNamespace(iteration=1, metrics={"validation": {"MultiClass": [2.3]}}))
        assert not callback.after_iteration(
            SimpleNamespace(iteration=2, metrics={"validation": {"MultiClass": [2.3, math.nan]}})
        )
        assert callback.decision is not None
        assert callback.decision.reason is Reason.NON_FINITE


def test_callback_without_a_horizon_is_refused() -> None:
    with pytest.raises(ConfigError, match="give horizon=, the number of rounds"):
        ForecastStopping("validation-MultiClass")


def test_training_resumed_from_a_snapshot_goes_on_with_what_was_seen(tmp_path: Path) -> None:
    options = {"horizon": STEPS, "best": 0.1, "dry_run": True}
    straight, interrupted, resumed = (ForecastStopping("validation-MultiClass", **options) for _ in range(3))
    train(straight)

    files = {"allow_writing_files": True, "train_dir": str(tmp_path)}
    snapshot = {"save_snapshot": True, "snapshot_file": str(tmp_path / "snapshot"), "snapshot_interval": 0}
    train(interrupted, fit=snapshot, iterations=5, **files)
    train(resumed, fit=snapshot, **files)

    np.testing.assert_allclose(resumed.state_dict()["seen"], straight.state_dict()["seen"])
    assert len(straight.state_dict()["seen"]) == STEPS


def test_iterations_without_a_metric_are_passed_over() -> None:
    callback = ForecastStopping("validation-MultiClass", horizon=STEPS)
    train(callback, metric_period=4)
    assert [step for step, _ in callback.state_dict()["seen"]] == [1, 5, 9, 12]
