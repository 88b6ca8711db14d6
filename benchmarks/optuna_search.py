"""How much sooner a search with Optuna comes to its result when hopeless trials are pruned; writes a Markdown table.

    python benchmarks/optuna_search.py --cache digits --out table.md

Small networks on the handwritten digits, with random configurations, are trained once and in full; the accuracy after
every epoch and what that epoch cost are kept in --cache. A search is a real Optuna study of 100 in random order,
the same for every pruner, that is shown the recorded values. Its clock is the recorded cost of the epochs that it
trained plus the processor time that Optuna and the pruner took, both of one core.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import numpy as np
import optuna
import torch
import torch.nn.functional as F
from rich.progress import track
from sklearn import datasets
from torch import Tensor, nn

import epochcast as ec
from epochcast.integrations.optuna import EpochcastPruner

TRIALS, EPOCHS = 100, 50
N_TRAIN = 1000
WITHIN = 0.002  # a result this close to the best counts as near

PRUNERS: dict[str, Callable[[], optuna.pruners.BasePruner]] = {
    "no pruning": optuna.pruners.NopPruner,
    "MedianPruner": optuna.pruners.MedianPruner,
    "HyperbandPruner": lambda: optuna.pruners.HyperbandPruner(max_resource=EPOCHS),
    "EpochcastPruner": lambda: EpochcastPruner(EPOCHS, "accuracy"),
}


@dataclass(frozen=True)
class Training:
    """One network, trained in full: validation accuracy after each epoch, and the seconds that each took."""

    values: list[float]
    costs: list[float]


@dataclass(frozen=True)
class Outcome:
    """A search: what was found when, and what it cost."""

    progress: list[tuple[float, float]]  # clock and best value so far, after each completed trial
    epochs: int
    overhead: float  # seconds that Optuna and the pruner took

    def reached(self, value: float) -> float | None:
        """The clock when a trial that good was complete."""
        return next((clock for clock, best in self.progress if best >= value), None)


# --- the trainings -----------------------------------------------------------------------------------------------


@cache
def digits() -> tuple[Tensor, Tensor]:
    """Standardised images [example, pixel] and labels, in random order."""
    bunch = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    images = torch.tensor(bunch.data[order] / 16.0, dtype=torch.float32)
    return (images - images.mean()) / images.std(), torch.tensor(bunch.target[order])


def network(rng: np.random.Generator) -> nn.Module:
    width, dropout = int(2 ** rng.uniform(3, 8)), rng.uniform(0.0, 0.6)
    layers: list[nn.Module] = []
    inputs = 64
    for _ in range(rng.integers(1, 3)):
        layers += [nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(dropout)]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 10))


def optimizer(rng: np.random.Generator, model: nn.Module) -> torch.optim.Optimizer:
    rate, decay = 10.0 ** rng.uniform(-5.0, -1.0), 10.0 ** rng.uniform(-6.0, -2.0)
    if rng.random() < 0.5:
        return torch.optim.AdamW(model.parameters(), rate, weight_decay=decay)
    return torch.optim.SGD(model.parameters(), 10.0 * rate, momentum=0.9, weight_decay=decay)


def train(number: int) -> Training:
    """The training of that number: its configuration and all else that is random follow from it."""
    rng = np.random.default_rng(number)
    torch.manual_seed(number)
    images, labels = digits()
    model = network(rng)
    descent = optimizer(rng, model)
    batch_size = int(2 ** rng.uniform(5, 7))
    values, costs = [], []
    for _ in range(EPOCHS):
        started = time.process_time()
        model.train()
        for batch in torch.randperm(N_TRAIN).split(batch_size):
            loss = F.cross_entropy(model(images[batch]), labels[batch])
            descent.zero_grad()
            loss.backward()
            descent.step()
        model.eval()
        with torch.no_grad():
            hits = model(images[N_TRAIN:]).argmax(dim=1) == labels[N_TRAIN:]
        values.append(hits.double().mean().item())
        costs.append(time.process_time() - started)
    return Training(values, costs)


def recorded(trainings: int, cache: Path) -> list[Training]:
    """That many trainings: those in the cache, and the rest trained now."""
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / "trainings.jsonl"
    known = path.read_text().splitlines() if path.exists() else []
    with path.open("a") as file:
        for number in track(range(len(known), trainings), "training"):
            known.append(json.dumps(vars(train(number))))
            file.write(known[-1] + "\n")
            file.flush()
    return [Training(**json.loads(line)) for line in known[:trainings]]


# --- the searches ------------------------------------------------------------------------------------------------


def search(trainings: list[Training], pruner: optuna.pruners.BasePruner, study_name: str) -> Outcome:
    """A real study over recorded trainings, in this order. A trial is worth the best accuracy that it reached.

    Hyperband draws its brackets from the study's name, so that a random one would make it another rule each time.
    """
    cost, epochs = 0.0, 0
    progress: list[tuple[float, float]] = []
    began = time.process_time()

    def objective(trial: optuna.Trial) -> float:
        nonlocal cost, epochs
        training = trainings[trial.number]
        for epoch, (value, seconds) in enumerate(zip(training.values, training.costs, strict=True)):
            cost, epochs = cost + seconds, epochs + 1
            trial.report(value, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return max(training.values)

    def note(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        if trial.state is optuna.trial.TrialState.COMPLETE:
            progress.append((cost + time.process_time() - began, study.best_value))

    sampler = optuna.samplers.RandomSampler(0)
    study = optuna.create_study(study_name=study_name, direction="maximize", sampler=sampler, pruner=pruner)
    study.optimize(objective, n_trials=len(trainings), callbacks=[note])
    return Outcome(progress, epochs, time.process_time() - began)


def row(name: str, outcomes: list[Outcome], bare: list[Outcome]) -> str:
    """One line of the table: medians over the searches, against the searches without pruning."""
    goals = [search.progress[-1][1] for search in bare]
    full = [search.reached(goal) or np.inf for search, goal in zip(bare, goals, strict=True)]
    cells = []
    for slack in (0.0, WITHIN):
        clocks = [search.reached(goal - slack) or np.inf for search, goal in zip(outcomes, goals, strict=True)]
        reached = sum(np.isfinite(clocks))
        speedup = float(np.median([base / clock for base, clock in zip(full, clocks, strict=True)]))
        cells.append(f"{speedup:.1f}x ({reached} of {len(goals)})")
    lost = np.mean([goal - search.progress[-1][1] for search, goal in zip(outcomes, goals, strict=True)])
    epochs = np.mean([search.epochs for search in outcomes]) / (TRIALS * EPOCHS)
    overhead = 1000.0 * sum(search.overhead for search in outcomes) / sum(search.epochs for search in outcomes)
    training = sum(base.progress[-1][0] - base.overhead for base in bare) / sum(base.epochs for base in bare)
    share = overhead / (1000.0 * training)
    return f"| {name} | {' | '.join(cells)} | {epochs:.0%} | {lost:.4f} | {share:.0%} |"


def table(outcomes: dict[str, list[Outcome]], trainings: int) -> Iterator[str]:
    searches = len(next(iter(outcomes.values())))
    today = datetime.datetime.now(datetime.timezone.utc).date()
    yield (
        f"Measured on {today} with `python benchmarks/optuna_search.py`, model `{ec.Forecaster().name}`: {searches} "
        f"searches of {TRIALS} trials with {EPOCHS} epochs, drawn from {trainings} recorded trainings."
    )
    yield ""
    yield (
        f"| pruner | to the same result, times sooner (searches that got there) | to within {WITHIN:g} of it "
        "| epochs trained | accuracy lost | overhead per epoch, of its training |"
    )
    yield "|---|---|---|---|---|---|"
    for name, found in outcomes.items():
        yield row(name, found, outcomes["no pruning"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder of the recorded trainings")
    parser.add_argument("--trainings", type=int, default=200)
    parser.add_argument("--searches", type=int, default=10)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    trainings = recorded(arguments.trainings, arguments.cache)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in PRUNERS}
    for seed in track(range(arguments.searches), "searching"):
        order = np.random.default_rng(seed).permutation(len(trainings))[:TRIALS]
        for name, make in PRUNERS.items():
            outcomes[name].append(search([trainings[number] for number in order], make(), f"search {seed}"))
    text = "\n".join(table(outcomes, len(trainings)))
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
