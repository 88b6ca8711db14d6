"""`read_runs` and `read_column`: one way in for every format of log."""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TextIO, get_args, runtime_checkable

from epochcast.checks import choices, name_of, path_of
from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.logs import csv, document, jsonl, limits, mlflow, mlruns, tensorboard, transformers, wandb
from epochcast.logs.columns import Columns
from epochcast.logs.directory import Log, find_logs
from epochcast.logs.run import Findings, Format, Run, Skipped, list_names, shown

_HEAD_BYTES = 4096
_SHORT_ID = 8
_TRACKERS: tuple[Format, ...] = ("mlflow", "wandb")  # whose users name runs, and may name two alike


@runtime_checkable
class Readable(Protocol):
    """A text stream."""

    def read(self, size: int, /) -> str: ...


@dataclass(frozen=True)
class Column:
    """One metric of one run, for a forecast.

    Attributes:
        name: That of the metric in the log.
        steps: The steps, [value].
        values: The values at these steps, [value].
        run: Where it comes from, and what the reader left out.
    """

    name: str
    steps: Array
    values: Array
    run: Run


@dataclass(frozen=True)
class _Request:
    """What the caller asked of every log."""

    step_column: str | None = None
    only: Collection[str] | None = None  # columns that must be numbers; None: all
    run: str | None = None  # the run wanted, where there are several

    @property
    def named(self) -> set[str]:
        """Columns that are asked for, so that they are not what tells runs apart."""
        return {*(self.only or ()), *([] if self.step_column is None else [self.step_column])}


def read_runs(
    path: str | os.PathLike[str],
    *,
    step_column: str | None = None,
    formats: Collection[Format] | None = None,
    kinds: Collection[Format] | None = None,
) -> Findings:
    """The runs in a log file or in all logs below a directory.

    In a directory, a file that cannot be read as a log is left out, and `Findings.skipped` tells why.

    Args:
        path: A log file, a store or a directory.
        step_column: The column that counts the steps; by default the one that looks like it (epoch, step, ...).
        formats: Only logs of these formats, for trainings that write the same values to several.
        kinds: The former name of `formats`.

    Returns:
        A list of runs that tells, with `describe()`, what was found and what was left out.

    Raises:
        InputError: If a file that was given by name cannot be read as a log.

    Examples:
        >>> from epochcast.cli.demo import FOLDER  # logs that ship with epochcast
        >>> runs = read_runs(FOLDER)
        >>> runs[0].name, sorted(runs[0].metrics)
        ('breast_cancer_logistic.csv', ['train_loss', 'val_acc', 'val_loss'])
    """
    path, step_column = path_of(path, "path"), _name(step_column, "step_column")
    if kinds is not None:
        warnings.warn("kinds= will go: say formats=", DeprecationWarning, stacklevel=2)
        formats = kinds
    if formats is not None:
        choices(formats, "formats", get_args(Format))
    if not limits.is_directory(path):
        log = Log(_format_of_content(path), path.name, (path,))
        return Findings(path, *_read_log(log, _Request(step_column)))
    logs, skipped = find_logs(path)
    found = [read_log(log, step_column) for log in logs if formats is None or log.format in formats]
    return gathered(path, found, skipped)


def read_log(log: Log, step_column: str | None = None) -> Findings:
    """The runs of one log of a directory; one that cannot be read is left out."""
    try:
        return Findings(log.path, *_read_log(log, _Request(step_column)))
    except InputError as error:
        reason = str(error)
    except Exception as error:  # a reader met what it did not foresee: that must not hide the other logs
        reason = f"its reader failed with {type(error).__name__}: {error}"
    return Findings(log.path, skipped=[Skipped(log.path, reason)])


def gathered(path: Path, parts: Iterable[Findings], skipped: Iterable[Skipped]) -> Findings:
    """The findings of many logs as one. Runs that share a name, as trackers allow, get the start of their id too."""
    findings = Findings(path, skipped=skipped)
    for part in parts:
        findings += part
        findings.skipped += part.skipped
    shared = {name for name, count in Counter(run.name for run in findings).items() if count > 1}
    if shared:
        findings[:] = [_with_id(run) if run.name in shared and run.format in _TRACKERS else run for run in findings]
    return findings


def _with_id(run: Run) -> Run:
    return replace(run, name=f"{run.name} ({run.path.stem.rpartition('-')[2][:_SHORT_ID]})")


