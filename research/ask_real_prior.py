"""Which ingredients of the prior stand in the way of a collection's forecasts?

    python research/ask_real_prior.py ../shared/data nasbench_nlp --share 0.2

The weights of `real` are moved a little, so that the forecasts of one collection's middling curves gain some hundredths
of a nat. Then curves of the prior, on the same steps, are scored with weights moved that way and the opposite way. An
ingredient whose curves lose by it is one that pulls the network elsewhere: the collection asks for less of it. One
whose curves gain is one to have more of. Each ingredient is compared with the curves that could have had it and
have not. Two minutes on one core.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from compare_real_prior import COLLECTIONS, Array, Group, prior_draw, read
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from epochcast.nn.batch import TrainingBatch
from epochcast.nn.objective import StreamObjective
from epochcast.nn.trainer import RECIPES, Trainer
from epochcast.prior import real
from epochcast.prior.real.config import parent
from epochcast.rates import Rates
from epochcast.runtime.weights import find

GAIN = 0.04  # nats, to first order: large enough to measure, small enough to be a matter of direction
MIDDLING = (0.3, 0.7)  # quantiles of the log-likelihood: what moves these curves moves the median
QUERIES = 10  # later values per cutoff
CHUNK = 100  # curves scored at once
BATCHES = 40  # of training, for the usual size of gradients
LARGEST_CHANGE = 0.3  # nats: a few curves on a cliff must not speak for all
FEWEST = 25  # curves with and without an ingredient
CLEAR = 2.5  # standard errors


@dataclass(frozen=True)
class Cell:
    """Forecasts of curves of one length after the same number of values."""

    group: Group
    seen: int

    def log_prob(self, objective: StreamObjective, values: Array, targets: Array, kinds: Array) -> Tensor:
        """The mean [curve] over later values; targets [draw, curve, step]."""
        later = np.linspace(self.seen, len(self.group.steps) - 1, QUERIES).round().astype(np.int64)
        unknown = Rates(np.zeros(len(values)), np.ones_like(values), np.ones_like(values))
        batch = TrainingBatch(self.group.steps, float(self.group.steps[-1]), values, targets, kinds, unknown)
        return objective.log_prob(batch, np.array([self.seen]), later[None]).mean(dim=(0, 2, 3))

    def score(self, objective: StreamObjective, values: Array, targets: Array, kinds: Array) -> Array:
        with torch.no_grad():
            parts = [slice(start, start + CHUNK) for start in range(0, len(values), CHUNK)]
            scores = [self.log_prob(objective, values[part], targets[:, part], kinds[part]) for part in parts]
        return torch.cat(scores).numpy().astype(np.float64)


class Weights:
    """The weights of a network, where they were and a direction to move them in."""

    def __init__(self, network: torch.nn.Module, direction: list[Tensor]) -> None:
        self.parameters = list(network.parameters())
        self.origin = [parameter.detach().clone() for parameter in self.parameters]
        self.direction = direction

    @torch.no_grad()
    def move(self, step: float) -> None:
        for parameter, origin, direction in zip(self.parameters, self.origin, self.direction, strict=True):
            parameter.copy_(origin + step * direction)


def gradient(network: torch.nn.Module, value: Tensor) -> list[Tensor]:
    found = torch.autograd.grad(value, list(network.parameters()), allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for g, p in zip(found, network.parameters(), strict=True)]


def usual_size(objective: StreamObjective, rng: np.random.Generator) -> list[Tensor]:
    """The root mean square of each weight's gradient in training."""
    squares = [torch.zeros_like(parameter) for parameter in objective.network.parameters()]
    for _ in track(range(BATCHES), "training's gradients"):
        found = gradient(objective.network, objective.loss(objective.sampler(32, rng), rng))
        squares = [total + part**2 / BATCHES for total, part in zip(squares, found, strict=True)]
    return [total.sqrt() for total in squares]


