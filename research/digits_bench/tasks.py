"""Classification tasks that scikit-learn bundles or that are made here: nothing is downloaded."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import datasets
from torch import Tensor

Examples = tuple[NDArray[np.float64], NDArray[np.int64]]  # inputs [example, ...], labels [example]

MOST_VALIDATED = 400  # more validation examples would cost more than they tell

_STREAM = 1  # last word of the seeds of this file, so that they differ from those of training.py


def _digits(rng: np.random.Generator) -> Examples:
    bunch = datasets.load_digits()
    return bunch.images, bunch.target


def _diabetes(rng: np.random.Generator) -> Examples:
    """The progression of the disease, cut into three classes of equal size."""
    bunch = datasets.load_diabetes()
    return bunch.data, np.digitize(bunch.target, np.quantile(bunch.target, [1 / 3, 2 / 3]))


def _table(load: Callable[..., object]) -> Callable[[np.random.Generator], Examples]:
    return lambda rng: load(return_X_y=True)  # type: ignore[return-value]


def _noisy_classes(rng: np.random.Generator) -> Examples:
    """Clusters in 20 dimensions; one label in seven is drawn anew, so no network can reach accuracy 1."""
    seed = int(rng.integers(2**31))
    return datasets.make_classification(
        800, 20, n_informative=8, n_redundant=4, n_classes=4, flip_y=0.15, random_state=seed
    )


def _spirals(rng: np.random.Generator) -> Examples:
    arm, radius = rng.integers(3, size=800), np.sqrt(rng.uniform(0.02, 1.0, 800))
    angle = 2 * np.pi * (arm / 3 + 1.1 * radius)
    points = radius * np.stack([np.cos(angle), np.sin(angle)])
    return (points + rng.normal(0.0, 0.04, points.shape)).T, arm


def _gratings(rng: np.random.Generator) -> Examples:
    """Stripes of one of six orientations, with random phase and wave length, under heavy noise."""
    orientation, phase = rng.integers(6, size=1040), rng.uniform(0.0, 2 * np.pi, 1040)
    frequency, angle = rng.uniform(0.9, 1.6, 1040), np.pi * orientation / 6
    row, column = np.mgrid[:8, :8]
    along = np.multiply.outer(np.cos(angle), row) + np.multiply.outer(np.sin(angle), column)  # [example, 8, 8]
    stripes = np.sin(frequency[:, None, None] * along + phase[:, None, None])
    return stripes + rng.normal(0.0, 0.8, stripes.shape), orientation


def _parity(rng: np.random.Generator) -> Examples:
    """All sequences of ten bits: networks sit at chance for long, and some then rise at once."""
    bits = np.array(list(itertools.product([0, 1], repeat=10)))
    return np.eye(2)[bits], bits.sum(axis=1) % 2


def _majority(rng: np.random.Generator) -> Examples:
    """The most frequent of three letters in a sequence of twelve; ties go to the first."""
    letters = np.eye(3)[rng.integers(3, size=(800, 12))]
    return letters, letters.sum(axis=1).argmax(axis=1)


def _recall(rng: np.random.Generator) -> Examples:
    """The letter at the marked place of a sequence: a fifth channel carries the mark."""
    letters, marked = rng.integers(4, size=(800, 10)), rng.integers(10, size=800)
    marks = np.eye(10)[marked][..., None]
    return np.concatenate([np.eye(4)[letters], marks], axis=2), letters[np.arange(800), marked]


@dataclass(frozen=True)
class TaskRecipe:
    """Where a task's examples come from, how many of them train, and what is trained on it for how long."""

    make: Callable[[np.random.Generator], Examples]
    n_train: int
    epochs: int
    families: tuple[str, ...] = ("mlp",)
    wrong_labels: float = 0.0  # share of the training labels that is drawn anew


RECIPES = {
    "digits": TaskRecipe(_digits, 640, 50, ("mlp", "cnn", "rnn", "transformer")),
    "digits_wrong_labels": TaskRecipe(_digits, 400, 50, ("mlp", "cnn"), wrong_labels=0.3),
    "gratings": TaskRecipe(_gratings, 640, 50, ("mlp", "cnn")),
    "breast_cancer": TaskRecipe(_table(datasets.load_breast_cancer), 285, 100),
    "wine": TaskRecipe(_table(datasets.load_wine), 89, 100),
    "iris": TaskRecipe(_table(datasets.load_iris), 75, 100),
    "diabetes": TaskRecipe(_diabetes, 221, 100),
    "noisy_classes": TaskRecipe(_noisy_classes, 400, 50),
    "spirals": TaskRecipe(_spirals, 400, 100),
    "parity": TaskRecipe(_parity, 640, 50, ("rnn", "transformer")),
    "majority": TaskRecipe(_majority, 400, 50, ("mlp", "rnn", "transformer")),
    "recall": TaskRecipe(_recall, 400, 50, ("mlp", "rnn", "transformer")),
}


@dataclass(frozen=True)
class Task:
    """Standardised examples, split into training and validation."""

    x_train: Tensor  # [example, feature] or [example, step, channel]
    y_train: Tensor  # [example]
    x_val: Tensor
    y_val: Tensor
    n_classes: int


def load_task(name: str, seed: int) -> Task:
    """The task's examples; the split is the same for all its networks."""
    recipe = RECIPES[name]
    rng = np.random.default_rng([seed, list(RECIPES).index(name), _STREAM])
    x, y = (np.asarray(part) for part in recipe.make(rng))
    order = rng.permutation(len(y))
    order = order[: recipe.n_train + MOST_VALIDATED]
    x, y = x[order], y[order]
    n_classes, n_train = int(y.max()) + 1, recipe.n_train
    mean, sd = x[:n_train].mean(axis=0), x[:n_train].std(axis=0)
    x = torch.from_numpy(((x - mean) / np.where(sd > 0, sd, 1.0)).clip(-5, 5).astype(np.float32))
    y_train = np.where(rng.random(n_train) < recipe.wrong_labels, rng.integers(n_classes, size=n_train), y[:n_train])
    return Task(x[:n_train], torch.from_numpy(y_train), x[n_train:], torch.from_numpy(y[n_train:]), n_classes)
