"""`--context` and `--config`: the other runs of a task, and the configuration of the one to forecast."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from epochcast.errors import InputError
from epochcast.logs import Column, read_runs
from epochcast.logs import Run as LoggedRun
from epochcast.logs.configuration import config_beside
from epochcast.logs.run import shown
from epochcast.run import Run

ContextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--context", metavar="PATH", help="other runs of the task: a log or a folder of logs; may be given again"
    ),
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="NAME=VALUE,...", help="the configuration of the run, such as lr=0.001,units=64"),
]


@dataclass(frozen=True)
class RunInContext:
    """A run to forecast, among other runs and with a configuration, where these were given."""

    series: Column
    others: list[Run] | None  # oldest first
    given: dict[str, Any] | None  # what --config says, and what lies beside the log
    beside: dict[str, Any] | None
    notes: list[str]

    @classmethod
    def of(
        cls, series: Column, context: Sequence[str] | None, config: Sequence[str] | None, step_column: str | None
    ) -> RunInContext:
        beside = config_beside(series.run) if context is not None and series.run.path.exists() else None
        given = None if config is None else {**(beside or {}), **_entries(config)}
        others, notes = (None, []) if context is None else _others(context, series, step_column)
        return cls(series, others, given, beside, notes)

    def known(self, cutoff: int | None) -> dict[str, Any]:
        """What a forecast is told of the run up to the cutoff, and of the others."""
        carried = self.beside if self.given is None else None
        run = Run(self.series.values[:cutoff], self.series.steps[:cutoff], carried)
        return {"values": run, "context": self.others, "config": self.given}


def _others(paths: Sequence[str], own: Column, step_column: str | None) -> tuple[list[Run], list[str]]:
    """The runs at these paths that have the column to forecast, but for the run itself, and what to say of the rest."""
    found, notes = _found(paths, step_column)
    others = [run for run in found if not _is_own(run, own)]
    with_column = [run for run in others if own.name in run.metrics]
    if len(with_column) < len(others):
        lacking = len(others) - len(with_column)
        notes.append(f"{lacking} run{'s' * (lacking > 1)} of the context left out: no {shown(own.name)}")
    if not with_column:
        notes.append(f"{', '.join(paths)} holds no other run with {shown(own.name)}: the forecast is made without any")
    return [_as_run(run, own.name) for run in sorted(with_column, key=_written)], notes


def _entries(words: Iterable[str]) -> dict[str, Any]:
    """The entries of a configuration, as the command line writes it: lr=0.001,optimizer=adam."""
    entries: dict[str, Any] = {}
    for word in (part for text in words for part in text.split(",")):
        name, equals, value = (part.strip() for part in word.partition("="))
        if not (name and equals and value):
            raise InputError(f"--config {shown(word)} is not a name and a value, as in lr=0.001,units=64")
        if name in entries:
            raise InputError(f"--config gives {shown(name)} twice; keep one")
        entries[name] = _value(value)
    return entries


def _value(text: str) -> Any:
    """A number or a truth value, where it reads as one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _found(paths: Sequence[str], step_column: str | None) -> tuple[list[LoggedRun], list[str]]:
    """All runs at these paths, each once, and what was left out of them."""
    runs: dict[tuple[str, str], LoggedRun] = {}
    notes = []
    for path in paths:
        findings = read_runs(path, step_column=step_column)
        if not findings:
            reasons = "".join(f"; {skipped.path}: {skipped.reason}" for skipped in findings.skipped[:1])
            raise InputError(f"--context {path} holds no logs (CSV, JSON lines, TensorBoard, MLflow, W&B){reasons}")
        if findings.skipped:
            count, first = len(findings.skipped), findings.skipped[0]
            files = f"{count} file{'s' * (count > 1)}"
            notes.append(f"{files} of {path} left out, such as {first.path}: {first.reason}")
        runs.update({(os.path.realpath(run.path), run.label or run.name.rpartition("/")[2]): run for run in findings})
    return list(runs.values()), notes


def _is_own(run: LoggedRun, own: Column) -> bool:
    """Whether it is the run to forecast: from the same place, or, as trackers write copies, with the same values."""
    if _at_one_place(run, own.run) and run.label == own.run.label:
        return True
    series = run.metrics.get(own.name)
    return series is not None and np.array_equal(series.values, own.values) and np.array_equal(series.steps, own.steps)


def _at_one_place(run: LoggedRun, other: LoggedRun) -> bool:
    """Whether two runs were read from the same file or folder, or one from a folder and one from a file in it."""
    here, there = (Path(os.path.realpath(found.path)) for found in (run, other))
    if run.format == other.format and here.is_dir() != there.is_dir():
        return here.parent == there or there.parent == here
    return here == there


def _as_run(run: LoggedRun, column: str) -> Run:
    series = run.metrics[column]
    return Run(series.values, series.steps, config_beside(run))


def _written(run: LoggedRun) -> float:
    """When the log was last written: of very many runs the newest are read."""
    try:
        return run.path.stat().st_mtime
    except OSError:  # it has gone since
        return 0.0
