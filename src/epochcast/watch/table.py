"""A `Snapshot` as a table for the terminal, and the loop that keeps it up to date."""

from __future__ import annotations

import math
import time

from rich.box import SIMPLE
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from epochcast.console import as_json as json_text
from epochcast.errors import InputError
from epochcast.logs.run import printable, shown
from epochcast.watch.snapshot import Row, Snapshot, Verdict
from epochcast.watch.watcher import FORECASTING, Watcher

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
_LINES_AROUND = 10  # of a live table: title, heading, summary, legend, notes, progress and the line of the cursor
_FEWEST_ROWS = 3
_BAR_WIDTH = 40
_BETWEEN_BARS, _BETWEEN_TABLES = 0.05, 0.5  # seconds, while the first look goes on


def show(watcher: Watcher, console: Console, *, interval: float, once: bool, as_json: bool) -> None:
    """Show the runs once, or until the user interrupts: as a table that is drawn again, or as lines of JSON."""
    if not 0.0 < interval < math.inf:
        raise InputError(f"interval={interval} must be a positive number of seconds")
    on_screen = console.is_terminal and not as_json
    if once:
        snapshot = _first_look(watcher, console) if on_screen else watcher.refresh()
        if as_json or snapshot.problem is None:
            _write(snapshot, console, as_json)
        if snapshot.problem is not None:
            raise InputError(snapshot.problem)
        return
    try:
        if not on_screen:
            while True:
                _write(watcher.refresh(), console, as_json)
                time.sleep(interval)
        _first_look(watcher, console)
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(_fitting(watcher.refresh(), console), refresh=True)
                time.sleep(interval)
    except KeyboardInterrupt:
        return


def _first_look(watcher: Watcher, console: Console) -> Snapshot:
    """Look at all runs under a bar and a table that fills; both are gone in the end."""
    with Live(console=console, auto_refresh=False, transient=True) as live:
        return watcher.refresh(_Filling(watcher, console, live))


class _Filling:
    """Draws how far the first look has got, and what it has found so far, but not so often that it takes longer."""

    def __init__(self, watcher: Watcher, console: Console, live: Live) -> None:
        self.watcher, self.console, self.live = watcher, console, live
        self._table: RenderableType = Text()
        self._next_bar = self._next_table = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next_bar:
            return
        if what == FORECASTING and now >= self._next_table:
            self._table = _fitting(self.watcher.snapshot(), self.console)
            self._next_table = time.monotonic() + _BETWEEN_TABLES
        self.live.update(Group(_bar(what, done, total), self._table), refresh=True)
        self._next_bar = time.monotonic() + _BETWEEN_BARS


def _bar(what: str, done: int, total: int) -> Table:
    line = Table.grid(padding=(0, 1))
    line.add_row(Text(what), ProgressBar(total, done, width=_BAR_WIDTH), Text(f"{done:,} of {total:,}"))
    return line


def _fitting(snapshot: Snapshot, console: Console) -> RenderableType:
    """The table with as many rows as the terminal has room for."""
    return render(snapshot, console.width, most_rows=max(_FEWEST_ROWS, console.height - _LINES_AROUND))


def _write(snapshot: Snapshot, console: Console, as_json: bool) -> None:
    if as_json:
        console.file.write(json_text(snapshot.to_dict()) + "\n")
        console.file.flush()
    else:
        console.print(render(snapshot, console.width))


def render(snapshot: Snapshot, width: int, most_rows: int | None = None) -> RenderableType:
    """The table, with a line of summary and the notes below; `most_rows` leaves out the runs with the worst outlook."""
    if snapshot.problem is not None:
        return Text(printable(snapshot.problem), style="yellow")
    rows = snapshot.rows[:most_rows]
    parts: list[RenderableType] = [_table(snapshot, rows, width)]
    parts.append(_summary(snapshot, hidden=len(snapshot.rows) - len(rows)))
    if any(row.probability is not None for row in rows):
        parts.append(Text(f"chance: that {snapshot.probability_of}", style="dim"))
    parts += [Text(f"note: {printable(note)}", style="yellow") for note in snapshot.notes]
    return Group(*parts)


def _table(snapshot: Snapshot, rows: tuple[Row, ...], width: int) -> Table:
    title = f"{shown(snapshot.monitor)} ({snapshot.metric.name}) at step {snapshot.horizon}"
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE, padding=(0, 1, 0, 0))
    cells = [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *cells, strict=True)]
    # Where the terminal is narrow, the names give way and not the numbers.
    for_names = max(_SHORTEST_NAME, width - sum(widths) - _GAP * (len(widths) + 2))
    table.add_column("run", no_wrap=True)
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading == "verdict" else "right", no_wrap=True)
    for row, line in zip(rows, cells, strict=True):
        name = _shortened(shown(row.name.removesuffix(snapshot.common_file_name)), for_names)
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


def _number(value: float) -> str:
    """Four digits, trailing zeros kept so that a column lines up."""
    return f"{value:#.4g}".removesuffix(".") if math.isfinite(value) else str(value)


def _percent(probability: float | None) -> str:
    if probability is None:
        return ""
    percent = 100.0 * probability
    return "< 1 %" if percent < 1.0 else "> 99 %" if percent > 99.0 else f"{percent:.0f} %"
