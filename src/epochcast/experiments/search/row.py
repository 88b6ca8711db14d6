"""`Row`: what one search has come to on one task, in figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epochcast.curve import Array
from epochcast.experiments.estimate import Estimate
from epochcast.experiments.search.result import SHARES, TaskResult
from epochcast.experiments.stopping.selection import speedup

RANKED_AT = (0.1, 0.5, 1.0)  # shares of the budget


@dataclass(frozen=True)
class Row:
    """Means over the orders, which are the same for all searches; errors are standard errors of these means.

    Regrets are distances from the best value of the task, in units of the metric.
    """

    benchmark: str
    task: str
    search: str
    orders: int
    speedup: float  # how many times sooner the mean regret is where that of the baseline ends
    speedup_error: float
    final_regret: float
    final_regret_error: float
    mean_regret: float  # over the whole budget
    ahead: float  # final regret of the baseline minus that of the search, in the same orders
    ahead_error: float
    scale: float  # regret of a run in the middle
    rank_at_10: float  # among the searches, at 10 % of the budget; 1 is best
    rank_at_50: float
    rank_at_end: float
    spent: float  # epochs: fewer than the budget where no run was left
    runs: float  # begun
    stopped: float  # given up for good
    wrong_stops: float  # of those, runs that would have beaten the best so far
    wrong_share: float | None  # of the stops; None if nothing was stopped
    overhead: float  # seconds of processor time for each decision, one after every epoch


def rows_of(results: Sequence[TaskResult]) -> list[Row]:
    """A row per task and search."""
    return [_row(result, search) for result in results for search in result.searches]


def _row(result: TaskResult, search: str) -> Row:
    every = np.arange(1, result.budget + 1)
    baseline, own = result.regret(result.searches[0], every), result.regret(search, every)
    outcomes = result.outcomes[search]
    gain, gain_error = _speedup(baseline, own)
    final, ahead = Estimate.of(own[:, -1]), Estimate.of(baseline[:, -1] - own[:, -1])
    ranks = result.ranks[result.searches.index(search)].mean(axis=0)
    early, half, end = (float(ranks[np.searchsorted(SHARES, share - 1e-9)]) for share in RANKED_AT)
    stopped, wrong = sum(item.stopped for item in outcomes), sum(item.wrong for item in outcomes)
    return Row(
        benchmark=result.benchmark,
        task=result.task,
        search=search,
        orders=len(outcomes),
        speedup=gain,
        speedup_error=gain_error,
        final_regret=final.mean,
        final_regret_error=final.error,
        mean_regret=float(own.mean()),
        ahead=ahead.mean,
        ahead_error=ahead.error,
        scale=result.scale,
        rank_at_10=early,
        rank_at_50=half,
        rank_at_end=end,
        spent=float(np.mean([item.spent for item in outcomes])),
        runs=float(np.mean([item.runs for item in outcomes])),
        stopped=stopped / len(outcomes),
        wrong_stops=wrong / len(outcomes),
        wrong_share=wrong / stopped if stopped else None,
        overhead=sum(item.seconds for item in outcomes) / sum(item.spent for item in outcomes),
    )


def _speedup(baseline: Array, own: Array) -> tuple[float, float]:
    """The speed-up of mean regrets [order, epoch], and its standard error by leaving out one order at a time."""
    whole = speedup(baseline.mean(axis=0), own.mean(axis=0))
    count = len(own)
    if count < 2:
        return whole, float("nan")
    sums = baseline.sum(axis=0), own.sum(axis=0)
    parts = np.array(
        [speedup((sums[0] - baseline[i]) / (count - 1), (sums[1] - own[i]) / (count - 1)) for i in range(count)]
    )
    return whole, float(np.sqrt((count - 1) / count * ((parts - parts.mean()) ** 2).sum()))
