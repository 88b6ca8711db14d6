"""What the streaming network sees of a real run: every value beside what came before it, at every scale.

Real curves settle to movements of 1e-4 and below, so each value is given relative to earlier ones, in units of the
run's own recent movement. All of it is causal: entry i depends on the first i values only, so that one pass serves
every cutoff of a run. Index 0 is the start of the run, before any value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NO_VALUE = 0.5  # stands for the newest value before there is one
FIRST_UNIT = 0.1  # stands for the recent movement before there is any
SMALLEST_UNIT = 1e-6
SMALLEST_GAP = 1e-2

# How a network's answer is read: means lie at the newest value + unit x sinh(offset), and one fixed component says
# that anything can happen.
LARGEST_OFFSET = 16.0
SURPRISE, SURPRISE_MEAN, SURPRISE_SCALE = 1e-4, 0.5, 0.4  # weight, mean and scale of the fixed component

_UNIT_DECAY = 0.85  # of the weights of earlier movements in the unit, per value
_SCALES = (3.0, 30.0, 300.0, 3000.0)
_FREQUENCIES = (1.0, 4.0, 16.0, 64.0)
_MEMORIES = (0.5, 0.8, 0.95, 1.0)  # decays of the running means that a value is compared with
_SLOPE_DECAYS = (0.7, 0.95)
_LOG_HUNDRED = np.log(100.0)
_SHORTEST_AVERAGING = 256

TOKEN_FEATURES = 8 + 3 * len(_SCALES) + 2 * len(_FREQUENCIES) + 2 * len(_MEMORIES) + 6
QUERY_FEATURES = 10 + 2 * len(_SLOPE_DECAYS)


@lru_cache(maxsize=32)
def _averaging(most: int, decay: float) -> Array:
    """[value, value]: x @ this are the running means of x, with weights that decay into the past."""
    age = np.arange(most)[None, :] - np.arange(most)[:, None]
    weights = np.where(age >= 0, decay ** np.maximum(age, 0).astype(np.float64), 0.0)
    return np.asarray(weights / weights.sum(axis=0))


def running_mean(x: Array, decay: float) -> Array:
    """Means of x [..., value] up to each value, the newest counting most."""
    count = x.shape[-1]
    most = max(1 << (count - 1).bit_length(), _SHORTEST_AVERAGING)  # few sizes, so that a growing run finds its own
    return np.asarray(x @ _averaging(most, decay)[:count, :count])


@dataclass(frozen=True)
class Trail:
    """A batch of runs, read at every cutoff 0..n: axes [run, cutoff]."""

    tokens: Array  # [run, cutoff, TOKEN_FEATURES]
    step: Array  # the newest step, 0 at the start
    gap: Array  # steps between the two newest values
    last: Array  # the newest value
    unit: Array  # the size of recent movements
    slopes: Array  # [run, cutoff, 2]: recent movement per step, over two memories
    horizon: float

    @classmethod
    def of(cls, steps: Array, values: Array, horizon: float) -> Trail:
        """Read values [run, n] at rising steps [run, n]; a value at step 0 is the untrained model's."""
        move = np.diff(values, axis=-1)
        gap = np.maximum(np.diff(steps, axis=-1, prepend=0.0), SMALLEST_GAP)
        unit = np.full_like(values, FIRST_UNIT)
        slopes = np.zeros((*values.shape, len(_SLOPE_DECAYS)))
        if move.shape[-1]:
            unit[..., 1:] = np.maximum(running_mean(np.abs(move), _UNIT_DECAY), SMALLEST_UNIT)
            pace = move / gap[..., 1:]
            slopes[..., 1:, :] = np.stack([running_mean(pace, decay) for decay in _SLOPE_DECAYS], axis=-1)
        tokens = _tokens(steps, values, gap, unit, horizon)
        return cls(
            tokens=_with_start(tokens, _start_token(horizon)),
            step=_with_start(steps, 0.0),
            gap=_with_start(gap, 1.0),
            last=_with_start(values, NO_VALUE),
            unit=_with_start(unit, FIRST_UNIT),
            slopes=_with_start(slopes, 0.0),
            horizon=horizon,
        )

    def at(self, cutoffs: NDArray[np.int64]) -> Trail:
        """The same at some cutoffs [run or 1, cutoff]."""
        rows = np.arange(len(self.step))[:, None]
        chosen = {f.name: getattr(self, f.name)[rows, cutoffs] for f in fields(self) if f.name != "horizon"}
        return replace(self, **chosen)

    def queries(self, steps: Array) -> Array:
        """[run, cutoff, query, QUERY_FEATURES] of queried steps [run or 1, cutoff, query]."""
        horizon = self.horizon
        newest, gap = np.maximum(self.step, 1e-3)[..., None], self.gap[..., None]
        ahead = np.maximum(steps - newest, 1e-3)
        places = (
            steps / horizon,
            np.log1p(steps) / _LOG_HUNDRED,
            np.log((steps + gap) / (newest + gap)),
            ahead / horizon,
            np.log(ahead) / _LOG_HUNDRED,
            np.log(ahead / gap) / _LOG_HUNDRED,
            (horizon - steps) / horizon,
            newest / horizon,
            np.log1p(newest) / _LOG_HUNDRED,
            np.full(1, np.log(horizon) / _LOG_HUNDRED),
        )
        # Where the recent slope would lead, if it stayed and if it faded like 1 / step, in units of recent movement.
        fading = (newest + gap) * np.log((steps + gap) / (newest + gap))
        slopes = np.moveaxis(self.slopes / self.unit[..., None], -1, 0)[..., None]
        ahead_of_slopes = [0.25 * np.arcsinh(slope * reach) for slope in slopes for reach in (ahead, fading)]
        return _columns((*places, *ahead_of_slopes), np.broadcast_shapes(steps.shape, newest.shape))


