"""What experiment 3 shows: a summary per benchmark and rule, Markdown tables, and lines of regret."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.console import markdown_table
from epochcast.curve import Array
from epochcast.experiments.stopping.replay import BASELINE, LEADERS_GO_ON, USUAL_CONFIDENCE, Row
from epochcast.experiments.stopping.selection import speedup
from epochcast.experiments.stopping.study import TaskResult
from epochcast.plots import draw_grid

# Rules drawn and shown per task, with their colours.
_SHOWN = {
    BASELINE: "#555555",
    "patience 2": "#e9c46a",
    "patience 5": "#f4a261",
    "patience 10": "#d1495b",
    "coarse": "#8ab1db",
    LEADERS_GO_ON: "#2a9d8f",
    "fine": "#1d4e89",
}


@dataclass(frozen=True)
class Summary:
    """One rule over all tasks of a benchmark."""

    benchmark: str
    rule: str
    confidence: float | None
    tasks: int
    speedup: float  # mean over the tasks
    least: float
    most: float
    slower: int  # tasks with a speed-up below one
    of_averages: float  # speed-up of the regret averaged over the tasks: how the paper counts
    false_stop_rate: float | None  # of stopped runs, mean over the tasks
    false_stop_share: float  # of all runs
    overhead: float  # seconds of forecasts per search


def by_benchmark(results: Sequence[TaskResult]) -> Iterator[tuple[str, list[TaskResult]]]:
    """Results of each benchmark, in the order given."""
    for name, group in groupby(results, key=lambda result: result.benchmark):
        yield name, list(group)


def summaries(results: Sequence[TaskResult]) -> list[Summary]:
    """A summary per benchmark and rule."""
    return [_summary(group, rule) for _, group in by_benchmark(results) for rule in range(len(group[0].rows))]


def _summary(group: Sequence[TaskResult], rule: int) -> Summary:
    rows = [result.rows[rule] for result in group]
    gains = [row.speedup for row in rows]
    rates = [row.false_stop_rate for row in rows if row.false_stop_rate is not None]
    return Summary(
        benchmark=rows[0].benchmark,
        rule=rows[0].rule,
        confidence=rows[0].confidence,
        tasks=len(rows),
        speedup=float(np.mean(gains)),
        least=min(gains),
        most=max(gains),
        slower=sum(gain < 1.0 for gain in gains),
        of_averages=speedup(average_regret(group, 0)[0], average_regret(group, rule)[0]),
        false_stop_rate=float(np.mean(rates)) if rates else None,
        false_stop_share=float(np.mean([row.false_stop_share for row in rows])),
        overhead=float(np.mean([row.overhead for row in rows])),
    )


def average_regret(group: Sequence[TaskResult], rule: int) -> tuple[Array, Array]:
    """Regret [point] of a rule averaged over tasks of equal budget, and its standard error over the orders."""
    size = min(len(result.epochs) for result in group)
    lines = np.stack([result.regret[rule, :size] for result in group])
    errors = np.stack([result.error[rule, :size] for result in group])
    return lines.mean(axis=0), np.sqrt((errors**2).sum(axis=0)) / len(group)


def write(results: Sequence[TaskResult], folder: Path) -> None:
    """Tables and pictures of all results: stopping.md, stopping-average.png and one picture of tasks per benchmark."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stopping.md").write_text(markdown(results), encoding="utf-8")
    draw_averages(results, folder / "stopping-average.png")
    for name, group in by_benchmark(results):
        draw_tasks(group, folder / f"stopping-{name}.png")


# --- Markdown ---------------------------------------------------------------------------------------------------------


def markdown(results: Sequence[TaskResult]) -> str:
    """Tables: the usual rules per benchmark, what changes with their settings, and the usual rules per task."""
    found = summaries(results)
    usual = [item for item in found if _is_shown(item)]
    parts = [
        f"### Average\n\n{_summary_table(usual)}",
        f"### Other settings\n\n{_summary_table([item for item in found if item not in usual])}",
        *(f"### {name}\n\n{task_table(group)}" for name, group in by_benchmark(results)),
    ]
    return "\n\n".join(parts) + "\n"


