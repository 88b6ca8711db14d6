"""MLflow's SQLite store, opened read-only with the standard library."""

from __future__ import annotations

import math
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from epochcast.errors import InputError
from epochcast.logs import limits
from epochcast.logs.columns import Columns

MAGIC = b"SQLite format 3\x00"  # the first bytes of every SQLite file
_WAIT_FOR_LOCK = 2.0  # seconds, while MLflow commits
_SHORT_ID = 8

_NEEDED = {
    "metrics": {"key", "value", "step", "timestamp", "run_uuid", "is_nan"},
    "runs": {"run_uuid", "name", "experiment_id", "lifecycle_stage", "start_time"},
    "experiments": {"experiment_id", "name", "lifecycle_stage"},
}
_RUNS = """
    SELECT runs.run_uuid, runs.name, experiments.name FROM runs
    LEFT JOIN experiments ON experiments.experiment_id = runs.experiment_id
    WHERE runs.lifecycle_stage != 'deleted' AND coalesce(experiments.lifecycle_stage, '') != 'deleted'
    ORDER BY runs.start_time, runs.run_uuid LIMIT ?
"""
_METRICS = """
    SELECT run_uuid, key, step, CASE WHEN is_nan THEN NULL ELSE value END
    FROM metrics ORDER BY timestamp, rowid LIMIT ?
"""
_PARAMS = "SELECT run_uuid, key, value FROM params ORDER BY run_uuid, key LIMIT ?"


class Stored(NamedTuple):
    """One run of a store."""

    name: str
    columns: Columns
    params: dict[str, str]


def parse(path: Path) -> list[Stored]:
    """Each run that is not deleted, the oldest first.

    SQLite shows what was committed last, so a store that MLflow is writing to is read up to its last whole record.
    """
    limits.require_file(path)
    try:
        with closing(_open(path)) as store:
            store.execute("BEGIN")  # one snapshot for all that follows
            _check_tables(path, store)
            _check_whole(path, store)
            names = _run_names(path, store)
            runs = {run_id: Columns(f"{path}, run {name}", rows_are_steps=True) for run_id, name in names.items()}
            params = _params(store)
            for run_id, metric, step, value in _rows(path, store):
                if run_id in runs:
                    runs[run_id].add(metric, step, value)
    except OSError as error:
        raise limits.unreadable(path, error) from None
    except sqlite3.Error as error:
        reason = (
            str(error) or "its schema is damaged"
        )  # Python 3.10 gives no message where SQLite's own cannot be decoded
        raise InputError(f"{path} cannot be read as an SQLite store: {reason}") from None
    except UnicodeDecodeError:  # in SQLite's own message, which quotes the damaged schema
        raise InputError(f"{path} cannot be read as an SQLite store: its schema is damaged") from None
    return [Stored(names[run_id], columns, params.get(run_id, {})) for run_id, columns in runs.items()]


def _open(path: Path) -> sqlite3.Connection:
    store = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=_WAIT_FOR_LOCK)
    store.text_factory = _text
    store.execute("PRAGMA query_only = ON")
    store.execute("PRAGMA trusted_schema = OFF")  # a stranger's file may carry functions in its schema
    return store


def _text(data: bytes) -> str:
    """Text of a file that may be damaged; bytes that are not UTF-8 show as replacement characters."""
    return data.decode("utf-8", errors="replace")


def _check_tables(path: Path, store: sqlite3.Connection) -> None:
    for table, needed in _NEEDED.items():
        missing = needed - _columns(store, table)
        if missing:
            raise InputError(f"{path} is not a store of MLflow: table {table} lacks {', '.join(sorted(missing))}")


def _columns(store: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table, none of anything else: a view of that name could run a query without end."""
    found = store.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return {row[1] for row in store.execute(f"PRAGMA table_info({table})")} if found == ("table",) else set()


def _check_whole(path: Path, store: sqlite3.Connection) -> None:
    """Raise if the file ends inside a page, which SQLite itself would read as rows of nothing."""
    (page_size,) = store.execute("PRAGMA page_size").fetchone()
    if path.stat().st_size % page_size:
        raise InputError(f"{path} is cut off: it ends inside a page of its database; copy it again")


def _run_names(path: Path, store: sqlite3.Connection) -> dict[str, str]:
    """Names by the id of the run: experiment/run, with the start of the id where two runs share a name."""
    rows = store.execute(_RUNS, (limits.MAX_RUNS + 1,)).fetchall()
    limits.check_size(len(rows), limits.MAX_RUNS, str(path), "runs")
    names = {
        str(run_id): "/".join(str(part) for part in (experiment, run or run_id) if part)
        for run_id, run, experiment in rows
    }
    shared = Counter(names.values())
    return {run_id: name if shared[name] == 1 else f"{name} ({run_id[:_SHORT_ID]})" for run_id, name in names.items()}


def _params(store: sqlite3.Connection) -> dict[str, dict[str, str]]:
    """The parameters of each run, by its id; none where the store keeps none that can be read."""
    if not _columns(store, "params") >= {"run_uuid", "key", "value"}:
        return {}
    params: dict[str, dict[str, str]] = {}
    for run_id, name, value in store.execute(_PARAMS, (limits.MAX_ROWS,)):
        if isinstance(name, str) and isinstance(value, str):
            params.setdefault(str(run_id), {})[name] = value
    return params


def _rows(path: Path, store: sqlite3.Connection) -> Iterator[tuple[str, str, float, float]]:
    """Run, metric, step and value of each row, in the order in which they were logged."""
    for count, (run_id, metric, step, value) in enumerate(store.execute(_METRICS, (limits.MAX_ROWS + 1,)), start=1):
        limits.check_size(count, limits.MAX_ROWS, str(path), "metric values")
        named = isinstance(run_id, str) and isinstance(metric, str)
        if not (named and isinstance(step, int) and isinstance(value, (int, float, type(None)))):
            raise InputError(f"{path}: metric {metric!r} of run {run_id!r} has step {step!r} and value {value!r}")
        yield run_id, metric, step, _as_logged(value)


def _as_logged(value: float | None) -> float:
    """The value before MLflow stored it: it keeps an infinity as the largest number there is."""
    if value is None:
        return math.nan
    return math.copysign(math.inf, value) if abs(value) >= sys.float_info.max else value


def value_of(text: str) -> float | str | bool:
    """A parameter, all of which are kept as texts, as the number or truth value that it reads as."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return float(text)
    except ValueError:
        return text