def _tokens(steps: Array, values: Array, gap: Array, unit: Array, horizon: float) -> Array:
    """[run, value, TOKEN_FEATURES]"""
    move = np.diff(values, axis=-1, prepend=values[..., :1])
    behind = np.maximum.accumulate(values, axis=-1) - values
    gained = values - values[..., :1]
    columns = [
        np.zeros_like(values),  # the start's flag
        (steps == 0.0).astype(np.float64),  # the untrained model's value
        steps / horizon,
        np.log1p(steps) / _LOG_HUNDRED,
        np.full_like(values, np.log(horizon) / _LOG_HUNDRED),
        np.log(gap) / _LOG_HUNDRED,
        np.log(gap / horizon) / _LOG_HUNDRED,
        values,
    ]
    for difference in (move, behind, gained):
        columns += [np.arcsinh(scale * difference) for scale in _SCALES]
    for frequency in _FREQUENCIES:
        columns += [np.sin(np.pi * frequency * values), np.cos(np.pi * frequency * values)]
    for decay in _MEMORIES:
        columns.append(0.25 * np.arcsinh((values - running_mean(values, decay)) / unit))
        columns.append(np.log(running_mean(np.abs(move), decay) + SMALLEST_UNIT) / 4.0)
    columns += [
        np.log(unit) / 4.0,
        0.25 * np.arcsinh(move / unit),
        0.25 * np.arcsinh(behind / unit),
        np.log(np.abs(move) + SMALLEST_UNIT) / 4.0,
        np.log(np.maximum(values, 0.0) + 1e-4) / 4.0,
        np.log(np.maximum(1.0 - values, 0.0) + 1e-4) / 4.0,
    ]
    return _columns(columns, values.shape)


def _columns(columns: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Arrays of this shape, or that broadcast to it, side by side along a new last axis."""
    together = np.empty((*shape, len(columns)))
    for i, column in enumerate(columns):
        together[..., i] = column
    return together


def _start_token(horizon: float) -> Array:
    token = np.zeros(TOKEN_FEATURES)
    token[0], token[4] = 1.0, np.log(horizon) / _LOG_HUNDRED
    return token


def _with_start(array: Array, start: Array | float) -> Array:
    """[run, n, ...] -> [run, 1 + n, ...]"""
    first = np.broadcast_to(start, (len(array), 1, *array.shape[2:]))
    return np.concatenate([first, array], axis=1)
