"""A folder of logs, one training each, as `epochcast.logs` reads them: CSV, JSON lines, TensorBoard and others."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from epochcast.benchmarks.collection import Collection, Collector, Skipped
from epochcast.benchmarks.metric_names import metric_from
from epochcast.errors import InputError
from epochcast.logs import read_runs
from epochcast.metric import Metric, metric_names


def read_run_folder(
    path: Path, metric: str | None = None, *, kind: Metric | str | None = None, skip_bad: bool = False
) -> Collection:
    """The curves of one column; a task is called after the folder that its logs lie in.

    `metric` names the column (by default the one that most logs have), `kind` what it measures.
    """
    runs = read_runs(path)
    collector = Collector(path, skip_bad, [Skipped(item.path, "", item.reason) for item in runs.skipped])
    column = metric or _commonest(path, [name for run in runs for name in run.metrics])
    measured = _measured(column, kind)
    for run in runs:
        where = str(run.path.relative_to(path)) if run.path.is_relative_to(path) else str(run.path)
        if column not in run.metrics:
            collector.bad(where, f"metric {column!r} is not among {', '.join(sorted(run.metrics)) or 'its columns'}")
            continue
        series = run.metrics[column]
        folder = run.path.parent.name if run.path.parent != path else path.name
        collector.add(where, folder, series.values, series.steps)
    curves = collector.build(path.name, lambda _: measured)
    return Collection(path, f"folder of logs, {column}", (curves,), tuple(collector.skipped))


def _measured(column: str, kind: Metric | str | None) -> Metric:
    if isinstance(kind, Metric):
        return kind
    if kind is not None:
        return Metric.named(kind)
    return Metric.named(column) if column in metric_names() else metric_from(column)


def _commonest(path: Path, names: list[str]) -> str:
    """The column that most logs have, a validation metric before others."""
    if not names:
        raise InputError(f"{path} holds no logs with metrics")
    counts = Counter(names)
    return max(sorted(counts), key=lambda name: (counts[name], name.lower().startswith(("val", "test", "eval"))))
