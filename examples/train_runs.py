"""Train eight small networks and keep what a training loop would log of them, one CSV per run.

    python examples/train_runs.py                     # writes src/epochcast/data/runs/*.csv, about a minute on one core

The runs show what curves do: saturate, crawl, jump when the learning rate drops, overfit, diverge. The other examples
forecast them from their first epochs and compare with how they went on.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
import typer
from rich.progress import Progress
from sklearn import datasets
from torch import Tensor, nn

RUNS_FOLDER = Path(__file__).parents[1] / "src" / "epochcast" / "data" / "runs"
COLUMNS = ("epoch", "train_loss", "val_loss", "val_acc")
BATCH_SIZE = 32
SEED = 0


@dataclass(frozen=True)
class Data:
    """Standardised examples, split into training and validation."""

    x_train: Tensor  # [example, ...]
    y_train: Tensor  # [example]
    x_val: Tensor
    y_val: Tensor

    @classmethod
    def split(cls, x: np.ndarray, y: np.ndarray, n_train: int) -> Data:
        order = np.random.default_rng(SEED).permutation(len(y))
        inputs, labels = torch.tensor(x[order], dtype=torch.float32), torch.tensor(y[order])
        inputs = (inputs - inputs[:n_train].mean(0)) / inputs[:n_train].std(0).clamp(min=0.1)
        return cls(inputs[:n_train], labels[:n_train], inputs[n_train:], labels[n_train:])


def digits(n_train: int = 1000) -> Data:
    bunch = datasets.load_digits()
    return Data.split(bunch.images / 16, bunch.target, n_train)


def noisy_digits() -> Data:
    """Digits that are hard to read, so that training never comes to rest by itself."""
    bunch = datasets.load_digits()
    noise = np.random.default_rng(SEED).normal(0.0, 0.35, bunch.images.shape)
    return Data.split(bunch.images / 16 + noise, bunch.target, n_train=1000)


def digits_with_wrong_labels() -> Data:
    """Few examples, a quarter of them with a label drawn anew: something to overfit to."""
    data = digits(n_train=300)
    rng = np.random.default_rng(SEED)
    wrong = torch.from_numpy(rng.random(300) < 0.25)
    return Data(
        data.x_train,
        torch.where(wrong, torch.from_numpy(rng.integers(10, size=300)), data.y_train),
        data.x_val,
        data.y_val,
    )


def breast_cancer() -> Data:
    return Data.split(*datasets.load_breast_cancer(return_X_y=True), n_train=285)


def wine() -> Data:
    return Data.split(*datasets.load_wine(return_X_y=True), n_train=89)


def most_frequent_letter() -> Data:
    """Sequences of twenty letters; the label is the letter that comes up most often."""
    letters = np.eye(4)[np.random.default_rng(SEED).integers(4, size=(1500, 20))]
    return Data.split(letters, letters.sum(axis=1).argmax(axis=1), n_train=900)


def mlp(n_in: int, width: int, n_out: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, n_out))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(64, 10),
    )


class Recurrent(nn.Module):
    """A recurrent layer whose last state is read out."""

    def __init__(self, n_in: int, width: int, n_out: int) -> None:
        super().__init__()
        self.layer, self.readout = nn.GRU(n_in, width, batch_first=True), nn.Linear(width, n_out)

    def forward(self, x: Tensor) -> Tensor:
        _, last = self.layer(x)
        return self.readout(last[0])


def constant(progress: float) -> float:
    return 1.0


def cosine(progress: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def step_drops(progress: float) -> float:
    """A tenth of the learning rate at half of the run, a hundredth at four fifths."""
    return 0.1 ** ((progress >= 0.5) + (progress >= 0.8))


def ever_faster(progress: float) -> float:
    """A warm-up that nobody ends."""
    return 1000.0**progress


@dataclass(frozen=True)
class Run:
    """One training run: what is trained on what, and how."""

    name: str
    data: Callable[[], Data]
    network: Callable[[], nn.Module]
    optimizer: type[torch.optim.Optimizer]
    learning_rate: float
    schedule: Callable[[float], float] = constant
    epochs: int = 100
    weight_decay: float = 0.0


RUNS = (
    Run("digits_mlp", digits, lambda: mlp(64, 32, 10), torch.optim.SGD, 0.02),
    Run("digits_cnn_cosine", noisy_digits, cnn, torch.optim.SGD, 0.3, cosine, weight_decay=0.005),
    Run("digits_mlp_step", noisy_digits, lambda: mlp(64, 64, 10), torch.optim.SGD, 0.7, step_drops, weight_decay=0.01),
    Run("letters_rnn", most_frequent_letter, lambda: Recurrent(4, 16, 4), torch.optim.Adam, 0.002),
    Run("breast_cancer_logistic", breast_cancer, lambda: nn.Linear(30, 2), torch.optim.SGD, 0.002),
    Run("digits_overfit", digits_with_wrong_labels, lambda: mlp(64, 256, 10), torch.optim.Adam, 0.001),
    Run("wine_too_slow", wine, lambda: mlp(13, 16, 3), torch.optim.SGD, 0.0003),
    Run("digits_diverging", digits_with_wrong_labels, lambda: mlp(64, 32, 10), torch.optim.SGD, 0.05, ever_faster),
)


def train(run: Run) -> Iterator[dict[str, float]]:
    """Train and yield a row per epoch; a run whose loss is no longer finite ends there."""
    torch.manual_seed(SEED)
    data, network = run.data(), run.network()
    optimizer = run.optimizer(network.parameters(), lr=run.learning_rate, weight_decay=run.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: run.schedule(epoch / run.epochs))
    for epoch in range(1, run.epochs + 1):
        network.train()
        losses = [
            _update(network, optimizer, data, batch) for batch in torch.randperm(len(data.y_train)).split(BATCH_SIZE)
        ]
        schedule.step()
        row = {"epoch": epoch, "train_loss": float(np.mean(losses)), **_validate(network, data)}
        if not all(map(math.isfinite, row.values())):
            return
        yield row


def _update(network: nn.Module, optimizer: torch.optim.Optimizer, data: Data, batch: Tensor) -> float:
    loss = F.cross_entropy(network(data.x_train[batch]), data.y_train[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def _validate(network: nn.Module, data: Data) -> dict[str, float]:
    network.eval()
    logits = network(data.x_val)
    accuracy = (logits.argmax(dim=1) == data.y_val).double().mean()
    return {"val_loss": F.cross_entropy(logits, data.y_val).item(), "val_acc": accuracy.item()}


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Runs to train; default: all.")] = None,
    output: Annotated[Path, typer.Option(help="Folder of the CSV files.")] = RUNS_FOLDER,
) -> None:
    """Train runs and write their logs."""
    if unknown := set(names or []) - {run.name for run in RUNS}:
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}; known are {', '.join(run.name for run in RUNS)}")
    runs = [run for run in RUNS if not names or run.name in names]
    torch.set_num_threads(1)  # the networks are small: more threads cost more than they bring
    output.mkdir(parents=True, exist_ok=True)
    with Progress() as progress:
        total = progress.add_task("epochs", total=sum(run.epochs for run in runs))
        for run in runs:
            progress.update(total, description=f"{run.name:24}")
            with (output / f"{run.name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(COLUMNS)
                for row in train(run):
                    writer.writerow([row["epoch"], *(f"{row[column]:.5g}" for column in COLUMNS[1:])])
                    progress.advance(total)


if __name__ == "__main__":
    typer.run(main)
