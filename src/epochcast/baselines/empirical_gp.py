"""A Gaussian process with the mean and the covariance of past curves of other tasks, conditioned on what was seen.

Past curves are laid over a grid of shares of their horizon. A run is conditioned on through linear interpolation of
that grid; how badly it fits the process widens its forecast, as in a Student t process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from epochcast.baselines.tails import Tails
from epochcast.benchmarks.npz import digits_bench
from epochcast.curve import Curves
from epochcast.distributions import Array, Mixture
from epochcast.question import Context, Engine, Question

_GRID = np.arange(1, 101) / 100.0  # shares of the horizon
_FEWEST = 10  # past curves for a mean and a covariance
_PSEUDO_VALUES = 5.0  # how much the past counts in the scale of a run, in values
_PLAIN_CURVES = 10.0  # how many curves the guess that neighbours agree is worth
_JITTER = 1e-8
_MEDIAN_OF_CHI_SQUARE = 0.4549  # of one degree of freedom
_TAILS = Tails((0.02, 0.25, 0.66, 0.05, 0.005, 0.015))


class EmpiricalGp(Engine):
    """An engine: the process of the context's curves, or, where too few of them finished, of those that ship."""

    name = "empirical-gp"
    reads = frozenset({"context"})

    def __init__(self) -> None:
        self._fitted: tuple[Context, Process] | None = None  # the newest context: questions come in chunks

    def predict(self, question: Question) -> Mixture:
        return self._process(question.context).predict(question)

    def _process(self, context: Context | None) -> Process:
        if context is None:
            return _of_digits_bench()
        if self._fitted is None or self._fitted[0] is not context:
            rows = _finished(context)
            self._fitted = context, Process.of(rows) if len(rows) >= _FEWEST else _of_digits_bench()
        return self._fitted[1]


@cache
def _of_digits_bench() -> Process:
    """The process of the curves that ship with epochcast, for whoever has none of their own."""
    return Process.of(np.concatenate([_finished(digits_bench(name).context()) for name in ("accuracy", "log_loss")]))


@dataclass(frozen=True)
class Process:
    """A Gaussian process over shares of the horizon."""

    mean: Array  # [share]
    covariance: Array  # [share, share], without noise
    noise: float  # variance of single values

    @classmethod
    def of(cls, rows: Array) -> Process:
        """The process of finished curves [curve, share]."""
        # A second difference of white noise has six times its variance; the median ignores real bends and jumps.
        noise = float(np.median(np.diff(rows, n=2, axis=1) ** 2) / 6.0 / _MEDIAN_OF_CHI_SQUARE) + _JITTER
        return cls(rows.mean(axis=0), _shrunk(np.cov(rows, rowvar=False), len(rows)), noise)

    def predict(self, question: Question) -> Mixture:
        curves, queries, horizon = question.runs, question.steps, question.horizon
        means, variances = np.empty(queries.shape), np.empty(queries.shape)
        for rows in _same_steps(curves, queries):
            length = int(curves.lengths[rows[0]])
            at = _interpolation(curves.steps[rows[0], :length] / horizon)  # [value, share]
            ahead = _interpolation(queries[rows[0]] / horizon)  # [query, share]
            means[rows], variances[rows] = self._condition(at, curves.values[rows, :length], ahead)
        return _TAILS.around(means, np.sqrt(variances))

    def _condition(self, at: Array, values: Array, ahead: Array) -> tuple[Array, Array]:
        """Means and variances [curve, query] given values [curve, value] of curves with the same steps."""
        prior_mean, prior = ahead @ self.mean, ((ahead @ self.covariance) * ahead).sum(axis=1) + self.noise
        if len(at) == 0:
            shape = (len(values), len(ahead))
            return np.broadcast_to(prior_mean, shape), np.broadcast_to(prior, shape)
        within = at @ self.covariance @ at.T + self.noise * np.eye(len(at))
        across = ahead @ self.covariance @ at.T  # [query, value]
        surprise = values - at @ self.mean  # [curve, value]
        gain = np.linalg.solve(within, across.T)  # [value, query]
        misfit = (surprise * np.linalg.solve(within, surprise.T).T).sum(axis=1)
        scale = (_PSEUDO_VALUES + misfit) / (_PSEUDO_VALUES + len(at))  # [curve]
        variance = np.maximum(prior - (across * gain.T).sum(axis=1), self.noise)
        return prior_mean + surprise @ gain, scale[:, None] * variance


def _shrunk(covariance: Array, curves: int) -> Array:
    """A covariance of few curves is too sure of itself; it is drawn to one that only knows that neighbours agree."""
    scale = np.sqrt(np.diag(covariance))
    plain = np.outer(scale, scale) * np.exp(-np.abs(np.log(_GRID)[:, None] - np.log(_GRID)))
    share = _PLAIN_CURVES / (_PLAIN_CURVES + curves)
    return np.asarray((1.0 - share) * covariance + share * plain + _JITTER * np.eye(len(_GRID)))


def _finished(context: Context) -> Array:
    """Curves that reached their horizon, by share of it: [curve, share]."""
    runs = context.runs
    finished = np.flatnonzero((runs.last_step >= 0.95 * context.horizons) & (runs.lengths >= 2))
    rows = [
        np.interp(
            _GRID,
            runs.steps[row, : runs.lengths[row]] / context.horizons[row],
            runs.values[row, : runs.lengths[row]],
        )
        for row in finished
    ]
    return np.array(rows).reshape(len(rows), len(_GRID))


def _interpolation(shares: Array) -> Array:
    """[share wanted, share of the grid]: linear interpolation as a matrix."""
    place = np.clip(shares * len(_GRID) - 1.0, 0.0, len(_GRID) - 1.0)
    left = np.minimum(np.floor(place).astype(np.intp), len(_GRID) - 2)
    matrix = np.zeros((len(shares), len(_GRID)))
    rows = np.arange(len(shares))
    matrix[rows, left] = 1.0 - (place - left)
    matrix[rows, left + 1] += place - left
    return matrix


def _same_steps(curves: Curves, queries: Array) -> list[NDArray[np.intp]]:
    """Rows that were seen and are asked at the same steps, which share all linear algebra."""
    groups: dict[bytes, list[int]] = {}
    for row in range(len(curves)):
        seen = curves.steps[row, : curves.lengths[row]]
        groups.setdefault(seen.tobytes() + b"/" + queries[row].tobytes(), []).append(row)
    return [np.array(rows) for rows in groups.values()]
