"""The page as one file, of the runs as they are now."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from epochcast.errors import InputError
from epochcast.watch import Snapshot, Watcher
from epochcast.web.csv_table import csv_of
from epochcast.web.feed import Feed, run_id
from epochcast.web.page import whole_page
from epochcast.web.run_queries import details_answer

MOST_PAGES = 500  # runs that get a page of their own: those with the best outlook
_DIGITS = 5  # of the numbers that are only drawn

Tell = Callable[[int, int], None]


def report_of(watcher: Watcher, snapshot: Snapshot, tell: Tell, most_pages: int = MOST_PAGES) -> str:
    """The whole page; `tell` is told how many runs have been looked at closely, and of how many."""
    feed = Feed()
    feed.publish(snapshot)
    details: dict[str, Any] = {}
    rows = snapshot.rows[:most_pages]
    for done, row in enumerate(rows, start=1):
        details[run_id(row)] = _short(details_answer(row, snapshot, watcher.forecaster))
        tell(done, len(rows))
    table = base64.b64encode(csv_of(snapshot).encode("utf-8", errors="replace")).decode()
    made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z").strip()
    return whole_page({"changes": feed.changes("", 0), "details": details, "csv": table, "made": made})


def check_report(path: Path) -> None:
    """Raise unless a report can be written to this file: to be asked before the work."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it, such as {path / 'report.html'}")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is no folder, so {path.name} cannot be written to it; make it first")


def write_report(page: str, path: Path) -> None:
    """Write a page; names that no encoding has are written with question marks."""
    try:
        path.write_bytes(page.encode("utf-8", errors="replace"))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}; choose another place") from None


def _short(data: Any) -> Any:
    """The same with fewer digits."""
    if isinstance(data, dict):
        return {key: _short(item) for key, item in data.items()}
    if isinstance(data, list):
        return [_short(item) for item in data]
    return float(f"{data:.{_DIGITS}g}") if isinstance(data, float) else data
