"""What commands share: reading lists from options, tables, and a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from epochcast.errors import InputError


def floats(text: str) -> list[float]:
    """Numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{text!r} must be numbers separated by commas") from None


def words(text: str) -> list[str]:
    """Names separated by commas; none of an empty text."""
    return [word.strip() for word in text.split(",") if word.strip()]


def plain_table(title: str | None = None) -> Table:
    return Table(title=title, title_justify="left", header_style="bold", box=SIMPLE, pad_edge=False)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on the error stream; tell it how much is done, and of how much."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
