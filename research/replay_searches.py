"""Searches replayed with `Stopper`: with the runs before as context, and without them.

    python research/replay_searches.py ../shared/data/lcbench.npz --tasks 5 --orders 4 --model new.onnx

A budget of 20 full runs is spent on the runs of a task in a random order. Speed-up is the budget over the number of
epochs after which a search with stopping has reached what one without has at its end (or the other way round where it
never does), on regret averaged over orders; a stop is wrong if the run would have beaten what it was held against.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from halves import split

from epochcast import Forecaster, Stopper
from epochcast.benchmarks import CurveSet
from epochcast.curve import Array

FULL_RUNS = 20


@dataclass
class Tally:
    """What happened in the searches of one kind."""

    traces: list[Array] = field(default_factory=list)
    stops: int = 0
    wrong: int = 0


def searched(curves: CurveSet, order: Sequence[int], forecaster: Forecaster, context: bool, tally: Tally) -> None:
    """One search through the runs of a task."""
    metric, horizon = curves.metrics[int(curves.task[0])], int(curves.horizons.max())
    budget = FULL_RUNS * horizon
    names = curves.config_names
    if metric.soft is None:  # one scale for all runs of a task, with context and without
        metric = replace(metric, soft=(metric.best, float(np.median(curves.references))))
    stopper = Stopper(horizon, metric, forecaster=forecaster, context=context)
    trace: list[float] = []
    best = -np.inf
    for row in order:
        config = None if curves.config is None else dict(zip(names, curves.config[row].tolist(), strict=True))
        stopper.next_run(config=config)
        before = best
        values = metric.sign * curves.values[row, : curves.lengths[row]]
        for step, value in enumerate(values, 1):
            best = max(best, float(value))
            trace.append(best)
            if len(trace) >= budget:
                tally.traces.append(np.array(trace))
                return
            if stopper.update(step, float(metric.sign * value)).stop:
                tally.stops += 1
                tally.wrong += bool(values[step:].max(initial=-np.inf) > before)
                break
    tally.traces.append(np.array(trace + [best] * (budget - len(trace))))


def without_stopping(curves: CurveSet, order: Sequence[int]) -> Array:
    sign, budget = curves.metrics[int(curves.task[0])].sign, FULL_RUNS * int(curves.horizons.max())
    values = np.concatenate([sign * curves.values[row, : curves.lengths[row]] for row in order])[:budget]
    return np.maximum.accumulate(np.pad(values, (0, max(budget - len(values), 0)), constant_values=-np.inf))


def speed_up(plain: Array, stopped: Array) -> float:
    """Of regret [epoch], the smaller the better."""
    reached = np.flatnonzero(stopped <= plain[-1] + 1e-12)
    if len(reached):
        return len(plain) / (int(reached[0]) + 1)
    return float(np.flatnonzero(plain <= stopped[-1])[0] + 1) / len(plain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("collection", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument("--half", choices=("choose", "report"), default="choose")
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--orders", type=int, default=4)
    parser.add_argument("--runs", type=int, default=250)
    given = parser.parse_args()
    forecaster = Forecaster(given.model)
    tallies = {False: Tally(), True: Tally()}
    speeds: dict[bool, list[float]] = {False: [], True: []}
    for curves, chosen in split(given.collection, given.half):
        kept = curves[np.flatnonzero(chosen & (curves.lengths == curves.lengths.max()))].thinned()
        for number, (name, task) in enumerate(list(kept.tasks())[: given.tasks]):
            task = task[np.random.default_rng([number, 0]).permutation(len(task))[: given.runs]]
            top = float((task.metrics[int(task.task[0])].sign * task.values).max())
            orders = [np.random.default_rng([number, 1, i]).permutation(len(task)) for i in range(given.orders)]
            plain = np.mean([top - without_stopping(task, order) for order in orders], axis=0)
            for context, tally in tallies.items():
                for order in orders:
                    searched(task, order, forecaster, context, tally)
                regret = np.mean([top - trace for trace in tally.traces[-len(orders) :]], axis=0)
                speeds[context].append(speed_up(plain, regret))
            print(f"{name[:32]:32} alone {speeds[False][-1]:5.2f}x   with context {speeds[True][-1]:5.2f}x", flush=True)
    for context, tally in tallies.items():
        print(
            f"{'with context' if context else 'alone':12} mean {np.mean(speeds[context]):.2f}x, "
            f"least {min(speeds[context]):.2f}x, {tally.wrong} of {tally.stops} stops wrong "
            f"({tally.wrong / max(tally.stops, 1):.2%})"
        )


if __name__ == "__main__":
    main()
