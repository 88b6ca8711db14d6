"""Experiment 2: how good are the forecasts of real curves?

Every engine sees the first 10, 20, 40 and 80 % of the same curves and is scored on all values that come, in the space
normalised as in the paper (appendix A): log-likelihood, squared error of the median, CRPS, share of values inside the
central 90 % interval, and the cdf of one random value (PIT).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from epochcast.benchmarks import CurveSet
from epochcast.curve import Array, Lengths, Mask
from epochcast.distributions import Distribution
from epochcast.experiments.crps import crps
from epochcast.question import Context, Engine, answer
from epochcast.schedule import Schedule

SHARES = (0.1, 0.2, 0.4, 0.8)
_CHUNK = 100  # curves asked at once: bounds the memory


@dataclass(frozen=True)
class CurveScores:
    """Scores of one engine on the curves of one collection at one cutoff; arrays have one entry per scored curve."""

    rows: Lengths  # which curves of the collection: those with a value on both sides of the cutoff
    log_likelihood: Array  # mean over the values that came
    squared_error: Array  # of the median
    crps: Array
    inside90: Array  # share of the values inside the central 90 % interval
    pit: Array  # cdf at one random value

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Lengths) -> CurveScores:
        """Those of some of the curves."""
        return CurveScores(*(array[index] for array in vars(self).values()))

    @classmethod
    def joined(cls, parts: Sequence[CurveScores]) -> CurveScores:
        """Of all curves together; their rows are those of the parts."""
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))


def score(
    engine: Engine,
    curves: CurveSet,
    seen: float | Lengths,
    *,
    schedule: Schedule | None = None,
    context: Context | None = None,
    seed: int = 0,
) -> CurveScores:
    """Score an engine on all curves of a set that have values on both sides of the cutoff.

    `seen` is a share of the horizon, or how many values of each curve are seen. `schedule` and `context` are what the
    engine is told of all of them.
    """
    counts = curves.seen_at(seen) if isinstance(seen, float) else seen
    rows = np.flatnonzero((counts > 0) & (counts < curves.lengths))
    columns = {name: np.full(len(curves), np.nan) for name in ("log_likelihood", "squared_error", "crps", "inside90")}
    pit = np.full(len(curves), np.nan)
    target = np.random.default_rng([seed, 2]).random(len(curves))
    for part in _same_horizon(curves, rows):
        truth, ahead, distribution = predict_rest(engine, curves[part], counts[part], schedule, context)
        for name, entries in _entries(distribution, truth).items():
            # NaN where an engine has no such score: a point forecast has no log-likelihood.
            columns[name][part] = np.where(ahead, entries, 0.0).sum(axis=1) / ahead.sum(axis=1)
        one = (np.arange(len(part)), _pick(ahead, target[part]))
        pit[part] = distribution[one].cdf(truth[one])
    return CurveScores(rows, **{name: column[rows] for name, column in columns.items()}, pit=pit[rows])


def predict_rest(
    engine: Engine,
    curves: CurveSet,
    counts: Lengths,
    schedule: Schedule | None = None,
    context: Context | None = None,
) -> tuple[Array, Mask, Distribution]:
    """What came after the first `counts` values [curve, query], which of these entries are values, and the forecast.

    All curves must have the same horizon.
    """
    width = curves.values.shape[1]
    most = int((curves.lengths - counts).max())
    index = counts[:, None] + np.arange(most)  # [curve, query]
    ahead = index < curves.lengths[:, None]
    index = np.minimum(index, width - 1)
    horizon = float(curves.horizons[0])
    queries = np.where(ahead, np.take_along_axis(curves.step_grid, index, axis=1), horizon)
    truth = np.where(ahead, np.take_along_axis(curves.normalised, index, axis=1), 0.5)
    question = replace(curves.question(counts, queries, context), schedule=schedule)
    distribution, _ = answer(engine, question)
    return truth, ahead, distribution


def _same_horizon(curves: CurveSet, rows: Lengths) -> Iterator[Lengths]:
    """Chunks of rows whose curves share a horizon."""
    horizons = curves.horizons[rows]
    for horizon in np.unique(horizons):
        group = rows[horizons == horizon]
        for start in range(0, len(group), _CHUNK):
            yield group[start : start + _CHUNK]


def _entries(distribution: Distribution, truth: Array) -> dict[str, Array]:
    """Scores of each value [curve, query]."""
    rank = distribution.cdf(truth)
    return {
        "log_likelihood": distribution.log_prob(truth),
        "squared_error": (distribution.icdf(0.5) - truth) ** 2,
        "crps": crps(distribution, truth),
        "inside90": (np.abs(rank - 0.5) <= 0.45).astype(np.float64),
    }


def _pick(ahead: Mask, uniform: Array) -> Lengths:
    """One random entry ahead of each curve; those come first in a row."""
    return np.asarray(uniform * ahead.sum(axis=1), dtype=np.int64)
