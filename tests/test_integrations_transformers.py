"""The Transformers callback in real trainings of a small model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

transformers = pytest.importorskip("transformers", reason="needs epochcast[transformers]")
pytest.importorskip("accelerate", reason="needs epochcast[transformers]")

import torch  # noqa: E402
from torch.utils.data import Dataset  # noqa: E402

from epochcast.errors import ConfigError  # noqa: E402
from epochcast.integrations.transformers import ForecastStopping  # noqa: E402
from tests.callback_contract import STEPS, CallbackContract, digits  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning")]


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.layer(images)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class Images(Dataset):
    def __init__(self, images: Any, labels: Any) -> None:
        self.images, self.labels = torch.from_numpy(images), torch.from_numpy(labels)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"images": self.images[index], "labels": self.labels[index]}


def accuracy(prediction: Any) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def trainer(callbacks: list[Any], folder: Path, rate: float = 0.5, **options: Any) -> Any:
    images, labels, held_out, held_out_labels = digits()
    several = options.pop("several", False)
    held_out_set = Images(held_out, held_out_labels)
    options = {
        "eval_strategy": "epoch",
        "save_strategy": "no",
        "num_train_epochs": STEPS,
        "per_device_train_batch_size": 200,
        "per_device_eval_batch_size": 300,
        "learning_rate": rate,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 1e9,
        "optim": "sgd",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 0,
        **options,
    }
    transformers.set_seed(0)
    made = transformers.Trainer(
        Classifier(),
        transformers.TrainingArguments(str(folder), **options),
        train_dataset=Images(images, labels),
        eval_dataset={"one": held_out_set, "two": held_out_set} if several else held_out_set,
        compute_metrics=accuracy,
        callbacks=callbacks,
    )
    made.remove_callback(transformers.PrinterCallback)
    return made


class TestTransformers(CallbackContract):
    monitor, beaten, unbeatable = "eval_loss", 9.9, 1e-3

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def callback(self, monitor: str | None = None, **options: Any) -> ForecastStopping:
        return ForecastStopping(monitor or self.monitor, **options)

    def train(self, callback: ForecastStopping, *, learns: bool = True, diverges: bool = False) -> int:
        made = trainer([callback], self.folder, float("inf") if diverges else 0.5 if learns else 1e-5)
        made.train()
        return round(made.state.epoch)


def test_training_resumed_from_a_checkpoint_goes_on_with_what_was_seen(tmp_path: Path) -> None:
    options = {"best": 0.9, "dry_run": True}
    straight, resumed = (ForecastStopping("accuracy", **options) for _ in range(2))
    trainer([straight], tmp_path).train()

    trainer([ForecastStopping("accuracy", **options)], tmp_path, save_strategy="epoch", num_train_epochs=5).train()
    trainer([resumed], tmp_path).train(resume_from_checkpoint=True)

    np.testing.assert_allclose(resumed.state_dict()["seen"], straight.state_dict()["seen"])
    assert len(straight.state_dict()["seen"]) == STEPS
    assert resumed.decision == straight.decision


def test_evaluations_by_steps_are_counted(tmp_path: Path) -> None:
    callback = ForecastStopping("eval_accuracy")
    trainer([callback], tmp_path, eval_strategy="steps", eval_steps=5, max_steps=23).train()
    assert [step for step, _ in callback.state_dict()["seen"]] == [1, 2, 3, 4, 5]
    assert callback.decision is not None
    assert callback.decision.horizon == 5


def test_evaluations_of_other_data_sets_are_passed_over(tmp_path: Path) -> None:
    callback = ForecastStopping("eval_two_accuracy", metric="accuracy")
    trainer([callback], tmp_path, several=True, num_train_epochs=3).train()
    assert [step for step, _ in callback.state_dict()["seen"]] == [1, 2, 3]


def test_evaluation_after_training_is_not_part_of_the_run(tmp_path: Path) -> None:
    callback = ForecastStopping("eval_accuracy")
    made = trainer([callback], tmp_path, num_train_epochs=3)
    made.train()
    made.evaluate()
    assert len(callback.state_dict()["seen"]) == 3


def test_metric_against_the_arguments_direction_is_refused(tmp_path: Path) -> None:
    arguments = {"metric_for_best_model": "accuracy", "greater_is_better": False}
    with pytest.raises(ConfigError, match="'eval_accuracy' is minimised by the framework"):
        trainer([ForecastStopping("eval_accuracy")], tmp_path, **arguments).train()


@pytest.mark.parametrize(
    ("options", "rates"),
    [
        ({"lr_scheduler_type": "linear"}, {0: 1.0, 0.5: 0.5, 1: 0.0}),
        ({"lr_scheduler_type": "cosine", "warmup_steps": 6}, {0: 0.0, 0.3: 1.0, 1: 0.0}),
        ({"lr_scheduler_type": "constant"}, {0: 1.0, 0.5: 1.0, 1: 1.0}),
        ({"lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"power": 2.0}}, {0: 1.0, 0.5: 0.25, 1: 0.0}),
        ({"lr_scheduler_type": "reduce_lr_on_plateau"}, None),
    ],
)
def test_learning_rates_are_read_off_the_trainer(tmp_path: Path, options: dict[str, Any], rates: Any) -> None:
    callback = ForecastStopping("loss", dry_run=True)
    trainer([callback], tmp_path, **options).train()
    schedule = callback.stopper.forecaster.schedule
    if rates is None:
        assert schedule is None
        return
    steps = np.maximum(np.array([list(rates)]) * STEPS, 1e-3)
    np.testing.assert_allclose(schedule.at(steps, STEPS).rate[0], list(rates.values()), atol=0.15)  # of 24 updates


def test_schedule_that_the_user_tells_comes_first(tmp_path: Path) -> None:
    callback = ForecastStopping("accuracy", dry_run=True, schedule="drops,at=5")
    trainer([callback], tmp_path, lr_scheduler_type="linear").train()
    assert callback.stopper.forecaster.name == "real@drops,at=5"


def test_learning_rates_of_an_accuracy_are_told_by_the_user_alone(tmp_path: Path) -> None:
    callback = ForecastStopping("accuracy", dry_run=True)
    trainer([callback], tmp_path, lr_scheduler_type="linear").train()
    assert callback.stopper.forecaster.name == "real"
