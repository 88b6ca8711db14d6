"""What every training callback promises: the test module of a framework trains for real, this checks."""

from __future__ import annotations

import logging
import pickle
from abc import ABC, abstractmethod
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

from epochcast import Forecaster, Reason, Stopper
from epochcast.errors import ConfigError, InputError
from epochcast.integrations.base import StopperCallback, metric_of
from epochcast.question import Engine, Question

STEPS = 12  # of each training


@cache
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Small pictures of digits: training images and labels, validation images and labels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype(np.float32)
    return images[:400], labels[:400], images[400:700], labels[400:700]


class BrokenEngine(Engine):
    """An engine that fails in a way nobody foresaw."""

    name = "broken"

    def predict(self, question: Question) -> Any:
        raise RuntimeError("the engine is broken")


class CallbackContract(ABC):
    """Trainings of `STEPS` steps with a callback; subclasses say how their framework trains."""

    monitor: ClassVar[str]
    beaten: ClassVar[float]  # a value that any training here beats at once
    unbeatable: ClassVar[float]  # a value that none comes near
    missing_metric: ClassVar[type[Exception]] = InputError

    @abstractmethod
    def callback(self, monitor: str | None = None, **options: Any) -> StopperCallback:
        """The framework's callback."""

    @abstractmethod
    def train(self, callback: StopperCallback, *, learns: bool = True, diverges: bool = False) -> int:
        """How many steps a training with the callback takes; it learns hardly anything if told not to."""

    def stopper(self, **options: Any) -> Stopper:
        return Stopper(STEPS, metric_of(self.monitor), **options)

    def test_training_without_a_chance_stops_early_and_says_why(self, caplog: pytest.LogCaptureFixture) -> None:
        callback = self.callback(best=self.unbeatable)
        with caplog.at_level(logging.INFO, logger="epochcast"):
            steps = self.train(callback, learns=False)
        assert steps < STEPS
        assert callback.decision is not None
        assert callback.decision.reason is Reason.UNLIKELY
        assert callback.decision.horizon == STEPS
        assert f"{self.monitor} at step {steps}: {callback.decision}" in caplog.messages

    def test_training_that_is_the_best_runs_to_its_end(self) -> None:
        callback = self.callback(best=self.beaten)
        assert self.train(callback) == STEPS
        assert callback.decision is not None
        assert callback.decision.reason is Reason.FINISHED

    def test_training_before_min_steps_goes_on(self) -> None:
        callback = self.callback(best=self.unbeatable, min_steps=8)
        assert 8 <= self.train(callback, learns=False) < STEPS

    def test_dry_run_decides_but_trains_to_the_end(self, caplog: pytest.LogCaptureFixture) -> None:
        callback = self.callback(best=self.unbeatable, dry_run=True)
        with caplog.at_level(logging.INFO, logger="epochcast"):
            assert self.train(callback, learns=False) == STEPS
        assert any("would stop (dry run)" in message for message in caplog.messages)

    def test_missing_metric_raises_at_the_first_check_and_lists_the_names(self) -> None:
        with pytest.raises(self.missing_metric, match=self.monitor) as caught:
            self.train(self.callback("val_tpyo", metric="accuracy"))
        assert "'val_tpyo' is not logged" in str(caught.value) or "'eval_val_tpyo' is not logged" in str(caught.value)

    def test_value_that_is_not_finite_stops_the_training(self) -> None:
        callback = self.callback(best=self.beaten)
        assert self.train(callback, diverges=True) < STEPS
        assert callback.decision is not None
        assert callback.decision.reason is Reason.NON_FINITE

    def test_forecast_that_fails_is_a_warning_and_training_goes_on(self, caplog: pytest.LogCaptureFixture) -> None:
        callback = self.callback(best=self.unbeatable, forecaster=Forecaster.around(BrokenEngine()))
        assert self.train(callback, learns=False) == STEPS
        assert any("the engine is broken" in message for message in caplog.messages)

    def test_shared_stopper_holds_the_next_training_against_the_best(self) -> None:
        stopper = self.stopper(best=None)
        assert self.train(self.callback(stopper=stopper)) == STEPS
        assert len(stopper.runs) == 1
        assert stopper.best == stopper.runs[0].best
        assert self.train(self.callback(stopper=stopper), learns=False) < STEPS
        assert [run.stopped for run in stopper.runs] == [False, True]

    def test_callback_used_again_holds_the_next_training_against_the_best(self) -> None:
        callback = self.callback()
        assert self.train(callback) == STEPS
        assert self.train(callback, learns=False) < STEPS

    def test_callback_after_training_survives_pickling(self) -> None:
        callback = self.callback(best=self.unbeatable)
        steps = self.train(callback, learns=False)
        copy = pickle.loads(pickle.dumps(callback))
        assert copy.decision == callback.decision
        assert self.train(copy, learns=False) == steps

    def test_metric_of_the_wrong_kind_is_refused(self) -> None:
        with pytest.raises(InputError, match="unknown"):
            self.callback(metric="no such metric")
        with pytest.raises(ConfigError, match="drop them"):
            self.callback(stopper=self.stopper(), confidence=0.9)
