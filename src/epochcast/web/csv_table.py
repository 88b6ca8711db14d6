"""The table as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
from typing import Any

from epochcast.logs import escape_cell
from epochcast.logs.run import printable
from epochcast.watch import Row, Snapshot

_HEADINGS = ("run", "verdict", "step", "horizon", "now", "best", "end", "low", "high", "chance", "note")


def csv_of(snapshot: Snapshot) -> str:
    """One line for each run, in the order of their outlook; low and high are those of a 90 % interval."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(_HEADINGS)
    for row in snapshot.rows:
        writer.writerow([_cell(value) for value in _values(row, snapshot.horizon)])
    return text.getvalue()


def _values(row: Row, horizon: int) -> tuple[Any, ...]:
    final = row.final or (None, None, None)
    known = (row.step, horizon, row.value, row.best, *final, row.probability)
    return (row.name, row.verdict.value, *known, row.note)


def _cell(value: Any) -> str:
    """A number as it is; a text so that no spreadsheet takes it for a formula."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, (int, float)) else escape_cell(printable(value))
