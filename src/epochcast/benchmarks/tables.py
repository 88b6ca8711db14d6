"""Curves in a long CSV, one value per line: LCDB's (`database-accuracy.csv`) and exports of tabular benchmarks.

LCDB has `openmlid`, `learner`, `size_train`, seeds and `score_valid`; its curves are means over the seeds. Exports have
a task (`dataset` or `task`), a curve (`arch`, `arch_index`, `config`, `config_id` or `index`, with `seed` where there
is one), a step (`epoch` or `step`) and a metric.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from epochcast.benchmarks.collection import MAX_VALUES, Collection, Collector
from epochcast.benchmarks.csv_rows import csv_rows
from epochcast.errors import InputError
from epochcast.naming import metric_from

_TASKS = ("openmlid", "dataset", "task")
_CURVES = ("learner", "arch", "arch_index", "config", "config_id", "index")
_STEPS = ("size_train", "epoch", "step")
_METRICS = ("score_valid", "valid_accuracy", "valid-accuracy", "valid_acc", "val_accuracy", "accuracy", "valid_loss")
_SNIFFED = 65_536


@dataclass(frozen=True)
class _Columns:
    task: int
    curve: tuple[int, ...]
    step: int
    value: int
    is_lcdb: bool
    metric: str


def is_long_table(path: Path) -> bool:
    """Whether the header of a CSV names a task, a curve and a step."""
    header = _header(path)
    return all(any(name in header for name in names) for names in (_TASKS, _CURVES, _STEPS))


def _header(path: Path) -> list[str]:
    return next(csv.reader([_first_line(path)], delimiter=_delimiter(path)), [])


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        return file.readline(_SNIFFED)


def _delimiter(path: Path) -> str:
    return max(",;", key=_first_line(path).count)


def read_long_table(path: Path, monitor: str | None = None, *, skip_bad: bool = False) -> Collection:
    """The curves of one metric in a long CSV."""
    collector = Collector(path, skip_bad)
    columns = _columns(path, monitor)
    sums: dict[tuple[str, str], dict[float, list[float]]] = {}
    values = 0
    for place, cells in _rows(path, collector):
        numbers = _numbers(cells, columns)
        if numbers is None:
            collector.bad(place, f"{columns.metric} or the step is not a number: {cells[columns.value]!r}")
            continue
        key = (cells[columns.task], " ".join(cells[index] for index in columns.curve))
        sums.setdefault(key, {}).setdefault(numbers[0], []).append(numbers[1])
        values += 1
        if values > MAX_VALUES:
            raise InputError(f"{path} holds more than {MAX_VALUES:,} values; split it")
    measured = metric_from(_named(columns, path))
    for (task, curve), points in sums.items():
        steps = sorted(points)
        means = [float(np.mean(points[step])) for step in steps]
        collector.add(f"{task} / {curve}", task, means, steps)
    # The sizes of a learning curve of LCDB are its own; a training of fewer epochs than others of its task diverged.
    curves = collector.build(path.stem, lambda _: measured, own_horizons=columns.is_lcdb)
    kind = "LCDB" if columns.is_lcdb else "long CSV"
    return Collection(path, f"{kind}, {measured.name}", (curves,), tuple(collector.skipped))


def _columns(path: Path, monitor: str | None) -> _Columns:
    header = _header(path)

    def first(names: Sequence[str], what: str) -> int:
        for name in names:
            if name in header:
                return header.index(name)
        raise InputError(f"{path}: no column for {what} ({', '.join(names)}) among {', '.join(header[:20])}")

    value = first((monitor,) if monitor else _METRICS, "the metric")
    curve = [first(_CURVES, "the curve")]
    is_lcdb = "openmlid" in header
    if "seed" in header and not is_lcdb:
        curve.append(header.index("seed"))
    return _Columns(first(_TASKS, "the task"), tuple(curve), first(_STEPS, "the step"), value, is_lcdb, header[value])


def _named(columns: _Columns, path: Path) -> str:
    """LCDB tells its metric in the name of the file."""
    if columns.is_lcdb:
        return "valid log loss" if "logloss" in path.stem.replace("_", "").replace("-", "") else "valid accuracy"
    return columns.metric


def _rows(path: Path, collector: Collector) -> Iterator[tuple[str, list[str]]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv_rows(file, collector, _delimiter(path))
        next(rows, None)  # the header
        yield from rows


def _numbers(cells: list[str], columns: _Columns) -> tuple[float, float] | None:
    try:
        step, value = float(cells[columns.step]), float(cells[columns.value] or "nan")
    except ValueError:
        return None
    return (step, value) if np.isfinite(step) else None
