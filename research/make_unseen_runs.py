"""Train some hundred small models of kinds that no rate of the prior was chosen on, and keep their learning curves.

    python research/make_unseen_runs.py unseen --seed 1
    epochcast evaluate real --data unseen --engines default,stream,last-value,power-law

Boosted trees (LightGBM, XGBoost) and small networks (a recurrent one on source code, spirals, noisy classes, sums
modulo a prime), with rates, optimisers, schedules and sizes drawn at random. Every seed makes data of its own. Eight
minutes on one core.
"""

from __future__ import annotations

import argparse
import math
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import lightgbm
import numpy as np
import torch
import torch.nn.functional as F
import xgboost
from numpy.typing import NDArray
from rich.progress import track
from sklearn.datasets import make_classification, make_moons
from torch import Tensor, nn

Rng = np.random.Generator
Array = NDArray[np.float64]
Score = tuple[float, float]  # log loss and accuracy on validation data
TREES = 150  # rounds of boosting


@dataclass(frozen=True)
class Data:
    """Examples for training and for validation."""

    train: tuple[Array, Array]
    valid: tuple[Array, Array]
    classes: int

    @classmethod
    def split(cls, x: Array, y: Array) -> Data:
        seen = 2 * len(y) // 3
        return cls((x[:seen], y[:seen]), (x[seen:], y[seen:]), int(y.max()) + 1)

    @property
    def guess(self) -> Score:
        """What is scored by guessing class frequencies."""
        share = np.bincount(self.valid[1].astype(int), minlength=self.classes) / len(self.valid[1])
        return float(-np.sum(share * np.log(np.maximum(share, 1e-12)))), float(share.max())


@dataclass
class Runs:
    """Finished runs of one family of models."""

    name: str
    tasks: list[str] = field(default_factory=list)  # one per run
    scores: list[list[Score]] = field(default_factory=list)
    untrained: list[Score] = field(default_factory=list)
    rates: list[list[float]] = field(default_factory=list)  # relative learning rate at each planned evaluation

    def add(self, task: str, untrained: Score, scores: list[Score], rates: list[float] | None = None) -> None:
        self.tasks.append(task)
        self.untrained.append(untrained)
        self.scores.append(scores)
        self.rates.append(rates or [])

    def write(self, folder: Path) -> None:
        """One .npz file per metric, as `epochcast evaluate real` reads it; runs that broke off end in NaN."""
        table = np.full((len(self.scores), max(map(len, self.scores)), 2), np.nan, dtype=np.float32)
        for row, scores in enumerate(self.scores):
            table[row, : len(scores)] = np.reshape(scores, (-1, 2))
        rates = np.full((len(self.rates), max(map(len, self.rates))), np.nan)
        for row, known in enumerate(self.rates):
            rates[row, : len(known)] = known
        names, task = np.unique(self.tasks, return_inverse=True)
        for column, metric in enumerate(("log_loss", "accuracy")):
            np.savez(
                folder / f"{self.name}_{metric}.npz",
                curves=table[:, :, column],
                y0=np.array(self.untrained, dtype=np.float32)[:, column],
                task=task,
                task_names=names,
                metric=np.array(metric),
                minimize=np.array(metric == "log_loss"),
                rates=rates,
            )


def log_uniform(low: float, high: float, rng: Rng) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


# Boosted trees --------------------------------------------------------------------------------------------------------


def tables(rng: Rng) -> dict[str, Data]:
    """Classification tasks of different difficulty."""
    seeds = rng.integers(2**31, size=4)
    normal = rng.standard_normal((2_000, 10))
    made = {
        "sphere": (normal, ((normal**2).sum(axis=1) > 9.34).astype(float)),
        "three": make_classification(2_000, 20, n_informative=6, n_classes=3, flip_y=0.15, random_state=seeds[0]),
        "eight": make_classification(
            1_500, 50, n_informative=10, n_classes=8, n_clusters_per_class=1, flip_y=0.02, random_state=seeds[1]
        ),
        "moons": make_moons(1_500, noise=float(rng.uniform(0.2, 0.5)), random_state=seeds[2]),
        "wide": make_classification(600, 100, n_informative=5, flip_y=0.05, random_state=seeds[3]),
    }
    return {name: Data.split(x, y) for name, (x, y) in made.items()}


