"""PD1 (Wang et al. 2021): one training per line of JSON (`pd1_*_results.jsonl`, also gzipped) or per row of a CSV.

A line has `dataset`, `model`, `hps.batch_size`, `global_step` and lists such as `valid/ce_loss` measured at these
steps; runs that diverged are kept. As in the LC-PFN paper the loss of the best run of a task is the lower soft bound;
the upper one is the median of the first values, since the archive holds no value before training.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.benchmarks.collection import Collection, Collector
from epochcast.benchmarks.csv_rows import csv_rows
from epochcast.benchmarks.json_stream import open_text
from epochcast.checks import is_number
from epochcast.metric import Metric
from epochcast.naming import metric_from

DEFAULT_METRIC = "valid/ce_loss"
_NEEDED = {"dataset", "model", "global_step"}
MAX_LINE = 64 * 2**20  # characters of one training
_HYPERPARAMETERS = (
    "hps.lr_hparams.initial_value",
    "hps.lr_hparams.power",
    "hps.lr_hparams.decay_steps_factor",
    "hps.opt_hparams.momentum",
)


def read_pd1(path: Path, monitor: str | None = None, *, skip_bad: bool = False) -> Collection:
    """The curves of one metric, one task per dataset, model and batch size."""
    name = monitor or DEFAULT_METRIC
    collector = Collector(path, skip_bad)
    for place, record in _records(path, collector):
        if not record.keys() >= _NEEDED:
            collector.bad(place, "no training of PD1: it lacks dataset, model or global_step")
        elif record.get(name) is None:
            lists = [key for key, value in record.items() if isinstance(value, list)]
            collector.bad(place, f"metric {name!r} is not among {', '.join(lists) or 'its lists'}")
        else:
            task = "_".join(str(record[key]) for key in ("dataset", "model", "hps.batch_size") if key in record)
            config = {
                key: float(value)
                for key in _HYPERPARAMETERS
                if is_number(value := record.get(key)) and math.isfinite(value)
            }
            collector.add(place, task, record[name], record["global_step"], config=config)
    metrics: dict[str, Metric] = {}

    def metric_of(task: str) -> Metric:
        if task not in metrics:
            metrics[task] = _with_soft_bounds(metric_from(name), list(collector.values_of(task)))
        return metrics[task]

    curves = collector.build(path.name.split(".")[0], metric_of)
    return Collection(path, f"PD1, {name}", (curves,), tuple(collector.skipped))


def is_other_than_pd1(path: Path) -> bool:
    """Whether a file of records can be read and holds something else than trainings of PD1."""
    _, record = next(_records(path, Collector(path, skip_bad=True)), ("", None))
    return record is not None and not record.keys() >= _NEEDED


def _records(path: Path, collector: Collector) -> Iterator[tuple[str, dict[str, Any]]]:
    return _rows(path, collector) if _is_csv(path) else _lines(path, collector)


def _with_soft_bounds(metric: Metric, curves: list[Any]) -> Metric:
    if metric.soft is not None:
        return metric
    finite = [curve[np.isfinite(curve)] for curve in curves]
    best = min((float(curve.min()) for curve in finite if len(curve)), default=0.0)
    first = float(np.median([curve[0] for curve in finite if len(curve)] or [1.0]))
    if not metric.hard[0] <= best < first:
        return metric
    return Metric(metric.name, metric.minimize, metric.hard, (best, first))


def _is_csv(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(".csv")


def _lines(path: Path, collector: Collector) -> Iterator[tuple[str, dict[str, Any]]]:
    with open_text(path) as file:
        number = 0
        while True:
            number += 1
            try:
                line = file.readline(MAX_LINE + 1)
            except (OSError, EOFError, UnicodeDecodeError) as error:
                collector.bad(f"line {number}", f"cannot be read: {error}")
                return
            if not line:
                return
            if len(line) > MAX_LINE:
                collector.bad(f"line {number}", f"longer than {MAX_LINE:,} characters")
                return
            if line.strip():
                yield from _parsed(f"line {number}", line, collector)


def _parsed(place: str, line: str, collector: Collector) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        collector.bad(place, f"not JSON: {error}")
        return
    if isinstance(record, dict):
        yield place, record
    else:
        collector.bad(place, f"{type(record).__name__} where a training belongs")


def _rows(path: Path, collector: Collector) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of a CSV with lists as JSON in their cells."""
    with open_text(path) as file:
        rows = csv_rows(file, collector)
        _, header = next(rows, ("", []))
        for place, cells in rows:
            yield place, {key: _cell(cell) for key, cell in zip(header, cells, strict=True)}


def _cell(cell: str) -> Any:
    """Numbers and lists of numbers as such, everything else as text."""
    try:
        return (
            json.loads(cell.replace("nan", "NaN").replace("inf", "Infinity")) if cell[:1] in "[-.0123456789" else cell
        )
    except (json.JSONDecodeError, RecursionError):
        return cell
