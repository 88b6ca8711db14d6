"""`read_runs` and `read_column`: one way in for every kind of log."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, get_args

from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.logs import csv, jsonl, limits, mlflow, tensorboard, transformers
from epochcast.logs.directory import Log, find_logs
from epochcast.logs.run import Findings, Kind, Run, Skipped, list_names

_HEAD_BYTES = 4096


@dataclass(frozen=True)
class Column:
    """One metric of one run, for a forecast. `run` tells where it comes from and what the reader left out."""

    name: str
    steps: Array  # [value]
    values: Array  # [value]
    run: Run


@dataclass(frozen=True)
class _Request:
    """What the caller asked of every log."""

    step_column: str | None = None
    only: Collection[str] | None = None  # columns that must be numbers; None: all


def read_runs(
    path: str | os.PathLike[str], *, step_column: str | None = None, kinds: Collection[Kind] | None = None
) -> Findings:
    """The runs in a log file or in all logs below a directory.

    Steps come from the column that looks like it (epoch, step, iteration, ...) unless `step_column` names one. In a
    directory, a file that cannot be read as a log is left out and `Findings.skipped` tells why; a file given by name
    raises. `kinds` limits a directory to some kinds of log, for trainings that write the same values to several.
    """
    path = Path(path)
    _check_kinds(kinds)
    if not limits.is_directory(path):
        log = Log(_kind_of_content(path), path.name, (path,))
        return Findings(path, *_read_log(log, _Request(step_column)))
    logs, skipped = find_logs(path)
    findings = Findings(path, skipped=skipped)
    for log in logs:
        if kinds is None or log.kind in kinds:
            found = read_log(log, step_column)
            findings += found
            findings.skipped += found.skipped
    return findings


def read_log(log: Log, step_column: str | None = None) -> Findings:
    """The runs of one log of a directory; one that cannot be read is left out."""
    try:
        return Findings(log.path, *_read_log(log, _Request(step_column)))
    except InputError as error:
        return Findings(log.path, skipped=[Skipped(log.path, str(error))])


def read_column(
    source: str | os.PathLike[str] | TextIO, column: str | None = None, *, step_column: str | None = None
) -> Column:
    """One column of one run: from a log file, a directory that holds a single run, a text stream, or '-' (stdin).

    `column` may be left out where there is only one. Other columns of a table need not be numbers.
    """
    only = None if column is None else [name for name in (column, step_column) if name is not None]
    request = _Request(step_column, only)
    if isinstance(source, str) and source == "-":
        source = sys.stdin
    run = _run_at(Path(source), request) if isinstance(source, (str, os.PathLike)) else _run_in(source, request)
    name, series = run.metric(column)
    return Column(name, series.steps, series.values, run)


def _run_at(path: Path, request: _Request) -> Run:
    if limits.is_directory(path):
        findings = read_runs(path, step_column=request.step_column)
    else:
        log = Log(_kind_of_content(path), path.name, (path,))
        findings = Findings(path, *_read_log(log, request))
    if len(findings) != 1:
        reasons = "".join(f"; {skipped.path}: {skipped.reason}" for skipped in findings.skipped[:3])
        raise InputError(f"{path} holds {len(findings)} runs, not one: {list_names(r.name for r in findings)}{reasons}")
    return findings[0]


def _run_in(stream: TextIO, request: _Request) -> Run:
    """The run in a text stream. It has come to its end, so its last line is whole."""
    source = str(getattr(stream, "name", "<stream>"))
    try:
        text = stream.read(limits.MAX_BYTES + 1)
    except UnicodeDecodeError as error:
        raise InputError(f"{source} is not text: {error}") from None
    if len(text) > limits.MAX_BYTES:
        raise limits.too_large(source, "characters", limits.MAX_BYTES)
    data = text.encode("utf-8", errors="surrogatepass")
    if text.lstrip().startswith("{"):
        return jsonl.parse(data, source).run(source, Path(source), "jsonl", request.step_column)
    columns = csv.parse(data, source, finished=True, only=request.only)
    return columns.run(source, Path(source), "csv", request.step_column)


def _read_log(log: Log, request: _Request) -> tuple[list[Run], list[Skipped]]:
    """The runs of one log, and what was left out of it."""
    source, step_column = str(log.path), request.step_column
    if log.kind == "mlflow":
        return _read_store(log, request)
    if log.kind == "tensorboard":
        columns = tensorboard.parse(log.paths, source)
    elif log.kind == "transformers":
        columns = transformers.parse(limits.read_bytes(log.path), source)
        step_column = step_column or transformers.STEP_COLUMN
    elif log.kind == "jsonl":
        columns = jsonl.parse(limits.read_bytes(log.path), source)
    else:
        columns = csv.parse(limits.read_bytes(log.path), source, only=request.only)
    return [columns.run(log.name, log.path, log.kind, step_column)], []


def _read_store(log: Log, request: _Request) -> tuple[list[Run], list[Skipped]]:
    """The runs of a store; one that cannot be used does not hide the others."""
    runs: list[Run] = []
    skipped: list[Skipped] = []
    for name, columns in mlflow.parse(log.path):
        try:
            runs.append(columns.run(f"{log.name}/{name}", log.path, log.kind, request.step_column))
        except InputError as error:
            skipped.append(Skipped(log.path, str(error)))
    return runs, skipped


def _kind_of_content(path: Path) -> Kind:
    """The kind of a file that was given by name: its first bytes tell more than its suffix."""
    limits.require_file(path)
    if tensorboard.MARK in path.name:
        return "tensorboard"
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise limits.unreadable(path, error) from None
    if head.startswith(mlflow.MAGIC):
        return "mlflow"
    if path.name == transformers.FILE_NAME or b'"log_history"' in head:
        return "transformers"
    return "jsonl" if head.lstrip().startswith(b"{") else "csv"


def _check_kinds(kinds: Collection[Kind] | None) -> None:
    unknown = set(kinds or ()) - set(get_args(Kind))
    if unknown:
        raise InputError(f"kinds={sorted(unknown)} is unknown; choose from {', '.join(get_args(Kind))}")
