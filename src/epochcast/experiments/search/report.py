"""What replayed searches show: Markdown tables, and lines of regret and rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from epochcast.console import markdown_table
from epochcast.curve import Array
from epochcast.experiments.search.entrant import ENTRANTS
from epochcast.experiments.search.result import SHARES, TaskResult
from epochcast.experiments.search.row import Row, rows_of
from epochcast.experiments.search.summary import Summary, by_benchmark, mean_rank, mean_regret, summaries
from epochcast.plots import draw_grid

Line = Callable[[Sequence[TaskResult], str], tuple[Array, Array]]

_COLOURS = {
    "random": "#555555",
    "median": "#e9c46a",
    "percentile": "#bc8a5f",
    "halving": "#f4a261",
    "hyperband": "#8d99ae",
    "asha": "#e76f9a",
    "promoting": "#d1495b",
    "pruner": "#7b5ea7",
    "stopper": "#1d4e89",
    "stopper-alone": "#8ab1db",
    "freeze-thaw": "#2a9d8f",
}


def write(results: Sequence[TaskResult], folder: Path) -> None:
    """search.md, search-regret.png and search-rank.png."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "search.md").write_text(markdown(results), encoding="utf-8")
    _draw(results, mean_regret, "regret, 1 is a run in the middle", folder / "search-regret.png", log=True)
    _draw(results, mean_rank, "mean rank, 1 is best", folder / "search-rank.png", log=False)


# --- Markdown ---------------------------------------------------------------------------------------------------------


def markdown(results: Sequence[TaskResult]) -> str:
    """The summary, and what each search has come to on each task."""
    parts = ["### Average", summary_table(results)]
    for name, group in by_benchmark(results):
        parts += [f"### {name}", "Speed-up:", task_table(group, _gain), "Final regret:", task_table(group, _regret)]
    return "\n\n".join(parts) + "\n"


def summary_table(results: Sequence[TaskResult]) -> str:
    """All searches per benchmark."""
    heading = (
        *("benchmark", "search", "tasks", "speed-up, mean", "least", "tasks below 1x"),
        *("rank at 10 %", "at 50 %", "at the end", "final regret", "ahead of random"),
        *("half of promoting's", "wrong of stopped", "ms per decision"),
    )
    return markdown_table(heading, [_cells(item) for item in summaries(results)])


def _cells(item: Summary) -> tuple[str, ...]:
    return (
        item.benchmark,
        f"{item.search}: {ENTRANTS[item.search].about}",
        str(item.tasks),
        f"{item.speedup:.2f}x",
        f"{item.least_speedup:.2f}x",
        str(item.slower),
        f"{item.rank_at_10:.2f}",
        f"{item.rank_at_50:.2f}",
        f"{item.rank_at_end:.2f}",
        str(item.final_regret),
        item.ahead.signed,
        "" if item.halved is None else f"{item.halved:.0%}",
        "" if item.wrong_share is None else f"{item.wrong_share:.2%}",
        f"{1e3 * item.overhead:.2g}",
    )


def task_table(group: Sequence[TaskResult], cell: Callable[[Row], str]) -> str:
    """A cell for each task and search of a benchmark."""
    rows = iter(rows_of(group))
    lines = [(result.task, *(cell(next(rows)) for _ in result.searches)) for result in group]
    return markdown_table(("task", *group[0].searches), lines)


def _gain(row: Row) -> str:
    return f"{row.speedup:.2f}x"


def _regret(row: Row) -> str:
    return f"{row.final_regret:.3g} ± {row.final_regret_error:.1g}"


# --- pictures ---------------------------------------------------------------------------------------------------------


def _draw(results: Sequence[TaskResult], line: Line, label: str, path: Path, *, log: bool) -> None:
    """A line per search against the budget spent, one panel per benchmark."""
    groups = list(by_benchmark(results))
    draw_grid(
        [f"{name} ({len(group)} task{'s' * (len(group) > 1)})" for name, group in groups],
        lambda ax, number: _panel(ax, groups[number][1], line, log),
        path,
        most=3,
        size=(4.6, 3.6),
        labels=("share of the budget spent", label),
        legend=3 * min(len(groups), 3),
        dpi=80,
    )


def _panel(ax: Any, group: Sequence[TaskResult], line: Line, log: bool) -> None:
    for search in group[0].searches:
        means, errors = line(group, search)
        colour = _COLOURS[search]
        ax.plot(SHARES, means, color=colour, linewidth=1.4, label=search)
        ax.fill_between(SHARES, means - errors, means + errors, color=colour, alpha=0.15, linewidth=0)
    if log:
        ax.set_yscale("log", nonpositive="clip")
    else:
        ax.invert_yaxis()
