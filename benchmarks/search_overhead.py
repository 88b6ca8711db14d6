"""What a search waits for: a decision beside 64 other runs, a step of FreezeThaw, and our share of an Optuna study.

    python benchmarks/search_overhead.py

Processor time on one core, each against something run in the same minute: a decision against that of a stopper that
forecasts each run by itself, a step of FreezeThaw against such a decision, our share of a study against epochs of a
second each. Runs are made up: 50 steps, their ends a function of the learning rate and the width.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import numpy as np
import optuna

import epochcast as ec
from epochcast.integrations.optuna import EpochcastPruner

HORIZON, OTHERS, TRIALS, ROUNDS = 50, 64, 1_000, 7
EPOCH = 1.0  # seconds that an epoch of the study is taken to last
UNCHECKED = 4  # steps of a run on which no decision is due
SPACE = {"lr": (1e-5, 0.1, "log"), "units": (8, 512, "log")}

Config = dict[str, float]


@dataclass(frozen=True)
class Overhead:
    """What was measured, in seconds of processor time, and against what."""

    decision: float  # beside 64 other runs, the mean over a run
    decision_alone: float  # by itself
    step: float  # of FreezeThaw over 64 runs and 200 candidates
    share: float  # of the time of a study that is ours
    decisions: int  # of that study


def curve(config: Config, rng: np.random.Generator) -> list[float]:
    """The accuracies of a run."""
    end = 0.9 - 0.06 * (np.log10(config["lr"]) + 2.5) ** 2 - 0.02 * abs(np.log2(config["units"]) - 7.0)
    pace = rng.uniform(0.05, 0.4)
    values = 0.1 + (end - 0.1) * (1.0 - np.exp(-pace * np.arange(1.0, HORIZON + 1.0)))
    return list(np.clip(values + 0.005 * rng.standard_normal(HORIZON), 0.0, 1.0))


def drawn(rng: np.random.Generator) -> Config:
    return {"lr": float(10 ** rng.uniform(-5, -1)), "units": int(2 ** rng.uniform(3, 9))}


def processor_seconds(function: Callable[[], object]) -> float:
    started = time.process_time()
    function()
    return time.process_time() - started


def decisions(forecaster: ec.Forecaster, context: bool) -> Callable[[], float]:
    """Measures seconds for each decision on a run after 64 others, of which the first reads these."""
    rng = np.random.default_rng(0)
    stopper = ec.Stopper(HORIZON, "accuracy", forecaster=forecaster, context=context, dry_run=True)
    for _ in range(OTHERS):
        config = drawn(rng)
        stopper.next_run(config=config)
        for step, value in enumerate(curve(config, rng), start=1):
            stopper.update(step, value)
    config = drawn(rng)
    stopper.next_run(config=config)
    state, values = stopper.to_json(), curve(config, rng)

    def measure() -> float:
        fresh = ec.Stopper.from_json(state, forecaster)
        for step in range(1, UNCHECKED + 1):
            fresh.update(step, values[step - 1])
        judged = range(UNCHECKED + 1, HORIZON)
        return processor_seconds(lambda: [fresh.update(step, values[step - 1]) for step in judged]) / len(judged)

    return measure


def steps_of_freeze_thaw(forecaster: ec.Forecaster) -> Callable[[], float]:
    """Measures seconds of an `ask` over 64 runs and 200 candidates."""
    rng = np.random.default_rng(1)
    search = ec.FreezeThaw(SPACE, HORIZON, "accuracy", forecaster=forecaster, first=OTHERS)
    for _ in range(OTHERS):
        step = search.ask()
        values = curve(step.config, rng)
        for epoch in range(1, int(rng.integers(2, HORIZON))):
            search.tell(step.run, epoch, values[epoch - 1])
    search.release()

    def measure() -> float:
        seconds = processor_seconds(search.ask)
        search.release()  # the run that was given out waits again
        return seconds

    return measure


class Timed(EpochcastPruner):
    """The pruner, with a clock of the processor around the hook that forecasts."""

    seconds, asked = 0.0, 0

    def prune(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> bool:
        started = time.process_time()
        verdict = super().prune(study, trial)
        self.seconds += time.process_time() - started
        self.asked += 1
        return verdict


def study(forecaster: ec.Forecaster) -> Timed:
    """A whole study of 1,000 trials; what is left of its pruner is how long it took."""
    rng = np.random.default_rng(2)
    pruner = Timed(HORIZON, "accuracy", forecaster=forecaster)

    def objective(trial: optuna.Trial) -> float:
        config = {"lr": trial.suggest_float("lr", 1e-5, 0.1, log=True), "units": trial.suggest_int("units", 8, 512)}
        values = curve(config, rng)
        for step, value in enumerate(values):
            trial.report(value, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return max(values)

    sampler = optuna.samplers.RandomSampler(0)
    optuna.create_study(direction="maximize", pruner=pruner, sampler=sampler).optimize(objective, n_trials=TRIALS)
    return pruner


def measure(model: str = "default") -> Overhead:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    forecaster = ec.Forecaster(model)
    among, alone, step = decisions(forecaster, True), decisions(forecaster, False), steps_of_freeze_thaw(forecaster)
    among(), alone(), step()  # the first calls warm up
    rounds = np.array([[among(), alone(), step()] for _ in range(ROUNDS)])
    pruner = study(forecaster)
    share = pruner.seconds / (pruner.seconds + EPOCH * pruner.asked)
    return Overhead(*np.median(rounds, axis=0).tolist(), share, pruner.asked)


def rows(found: Overhead) -> list[tuple[str, str, str, bool]]:
    """What, measured, wanted, and whether it holds."""
    return [
        (
            f"`Stopper`: a decision beside {OTHERS} other runs, against one by itself",
            f"{found.decision / found.decision_alone:.1f}x ({1e3 * found.decision:.1f} ms of processor time)",
            "< 20 ms",
            found.decision < 0.02,
        ),
        (
            f"`FreezeThaw.ask` over {OTHERS} runs and 200 candidates, against such a decision",
            f"{found.step / found.decision:.0f}x ({found.step:.2f} s of processor time)",
            "< 1 s",
            found.step < 1.0,
        ),
        (
            f"an Optuna study of {TRIALS:,} trials, {found.decisions:,} epochs of a second: our share of its time",
            f"{found.share:.2%}",
            "< 5 %",
            found.share < 0.05,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default")
    for what, measured, wanted, holds in rows(measure(parser.parse_args().model)):
        print(f"| {what} | {measured} | {wanted} | {'yes' if holds else '**no**'} |")


if __name__ == "__main__":
    main()
