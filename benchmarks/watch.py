"""What a look at 500 runs costs beyond reading their logs: processor seconds of `Watcher.refresh`, of one process.

    python benchmarks/watch.py

The runs are 20 to 106 values long, of 120. Reading is measured by a second reader of the same files.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import epochcast as ec
from epochcast.logs.growing import GrowingLogs
from epochcast.watch import Watcher

RUNS, HORIZON, SHORTEST, LONGEST = 500, 120, 20, 106


class Logs:
    """The logs of many runs, each a CSV file, that grow on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        self._values = np.clip(ec.sample_prior(RUNS, seed=0), 0.0, 1.0)
        self._lengths = np.zeros(RUNS, dtype=int)
        for run, length in enumerate(rng.integers(SHORTEST, LONGEST + 1, RUNS)):
            self._path(run).write_text("epoch,train_loss,val_acc\n")
            self._append(run, int(length))

    def grow(self, runs: int) -> None:
        for run in range(runs):
            self._append(run, 1)

    def _append(self, run: int, count: int) -> None:
        first = self._lengths[run]
        known = self._values[run]
        with self._path(run).open("a") as file:
            for step in range(first, first + count):
                value = known[min(step, len(known) - 1)]
                file.write(f"{step + 1},{1.0 - value:.5f},{value:.5f}\n")
        self._lengths[run] += count

    def _path(self, run: int) -> Path:
        return self.folder / f"run_{run:03}.csv"


def processor_seconds(function: Callable[[], object]) -> float:
    started = time.process_time()
    function()
    return time.process_time() - started


def measure() -> dict[str, float]:
    """Processor seconds beyond reading: at the first look, and when no run, 50 runs and all runs have grown."""
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        logs = Logs(Path(folder))
        reader = GrowingLogs(folder)
        forecaster = ec.Forecaster()
        forecaster.forecast([0.1, 0.2], HORIZON, "accuracy")  # a first call of its own
        watcher = Watcher(folder, "val_acc", "accuracy", HORIZON, forecaster=forecaster)
        for what, grown in (
            ("the first look", 0),
            ("none has grown", 0),
            ("50 have grown", 50),
            ("all have grown", RUNS),
        ):
            logs.grow(grown)
            seconds[what] = -processor_seconds(reader.read)
            seconds[what] += processor_seconds(watcher.refresh)
    return seconds


def main() -> None:
    for what, seconds in measure().items():
        print(f"{RUNS} runs, {what}: {seconds:.2f} s of processor time beyond reading")


if __name__ == "__main__":
    main()
