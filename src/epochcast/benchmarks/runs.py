"""Logs of trainings, as `epochcast.logs` reads them: a folder of CSV, JSON lines, TensorBoard and others, or one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from epochcast.benchmarks.collection import Collection, Collector, Skipped
from epochcast.checks import cut, number
from epochcast.errors import InputError
from epochcast.logs import read_runs
from epochcast.metric import Metric, as_metric, metric_names
from epochcast.naming import metric_by_name, metric_from

Horizon = Literal["own", "longest"] | float


def read_logs(
    path: Path,
    monitor: str | None = None,
    *,
    metric: Metric | str | None = None,
    skip_bad: bool = False,
    horizon: Horizon = "own",
) -> Collection:
    """The curves of one column; a task is called after the nearest folder, or log, that holds several runs.

    `monitor` names the column (by default the one that most logs have), `metric` what it measures. `horizon` is where
    runs were planned to end: each at its "own" last step, all of a task at that of its "longest", or at a given step.
    """
    if not isinstance(horizon, str) and not 2 <= number(horizon, "horizon") < math.inf:
        raise InputError(f"horizon={horizon} must be a number of steps, at least 2")
    runs = read_runs(path)
    collector = Collector(path, skip_bad, [Skipped(item.path, "", item.reason) for item in runs.skipped])
    column = monitor or _commonest(path, [name for run in runs for name in run.metrics])
    measured = _measured(column, metric)
    counts = Counter(run.path for run in runs)
    tasks = _tasks(path, [run.path for run in runs])
    for run, task in zip(runs, tasks, strict=True):
        inside = path.is_dir() and run.path.is_relative_to(path)
        where = str(run.path.relative_to(path) if inside else run.path)
        where += f", run {run.label}" if counts[run.path] > 1 else ""
        if column not in run.metrics:
            collector.bad(where, f"metric {column!r} is not among {', '.join(sorted(run.metrics)) or 'its columns'}")
            continue
        steps, values = run.metrics[column]
        if not isinstance(horizon, str):
            steps, values = steps[steps <= horizon], values[steps <= horizon]
        collector.add(where, task, values, steps)
    planned = None if isinstance(horizon, str) else float(horizon)
    name = path.resolve().name or "logs"
    curves = collector.build(name, lambda _: measured, own_horizons=horizon == "own", horizon=planned)
    kind = "folder of logs" if path.is_dir() else "log"
    return Collection(path, f"{kind}, {column}", (curves,), tuple(collector.skipped))


def _tasks(root: Path, paths: Sequence[Path]) -> list[str]:
    """A name for the task of each run: that of its log or the nearest folder above, if that holds several runs."""
    shared = Counter(paths)
    places = [(path, *path.parents) if shared[path] > 1 else path.parents for path in paths]
    above = [[folder for folder in folders if folder.is_relative_to(root)] for folders in places]
    counts = Counter(folder for folders in above for folder in folders)
    found = [next((folder for folder in folders if counts[folder] > 1), root) for folders in above]
    return [folder.resolve().name or "logs" for folder in found]


def _measured(column: str, metric: Metric | str | None) -> Metric:
    if metric is not None:
        return as_metric(metric)
    if metric_by_name(column) is None:
        raise InputError(
            f"what {cut(column)!r} measures is not known from its name; say it with metric= (--metric), one of "
            f"{', '.join(metric_names())}, or name another column with monitor= (--monitor)"
        )
    return Metric.named(column) if column in metric_names() else metric_from(column)


def _commonest(path: Path, names: list[str]) -> str:
    """The column that most logs have, a validation metric before others."""
    if not names:
        raise InputError(f"{path} holds no logs with metrics")
    counts = Counter(names)
    return max(sorted(counts), key=lambda name: (counts[name], name.lower().startswith(("val", "test", "eval"))))