def read_column(
    source: str | os.PathLike[str] | TextIO,
    column: str | None = None,
    *,
    step_column: str | None = None,
    run: str | None = None,
) -> Column:
    """One column of one run; other columns of a table need not be numbers.

    Args:
        source: A log file, a store or directory of runs, a text stream, or "-" for the standard input.
        column: The name in the log; may be left out where there is only one.
        step_column: The column that counts the steps, if it is not found.
        run: The name of the run as `read_runs` tells it, or the end or the beginning of that, such as what stands in
            a column `run_id`; may be left out where there is only one.

    Returns:
        Its steps and values.

    Raises:
        InputError: If there is no such run or column, or several are meant.

    Examples:
        >>> from epochcast.cli.demo import FOLDER
        >>> read_column(FOLDER / "digits_mlp.csv", "val_acc").steps[:3].tolist()
        [1.0, 2.0, 3.0]
    """
    column, step_column, run = _name(column, "column"), _name(step_column, "step_column"), _name(run, "run")
    only = None if column is None else [name for name in (column, step_column) if name is not None]
    request = _Request(step_column, only, run)
    if isinstance(source, str) and source == "-":
        source = sys.stdin
        if source is None:  # where a process is started without any
            raise InputError("there is no standard input to read; give the path of a log")
    found = _run_in(source, request) if isinstance(source, Readable) else _run_at(path_of(source, "source"), request)
    name, series = found.metric(column)
    return Column(name, series.steps, series.values, found)


def _run_at(path: Path, request: _Request) -> Run:
    if limits.is_directory(path):
        return _wanted(read_runs(path, step_column=request.step_column), request.run)
    log = Log(_format_of_content(path), path.name, (path,))
    return _wanted(Findings(path, *_read_log(log, request)), request.run)


def _wanted(findings: Findings, name: str | None) -> Run:
    """The run of that name, or the only one."""
    wanted = findings if name is None else _named(findings, name)
    if len(wanted) == 1:
        return wanted[0]
    if not (findings or findings.skipped):
        raise InputError(f"{findings.path} holds no logs (CSV, JSON lines, TensorBoard, MLflow, W&B)")
    names = list_names(found.name for found in (wanted or findings))
    reasons = "".join(f"; {skipped.path}: {skipped.reason}" for skipped in findings.skipped[:3])
    if name is not None:
        raise InputError(f"{findings.path} holds {len(wanted)} runs named {shown(name)}, not one: {names}{reasons}")
    way_out = "; name one with run= (--run)" if wanted else ""
    raise InputError(f"{findings.path} holds {len(wanted)} runs, not one: {names}{way_out}{reasons}")


def _named(findings: Findings, name: str) -> list[Run]:
    """The run of that name, or those whose names begin or end with it: most are `folder/file` or `store/run`."""
    exact = [found for found in findings if name in (found.name, found.label)]
    return exact or [
        found for found in findings if found.name.endswith(f"/{name}") or found.name.startswith(f"{name}/")
    ]


def _run_in(stream: Readable, request: _Request) -> Run:
    """The run in a text stream. It has come to its end, so its last line is whole."""
    source = str(getattr(stream, "name", "<stream>"))
    try:
        text = stream.read(limits.MAX_BYTES + 1)
    except UnicodeDecodeError as error:
        raise InputError(f"{source} is not text: {error}") from None
    except (OSError, ValueError) as error:  # of a folder, or of a stream that is closed
        raise InputError(f"{source} cannot be read: {error}") from None
    if not isinstance(text, str):
        raise InputError(f"{source} gives {type(text).__name__}, not text; open it as text, or give its path")
    limits.check_size(len(text), limits.MAX_BYTES, source, "characters")
    data = text.encode("utf-8", errors="surrogatepass")
    format = _format_of_head(data[:_HEAD_BYTES])
    columns = (
        csv.parse(data, source, finished=True, only=request.only) if format == "csv" else _json(format, data, source)
    )
    log = Log(format, source, (Path(source),))
    return _wanted(Findings(log.path, *_read_table(log, columns, request)), request.run)


