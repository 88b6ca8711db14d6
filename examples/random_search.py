"""Random search on a real training job, with and without a stopper: the same configurations, timed.

    pip install 'epochcast[examples]'
    python examples/random_search.py
    python examples/random_search.py --configs 60 --epochs 60 --confidence 0.9

Each configuration is a small neural network on scikit-learn's digits. The only lines that concern epochcast are those
that name the stopper.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import epochcast as ec


@dataclass(frozen=True)
class Config:
    """What the search draws."""

    width: int
    layers: int
    learning_rate: float
    momentum: float
    weight_decay: float
    batch: int
    seed: int

    @classmethod
    def random(cls, rng: np.random.Generator) -> Config:
        return cls(
            width=int(rng.choice([16, 32, 64, 128])),
            layers=int(rng.integers(1, 4)),
            learning_rate=float(10.0 ** rng.uniform(-4.5, 0.0)),
            momentum=float(rng.uniform(0.0, 0.95)),
            weight_decay=float(10.0 ** rng.uniform(-6.0, -1.0)),
            batch=int(rng.choice([16, 32, 64, 128])),
            seed=int(rng.integers(1 << 31)),
        )

    def network(self) -> MLPClassifier:
        return MLPClassifier(
            hidden_layer_sizes=(self.width,) * self.layers,
            solver="sgd",
            learning_rate_init=self.learning_rate,
            momentum=self.momentum,
            alpha=self.weight_decay,
            batch_size=self.batch,
            random_state=self.seed,
        )


@dataclass(frozen=True)
class Outcome:
    """What a search found and what it took."""

    best: float
    winner: int  # which configuration
    epochs: int
    seconds: float
    stopped: int


def search(configs: list[Config], epochs: int, stopper: ec.Stopper | None, verbose: bool = False) -> Outcome:
    """Train every configuration, each until its last epoch or until the stopper ends it."""
    images, labels = load_digits(return_X_y=True)
    train_x, valid_x, train_y, valid_y = train_test_split(images / 16.0, labels, test_size=0.3, random_state=0)
    best, winner, spent, stopped = -np.inf, -1, 0, 0
    start = time.perf_counter()
    for number, config in enumerate(configs):
        network = config.network()
        for epoch in range(1, epochs + 1):
            network.partial_fit(train_x, train_y, classes=np.arange(10))
            accuracy = float(network.score(valid_x, valid_y))
            spent += 1
            if accuracy > best:
                best, winner = accuracy, number
            if stopper is None:
                continue
            decision = stopper.update(epoch, accuracy)
            if decision.stop:
                stopped += 1
                break
        if stopper is not None:
            if verbose:
                print(f"  run {number:3}, epoch {epoch:3}: {decision}")
            stopper.next_run()
    return Outcome(best, winner, spent, time.perf_counter() - start, stopped)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--model", default="default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="do not print every decision")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    configs = [Config.random(rng) for _ in range(arguments.configs)]
    # Networks with huge rates overflow on their way to a useless result; that is what a search meets.
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", RuntimeWarning)

    forecaster = ec.Forecaster(arguments.model)
    stopper = ec.Stopper(arguments.epochs, "accuracy", arguments.confidence, forecaster=forecaster)
    print(f"with a stopper, {arguments.configs} configurations of up to {arguments.epochs} epochs:")
    short = search(configs, arguments.epochs, stopper, verbose=not arguments.quiet)
    full = search(configs, arguments.epochs, None)
    for label, outcome in (("without", full), ("with", short)):
        print(
            f"{label:>8}: best accuracy {outcome.best:.4f} (configuration {outcome.winner}), "
            f"{outcome.epochs} epochs, {outcome.stopped} runs stopped, {outcome.seconds:.1f} s"
        )
    print(
        f"the stopper saved {1 - short.epochs / full.epochs:.0%} of the epochs and "
        f"{1 - short.seconds / full.seconds:.0%} of the time, its own included; "
        f"it cost {full.best - short.best:.4f} of accuracy"
    )


if __name__ == "__main__":
    main()
