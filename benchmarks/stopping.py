"""How much faster the replay of a whole task is than asking the forecaster once per epoch: a ratio, in one run.

    python benchmarks/stopping.py --data ../shared/data/lcbench.npz --task adult

The replay forecasts every run from every epoch in one pass and then plays all rules in all orders. Two loops are held
against it, both of single forecasts through the public interface, timed on a sample and multiplied by their number:
- each run and epoch once, as a loop would that keeps every forecast for all orders and rules;
- each epoch of each search, as training loops would, without keeping anything.
All are measured in turn within the same minutes, in processor time.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from epochcast.benchmarks import read_npz
from epochcast.experiments.contenders import contenders
from epochcast.experiments.stopping.replay import Settings, evaluate_task
from epochcast.experiments.task_runs import TaskRuns
from epochcast.forecaster import Forecaster
from epochcast.stopping.decision import decide


def seconds_of_single_forecasts(forecaster: Forecaster, runs: TaskRuns, count: int, seed: int) -> float:
    """Processor time of one forecast with its decision, at random epochs of random runs."""
    rng = np.random.default_rng(seed)
    finished = runs.filled(np.arange(1, runs.horizon + 1)).values
    start = time.process_time()
    for _ in range(count):
        run, cutoff = int(rng.integers(len(runs))), int(rng.integers(2, runs.horizon))
        untrained = None if runs.untrained is None else float(runs.untrained[run])
        forecast = forecaster.forecast(finished[run, :cutoff], runs.horizon, runs.metric, untrained=untrained)
        decide(forecast, float(finished[run].mean()))
    return (time.process_time() - start) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--task", default="adult")
    parser.add_argument("--model", default="default")
    parser.add_argument("--curves", type=int, default=None, help="runs of the task; all by default")
    parser.add_argument("--orders", type=int, default=40)
    parser.add_argument("--singles", type=int, default=200, help="single forecasts to time")
    arguments = parser.parse_args()
    (model,) = contenders([arguments.model])
    forecaster = model.forecaster()
    runs = TaskRuns.of(read_npz(arguments.data), arguments.task, arguments.curves)

    seconds_of_single_forecasts(forecaster, runs, 20, seed=1)  # warms up
    before = seconds_of_single_forecasts(forecaster, runs, arguments.singles // 2, seed=2)
    start = time.process_time()
    result = evaluate_task(runs, model, Settings(arguments.orders))
    replay = time.process_time() - start
    after = seconds_of_single_forecasts(forecaster, runs, arguments.singles // 2, seed=3)

    single = (before + after) / 2
    once = len(runs) * (runs.horizon - 1)
    searches = arguments.orders * sum(row["forecasts"] for row in result["rows"])
    print(
        f"{model.label} on {arguments.task}: {len(runs)} runs, {len(result['rows'])} rules, {arguments.orders} orders"
    )
    print(f"each run and epoch once ({once:,} forecasts): {once * single / replay:.0f}x the time of the replay")
    print(f"each epoch of each search ({searches:,.0f} forecasts): {searches * single / replay:.0f}x")


if __name__ == "__main__":
    main()
