"""Train a chunk: networks of one architecture on one task, each with hyperparameters of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from digits_bench.networks import ACTIVATIONS, FAMILIES, Linear, initial_parameters, linear_maps
from digits_bench.tasks import RECIPES, Task, load_task

SCHEDULES = ("constant", "cosine", "step", "warmup")
# From networks that hardly move to networks that diverge.
LEARNING_RATES = {"sgd": (1e-3, 10.0), "momentum": (3e-4, 3.0), "adam": (3e-5, 0.3), "rmsprop": (3e-5, 0.1)}
OPTIMIZERS = tuple(LEARNING_RATES)
BATCH_SIZES = (16, 32, 64, 128)

_ARCHITECTURE_STREAM, _NETWORK_STREAM = 2, 3  # last words of the seeds; tasks.py has 1


@dataclass(frozen=True)
class Chunk:
    """What the networks of a chunk have in common. `seed` decides everything else."""

    task: str
    family: str
    width: int
    depth: int
    activation: str
    optimizer: str
    batch_size: int
    networks: int
    epochs: int
    seed: tuple[int, ...]

    @classmethod
    def draw(cls, task: str, family: str, networks: int, epochs: int, seed: tuple[int, ...]) -> Chunk:
        rng = np.random.default_rng([*seed, _ARCHITECTURE_STREAM])
        largest_batch = RECIPES[task].n_train // 4  # at least four updates per epoch
        return cls(
            task=task,
            family=family,
            width=int(rng.choice(FAMILIES[family].widths)),
            depth=int(rng.choice(FAMILIES[family].depths)),
            activation=str(rng.choice(list(ACTIVATIONS))),
            optimizer=str(rng.choice(OPTIMIZERS)),
            batch_size=int(rng.choice([size for size in BATCH_SIZES if size <= largest_batch])),
            networks=networks,
            epochs=epochs,
            seed=seed,
        )


@dataclass(frozen=True)
class Hyperparameters:
    """What each network of a chunk has for itself, [model]."""

    learning_rate: NDArray[np.float64]
    momentum: NDArray[np.float64]
    weight_decay: NDArray[np.float64]
    dropout: NDArray[np.float64]
    init_scale: NDArray[np.float64]
    schedule: NDArray[np.int64]  # index into SCHEDULES

    @classmethod
    def draw(cls, n: int, optimizer: str, rng: np.random.Generator) -> Hyperparameters:
        def log_uniform(low: float, high: float) -> NDArray[np.float64]:
            return np.exp(rng.uniform(math.log(low), math.log(high), n))

        def often_zero(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.where(rng.random(n) < 0.5, 0.0, values)

        return cls(
            learning_rate=log_uniform(*LEARNING_RATES[optimizer]),
            momentum=1.0 - log_uniform(0.01, 0.3) if optimizer == "momentum" else np.zeros(n),
            weight_decay=often_zero(log_uniform(1e-5, 1e-1)),
            dropout=often_zero(rng.uniform(0.05, 0.6, n)),
            init_scale=log_uniform(0.5, 3.0),
            schedule=rng.integers(len(SCHEDULES), size=n),
        )


def schedule_factors(schedule: str, n_updates: int) -> NDArray[np.float64]:
    """What the learning rate is multiplied by at each update."""
    progress = np.arange(n_updates) / n_updates
    if schedule == "constant":
        return np.ones(n_updates)
    if schedule == "cosine":
        return 0.5 * (1.0 + np.cos(np.pi * progress))
    if schedule == "step":
        return 0.1 ** np.searchsorted([0.5, 0.8], progress, side="right")
    if schedule == "warmup":  # up over the first fifth, then down to zero
        return np.minimum(progress / 0.2, (1.0 - progress) / 0.8)
    raise ValueError(f"schedule {schedule!r} is unknown; choose one of {', '.join(SCHEDULES)}")


class Momentum:
    """Gradient descent with heavy-ball momentum per model; momentum 0 is plain descent."""

    def __init__(self, parameters: Tensor, momentum: Tensor) -> None:
        self.momentum = momentum[:, None]
        self.velocity = torch.zeros_like(parameters)

    def direction(self, gradient: Tensor) -> Tensor:
        return self.velocity.mul_(self.momentum).add_(gradient)


class Adam:
    """Adam; with beta1 = 0 it is RMSprop with bias correction."""

    def __init__(self, parameters: Tensor, beta1: float, beta2: float) -> None:
        self.betas = (beta1, beta2)
        self.first, self.second = torch.zeros_like(parameters), torch.zeros_like(parameters)
        self.updates = 0

    def direction(self, gradient: Tensor) -> Tensor:
        self.updates += 1
        beta1, beta2 = self.betas
        self.first.lerp_(gradient, 1 - beta1)
        self.second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        scale = (self.second / (1 - beta2**self.updates)).sqrt_().add_(1e-8)
        return self.first / (1 - beta1**self.updates) / scale


def make_optimizer(name: str, parameters: Tensor, momentum: Tensor) -> Momentum | Adam:
    if name == "adam":
        return Adam(parameters, 0.9, 0.999)
    if name == "rmsprop":
        return Adam(parameters, 0.0, 0.99)
    return Momentum(parameters, momentum)


class ChunkTrainer:
    """The state of a chunk in training."""

    def __init__(self, chunk: Chunk, task: Task) -> None:
        rng = np.random.default_rng([*chunk.seed, _NETWORK_STREAM])
        self.chunk, self.task = chunk, task
        self.hyper = Hyperparameters.draw(chunk.networks, chunk.optimizer, rng)
        self.generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        family = FAMILIES[chunk.family]
        self.forward = family.forward
        self.shapes = family.shapes(task.x_train.shape[1:], chunk.width, chunk.depth, task.n_classes)
        self.parameters = initial_parameters(self.shapes, _column(self.hyper.init_scale), self.generator)
        self.optimizer = make_optimizer(chunk.optimizer, self.parameters, _column(self.hyper.momentum))
        self.updates_per_epoch = len(task.x_train) // chunk.batch_size
        self.learning_rates = self._learning_rates(chunk.epochs * self.updates_per_epoch)

    def _learning_rates(self, n_updates: int) -> Iterator[Tensor]:
        """The learning rates [model, 1] of one update after the other."""
        factors = np.stack([schedule_factors(name, n_updates) for name in SCHEDULES])
        rates = self.hyper.learning_rate[:, None] * factors[self.hyper.schedule]  # [model, update]
        return iter(_column(rates).T.unsqueeze(2))

    def _logits(self, maps: list[Linear], x: Tensor, *, training: bool) -> Tensor:
        return self.forward(maps, x, ACTIVATIONS[self.chunk.activation], self._drop if training else _keep)

    def _drop(self, x: Tensor) -> Tensor:
        """Dropout of channels at each model's own rate; the steps of a sequence lose the same ones."""
        rate = _column(self.hyper.dropout).view(-1, *[1] * (x.ndim - 1))
        places = (*x.shape[:2], *[1] * (x.ndim - 3), x.shape[-1])
        return x * ((torch.rand(places, generator=self.generator) >= rate) / (1 - rate))

    def run_epoch(self) -> None:
        """One pass over the training examples, in an order of its own for each model."""
        order = torch.rand(self.chunk.networks, len(self.task.x_train), generator=self.generator).argsort(dim=1)
        size = self.chunk.batch_size
        for update in range(self.updates_per_epoch):
            self._update(order[:, update * size : (update + 1) * size])

    def _update(self, batch: Tensor) -> None:
        self.parameters.requires_grad_(True)
        logits = self._logits(linear_maps(self.parameters, self.shapes), self.task.x_train[batch], training=True)
        # A sum over models of means over examples: the gradient of each model is its own.
        loss = F.cross_entropy(logits.flatten(0, 1), self.task.y_train[batch].flatten(), reduction="sum")
        (gradient,) = torch.autograd.grad(loss / batch.shape[1], self.parameters)
        self.parameters.requires_grad_(False)
        rate = next(self.learning_rates)
        self.parameters.mul_(1 - rate * _column(self.hyper.weight_decay)[:, None])
        self.parameters.sub_(rate * self.optimizer.direction(gradient))

    @torch.no_grad()
    def evaluate(self) -> tuple[Tensor, Tensor]:
        """Accuracy and log loss on the validation examples, both [model]."""
        x = self.task.x_val.expand(self.chunk.networks, *self.task.x_val.shape)
        logits = self._logits(linear_maps(self.parameters, self.shapes), x, training=False)
        labels = self.task.y_val.expand(self.chunk.networks, -1)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape)
        return (logits.argmax(dim=2) == labels).double().mean(dim=1), loss.double().mean(dim=1)