def _read_log(log: Log, request: _Request) -> tuple[list[Run], list[Skipped]]:
    """The runs of one log, and what was left out of it."""
    source, step_column = str(log.path), request.step_column
    if log.format == "mlflow":
        return _read_store(log, request) if log.folder is None else (_read_stored(log, log.folder, request), [])
    if log.format == "wandb":
        return [_read_wandb(log, request)], []
    if log.format == "tensorboard":
        columns = tensorboard.parse(log.paths, source)
    elif log.format == "transformers":
        columns = transformers.parse(limits.read_bytes(log.path), source)
        step_column = step_column or transformers.STEP_COLUMN
    elif log.format in ("json", "jsonl"):
        return _read_table(log, _json(log.format, limits.read_bytes(log.path), source), request)
    else:
        data = limits.read_bytes(log.path)
        columns = csv.parse(data, source, finished=_is_list_on_one_line(data), only=request.only)
        return _read_table(log, columns, request)
    return [columns.run(log.name, log.path, log.format, step_column)], []


def _read_table(log: Log, columns: Columns, request: _Request) -> tuple[list[Run], list[Skipped]]:
    """The runs of a table, which may have a column that tells them apart."""
    (label, first), *others = columns.parted(request.named)
    if others:
        parts = [(label, first), *others]
        return _read_parts(log, ((label or "unnamed", part, None) for label, part in parts), request)
    return [replace(first.run(log.name, log.path, log.format, request.step_column), label=label)], []


def _is_list_on_one_line(data: bytes) -> bool:
    """Whether there is but one line, of several numbers: people write that, and often without a line end."""
    if b"\n" in data:
        return False
    words = data.decode("utf-8-sig", errors="replace").replace(",", " ").replace(";", " ").split()
    try:
        return len([float(word) for word in words]) > 1
    except ValueError:
        return False


def _read_store(log: Log, request: _Request) -> tuple[list[Run], list[Skipped]]:
    """The runs of a store."""
    parts = (
        (name, columns, {key: mlflow.value_of(text) for key, text in params.items()})
        for name, columns, params in mlflow.parse(log.path)
    )
    return _read_parts(log, parts, request)


def _read_parts(
    log: Log, parts: Iterable[tuple[str, Columns, dict[str, Any] | None]], request: _Request
) -> tuple[list[Run], list[Skipped]]:
    """The runs of a log of several: label, numbers and configuration; a bad one does not hide the others."""
    runs: list[Run] = []
    skipped: list[Skipped] = []
    for label, columns, config in parts:
        try:
            run = columns.run(f"{log.name}/{label}", log.path, log.format, request.step_column)
            runs.append(replace(run, config=config, label=label))
        except InputError as error:
            skipped.append(Skipped(log.path, str(error)))
    return runs, skipped


def _read_stored(log: Log, folder: Path, request: _Request) -> list[Run]:
    """The run in a folder of MLflow's file store; none if it was deleted."""
    found = mlruns.parse(folder, [path for path in log.paths if path != folder / mlruns.META])
    if found is None:
        return []
    name, columns = found
    return [columns.run(f"{log.name}/{name}".lstrip("/"), folder, log.format, request.step_column)]


def _read_wandb(log: Log, request: _Request) -> Run:
    if log.paths[0].name == wandb.SUMMARY:
        columns = wandb.parse_summary(limits.read_bytes(log.paths[0]), str(log.path))
        return columns.run(log.name, log.path, log.format, request.step_column)
    title, columns = wandb.parse(log.paths, str(log.path))
    name = f"{log.name.rpartition('/')[0]}/{title}".lstrip("/") if title else log.name
    return columns.run(name, log.path, log.format, request.step_column)


def _format_of_content(path: Path) -> Format:
    """The format of a file that was given by name: its first bytes tell more than its suffix."""
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
    if head.startswith(wandb.MAGIC) or path.name == wandb.SUMMARY:
        return "wandb"
    if path.name == transformers.FILE_NAME or b'"log_history"' in head:
        return "transformers"
    return _format_of_head(head)


def _format_of_head(head: bytes) -> Format:
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    return "json" if first == b"[" else "jsonl" if first == b"{" else "csv"


def _json(format: Format, data: bytes, source: str) -> Columns:
    """The numbers of a list, of an object that holds lists, or of JSON lines."""
    if format == "json":
        return document.parse(data, source)
    return document.history(data, source) or jsonl.parse(data, source)


def _name(item: str | None, what: str) -> str | None:
    return None if item is None else name_of(item, what)