def summary_table(results: Sequence[TaskResult]) -> str:
    """All rules per benchmark."""
    return _summary_table(summaries(results))


_COLUMNS: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("benchmark", lambda item: item.benchmark),
    ("rule", lambda item: item.rule),
    ("confidence", lambda item: _number(item.confidence, "g")),
    ("tasks", lambda item: str(item.tasks)),
    ("speed-up, mean", lambda item: f"{item.speedup:.2f}x"),
    ("least", lambda item: f"{item.least:.2f}x"),
    ("most", lambda item: f"{item.most:.2f}x"),
    ("tasks below 1x", lambda item: str(item.slower)),
    ("of the average regret", lambda item: f"{item.of_averages:.2f}x"),
    ("wrong of stopped", lambda item: _number(item.false_stop_rate, ".2%")),
    ("wrong of all", lambda item: f"{item.false_stop_share:.2%}"),
    ("forecasts, s per search", lambda item: f"{item.overhead:.1f}" if item.overhead else ""),
)


def _summary_table(items: Sequence[Summary]) -> str:
    return markdown_table([name for name, _ in _COLUMNS], [[cell(item) for _, cell in _COLUMNS] for item in items])


def task_table(group: Sequence[TaskResult]) -> str:
    """Speed-ups of the usual rules per task, and what the fine rule stopped wrongly."""
    shown = [i for i, row in enumerate(group[0].rows) if _is_shown(row) and row.rule != BASELINE]
    fine = next(i for i in shown if group[0].rows[i].rule == "fine")
    heading = (
        "task",
        *(group[0].rows[i].rule for i in shown),
        "wrong of stopped (fine)",
        "final regret, no stopping -> fine",
    )
    lines = []
    for result in group:
        before, after = result.rows[0], result.rows[fine]
        lines.append(
            (
                result.task,
                *(f"{result.rows[i].speedup:.2f}x" for i in shown),
                _number(after.false_stop_rate, ".2%"),
                f"{_with_error(before)} -> {_with_error(after)}",
            )
        )
    return markdown_table(heading, lines)


def _with_error(row: Row) -> str:
    return f"{row.final_regret:.3g} ± {row.final_regret_error:.1g}"


def _is_shown(row: Row | Summary) -> bool:
    return row.rule in _SHOWN and row.confidence in (None, USUAL_CONFIDENCE)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


# --- pictures ---------------------------------------------------------------------------------------------------------


def draw_averages(results: Sequence[TaskResult], path: Path) -> None:
    """Mean regret of each rule against epochs spent, one panel per benchmark."""
    groups = [(f"{name} ({len(group)} task{'s' * (len(group) > 1)})", group) for name, group in by_benchmark(results)]
    _draw_all(groups, path, most=3, size=(4.6, 3.6))


def draw_tasks(results: Sequence[TaskResult], path: Path) -> None:
    """The same, one panel per task."""
    _draw_all([(result.task[-34:], [result]) for result in results], path, most=5, size=(2.6, 2.0))


def _draw_all(
    groups: Sequence[tuple[str, Sequence[TaskResult]]], path: Path, most: int, size: tuple[float, float]
) -> None:
    draw_grid(
        [title for title, _ in groups],
        lambda ax, number: _draw(ax, groups[number][1]),
        path,
        most=most,
        size=size,
        labels=("epochs spent", "regret"),
        legend=len(_SHOWN),
    )


def _draw(panel: Any, group: Sequence[TaskResult]) -> None:
    for rule, row in enumerate(group[0].rows):
        if not _is_shown(row):
            continue
        line, error = average_regret(group, rule)
        epochs = group[0].epochs[: len(line)]
        panel.plot(epochs, line, color=_SHOWN[row.rule], linewidth=1.3, label=row.rule)
        panel.fill_between(epochs, line - error, line + error, color=_SHOWN[row.rule], alpha=0.2, linewidth=0)
    # The first runs may be arbitrarily bad, and hide all that matters.
    top = average_regret(group, 0)[0][len(group[0].epochs) // 20]
    panel.set_ylim(0.0, 1.1 * float(top))
