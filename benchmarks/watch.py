"""What a look at 500 runs costs beyond reading their logs: processor seconds of `Watcher.refresh`, of one process.

    python benchmarks/watch.py
    python benchmarks/watch.py --noisy

The runs are 20 to 106 values long, of 120. Reading is measured by a second reader of the same files. With --noisy it
tells instead how many of 30 runs that differ in nothing but noise are called hopeless, and how many of those were not.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import epochcast as ec
from epochcast.logs.growing import GrowingLogs
from epochcast.watch import Verdict, Watcher

RUNS, HORIZON, SHORTEST, LONGEST = 500, 120, 20, 106
EQUAL_RUNS, EQUAL_HORIZON, NOISE = 30, 100, 0.03


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


def noisy(seed: int) -> tuple[int, int]:
    """Of equal runs that have 70 to 94 values: how many are called hopeless, and how many of those come to win."""
    rng = np.random.default_rng(seed)
    runs, lengths = [], []
    for _ in range(EQUAL_RUNS):
        rise = 0.7 * np.exp(-rng.uniform(0.05, 0.3) * np.arange(1, EQUAL_HORIZON + 1))
        runs.append(np.clip(0.8 - rise + NOISE * rng.standard_normal(EQUAL_HORIZON), 0.0, 1.0))
        lengths.append(int(rng.integers(70, 95)))
    with tempfile.TemporaryDirectory() as folder:
        for run, (values, length) in enumerate(zip(runs, lengths, strict=True)):
            lines = [f"{step},{value}" for step, value in enumerate(values[:length], start=1)]
            (Path(folder) / f"{run}.csv").write_text("\n".join(["epoch,val_acc", *lines]) + "\n")
        rows = Watcher(folder, "val_acc", "accuracy", EQUAL_HORIZON).refresh().rows
    hopeless = [int(Path(row.name).stem) for row in rows if row.verdict is Verdict.HOPELESS]
    best = [values[:length].max() for values, length in zip(runs, lengths, strict=True)]
    wrong = [run for run in hopeless if runs[run].max() > max(best[:run] + best[run + 1 :])]
    return len(hopeless), len(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description="what a look at many runs costs")
    parser.add_argument("--noisy", action="store_true", help="tell what becomes of equal runs with noise")
    if parser.parse_args().noisy:
        for seed in range(5):
            hopeless, wrong = noisy(seed)
            print(f"seed {seed}: {hopeless} of {EQUAL_RUNS} equal runs hopeless, {wrong} of them wrongly")
        return
    for what, seconds in measure().items():
        print(f"{RUNS} runs, {what}: {seconds:.2f} s of processor time beyond reading")


if __name__ == "__main__":
    main()
