"""`Summary`: one search over all tasks of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from epochcast.curve import Array
from epochcast.experiments.estimate import Estimate, standard_errors
from epochcast.experiments.search.entrant import PROMOTING
from epochcast.experiments.search.result import TaskResult
from epochcast.experiments.search.row import Row, rows_of

_HALF = 0.5


@dataclass(frozen=True)
class Summary:
    """Means over the tasks. Regrets count in units of a run in the middle of its task."""

    benchmark: str
    search: str
    tasks: int
    speedup: float
    least_speedup: float
    slower: int  # tasks with a speed-up below one
    final_regret: Estimate  # errors are over the orders, of the mean over these tasks
    ahead: Estimate  # of the baseline at the end, in the same orders
    rank_at_10: float
    rank_at_50: float
    rank_at_end: float
    halved: float | None  # share of the tasks where the final regret is at most half of promoting halving's
    wrong_share: float | None  # of all stops on these tasks; None if nothing was stopped
    overhead: float  # seconds for each decision


def by_benchmark(results: Sequence[TaskResult]) -> Iterator[tuple[str, list[TaskResult]]]:
    """Results of each benchmark, in the order given."""
    for name, group in groupby(results, key=lambda result: result.benchmark):
        yield name, list(group)


def summaries(results: Sequence[TaskResult]) -> list[Summary]:
    """A summary per benchmark and search."""
    found = []
    for _, group in by_benchmark(results):
        rows = rows_of(group)
        for search in group[0].searches:
            found.append(_summary([row for row in rows if row.search == search], rows))
    return found


def _summary(own: Sequence[Row], every: Sequence[Row]) -> Summary:
    rivals = {row.task: row.final_regret for row in every if row.search == PROMOTING}
    halved = [row.final_regret <= _HALF * rivals[row.task] for row in own] if rivals else []
    stopped = sum(row.stopped for row in own)
    return Summary(
        benchmark=own[0].benchmark,
        search=own[0].search,
        tasks=len(own),
        speedup=float(np.mean([row.speedup for row in own])),
        least_speedup=min(row.speedup for row in own),
        slower=sum(row.speedup < 1.0 for row in own),
        final_regret=_over_tasks([(row.final_regret / row.scale, row.final_regret_error / row.scale) for row in own]),
        ahead=_over_tasks([(row.ahead / row.scale, row.ahead_error / row.scale) for row in own]),
        rank_at_10=float(np.mean([row.rank_at_10 for row in own])),
        rank_at_50=float(np.mean([row.rank_at_50 for row in own])),
        rank_at_end=float(np.mean([row.rank_at_end for row in own])),
        halved=float(np.mean(halved)) if halved else None,
        wrong_share=sum(row.wrong_stops for row in own) / stopped if stopped else None,
        overhead=float(np.mean([row.overhead for row in own])),
    )


def _over_tasks(estimates: Sequence[tuple[float, float]]) -> Estimate:
    """The mean of independent means."""
    means, errors = np.array(estimates).T
    return Estimate(float(means.mean()), float(np.sqrt((errors**2).sum()) / len(errors)))


def mean_regret(group: Sequence[TaskResult], search: str) -> tuple[Array, Array]:
    """Regret [point] in units of a run in the middle, averaged over tasks, and its standard error over the orders."""
    lines = [result.regret(search) / result.scale for result in group]
    errors = np.stack([standard_errors(line) for line in lines])
    return np.stack([line.mean(axis=0) for line in lines]).mean(axis=0), np.sqrt((errors**2).sum(axis=0)) / len(group)


def mean_rank(group: Sequence[TaskResult], search: str) -> tuple[Array, Array]:
    """Rank [point] averaged over tasks and orders, and its standard error over the tasks."""
    lines = np.stack([result.ranks[result.searches.index(search)].mean(axis=0) for result in group])
    return lines.mean(axis=0), standard_errors(lines)
