"""Automatic forecasters of statsforecast: exponential smoothing and the theta method, chosen by criterion.

They give intervals at any level but no density: for some of the models they choose, intervals are simulated.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from epochcast.curve import Array
from peers.engine import LEVELS, QuantilePeer

_INTERVALS = tuple(round(100.0 * (1.0 - 2.0 * level)) for level in LEVELS if level < 0.4999)  # 95, 90, ..., 5
_GIVES_UP = (NotImplementedError, ValueError, ZeroDivisionError, IndexError, np.linalg.LinAlgError)


def _answer(model: Any, values: Array, count: int) -> dict[str, Array] | None:
    """The next values with the ends of all intervals, None where no model fits."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            answer = model.forecast(y=values, h=count, level=list(_INTERVALS))
        except _GIVES_UP:
            return None
    return {name: np.asarray(column, dtype=np.float64) for name, column in answer.items()}


class AutoEts(QuantilePeer):
    name = "auto-ets"
    fewest = 7  # it calls fewer "tiny datasets"
    model = "AutoETS"

    def forecast(self, values: Array, count: int) -> Array | None:
        from statsforecast import models

        if np.ptp(values) == 0.0:  # the search divides by the spread of the values
            return np.full((count, len(self.levels)), values[-1])
        answer = _answer(getattr(models, self.model)(season_length=1), values, count)
        return None if answer is None else _quantiles(answer)


class AutoTheta(AutoEts):
    name = "auto-theta"
    fewest = 5
    model = "AutoTheta"


def _quantiles(answer: dict[str, Array]) -> Array:
    """Quantiles [value, level] from intervals, the widest first."""
    lower = [answer[f"lo-{level}"] for level in _INTERVALS]
    upper = [answer[f"hi-{level}"] for level in reversed(_INTERVALS)]
    middle = (lower[-1] + upper[0]) / 2.0  # the mean of a skewed forecast is not its median
    return np.stack([*lower, middle, *upper], axis=-1)