def _column(values: NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))


def _keep(x: Tensor) -> Tensor:
    return x


CONFIG_NAMES = (
    *("learning_rate", "momentum", "weight_decay", "dropout", "init_scale", "schedule"),
    *("optimizer", "activation", "width", "depth", "batch_size", "parameters"),
)


def train_chunk(chunk: Chunk, task_seed: int) -> dict[str, NDArray[np.float64]]:
    """Curves [model, 1 + epoch], first value before training, NaN from divergence on; and the hyperparameters."""
    trainer = ChunkTrainer(chunk, load_task(chunk.task, task_seed))
    values = [trainer.evaluate()]
    for _ in range(chunk.epochs):
        trainer.run_epoch()
        values.append(trainer.evaluate())
    accuracy, log_loss = (torch.stack(column, dim=1).numpy() for column in zip(*values, strict=True))
    diverged = np.logical_or.accumulate(~np.isfinite(log_loss), axis=1)
    accuracy[diverged] = log_loss[diverged] = np.nan
    return {"accuracy": accuracy, "log_loss": log_loss, "config": _config(trainer)}


def _config(trainer: ChunkTrainer) -> NDArray[np.float64]:
    """One row per model, columns as in CONFIG_NAMES; names become their index."""
    chunk, hyper = trainer.chunk, trainer.hyper
    optimizer, activation = OPTIMIZERS.index(chunk.optimizer), list(ACTIVATIONS).index(chunk.activation)
    own = (hyper.learning_rate, hyper.momentum, hyper.weight_decay, hyper.dropout, hyper.init_scale, hyper.schedule)
    common = (optimizer, activation, chunk.width, chunk.depth, chunk.batch_size, trainer.parameters.shape[1])
    return np.column_stack([*own, *(np.full(chunk.networks, float(value)) for value in common)])
