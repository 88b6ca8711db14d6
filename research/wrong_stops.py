"""How many stops are wrong, by how much of a run was seen before: a table of docs/research/stopping.md.

    python research/wrong_stops.py --data ../shared/data/lcbench.npz --data digits_bench

The runs of each task are trained one after another in random orders, as in `epochcast evaluate stopping`, and held
against the best so far by the default rule at a confidence of 0.95, after every value. Here runs may have uneven steps
and horizons of their own, as people's projects have, and nothing is known of the untrained model. A stop is wrong when
the run would have beaten the best that it was held against.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epochcast.benchmarks import CurveSet, load
from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.experiments.stopping.reach_table import ReachTable
from epochcast.experiments.stopping.selection import Limits, Pool, never, random_orders, regret, replay, speedup
from epochcast.experiments.task_runs import TaskRuns
from epochcast.forecaster import Forecaster
from epochcast.stopping.decision import MIN_SHARE, MIN_STEPS, too_early
from epochcast.stopping.reach import reach

CONFIDENCE = 0.95
RULES = [*((least, 0.0) for least in (2, 3, 4, 5, 6, 8)), (MIN_STEPS, MIN_SHARE)]  # (min_steps, min_share)
BUDGET = 20  # full runs
_MOST_AHEAD = 40  # future steps that are asked of a run with steps of its own


@dataclass(frozen=True)
class Task:
    """The runs of one task by the number of their values, and how far each can still get."""

    values: Array  # [run, value], NaN after the last
    steps: Array  # [run, value]
    horizons: Array  # [run]
    reach: Array  # [run, value], oriented: larger is better; infinite where a run is not checked
    minimize: bool

    @classmethod
    def of(cls, curves: CurveSet, task: str, forecaster: Forecaster, most: int) -> Task:
        minimize = curves.metrics[curves.task_names.index(task)].minimize
        try:
            runs = replace(TaskRuns.of(curves, task, most), untrained=None)
        except InputError:
            return cls._uneven(curves.of_task(task).sample(most), task, forecaster)
        reach_table = ReachTable.of(forecaster, runs, (CONFIDENCE,))
        table = np.full(runs.values.shape, np.inf)
        table[:, reach_table.checks - 1] = reach_table.at(CONFIDENCE)
        steps = np.broadcast_to(np.arange(1.0, runs.horizon + 1.0), runs.values.shape)
        return cls(runs.values, steps, np.full(len(runs), float(runs.horizon)), table, minimize)

    @classmethod
    def _uneven(cls, curves: CurveSet, task: str, forecaster: Forecaster) -> Task:
        metric = curves.metrics[curves.task_names.index(task)]
        table = np.full(curves.values.shape, np.inf)
        for run, (values, steps, length) in enumerate(
            zip(curves.values, curves.step_grid, curves.lengths, strict=True)
        ):
            horizon = int(curves.horizons[run])
            for count in range(1, length):
                ahead = np.unique(np.geomspace(np.floor(steps[count - 1]) + 1.0, horizon, _MOST_AHEAD).round())
                seen = values[None, :count], horizon, metric, steps[None, :count]
                table[run, count - 1] = metric.sign * reach(forecaster.forecast(*seen, at=ahead), CONFIDENCE)[0]
        return cls(curves.values, np.array(curves.step_grid), curves.horizons, table, metric.minimize)

    def limits(self, pool: Pool, min_steps: int, min_share: float) -> Limits:
        """The rule, which never stops a run at its last value."""
        count, steps = np.arange(1, self.values.shape[1] + 1), np.nan_to_num(self.steps)
        early = np.vectorize(too_early)(count, steps, self.horizons[:, None], min_steps, min_share)
        later = np.isfinite(np.pad(self.values[:, 1:], ((0, 0), (0, 1)), constant_values=np.nan))
        table = np.where(early | ~later, np.inf, np.maximum(self.reach, pool.running))
        return Limits(table, np.zeros(self.values.shape[1], dtype=bool))


@dataclass(frozen=True)
class Outcome:
    """What one rule did on a task."""

    stops: int
    wrong: int
    speedup: float


def outcomes(task: Task, orders: int, rules: Sequence[tuple[int, float]] = RULES) -> list[Outcome]:
    """All rules on one task, in the same orders."""
    pool = Pool.of(task.values, task.minimize)
    drawn: NDArray[np.intp] = random_orders(len(pool), orders, np.random.default_rng([0, 3]))
    budget = BUDGET * pool.horizon
    baseline = regret(pool, replay(pool, never(pool), drawn, budget)).mean(axis=0)
    found = []
    for rule in rules:
        played = replay(pool, task.limits(pool, *rule), drawn, budget)
        gain = speedup(baseline, regret(pool, played).mean(axis=0))
        found.append(Outcome(int(played.stopped.sum()), int(played.wrong.sum()), gain))
    return found


def table(curves: CurveSet, forecaster: Forecaster, most: int, orders: int) -> list[str]:
    """Lines of Markdown for one collection, which sum up its tasks of several runs."""
    tasks = [task for task, part in curves.tasks() if np.isfinite(part.values[:, :1]).sum() > 1]
    found = [outcomes(Task.of(curves, task, forecaster, most), orders) for task in tasks]
    lines = []
    for (least, share), rows in zip(RULES, zip(*found, strict=True), strict=True):
        stops, wrong = sum(row.stops for row in rows), sum(row.wrong for row in rows)
        gain = float(np.mean([row.speedup for row in rows]))
        rule = f"{least} values" + (f", {share:.0%} of the horizon" if share else "")
        lines.append(f"| {curves.name} | {rule} | {wrong:,} of {stops:,} | {wrong / max(stops, 1):.2%} | {gain:.2f}x |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, help="a collection, or digits_bench; may be repeated")
    parser.add_argument("--model", default="default")
    parser.add_argument("--curves", type=int, default=250, help="runs per task, drawn at random")
    parser.add_argument("--orders", type=int, default=40)
    arguments = parser.parse_args()
    forecaster = Forecaster(arguments.model)
    print("| collection | not stopped before | wrong stops | share | speed-up, mean of tasks |\n|---|---|---|---|---|")
    for path in arguments.data:
        for curves in load(path).sets:
            print("\n".join(table(curves, forecaster, arguments.curves, arguments.orders)), flush=True)


if __name__ == "__main__":
    main()
