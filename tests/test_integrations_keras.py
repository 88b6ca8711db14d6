"""The Keras callback in real trainings of a small network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="needs epochcast[keras]")

from epochcast.errors import ConfigError, InputError  # noqa: E402
from epochcast.integrations.keras import ForecastStopping  # noqa: E402
from tests.callback_contract import STEPS, CallbackContract, digits  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")


def compiled(rate: Any) -> Any:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(10, activation="softmax")])
    model.compile(keras.optimizers.SGD(rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def fit(callbacks: list[Any], rate: Any = 0.5, **options: Any) -> list[int]:
    """The epochs that a training ran."""
    images, labels, held_out, held_out_labels = digits()
    options = {
        "epochs": STEPS,
        "batch_size": 100,
        "shuffle": False,
        "validation_data": (held_out, held_out_labels),
        **options,
    }
    return compiled(rate).fit(images, labels, verbose=0, callbacks=callbacks, **options).epoch


class TestKeras(CallbackContract):
    monitor, beaten, unbeatable = "val_loss", 9.9, 1e-3

    def callback(self, monitor: str | None = None, **options: Any) -> ForecastStopping:
        return ForecastStopping(monitor or self.monitor, **options)

    def train(self, callback: ForecastStopping, *, learns: bool = True, diverges: bool = False) -> int:
        return len(fit([callback], float("inf") if diverges else 0.5 if learns else 1e-5))


class Interruption(keras.callbacks.Callback):
    """A power cut at the start of an epoch."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == self.epoch:
            raise RuntimeError("power cut")


def test_training_restored_from_its_backup_goes_on_with_what_was_seen(tmp_path: Path) -> None:
    options = {"best": 0.9, "dry_run": True}
    straight = ForecastStopping("val_accuracy", **options)
    fit([straight])

    def parts() -> list[Any]:
        return [
            keras.callbacks.BackupAndRestore(tmp_path / "backup"),
            ForecastStopping("val_accuracy", backup_dir=tmp_path / "backup", **options),
        ]

    with pytest.raises(RuntimeError, match="power cut"):
        fit([*parts(), Interruption(5)])
    callbacks = parts()
    assert fit(callbacks) == list(range(5, STEPS))
    np.testing.assert_allclose(callbacks[1].state_dict()["seen"], straight.state_dict()["seen"])
    assert len(straight.state_dict()["seen"]) == STEPS


def test_new_training_takes_nothing_from_an_old_backup(tmp_path: Path) -> None:
    fit([ForecastStopping("val_accuracy", backup_dir=tmp_path)], epochs=4)
    callback = ForecastStopping("val_accuracy", backup_dir=tmp_path)
    fit([callback], epochs=4)
    assert [step for step, _ in callback.state_dict()["seen"]] == [1, 2, 3, 4]


def test_backup_that_cannot_be_read_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "epochcast.json").write_text("{")
    assert fit([ForecastStopping("val_accuracy", backup_dir=tmp_path)], initial_epoch=2) == list(range(2, STEPS))
    assert any("reading the backup failed" in message for message in caplog.messages)


def test_epochs_without_validation_are_passed_over() -> None:
    callback = ForecastStopping("val_accuracy", validation_freq=3)
    fit([callback], validation_freq=3)
    assert [step for step, _ in callback.state_dict()["seen"]] == [3, 6, 9, 12]


def test_training_without_validation_data_raises_at_the_first_epoch() -> None:
    with pytest.raises(InputError, match="'val_accuracy' is not logged; these names are: accuracy, loss"):
        fit([ForecastStopping("val_accuracy")], validation_data=None)


def test_metric_against_the_direction_of_the_compiled_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="'val_accuracy' is maximised by the framework"):
        fit([ForecastStopping("val_accuracy", metric="error")])


# Learning rates -------------------------------------------------------------------------------------------------------

UPDATES = STEPS * -(-len(digits()[0]) // 100)  # of a whole fit


def cosine() -> Any:
    return keras.optimizers.schedules.CosineDecay(0.5, UPDATES)


def told(callback: ForecastStopping) -> Any:
    return callback.stopper.forecaster.schedule


def test_learning_rates_are_read_off_the_optimizer() -> None:
    callback = ForecastStopping("val_loss", dry_run=True)
    fit([callback], cosine())
    rates = told(callback).at(np.array([[1e-3, STEPS / 2, STEPS]]), STEPS).rate[0]
    np.testing.assert_allclose(rates, [1.0, 0.5, 0.0], atol=0.05)
    fit([callback])
    assert told(callback) is None  # the next fit has a constant rate


def test_learning_rates_of_a_restored_fit_are_those_of_the_whole(tmp_path: Path) -> None:
    straight, resumed = (ForecastStopping("val_loss", dry_run=True) for _ in range(2))
    fit([straight], cosine())
    backup = keras.callbacks.BackupAndRestore
    with pytest.raises(RuntimeError, match="power cut"):
        fit([backup(tmp_path / "backup"), Interruption(5)], cosine())
    fit([backup(tmp_path / "backup"), resumed], cosine())
    assert resumed.state_dict()["rates"] == straight.state_dict()["rates"]