def by_lightgbm(data: Data, rng: Rng) -> list[Score]:
    depth = int(rng.integers(1, 9))
    settings = {
        "objective": "multiclass",
        "num_class": data.classes,
        "metric": ["multi_logloss", "multi_error"],
        "learning_rate": log_uniform(0.004, 1.0, rng),
        "max_depth": depth,
        "num_leaves": 2 ** min(depth, 6),
        "bagging_fraction": float(rng.uniform(0.4, 1.0)),
        "bagging_freq": 1,
        "min_data_in_leaf": int(log_uniform(1.0, 50.0, rng)),
        "verbosity": -1,
        "num_threads": 1,
    }
    seen: dict[str, dict[str, list[float]]] = {}
    keep = lightgbm.record_evaluation(seen)
    train = lightgbm.Dataset(*data.train)
    lightgbm.train(settings, train, TREES, valid_sets=[lightgbm.Dataset(*data.valid)], callbacks=[keep])
    (found,) = seen.values()
    return [(loss, 1.0 - error) for loss, error in zip(found["multi_logloss"], found["multi_error"], strict=True)]


def by_xgboost(data: Data, rng: Rng) -> list[Score]:
    settings = {
        "objective": "multi:softprob",
        "num_class": data.classes,
        "eval_metric": ["mlogloss", "merror"],
        "eta": log_uniform(0.004, 1.0, rng),
        "max_depth": int(rng.integers(1, 9)),
        "subsample": float(rng.uniform(0.4, 1.0)),
        "min_child_weight": log_uniform(1.0, 50.0, rng),
        "nthread": 1,
    }
    seen: dict[str, dict[str, list[float]]] = {}
    train, valid = xgboost.DMatrix(*data.train), xgboost.DMatrix(*data.valid)
    xgboost.train(settings, train, TREES, evals=[(valid, "valid")], evals_result=seen, verbose_eval=False)
    found = seen["valid"]
    return [(loss, 1.0 - error) for loss, error in zip(found["mlogloss"], found["merror"], strict=True)]


def boosting(size: int, rng: Rng) -> Runs:
    runs = Runs("boosting")
    for name, data in tables(rng).items():
        for k in track(range(size), f"boosting, {name}"):
            runs.add(name, data.guess, (by_lightgbm if k % 2 else by_xgboost)(data, rng))
    return runs


# Networks -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """Labelled tensors, and how to make a network for them."""

    train: tuple[Tensor, Tensor]
    valid: tuple[Tensor, Tensor]
    network: Callable[[Rng], nn.Module]
    evaluations: int
    steps: int  # per evaluation
    batch: int


class Recurrent(nn.Module):
    """Predicts the next of some symbols."""

    def __init__(self, symbols: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(symbols, 24)
        self.states = nn.GRU(24, width, batch_first=True)
        self.head = nn.Linear(width, symbols)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.states(self.embed(x))[0])
        return logits.transpose(1, 2)  # [sequence, symbol, position], as cross_entropy wants it


def layers(inputs: int, outputs: int, rng: Rng) -> nn.Sequential:
    width = int(rng.choice([16, 64, 128]))
    parts: list[nn.Module] = [nn.Dropout(0.3 * (rng.random() < 0.2))]
    for _ in range(int(rng.integers(1, 4))):
        parts += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*parts, nn.Linear(inputs, outputs))


