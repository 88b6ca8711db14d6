"""The skorch callback in real trainings of a small network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

skorch = pytest.importorskip("skorch", reason="needs epochcast[skorch]")

import torch  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from skorch.callbacks import Checkpoint, EpochScoring, LoadInitState, LRScheduler  # noqa: E402

from epochcast import Stopper  # noqa: E402
from epochcast.errors import ConfigError  # noqa: E402
from epochcast.integrations.skorch import ForecastStopping  # noqa: E402
from tests.callback_contract import STEPS, CallbackContract, digits  # noqa: E402


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layer(images)


def network(callbacks: list[Any], rate: float = 0.5, **options: Any) -> Any:
    torch.manual_seed(0)
    options = {"max_epochs": STEPS, "criterion": torch.nn.CrossEntropyLoss, "verbose": 0, **options}
    return skorch.NeuralNetClassifier(Classifier, lr=rate, batch_size=100, callbacks=callbacks, **options)


def fit(callbacks: list[Any], rate: float = 0.5, **options: Any) -> Any:
    images, labels, _, _ = digits()
    return network(callbacks, rate, **options).fit(images, labels)


class TestSkorch(CallbackContract):
    monitor, beaten, unbeatable = "valid_loss", 9.9, 1e-3

    def callback(self, monitor: str | None = None, **options: Any) -> ForecastStopping:
        return ForecastStopping(monitor or self.monitor, **options)

    def train(self, callback: ForecastStopping, *, learns: bool = True, diverges: bool = False) -> int:
        return len(fit([callback], float("inf") if diverges else 0.5 if learns else 1e-5).history)


def test_training_resumed_from_a_checkpoint_goes_on_with_what_was_seen(tmp_path: Path) -> None:
    def parts() -> tuple[ForecastStopping, list[Any]]:
        callback = ForecastStopping("valid_acc", best=0.9, dry_run=True)
        saved = Checkpoint(dirname=tmp_path, monitor=None)
        return callback, [callback, LoadInitState(saved), saved]  # loaded after our callback heard of the training

    fit(parts()[1], max_epochs=5)
    resumed, callbacks = parts()
    net = fit(callbacks, max_epochs=4)
    assert resumed.state_dict()["seen"] == [[row["epoch"], row["valid_acc"]] for row in net.history]
    assert len(net.history) == 9
    assert resumed.decision is not None
    assert resumed.decision.horizon == 9


def test_search_of_clones_shares_the_stopper() -> None:
    images, labels, _, _ = digits()
    stopper = Stopper(STEPS, "accuracy")
    net = network([ForecastStopping("valid_acc", stopper=stopper)])
    GridSearchCV(net, {"lr": [0.5, 1e-5]}, cv=2, refit=False).fit(images, labels)
    assert len(stopper.runs) == 4  # two folds each
    assert stopper.runs[0].finished
    assert all(run.stopped for run in stopper.runs[2:])


def test_metric_against_the_direction_of_its_scoring_is_refused() -> None:
    scoring = EpochScoring("accuracy", name="held_out_acc", lower_is_better=True)
    with pytest.raises(ConfigError, match="'held_out_acc' is minimised by the framework"):
        fit([scoring, ForecastStopping("held_out_acc", metric="accuracy")])


def test_parameters_of_the_callback_are_its_arguments() -> None:
    parameters = network([("stopping", ForecastStopping("valid_acc", horizon=7))]).initialize().get_params()
    assert parameters["callbacks__stopping__monitor"] == "valid_acc"
    assert parameters["callbacks__stopping__horizon"] == 7
    assert not [name for name in parameters if name.startswith("callbacks__stopping___")]


# Learning rates -------------------------------------------------------------------------------------------------------


def told(callback: ForecastStopping) -> Any:
    return callback.stopper.forecaster.schedule


def cosine(**options: Any) -> LRScheduler:
    return LRScheduler(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=STEPS, **options)


def test_learning_rates_are_read_off_the_scheduler() -> None:
    callback = ForecastStopping("valid_loss", dry_run=True)
    fit([callback, cosine()])
    rates = told(callback).at(np.array([[1e-3, STEPS / 2, STEPS]]), STEPS).rate[0]
    np.testing.assert_allclose(rates, [1.0, 0.5, 0.0], atol=0.15)  # in epochs


@pytest.mark.parametrize("others", [[], [cosine(step_every="batch")], [LRScheduler("ReduceLROnPlateau")]])
def test_learning_rates_that_are_not_known_beforehand_are_not_told(others: list[Any]) -> None:
    callback = ForecastStopping("valid_loss", dry_run=True)
    fit([callback, *others])
    assert callback.decision is not None
    assert told(callback) is None


def test_learning_rates_of_a_run_that_goes_on_are_not_told() -> None:
    """A new scheduler begins with it, and does not know what the rates were."""
    callback = ForecastStopping("valid_loss", dry_run=True)
    net = network([callback, cosine()], max_epochs=STEPS // 2)
    images, labels, _, _ = digits()
    net.fit(images, labels)
    net.partial_fit(images, labels)
    assert told(callback) is None
