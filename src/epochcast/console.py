"""What commands share: reading lists from options, JSON, tables, and a progress bar."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from epochcast.errors import InputError


def floats(text: str) -> list[float]:
    """Finite numbers separated by commas."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(math.isfinite(number) for number in numbers):
        raise InputError(f"{text!r} must be finite numbers separated by commas")
    return numbers


def words(text: str) -> list[str]:
    """Names separated by commas; none of an empty text."""
    return [word.strip() for word in text.split(",") if word.strip()]


def make_folder(path: Path | None) -> None:
    """Make the folder that results will be written to: what prevents it is told before the work, not after it."""
    try:
        if path is not None:
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be a folder: {error.strerror or error}; choose another --out") from None


def as_json(data: Any, *, indent: int | None = None) -> str:
    """JSON that every reader takes: it has no word for NaN and infinities, so they are null."""
    return json.dumps(_plain(data), indent=indent, allow_nan=False)


def _plain(data: Any) -> Any:
    if is_dataclass(data):
        data = vars(data)
    if isinstance(data, dict):
        return {key: _plain(item) for key, item in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(item) for item in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def markdown_table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plain_table(headings: Iterable[str], title: str | None = None, *, left: Collection[str] = ()) -> Table:
    """A table for the terminal; its columns stand on the right, but for those of text on the `left`."""
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right", no_wrap=True)
    return table


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on the error stream, if that is a terminal; tell it how much is done, and of how much."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    if not console.is_terminal:  # a bar that is disabled ends with an empty line in older versions of rich
        yield lambda done, total: None
        return
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
