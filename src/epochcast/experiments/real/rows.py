"""Rows of the real-curve experiment: one engine on one collection at one cutoff, averaged, ranked and compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from scipy.stats import rankdata

from epochcast.curve import Lengths
from epochcast.distributions import Array
from epochcast.experiments.estimate import Estimate
from epochcast.experiments.prior.scores import Calibration
from epochcast.experiments.real.scores import CurveScores
from epochcast.experiments.real.study import Scored


@dataclass(frozen=True)
class Row:
    """Scores in normalised space; means over curves, each curve being the mean over the values that came."""

    benchmark: str
    engine: str
    cutoff: float  # share of the horizon that was seen
    n: int  # curves
    paired: bool  # only the curves that samplers worked on
    log_likelihood: Estimate
    log_likelihood_median: float  # over curves
    squared_error_median: float  # squared error of the forecast's median, mean over curves
    squared_error_median_typical: float  # the same, median over curves
    crps: float
    coverage90: float
    pit_ks: float
    rank_log_likelihood: float  # average rank among the engines on the same curves, 1 is best
    rank_squared_error: float
    difference: Estimate  # log-likelihood minus that of the first engine, mean over the same curves


def rows_of(scored: Sequence[Scored]) -> list[Row]:
    """One row per collection, cutoff and engine, and where samplers took part one more on the curves they saw."""
    rows: list[Row] = []
    for group in groups(scored):
        fast = [entry for entry in group if not entry.sampled]
        rows += _ranked(fast, paired=False) if fast else []
        rows += _ranked(group, paired=True) if any(entry.sampled for entry in group) else []
    return rows


def groups(scored: Sequence[Scored]) -> Iterator[list[Scored]]:
    """Entries of the same collection and cutoff; they come in this order."""
    for _, group in groupby(scored, key=lambda entry: (entry.benchmark, entry.share)):
        yield list(group)


def shared_scores(group: Sequence[Scored]) -> list[CurveScores]:
    """Scores of each entry on the curves that all of them scored."""
    shared: Lengths = group[0].scores.rows
    for entry in group[1:]:
        shared = np.intersect1d(shared, entry.scores.rows)
    return [entry.scores[np.searchsorted(entry.scores.rows, shared)] for entry in group]


def _ranked(group: Sequence[Scored], paired: bool) -> list[Row]:
    scores = shared_scores(group)
    if len(scores[0]) == 0:
        return []
    by_likelihood = rankdata([-part.log_likelihood for part in scores], axis=0).mean(axis=1)
    by_error = rankdata([part.squared_error for part in scores], axis=0).mean(axis=1)
    first = scores[0].log_likelihood
    return [
        _row(entry, part, paired, float(rank), float(error_rank), part.log_likelihood - first)
        for entry, part, rank, error_rank in zip(group, scores, by_likelihood, by_error, strict=True)
    ]


def _row(entry: Scored, scores: CurveScores, paired: bool, rank: float, error_rank: float, ahead: Array) -> Row:
    return Row(
        benchmark=entry.benchmark,
        engine=entry.engine,
        cutoff=entry.share,
        n=len(scores),
        paired=paired,
        log_likelihood=Estimate.of(scores.log_likelihood),
        log_likelihood_median=float(np.median(scores.log_likelihood)),
        squared_error_median=float(scores.squared_error.mean()),
        squared_error_median_typical=float(np.median(scores.squared_error)),
        crps=float(scores.crps.mean()),
        coverage90=float(scores.inside90.mean()),
        pit_ks=Calibration.of(scores.pit).ks,
        rank_log_likelihood=rank,
        rank_squared_error=error_rank,
        difference=Estimate.of(ahead),
    )
