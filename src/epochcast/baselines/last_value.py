"""The last value, with the spread of a random walk whose scale is fitted to the newest movements of the run.

The simplest forecast there is, and hard to beat once a run has flattened out.
"""

from __future__ import annotations

import numpy as np

from epochcast.baselines.tails import Tails
from epochcast.curve import Curves
from epochcast.distributions import Array, Mixture
from epochcast.question import Engine, Question

_MEMORY = 0.5  # weight of a movement relative to the one after it
_START = 0.5  # value from which a run without any starts, in the middle of what is possible
_START_SPREAD = 0.25  # standard deviation at the horizon of a run with a single value
_WORTH = 0.02  # weight of that guess among the movements seen
_TAILS = Tails((0.17, 0.10, 0.42, 0.23, 0.02, 0.06))


class LastValue(Engine):
    """An engine: the newest value stays, give or take a random walk."""

    name = "last-value"

    def predict(self, question: Question) -> Mixture:
        curves, queries, horizon = question.runs, question.steps, question.horizon
        last = np.where(curves.lengths > 0, curves.last_value, _START)[:, None]
        ahead = np.maximum(queries - curves.last_step[:, None], 1e-9)
        means = np.broadcast_to(last, queries.shape)
        return _TAILS.around(means, np.sqrt(step_variance(curves, horizon)[:, None] * ahead))


def step_variance(curves: Curves, horizon: float) -> Array:
    """The variance of a run's movement per step [curve], from its newest movements and a guess worth little."""
    guess = _START_SPREAD**2 / horizon
    if curves.values.shape[1] < 2:
        return np.full(len(curves), guess)
    gaps = np.diff(curves.steps, axis=1)
    moved = curves.seen[:, 1:]
    age = (curves.lengths - 2)[:, None] - np.arange(gaps.shape[1])  # 0 for the newest movement
    weights = np.where(moved, _MEMORY ** np.maximum(age, 0), 0.0)
    rates = np.where(moved, np.diff(curves.values, axis=1) ** 2 / np.where(moved, gaps, 1.0), 0.0)
    total = weights.sum(axis=1)
    worth = np.where(total > 0.0, _WORTH * _MEMORY**curves.lengths, 1.0)  # it fades as movements are seen
    return np.asarray(((weights * rates).sum(axis=1) + worth * guess) / (total + worth))
