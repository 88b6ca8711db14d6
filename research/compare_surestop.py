"""Our calibrated stopper beside surestop, the other rule with a bound on wrong stops, on the same runs.

    pip install surestop==0.2.0
    python research/compare_surestop.py --data ../shared/data --out surestop.md

Both are given half of a task's runs to calibrate on and judge the other half, in the same random splits. Both hold a
run against the same value and mean the same by an error, in surestop's own terms: a run is good when its final value
is no worse than tau, the 20 % quantile of the final values of the calibration runs; a false stop ends a good run; its
rate is the share of all test runs. Both may stop a run from its first epoch on. Runs that break down are left out, for
surestop takes finite runs only. surestop runs with its defaults; ours is Stopper.calibrated(goal=tau, target="final",
min_steps=1, min_share=0, weigh_rest=True, least_confidence=0.001), read off one pass of forecasts for all splits.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epochcast.benchmarks import read_npz
from epochcast.curve import Array
from epochcast.experiments.task_runs import TaskRuns
from epochcast.forecaster import Forecaster
from epochcast.stopping.calibration import FinishedRuns, forecasts, smallest_confidence
from epochcast.stopping.decision import rest_of_run

GOOD_SHARE = 0.2  # surestop's default
LEAST_CONFIDENCE = 0.001  # use up the risk, as surestop does
TASKS = {
    "lcbench": (
        *("adult", "Australian", "car", "covertype", "Fashion-MNIST", "helena", "jannis", "phoneme"),
        *("segment", "vehicle"),
    ),
    "taskset": (
        "FixedTextRNNClassification_imdb_patch128_LSTM128_avg_bs64",
        "FixedTextRNNClassification_imdb_patch128_LSTM128_bs64",
        "FixedTextRNNClassification_imdb_patch32_GRU128_bs128",
        "FixedTextRNNClassification_imdb_patch32_GRU64_avg_bs128",
        "FixedTextRNNClassification_imdb_patch32_VRNN64_tanh_avg_bs128",
    ),
}
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Split:
    """Which runs calibrate and which are judged, and the value to be held against."""

    calibration: Index
    test: Index
    tau: float


@dataclass(frozen=True)
class Outcome:
    """What a rule did to the test runs of a split."""

    false_stops: float  # share of all test runs
    saved: float  # share of all their epochs

    @classmethod
    def of(cls, runs: FinishedRuns, split: Split, last_epoch: Index) -> Outcome:
        """From the epoch after which each test run ended, the horizon where nothing stopped it."""
        good = ~runs.metric.better(split.tau, runs.values[split.test, -1])
        stopped = last_epoch < runs.horizon
        return cls(float((good & stopped).mean()), float(1.0 - last_epoch.mean() / runs.horizon))


def splits_of(runs: FinishedRuns, count: int, seed: int) -> list[Split]:
    """Random halves, and the quantile of the final values that surestop would take."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        order = rng.permutation(len(runs))
        calibration, test = order[: len(runs) // 2], order[len(runs) // 2 :]
        finals = np.sort(runs.values[calibration, -1])
        finals = finals if runs.metric.minimize else finals[::-1]
        made.append(Split(calibration, test, float(finals[math.ceil(GOOD_SHARE * len(finals)) - 1])))
    return made


def chances_of(forecaster: Forecaster, runs: FinishedRuns, splits: list[Split], chunk: int = 128) -> Array:
    """The chance of each run to end no worse than each split's tau, [split, run, cutoff]."""
    table = np.empty((len(splits), len(runs), runs.horizon - 1))
    for start in range(0, len(runs), chunk):
        part = slice(start, start + chunk)
        for cutoff, forecast in forecasts(forecaster, runs[part], range(1, runs.horizon)):
            for i, split in enumerate(splits):
                table[i, part, cutoff - 1] = forecast.final.prob_better(split.tau)
    return table


def our_stops(runs: FinishedRuns, split: Split, chances: Array, risk: float, *, weigh_rest: bool = True) -> Index:
    """The last epoch of each test run under Stopper.calibrated(goal=tau, target="final", min_steps=1, min_share=0)."""
    if weigh_rest:
        chances = chances / rest_of_run(np.arange(1, runs.horizon), runs.horizon)
    leads = runs.metric.better(runs.values[:, :-1], split.tau)
    good = ~runs.metric.better(split.tau, runs.values[:, -1:])
    worst = np.where(good & ~leads, chances, np.inf)[split.calibration].min(axis=1)
    limit = 1.0 - smallest_confidence(worst, risk, LEAST_CONFIDENCE)
    stops = (~leads & (chances <= limit))[split.test]
    return np.where(stops.any(axis=1), stops.argmax(axis=1) + 1, runs.horizon)


def surestop_stops(runs: FinishedRuns, split: Split, risk: float) -> Index:
    """The last epoch of each test run under surestop's rule with its defaults."""
    from surestop import KillRule

    rule = KillRule(alpha=risk, good_quantile=GOOD_SHARE, maximize=not runs.metric.minimize)
    rule.fit(runs.values[split.calibration])
    steps = [rule.kill_step(curve) for curve in runs.values[split.test]]
    return np.array([runs.horizon if step is None else step + 1 for step in steps])


@dataclass(frozen=True)
class Row:
    """A task: means over the splits for both rules, and the standard errors of our lead."""

    benchmark: str
    task: str
    runs: int
    surestop: Outcome
    ours: Outcome
    rate_error: float
    saved_error: float


def compare(forecaster: Forecaster, task: TaskRuns, splits: int, risk: float, our_risk: float, seed: int) -> Row:
    """Both rules on all splits of a task."""
    whole = np.isfinite(task.values).all(axis=1)
    untrained = None if task.untrained is None else task.untrained[whole]
    runs = FinishedRuns.of(task.values[whole], task.metric, untrained=untrained)
    halves = splits_of(runs, splits, seed)
    chances = chances_of(forecaster, runs, halves)
    theirs = [Outcome.of(runs, split, surestop_stops(runs, split, risk)) for split in halves]
    ours = [
        Outcome.of(runs, split, our_stops(runs, split, table, our_risk))
        for split, table in zip(halves, chances, strict=True)
    ]
    lead = np.array([(b.false_stops - a.false_stops, b.saved - a.saved) for a, b in zip(theirs, ours, strict=True)])
    rate_error, saved_error = lead.std(axis=0, ddof=1) / math.sqrt(len(lead))
    return Row(task.benchmark, task.task, len(runs), _mean(theirs), _mean(ours), float(rate_error), float(saved_error))


def _mean(outcomes: list[Outcome]) -> Outcome:
    return Outcome(
        float(np.mean([item.false_stops for item in outcomes])), float(np.mean([item.saved for item in outcomes]))
    )


def tasks_in(data: Path, curves: int | None, seed: int) -> Iterator[TaskRuns]:
    for name, tasks in TASKS.items():
        collection = read_npz(data / f"{name}.npz")
        for task in tasks:
            yield TaskRuns.of(collection, task, curves, seed)


def markdown(rows: list[Row], model: str, splits: int, risk: float, our_risk: float) -> str:
    """A table of all tasks, with the mean of each benchmark."""
    lines = [
        f"Model `{model}`, {splits} splits, alpha {risk:g} for surestop and {our_risk:g} for ours; "
        "± is one standard error of the difference over the splits.",
        "",
        "| benchmark | task | runs | false stops: surestop | ours | difference "
        "| epochs saved: surestop | ours | difference |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in TASKS:
        group = [row for row in rows if row.benchmark == name]
        lines += [_line(row) for row in group]
        if group:
            lines.append(_line(_average(group)))
    return "\n".join(lines) + "\n"


def _average(group: list[Row]) -> Row:
    errors = [
        math.sqrt(sum(getattr(row, key) ** 2 for row in group)) / len(group) for key in ("rate_error", "saved_error")
    ]
    runs = sum(row.runs for row in group)
    theirs, ours = _mean([row.surestop for row in group]), _mean([row.ours for row in group])
    return Row(group[0].benchmark, f"**mean of {len(group)}**", runs, theirs, ours, *errors)


def _line(row: Row) -> str:
    a, b = row.surestop, row.ours
    rate = f"{a.false_stops:.2%} | {b.false_stops:.2%} | {b.false_stops - a.false_stops:+.2%} ± {row.rate_error:.2%}"
    saved = f"{a.saved:.1%} | {b.saved:.1%} | {b.saved - a.saved:+.1%} ± {row.saved_error:.1%}"
    return f"| {row.benchmark} | {row.task} | {row.runs:,} | {rate} | {saved} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="default")
    parser.add_argument("--curves", type=int, default=None, help="runs per task; all by default")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--risk", type=float, default=0.05)
    parser.add_argument("--our-risk", type=float, default=None, help="a smaller risk for our side; --risk by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    our_risk = arguments.risk if arguments.our_risk is None else arguments.our_risk
    forecaster = Forecaster(arguments.model)
    rows = []
    for task in tasks_in(arguments.data, arguments.curves, arguments.seed):
        rows.append(compare(forecaster, task, arguments.splits, arguments.risk, our_risk, arguments.seed))
        print(_line(rows[-1]), flush=True)
    text = markdown(rows, forecaster.name, arguments.splits, arguments.risk, our_risk)
    if arguments.out is not None:
        arguments.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
