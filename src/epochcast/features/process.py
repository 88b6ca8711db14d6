"""A Gaussian process over configurations: what other runs of a task say of one that has hardly begun.

It is fitted in closed form while a question is answered. So a network need not learn how configurations act, only how
far to trust such a process: their number, their names and their order are no concern of its weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_LENGTHS = np.array([0.25, 0.5, 1.0, 2.0, 4.0])  # of correlation, for columns that run from 0 to 1
_SHARES = np.array([0.03, 0.1, 0.3, 0.6, 0.9])  # of the variance that no configuration explains
_FACTORS = (0.4, 2.5, 100.0)  # by which the length of one column is changed; the last one switches it off
_PASSES = 2
_USUAL_LENGTH, _SPREAD_OF_LENGTHS = 1.5, 1.2  # before anything is seen
_MISSING = 0.5  # where a number is not known
_OF_OTHER_CATEGORY, _OF_MISSING_CATEGORY = 0.5, 0.25  # squared distances, as between corners of a simplex
_USUAL_SD, _WEIGHT_OF_USUAL = 0.1, 1.0  # of values between runs, and how many runs that belief is worth
_FEWEST = 4  # runs with a configuration; with fewer, nothing is fitted
_MOST_NOISE = 4.0  # variance of a value that is only forecast, in units of that between runs
_JITTER = 1e-6


@dataclass(frozen=True)
class Process:
    """Several values of each run, of which the same configurations explain a part."""

    columns: Array  # [run, column]: 0 to 1, or codes of categories; NaN where not known
    categories: Mask  # [column]
    values: Array  # [run, output]
    doubt: Array  # [run, output]: standard deviation of values that are only forecast, 0 of those that were seen

    @cached_property
    def _scale(self) -> tuple[Array, Array]:
        """Mean and standard deviation of each output between runs."""
        mean = self.values.mean(axis=0)
        squares = ((self.values - mean) ** 2).sum(axis=0)
        free = len(self.values) - 1.0 + _WEIGHT_OF_USUAL
        return mean, np.sqrt((squares + _WEIGHT_OF_USUAL * _USUAL_SD**2) / free)

    @cached_property
    def _standard(self) -> tuple[Array, Array]:
        """Values in units of their scale, and the variance [run] of those that are only forecast."""
        mean, sd = self._scale
        noise = np.minimum(((self.doubt / sd) ** 2).mean(axis=1), _MOST_NOISE)
        return (self.values - mean) / sd, noise

    @cached_property
    def explains(self) -> bool:
        """Whether there are configurations enough to learn from."""
        known = ~np.isnan(self.columns).all(axis=1) if self.columns.shape[1] else np.zeros(len(self.values), bool)
        return int(known.sum()) >= _FEWEST

    @cached_property
    def _fit(self) -> tuple[Array, float]:
        """Lengths [column] of the likeliest process, and the share that it does not explain."""
        distances = squared_distances(self.columns, self.columns, self.categories)
        count = distances.shape[-1]
        lengths, shares = (grid.ravel() for grid in np.meshgrid(_LENGTHS, _SHARES))
        candidates = np.repeat(lengths[:, None], count, axis=1)
        best = int(np.argmax(self._evidence(distances, candidates, shares)))
        length, share = candidates[best], float(shares[best])
        for _ in range(_PASSES):
            candidates = np.concatenate([length[None], *(_changed(length, j) for j in range(count))])
            length = candidates[int(np.argmax(self._evidence(distances, candidates, np.full(len(candidates), share))))]
            candidates = np.repeat(length[None], len(_SHARES), axis=0)
            share = float(_SHARES[int(np.argmax(self._evidence(distances, candidates, _SHARES)))])
        return length, share

    def _evidence(self, distances: Array, lengths: Array, shares: Array) -> Array:
        """Log-likelihood [candidate] of lengths [candidate, column] and shares [candidate], with what is usual."""
        values, noise = self._standard
        lower = np.linalg.cholesky(self._covariance(distances, lengths, shares, noise))
        whitened = np.linalg.solve(lower, np.broadcast_to(values, (len(lower), *values.shape)))
        size = len(values)
        fit = np.log((whitened**2).sum(axis=1) / size + 1e-3).mean(axis=1)
        volume = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        usual = ((np.log(np.minimum(lengths, 20.0) / _USUAL_LENGTH) / _SPREAD_OF_LENGTHS) ** 2).sum(axis=1)
        return np.asarray(-0.5 * size * fit - volume - 0.5 * usual)

    @staticmethod
    def _covariance(distances: Array, lengths: Array, shares: Array, noise: Array) -> Array:
        """[candidate, run, run]"""
        alike = similarity(distances @ (1.0 / lengths**2).T).transpose(2, 0, 1)
        own = shares[:, None] + noise + _JITTER
        return np.asarray((1.0 - shares[:, None, None]) * alike + own[:, :, None] * np.eye(len(noise)))

    @cached_property
    def _solved(self) -> tuple[Array, Array, Array]:
        """The inverse covariance [run, run], weights [run, output], and the variance [output] it underestimates by."""
        length, share = self._fit
        values, noise = self._standard
        distances = squared_distances(self.columns, self.columns, self.categories)
        inverse = np.linalg.inv(self._covariance(distances, length[None], np.array([share]), noise)[0])
        weights = inverse @ values
        scale = ((values * weights).sum(axis=0) + 2.0) / (len(values) + 2.0)
        return inverse, weights, scale

    def predict(self, columns: Array) -> tuple[Array, Array, Array]:
        """Means and standard deviations [asked, output] for other configurations, and how like each run they are."""
        mean, sd = self._scale
        asked, size = len(columns), len(self.values)
        if not self.explains:
            wide = np.broadcast_to(sd * np.sqrt(1.0 + 1.0 / size), (asked, len(sd)))
            return np.broadcast_to(mean, wide.shape), wide, np.zeros((asked, size))
        length, share = self._fit
        inverse, weights, scale = self._solved
        alike = similarity(squared_distances(columns, self.columns, self.categories) @ (1.0 / length**2))
        covariance = (1.0 - share) * alike
        left = np.maximum(1.0 - np.einsum("ai,ij,aj->a", covariance, inverse, covariance), 0.0) + 1.0 / size
        return mean + sd * (covariance @ weights), sd * np.sqrt(left[:, None] * scale), alike


def similarity(distances: Array) -> Array:
    """Matern 5/2 of squared distances."""
    far = np.sqrt(5.0 * distances)
    return np.asarray((1.0 + far + far**2 / 3.0) * np.exp(-far))


def squared_distances(rows: Array, others: Array, categories: Mask) -> Array:
    """[row, other, column]; what is not known lies in the middle."""
    missing, other_missing = np.isnan(rows)[:, None], np.isnan(others)[None]
    difference = np.where(missing, _MISSING, rows[:, None]) - np.where(other_missing, _MISSING, others[None])
    apart = np.where(missing | other_missing, _OF_MISSING_CATEGORY, _OF_OTHER_CATEGORY)
    same = np.where(missing | other_missing, missing & other_missing, difference == 0.0)
    return np.where(categories, np.where(same, 0.0, apart), difference**2)


def _changed(length: Array, column: int) -> Array:
    """Candidates [factor, column] that differ in the length of one column."""
    candidates = np.repeat(length[None], len(_FACTORS), axis=0)
    candidates[:, column] = np.clip(candidates[:, column] * np.array(_FACTORS), 0.05, 1e3)
    return candidates
