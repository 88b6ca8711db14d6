"""The Lightning callback in real trainings of a small network."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

L = pytest.importorskip("lightning", reason="needs epochcast[lightning]")

import torch  # noqa: E402
from torch.optim import lr_scheduler  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from epochcast import Reason, Stopper  # noqa: E402
from epochcast.errors import ConfigError  # noqa: E402
from epochcast.integrations.lightning import ForecastStopping  # noqa: E402
from epochcast.integrations.torch_rates import rates_of  # noqa: E402
from tests.callback_contract import STEPS, CallbackContract, digits  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*number of training batches"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning"),
]


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(L.LightningModule):
    def __init__(self, rate: float = 0.5, scheduler: Any = None) -> None:
        super().__init__()
        self.layer, self.rate, self.scheduler = torch.nn.Linear(64, 10), rate, scheduler

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        loss = torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, _: int) -> None:
        logits = self.layer(batch[0])
        self.log("val_acc", (logits.argmax(1) == batch[1]).float().mean())
        self.log("val_loss", torch.nn.functional.cross_entropy(logits, batch[1]))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=self.rate)
        return {"optimizer": optimizer} | ({"lr_scheduler": self.scheduler(optimizer)} if self.scheduler else {})


def loaders() -> tuple[DataLoader, DataLoader]:
    images, labels, held_out, held_out_labels = (torch.from_numpy(part) for part in digits())
    return DataLoader(TensorDataset(images, labels), 100), DataLoader(TensorDataset(held_out, held_out_labels), 300)


def fit(
    callbacks: list[Any], rate: float = 0.5, checkpoint: Path | None = None, scheduler: Any = None, **options: Any
) -> L.Trainer:
    torch.manual_seed(0)
    options = {
        "max_epochs": STEPS,
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": checkpoint is not None,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        **options,
    }
    trainer = L.Trainer(callbacks=callbacks, **options)
    trainer.fit(
        Classifier(rate, scheduler), *loaders(), ckpt_path=checkpoint if checkpoint and checkpoint.exists() else None
    )
    return trainer


class TestLightning(CallbackContract):
    monitor, beaten, unbeatable = "val_loss", 9.9, 1e-3

    def callback(self, monitor: str | None = None, **options: Any) -> ForecastStopping:
        return ForecastStopping(monitor or self.monitor, **options)

    def train(self, callback: ForecastStopping, *, learns: bool = True, diverges: bool = False) -> int:
        return fit([callback], float("inf") if diverges else 0.5 if learns else 1e-5).current_epoch


def test_callback_with_a_checkpoint_of_the_other_direction_is_refused(tmp_path: Path) -> None:
    keep = L.pytorch.callbacks.ModelCheckpoint(tmp_path, monitor="val_acc", mode="min")
    with pytest.raises(ConfigError, match="'val_acc' is minimised by the framework"):
        fit([ForecastStopping("val_acc"), keep], enable_checkpointing=True)


def test_training_resumed_from_a_checkpoint_goes_on_with_what_was_seen(tmp_path: Path) -> None:
    last = tmp_path / "last.ckpt"
    options = {"best": 0.9, "dry_run": True}
    straight, interrupted, resumed = (ForecastStopping("val_acc", **options) for _ in range(3))
    fit([straight], max_epochs=9)

    fit([interrupted, L.pytorch.callbacks.ModelCheckpoint(tmp_path, save_last=True)], 0.5, last, max_epochs=5)
    fit([resumed, L.pytorch.callbacks.ModelCheckpoint(tmp_path, save_last=True)], 0.5, last, max_epochs=9)

    assert resumed.state_dict()["seen"] == straight.state_dict()["seen"]
    assert len(straight.state_dict()["seen"]) == 9
    assert resumed.decision == straight.decision


def test_resumed_training_has_to_beat_the_best_that_was_saved(tmp_path: Path) -> None:
    last = tmp_path / "last.ckpt"
    stopper = Stopper(STEPS, "accuracy", best=0.9999, min_steps=8)
    keep = L.pytorch.callbacks.ModelCheckpoint(tmp_path, save_last=True)
    fit([ForecastStopping("val_acc", stopper=stopper), keep], 1e-5, last, max_epochs=5)

    resumed = ForecastStopping("val_acc", min_steps=8)
    trainer = fit([resumed, L.pytorch.callbacks.ModelCheckpoint(tmp_path, save_last=True)], 1e-5, last)

    assert resumed.decision is not None
    assert resumed.decision.best == 0.9999
    assert trainer.current_epoch == 8


def test_validation_within_epochs_counts_as_fractions() -> None:
    callback = ForecastStopping("val_acc")
    fit([callback], val_check_interval=0.5, max_epochs=3)
    assert [step for step, _ in callback.state_dict()["seen"]] == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]


def test_training_metric_without_validation_is_watched() -> None:
    callback = ForecastStopping("train_loss")
    fit([callback], limit_val_batches=0)
    assert len(callback.state_dict()["seen"]) == STEPS


def test_horizon_of_a_training_by_steps_is_in_epochs() -> None:
    callback = ForecastStopping("val_acc")
    fit([callback], max_epochs=-1, max_steps=22)  # 4 batches an epoch
    assert callback.decision is not None
    assert callback.decision.horizon == 6


def test_training_without_an_end_needs_a_horizon() -> None:
    with pytest.raises(ConfigError, match="give horizon="):
        fit([ForecastStopping("val_acc")], max_epochs=-1)


def test_training_of_one_epoch_has_nothing_to_forecast() -> None:
    callback = ForecastStopping("val_acc", best=0.9999)
    fit([callback], fast_dev_run=True)
    assert callback.decision is None


def test_validation_outside_training_is_not_part_of_the_run() -> None:
    callback = ForecastStopping("val_acc")
    trainer = fit([callback])
    trainer.validate(Classifier(), loaders()[1], verbose=False)
    assert len(callback.state_dict()["seen"]) == STEPS


def test_two_callbacks_keep_separate_states() -> None:
    assert ForecastStopping("val_acc").state_key != ForecastStopping("val_loss").state_key
    assert pickle.loads(pickle.dumps(ForecastStopping("val_acc"))).state_key == ForecastStopping("val_acc").state_key


@pytest.mark.slow
def test_processes_that_disagree_stop_together(tmp_path: Path) -> None:
    """Two real processes: only the second one has a best to beat, and both stop at the same epoch."""
    import subprocess
    import sys

    command = [sys.executable, "-m", "tests.two_lightning_processes", tmp_path]
    subprocess.run(command, check=True, timeout=600, cwd=Path(__file__).parents[1])
    told = [(tmp_path / f"rank{rank}").read_text().split() for rank in (0, 1)]
    assert told[0][0] == told[1][0]
    assert int(told[0][0]) < STEPS
    assert [reason for _, reason in told] == [Reason.NO_TARGET.value, Reason.UNLIKELY.value]


# Learning rates -------------------------------------------------------------------------------------------------------


def cosine(optimizer: Any) -> Any:
    return lr_scheduler.CosineAnnealingLR(optimizer, STEPS)


def one_cycle(optimizer: Any) -> dict[str, Any]:
    return {
        "scheduler": lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=STEPS * len(loaders()[0])),
        "interval": "step",
    }


def plateau(optimizer: Any) -> dict[str, Any]:
    return {"scheduler": lr_scheduler.ReduceLROnPlateau(optimizer), "monitor": "val_loss"}


@pytest.mark.parametrize(
    ("scheduler", "rates"),
    [(cosine, {0.0: 1.0, 0.5: 0.5, 1.0: 0.0}), (one_cycle, {0.0: 0.04, 0.3: 1.0, 1.0: 0.0}), (plateau, None)],
)
def test_learning_rates_are_read_off_the_trainer(scheduler: Any, rates: Any) -> None:
    callback = ForecastStopping("val_loss", dry_run=True)
    fit([callback], scheduler=scheduler)
    schedule = callback.stopper.forecaster.schedule
    if rates is None:
        assert schedule is None
        return
    steps = np.maximum(np.array([list(rates)]) * STEPS, 1e-3)
    np.testing.assert_allclose(schedule.at(steps, STEPS).rate[0], list(rates.values()), atol=0.15)  # in epochs


def test_next_training_without_a_scheduler_is_told_nothing() -> None:
    callback = ForecastStopping("val_loss", dry_run=True)
    fit([callback], scheduler=cosine)
    assert callback.stopper.forecaster.name == "real@rates"
    fit([callback])
    assert callback.stopper.forecaster.name == "real"


def test_rates_that_cannot_be_used_are_not_told_and_runs_are_judged_all_the_same() -> None:
    callback = ForecastStopping("val_loss", best=1e-3)
    trainer = fit([callback], 1e-5, scheduler=lambda o: lr_scheduler.LambdaLR(o, lambda step: -float(step)))
    assert callback.stopper.forecaster.name == "real"
    assert trainer.current_epoch < STEPS


def test_resumed_training_is_told_the_rates_of_the_whole_run(tmp_path: Path) -> None:
    last = tmp_path / "last.ckpt"
    straight, interrupted, resumed = (ForecastStopping("val_loss", best=0.3, dry_run=True) for _ in range(3))
    fit([straight], scheduler=cosine)
    stop = L.pytorch.callbacks.LambdaCallback(
        on_train_epoch_end=lambda trainer, _: setattr(trainer, "should_stop", trainer.current_epoch == 4)
    )
    keep = L.pytorch.callbacks.ModelCheckpoint(tmp_path, save_last=True)
    fit([interrupted, stop, keep], 0.5, last, cosine)
    fit([resumed, L.pytorch.callbacks.ModelCheckpoint(tmp_path, save_last=True)], 0.5, last, cosine)
    assert len(interrupted.state_dict()["seen"]) == 5
    assert resumed.state_dict()["rates"] == straight.state_dict()["rates"]
    assert resumed.decision == straight.decision


def test_callback_that_was_told_rates_survives_pickling() -> None:
    callback = ForecastStopping("val_loss", dry_run=True)
    fit([callback], scheduler=cosine)
    assert pickle.loads(pickle.dumps(callback)).stopper.forecaster.name == "real@rates"


@pytest.mark.parametrize(
    "scheduler",
    [
        lambda o: lr_scheduler.StepLR(o, 3),
        lambda o: lr_scheduler.MultiStepLR(o, [5, 8]),
        lambda o: lr_scheduler.ExponentialLR(o, 0.9),
        lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 5),
        lambda o: lr_scheduler.SequentialLR(
            o, [lr_scheduler.LinearLR(o, 0.1, total_iters=3), lr_scheduler.CosineAnnealingLR(o, 7)], [3]
        ),
        lambda o: lr_scheduler.ChainedScheduler(
            [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.ExponentialLR(o, 0.9)]
        ),
    ],
)
def test_rates_are_those_that_the_scheduler_will_set(scheduler: Any) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(3))], lr=0.1)
    made = scheduler(optimizer)
    ahead, came = rates_of(made, 10), []
    for _ in range(10):
        came.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        made.step()
    assert ahead == came