def uphill(objective: StreamObjective, cell: Cell, rng: np.random.Generator) -> tuple[Weights, float]:
    """The direction that the middling curves of the cell ask for, and the step by which they gain `GAIN`."""
    values = cell.group.values
    kinds = np.full(len(values), cell.group.kind)
    scores = cell.score(objective, values, values[None], kinds)
    low, high = np.quantile(scores, MIDDLING)
    rows = rng.permutation(np.flatnonzero((scores >= low) & (scores <= high)))[: 6 * CHUNK]
    slope = [torch.zeros_like(parameter) for parameter in objective.network.parameters()]
    for part in np.array_split(rows, -(-len(rows) // CHUNK)):
        gained = cell.log_prob(objective, values[part], values[None, part], kinds[part]).sum() / len(rows)
        slope = [total + g for total, g in zip(slope, gradient(objective.network, gained), strict=True)]
    sizes = usual_size(objective, rng)
    direction = [g / (s + 1e-3 * s.mean() + 1e-12) for g, s in zip(slope, sizes, strict=True)]
    steepness = sum(float((g * d).sum()) for g, d in zip(slope, direction, strict=True))
    return Weights(objective.network, direction), GAIN / steepness


@dataclass(frozen=True)
class Answer:
    """What prior curves [curve] gain by a step that the cell asks for."""

    gains: Array
    ingredients: dict[str, NDArray[np.bool_]]


def ask_prior(
    objective: StreamObjective, cell: Cell, weights: Weights, step: float, size: int, rng: np.random.Generator
) -> Answer:
    draw, same = prior_draw(cell.group, size, rng, real.RealPriorConfig())
    noise = rng.standard_normal(draw.noisy.shape)
    targets = np.stack([draw.observe(noise), draw.observe(-noise)])
    scores = []
    for sign in track((1.0, -1.0), "prior curves"):
        weights.move(sign * step)
        scores.append(cell.score(objective, draw.noisy[same], targets[:, same], draw.kinds[same]))
    weights.move(0.0)
    gains = np.clip(0.5 * (scores[0] - scores[1]), -LARGEST_CHANGE, LARGEST_CHANGE)
    return Answer(gains, {name: mask[same] for name, mask in draw.ingredients.items()})


def rows_of(answer: Answer) -> list[tuple[float, float, str, int]]:
    """Difference, its standard error, ingredient and curves, the most unwelcome ingredient first."""
    rows = []
    for name in real.RealPriorConfig():
        with_it = answer.ingredients[name]
        whole = parent(name)
        without = ~with_it if whole is None else answer.ingredients[whole] & ~with_it
        if min(with_it.sum(), without.sum()) < FEWEST:
            continue
        ours, theirs = answer.gains[with_it], answer.gains[without]
        error = float(np.hypot(ours.std() / len(ours) ** 0.5, theirs.std() / len(theirs) ** 0.5))
        rows.append((float(ours.mean() - theirs.mean()), error, name, int(with_it.sum())))
    return sorted(rows)


def as_table(title: str, answer: Answer) -> Table:
    table = Table(title=title)
    for heading in ("ingredient", "curves", "beside those without", "standard error", ""):
        table.add_column(heading, justify="left" if heading == "ingredient" else "right")
    for difference, error, name, count in rows_of(answer):
        clear = abs(difference) > CLEAR * error
        asked = ("less" if difference < 0.0 else "more") if clear else ""
        table.add_row(name, str(count), f"{1000 * difference:+.1f}", f"{1000 * error:.1f}", asked)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="the ingredients that a collection asks for more or less of")
    parser.add_argument("data", type=Path, help="folder with the .npz files of the development curves")
    parser.add_argument("collection", choices=sorted(COLLECTIONS))
    parser.add_argument("--share", type=float, default=0.2, help="of each curve that is seen")
    parser.add_argument("--curves", type=int, default=6_000, help="of the prior, of the collection's kind of metric")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, console = np.random.default_rng(arguments.seed), Console(width=100)
    groups = COLLECTIONS[arguments.collection](read(arguments.data / f"{arguments.collection}.npz"), rng)
    group = max(groups, key=lambda group: group.values.size)
    cell = Cell(group, max(int(np.ceil(arguments.share * len(group.steps))), 1))

    trainer = Trainer(RECIPES["real"])
    trainer.start_from(find("real").weights)
    assert isinstance(trainer.objective, StreamObjective)
    weights, step = uphill(trainer.objective, cell, rng)
    answer = ask_prior(trainer.objective, cell, weights, step, arguments.curves, rng)
    title = f"{arguments.collection}, {cell.seen} of {len(group.steps)} values seen: gains of prior curves, nats x 1000"
    console.print(as_table(title, answer))


if __name__ == "__main__":
    main()
