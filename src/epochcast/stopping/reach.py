"""How far a run can still get: the one number per run and confidence that decides against any best value.

The rule stops a run when its chance to beat the best is at most 1 - confidence at every later step. That chance falls
as the best gets better, so there is one value from which on the run is stopped: the best of its quantiles at that
level. A search replayed in many orders holds a run against many bests, and looks all of them up in this number.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from epochcast.checks import choice
from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.forecast import Forecast
from epochcast.stopping.decision import TARGETS, Target, check_confidence

_TOLERANCE = 1e-9  # of a chance: quantiles are exact to about this


def reach(forecast: Forecast, confidence: float, target: Target = "any") -> Array:
    """The value of each run of a batch [run] that stops it: a run is stopped when the best is no worse than this."""
    confidence = check_confidence(confidence)
    choice(target, "target", TARGETS)
    if forecast.steps.ndim != 2:
        raise InputError("the reach is asked of a batch of runs; give values as a 2-D array or a list of runs")
    level = 1.0 - confidence if forecast.metric.minimize else confidence
    farthest = np.array(forecast.final.quantile(level))
    if target == "final":
        return farthest
    # Most runs get farthest at the horizon. Where another step has a larger chance to beat what was found so far, its
    # quantile is better still; taken in turn, such steps end at the best quantile of all without finding each.
    rows = np.arange(len(farthest))
    for _ in range(forecast.steps.shape[1]):
        chances = _at(forecast, rows).prob_better(farthest[rows])  # [row, step]
        step = chances.argmax(axis=1)
        beaten = chances[np.arange(len(rows)), step] > 1.0 - confidence + _TOLERANCE
        rows, step = rows[beaten], step[beaten]
        if len(rows) == 0:
            break
        farthest[rows] = _at(forecast, rows, step).quantile(level)
    return farthest


def _at(forecast: Forecast, rows: NDArray[np.intp], step: NDArray[np.intp] | slice = slice(None)) -> Forecast:
    """The forecast of some runs, at all steps or each at one step of its own."""
    return replace(
        forecast,
        steps=forecast.steps[rows, step],
        normalised=forecast.normalised[rows, step],
        normalizer=forecast.normalizer.at((rows, 0) if isinstance(step, np.ndarray) else rows),
    )
