"""A training that goes on from its checkpoint, for searches that pause runs, and a log of the epochs it trained."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.softmax_regression import accuracies, untrained

_STATE = "state.npz"


@dataclass(frozen=True)
class Log:
    """A line for each epoch that was trained, by however many processes."""

    path: Path

    def add(self, run: str, epoch: int) -> None:
        with self.path.open("a") as lines:  # so short a line is written at once
            lines.write(f"{run} {epoch} {os.getpid()}\n")

    def epochs(self) -> Counter[tuple[str, int]]:
        """How often each epoch of each run was trained."""
        return Counter((run, int(epoch)) for run, epoch, _ in self._entries())

    def order(self) -> list[str]:
        """Which runs were trained, one after the other; one that is gone on with later is there again."""
        runs = [run for run, _, _ in self._entries()]
        return [run for i, run in enumerate(runs) if i == 0 or runs[i - 1] != run]

    def _entries(self) -> list[list[str]]:
        return [line.split() for line in self.path.read_text().splitlines()] if self.path.exists() else []


def train(rate: float, epochs: int, folder: Path | None) -> Iterator[tuple[int, float, np.ndarray]]:
    """Epoch, validation accuracy and weights after each epoch up to this one, beginning with the checkpoint there."""
    start, weights = 0, untrained()
    if folder is not None and (folder / _STATE).exists():
        with np.load(folder / _STATE) as state:
            start, weights = int(state["epoch"]), state["weights"]
    for epoch, value in enumerate(accuracies(rate, epochs - start, weights), start + 1):
        yield epoch, value, weights


def save(folder: Path, epoch: int, weights: np.ndarray) -> None:
    """Write a checkpoint, whole or not at all: whoever writes it may be killed."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "unfinished.npz", epoch=epoch, weights=weights)
    (folder / "unfinished.npz").replace(folder / _STATE)


def once(mark: Path) -> bool:
    """Whether something that is to happen in one process only happens in this one."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
