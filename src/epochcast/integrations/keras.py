"""Keras 3, on any backend: a callback that stops runs which cannot win; `pip install 'epochcast[keras]'`.

    model.fit(x, y, validation_data=..., epochs=50, callbacks=[ForecastStopping("val_accuracy", best=0.97)])

A fit with a `validation_freq` gives the same number here. What a `LearningRateSchedule` of the optimizer is going to do
is told to the forecasts; what the callback `LearningRateScheduler` will do is not known beforehand. Keras saves no
state of callbacks; where `keras.callbacks.BackupAndRestore` saves the training, give its `backup_dir` here too: a fit
that goes on from the backup then goes on with the same forecasts.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from epochcast.checks import path_of
from epochcast.errors import MissingExtraError
from epochcast.integrations.base import MOST_RATES, StopperCallback, harmless
from epochcast.metric import Metric

try:
    from keras.callbacks import Callback
    from keras.optimizers.schedules import LearningRateSchedule
except ImportError as error:
    raise MissingExtraError("keras", "keras") from error

__all__ = ["ForecastStopping"]
_FILE = "epochcast.json"


class ForecastStopping(StopperCallback, Callback):
    """Watches `logs[monitor]` at the end of each epoch.

    Args:
        monitor: The name under which Keras logs the metric, such as "val_accuracy".
        metric: What it measures; may be left out where the name says it.
        validation_freq: That of `fit`, where it has one.
        backup_dir: That of `BackupAndRestore`, to go on with the same forecasts after an interruption.
        **options: As for `StopperCallback`.

    Raises:
        InputError: As for `StopperCallback`.

    Examples:
        >>> from epochcast.integrations.keras import ForecastStopping
        >>> stopping = ForecastStopping("val_accuracy", best=0.97)
        >>> model.fit(x, y, validation_data=held_out, epochs=50, callbacks=[stopping])  # doctest: +SKIP
    """

    def __init__(
        self,
        monitor: str,
        metric: Metric | str | None = None,
        *,
        validation_freq: int = 1,
        backup_dir: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(monitor, metric, **options)
        self.validation_freq = validation_freq
        self.backup = None if backup_dir is None else path_of(backup_dir, "backup_dir") / _FILE

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.running = False  # an earlier fit may have been interrupted

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if not self.running:  # only here is it known from which epoch on the fit goes
            self._restore_backup(epoch)
            self.begin(self.params["epochs"], rates=self._planned_rates(epoch))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if (epoch + 1) % self.validation_freq:
            return
        if self.check(epoch + 1, logs or {}, self._minimizes()):
            self.model.stop_training = True
        self._back_up()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self.end()

    def _minimizes(self) -> bool | None:
        """The direction that the compiled metric of this name declares."""
        name = self.monitor.removeprefix("val_")
        for group in self.model.metrics:
            for metric in getattr(group, "metrics", [group]):
                if metric.name == name and getattr(metric, "_direction", None) is not None:
                    return bool(metric._direction == "down")
        return None

    def _planned_rates(self, epoch: int) -> list[float] | None:
        """What the optimizer's own schedule does in the whole fit, of which an epoch is about to begin."""
        schedule = getattr(self.model.optimizer, "_learning_rate", None)
        per_epoch = self.params["steps"]
        if not isinstance(schedule, LearningRateSchedule) or not per_epoch:
            return None
        with harmless("reading the learning rates"):
            first = max(int(self.model.optimizer._iterations) - epoch * per_epoch, 0)
            steps = per_epoch * self.params["epochs"]
            return [float(schedule(first + int(step))) for step in np.linspace(0, steps - 1, min(steps, MOST_RATES))]
        return None

    def _back_up(self) -> None:
        if self.backup is None:
            return
        with harmless("backing up"):
            self.backup.parent.mkdir(parents=True, exist_ok=True)
            new = self.backup.with_suffix(".new")
            new.write_text(json.dumps(self.state_dict()))
            new.replace(self.backup)

    def _restore_backup(self, epoch: int) -> None:
        """Take up what was backed up of the epochs before this one, from which training goes on."""
        if self.backup is None or epoch == 0 or not self.backup.exists():
            return
        with harmless("reading the backup"):
            state = json.loads(self.backup.read_text())
            self.load_state_dict({**state, "seen": [pair for pair in state["seen"] if pair[0] <= epoch]})
