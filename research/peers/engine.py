"""Peers as engines: what a library says about one series, put into the distributions that the study scores.

A run that a peer cannot answer, mostly because it has too few values, is left to `last-value`, as the baselines do it.
Libraries for any series do not know that values lie in [0, 1]: their forecasts are cut to it, which can only help them.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from epochcast.baselines import LastValue
from epochcast.baselines.tails import SMALLEST_SCALE
from epochcast.curve import Array, Lengths
from epochcast.distributions import Mixture
from epochcast.question import Engine, Question
from peers.quantiles import Quantiles
from peers.series import Series

LEVELS = np.arange(1, 40) / 40.0  # quantiles asked for: 0.025, 0.05, ..., 0.975
LARGEST = 1e6  # what infinite forecasts are set to before they are interpolated

_log = logging.getLogger(__name__)


class PeerEngine(Engine):
    """A library as an engine that counts its own answers."""

    answered = 0  # runs so far that were not left to the last value


class SeriesPeer(PeerEngine):
    """A library that is asked about one run at a time."""

    fewest: int  # values without which it cannot say anything

    @abstractmethod
    def forecast(self, values: Array, count: int) -> Array | None:
        """The next `count` values as a table [value, column], None where the library gives up."""

    def tables(self, question: Question) -> Iterator[tuple[int, Array]]:
        """Rows that the library answers, with their forecasts [query, column]."""
        for row in np.flatnonzero(question.runs.lengths >= self.fewest):
            series = Series.of(question.runs, int(row), question.steps[row])
            table = self.forecast(series.values, series.count)
            if table is None or np.isnan(table).any():
                _log.info("%s does not answer a run of %d values", self.name, len(series.values))
                continue
            self.answered += 1
            yield int(row), series.at_queries(np.clip(table, -LARGEST, LARGEST))


class GaussianAnswers:
    """A mixture under construction: `last-value` where nothing else was said, one Gaussian where it was."""

    def __init__(self, question: Question) -> None:
        start = LastValue().predict(question)
        self.log_weights, self.means, self.log_scales = (
            np.array(array) for array in (start.log_weights, start.means, start.log_scales)
        )

    def put(self, rows: int | Lengths, means: Array, scales: Array) -> None:
        """Means and standard deviations of some curves, [query] or [curve, query]."""
        self.log_weights[rows] = np.where(np.arange(self.log_weights.shape[-1]) == 0, 0.0, -np.inf)
        self.means[rows, :, 0] = np.clip(means, 0.0, 1.0)
        self.log_scales[rows, :, 0] = np.log(np.clip(scales, SMALLEST_SCALE, 1.0))

    def mixture(self) -> Mixture:
        return Mixture(self.log_weights, self.means, self.log_scales)


class GaussianPeer(SeriesPeer):
    """Its table has two columns: mean and standard deviation."""

    def predict(self, question: Question) -> Mixture:
        answers = GaussianAnswers(question)
        for row, table in self.tables(question):
            answers.put(row, table[:, 0], table[:, 1])
        return answers.mixture()


class QuantilePeer(SeriesPeer):
    """Its table has one column per level."""

    levels: Array = LEVELS

    def predict(self, question: Question) -> Quantiles:
        start = LastValue().predict(question)
        values = np.stack([start.icdf(level) for level in self.levels], axis=-1)  # [curve, query, level]
        for row, table in self.tables(question):
            values[row] = np.clip(np.sort(table, axis=-1), 0.0, 1.0)
        return Quantiles(self.levels, values)


class PointPeer(QuantilePeer):
    """Its table has one column: the value."""

    levels = np.array([0.5])
