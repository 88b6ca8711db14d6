"""A `Snapshot` as a table for the terminal, and the loop that keeps it up to date."""

from __future__ import annotations

import json
import math
import time

from rich.box import SIMPLE
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from epochcast.errors import InputError
from epochcast.logs.run import shown
from epochcast.watch.snapshot import Row, Snapshot, Verdict
from epochcast.watch.watcher import Watcher

_STYLES = {
    Verdict.LEADING: "bold green",
    Verdict.RUNNING: "",
    Verdict.FINISHED: "cyan",
    Verdict.HOPELESS: "dim",
    Verdict.DIVERGED: "red",
    Verdict.WAITING: "dim",
    Verdict.UNUSABLE: "red",
}
_HEADINGS = ("step", "now", "end", "90 % interval", "chance", "verdict")
_GAP = 2  # between columns and around the table
_SHORTEST_NAME = 8
_LINES_AROUND = 8  # of a live table: title, heading, summary, notes and the line of the cursor
_FEWEST_ROWS = 3


def show(watcher: Watcher, console: Console, *, interval: float, once: bool, as_json: bool) -> None:
    """Show the runs once, or until the user interrupts: as a table that is drawn again, or as lines of JSON."""
    if not 0.0 < interval < math.inf:
        raise InputError(f"interval={interval} must be a positive number of seconds")
    if once:
        snapshot = watcher.refresh()
        if snapshot.problem is not None:
            raise InputError(snapshot.problem)
        _write(snapshot, console, as_json)
        return
    try:
        if as_json or not console.is_terminal:
            while True:
                _write(watcher.refresh(), console, as_json)
                time.sleep(interval)
        with Live(console=console, auto_refresh=False) as live:
            while True:
                rows = max(_FEWEST_ROWS, console.height - _LINES_AROUND)
                live.update(render(watcher.refresh(), console.width, most_rows=rows), refresh=True)
                time.sleep(interval)
    except KeyboardInterrupt:
        return


def _write(snapshot: Snapshot, console: Console, as_json: bool) -> None:
    if as_json:
        console.file.write(json.dumps(snapshot.to_dict(), allow_nan=False) + "\n")
        console.file.flush()
    else:
        console.print(render(snapshot, console.width))


def render(snapshot: Snapshot, width: int, most_rows: int | None = None) -> RenderableType:
    """The table, with a line of summary and the notes below; `most_rows` leaves out the runs with the worst outlook."""
    if snapshot.problem is not None:
        return Text(snapshot.problem, style="yellow")
    rows = snapshot.rows[:most_rows]
    parts: list[RenderableType] = [_table(snapshot, rows, width)]
    parts.append(_summary(snapshot, hidden=len(snapshot.rows) - len(rows)))
    parts += [Text(f"note: {note}", style="yellow") for note in snapshot.notes]
    return Group(*parts)


def _table(snapshot: Snapshot, rows: tuple[Row, ...], width: int) -> Table:
    title = f"{shown(snapshot.column)} ({snapshot.metric.name}) at step {snapshot.horizon}"
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE, padding=(0, 1, 0, 0))
    cells = [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *cells, strict=True)]
    # Where the terminal is narrow, the names give way and not the numbers.
    for_names = max(_SHORTEST_NAME, width - sum(widths) - _GAP * (len(widths) + 2))
    table.add_column("run", no_wrap=True)
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading == "verdict" else "right", no_wrap=True)
    file_name = _common_file_name(snapshot.rows)
    for row, line in zip(rows, cells, strict=True):
        name = _shortened(shown(row.name.removesuffix(file_name)), for_names)
        table.add_row(Text(name), *line, style="bold green" if _is_best(row, snapshot) else _STYLES[row.verdict])
    return table


def _shortened(name: str, width: int) -> str:
    """A name without its middle: runs differ in their beginnings and ends."""
    if len(name) <= width:
        return name
    end = (width - 1) // 2
    return f"{name[: width - 1 - end]}…{name[len(name) - end :]}"


def _is_best(row: Row, snapshot: Snapshot) -> bool:
    return row.best is not None and row.best == snapshot.best


def _cells(row: Row) -> tuple[str, ...]:
    median, interval = "", ""
    if row.final is not None:
        median, interval = _number(row.final[0]), f"{_number(row.final[1])} to {_number(row.final[2])}"
    step = "" if row.step is None else f"{row.step:g}"
    value = "" if row.value is None else _number(row.value)
    return step, value, median, interval, _percent(row.probability), row.verdict.value


def _summary(snapshot: Snapshot, hidden: int) -> Text:
    counts = ", ".join(f"{count} {verdict.value}" for verdict, count in snapshot.counts.items())
    best = "" if snapshot.best is None else f"; best so far {_number(snapshot.best)}"
    best += next((f" by {shown(row.name)}" for row in snapshot.rows if _is_best(row, snapshot)), "")
    more = f"; {hidden} not shown" if hidden else ""
    return Text(f"{len(snapshot.rows)} run{'s' * (len(snapshot.rows) > 1)}: {counts}{best}{more}", style="bold")


def _common_file_name(rows: tuple[Row, ...]) -> str:
    """The end that all names share, such as /metrics.csv: it tells nothing."""
    endings = {"/" + row.name.rpartition("/")[2] for row in rows if "/" in row.name}
    return endings.pop() if len(endings) == 1 and all("/" in row.name for row in rows) else ""


def _number(value: float) -> str:
    """Four digits, trailing zeros kept so that a column lines up."""
    return f"{value:#.4g}".removesuffix(".") if math.isfinite(value) else str(value)


def _percent(probability: float | None) -> str:
    if probability is None:
        return ""
    percent = 100.0 * probability
    return "< 1 %" if percent < 1.0 else "> 99 %" if percent > 99.0 else f"{percent:.0f} %"