def source_code(rng: Rng) -> Task:
    """Characters of some modules of the standard library."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    text = "".join(files[k].read_text(encoding="utf-8", errors="ignore") for k in rng.permutation(len(files))[:20])
    symbols, coded = np.unique(np.array(list(text[:100_000])), return_inverse=True)
    windows = torch.from_numpy(coded[: len(coded) // 25 * 25].reshape(-1, 25))
    seen, rest = windows[:-60], windows[-60:]

    def network(rng: Rng) -> nn.Module:
        return Recurrent(len(symbols), int(rng.choice([16, 32, 64])))

    return Task((seen[:, :-1], seen[:, 1:]), (rest[:, :-1], rest[:, 1:]), network, 50, 8, 24)


def of_table(x: Array, y: Array, evaluations: int, steps: int, batch: int) -> Task:
    data = Data.split(x, y)
    seen, rest = (
        (torch.tensor(part[0], dtype=torch.float32), torch.tensor(part[1]).long()) for part in (data.train, data.valid)
    )
    return Task(seen, rest, lambda rng: layers(x.shape[1], data.classes, rng), evaluations, steps, batch)


def spirals(rng: Rng) -> Task:
    arms = int(rng.integers(2, 5))
    angle, arm = rng.uniform(0.5, 8.0, 1_200), rng.integers(0, arms, 1_200)
    turned = angle + 2.0 * np.pi * arm / arms
    x = np.column_stack([angle * np.cos(turned), angle * np.sin(turned)]) / 4.0
    return of_table(x + rng.normal(0.0, 0.08, x.shape), arm.astype(float), 80, 13, 64)


def noisy_classes(rng: Rng) -> Task:
    x, y = make_classification(
        1_600, 40, n_informative=12, n_classes=5, flip_y=0.1, random_state=int(rng.integers(2**31))
    )
    return of_table(x, y, 60, 20, 50)


def modular_sums(rng: Rng) -> Task:
    prime = int(rng.choice([17, 19, 23]))
    a, b = np.divmod(rng.permutation(prime**2), prime)
    eye = np.eye(prime)
    return of_table(np.hstack([eye[a], eye[b]]), ((a + b) % prime).astype(float), 100, 8, 128)


TASKS = {"source": source_code, "spirals": spirals, "noisy": noisy_classes, "modular": modular_sums}


def optimiser(network: nn.Module, rng: Rng) -> torch.optim.Optimizer:
    rate, decay = log_uniform(3e-4, 2.0, rng), float(rng.random() < 0.5) * log_uniform(1e-5, 0.03, rng)
    choice = rng.integers(4)
    if choice == 0:
        return torch.optim.SGD(network.parameters(), rate, weight_decay=decay)
    if choice == 1:
        return torch.optim.SGD(network.parameters(), 0.3 * rate, momentum=0.9, weight_decay=decay)
    if choice == 2:
        return torch.optim.AdamW(network.parameters(), 0.03 * rate, weight_decay=decay)
    return torch.optim.RMSprop(network.parameters(), 0.03 * rate, weight_decay=decay)


def schedule(rng: Rng) -> Callable[[float], float]:
    """The rate at a share of the run: constant for a third of the runs."""
    drop = float(rng.uniform(0.3, 0.8))
    forms: tuple[Callable[[float], float], ...] = (
        lambda done: 1.0,
        lambda done: 1.0,
        lambda done: 0.5 + 0.5 * math.cos(math.pi * done),
        lambda done: 1.0 if done < drop else 0.1,
        lambda done: (1.0 - done) * min(1.0, 10.0 * done + 0.01),
        lambda done: done / 0.3 + 0.02 if done < 0.3 else 0.5 + 0.5 * math.cos(math.pi * (done - 0.3) / 0.7),
    )
    return forms[int(rng.integers(len(forms)))]


@torch.no_grad()
def validated(network: nn.Module, task: Task) -> Score:
    network.eval()
    logits, wanted = network(task.valid[0]), task.valid[1]
    network.train()
    return float(F.cross_entropy(logits, wanted)), float((logits.argmax(dim=1) == wanted).float().mean())


def train(network: nn.Module, task: Task, rng: Rng) -> tuple[list[Score], list[float]]:
    """Scores after each evaluation, up to where the run diverges, and the rates that were planned."""
    adjust, rate_at = optimiser(network, rng), schedule(rng)
    total = task.evaluations * task.steps
    plan = torch.optim.lr_scheduler.LambdaLR(adjust, lambda step: rate_at(min(step / total, 1.0)))
    scores: list[Score] = []
    for _ in range(task.evaluations):
        for _ in range(task.steps):
            rows = torch.from_numpy(rng.integers(0, len(task.train[1]), task.batch))
            adjust.zero_grad()
            F.cross_entropy(network(task.train[0][rows]), task.train[1][rows]).backward()  # type: ignore[no-untyped-call]
            adjust.step()
            plan.step()
        score = validated(network, task)
        if not math.isfinite(score[0]):
            break
        scores.append(score)
    return scores, [rate_at((k + 0.5) / task.evaluations) for k in range(task.evaluations)]


def networks(size: int, rng: Rng) -> Runs:
    runs = Runs("networks")
    for name, make in TASKS.items():
        task = make(rng)
        for _ in track(range(size), f"networks, {name}"):
            torch.manual_seed(int(rng.integers(2**31)))
            network = task.network(rng)
            runs.add(name, validated(network, task), *train(network, task, rng))
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description="learning curves of small models, for a check on unseen kinds of runs")
    parser.add_argument("folder", type=Path, help="where the .npz files go")
    parser.add_argument("--runs", type=int, default=40, help="per task")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(arguments.seed)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for family in (boosting, networks):
        family(arguments.runs, rng).write(arguments.folder)


if __name__ == "__main__":
    main()
