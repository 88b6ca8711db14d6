"""What the streaming network sees of a run: every value beside what came before it, at every scale.

Real curves settle to movements of 1e-4 and below, so each value is given relative to earlier ones, in units of the
run's own recent movement. All of it is causal: entry i depends on the first i values only, so that one pass serves
every cutoff of a run. Index 0 is the start of the run, before any value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from epochcast.metric import UNTOLD
from epochcast.rates import RATE_TOKEN_FEATURES, Rates

Array = NDArray[np.float64]

NO_VALUE = 0.5  # stands for the newest value before there is one
FIRST_UNIT = 0.1  # stands for the recent movement before there is any
SMALLEST_UNIT = 1e-6
SMALLEST_GAP = 1e-2

_UNIT_DECAY = 0.85  # of the weights of earlier movements in the unit, per value
_SCALES = np.array([3.0, 30.0, 300.0, 3000.0])
_FREQUENCIES = np.array([1.0, 4.0, 16.0, 64.0])
_MEMORIES = (0.5, 0.8, 0.95, 1.0)  # decays of the running means that a value is compared with
_SLOPE_DECAYS = (0.7, 0.95)
_LOG_HUNDRED = np.log(100.0)
_SHORTEST_AVERAGING = 256

KIND_FEATURE = 8 + 3 * len(_SCALES) + 2 * len(_FREQUENCIES) + 2 * len(_MEMORIES) + 6  # the last one but rates
TOKEN_FEATURES = KIND_FEATURE + 1
QUERY_FEATURES = 10 + 2 * len(_SLOPE_DECAYS)


@lru_cache(maxsize=32)
def _averaging(most: int, decays: tuple[float, ...]) -> Array:
    """[decay, value, value]: x @ these are the running means of x, with weights that decay into the past."""
    age = np.arange(most)[None, :] - np.arange(most)[:, None]
    powers = np.array(decays)[:, None, None] ** np.maximum(age, 0).astype(np.float64)
    weights = np.where(age >= 0, powers, 0.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def running_means(x: Array, decays: tuple[float, ...], first: int = 0) -> Array:
    """Means of x [..., value] up to each value from `first` on, the newest counting most: [decay, ..., value]."""
    count = x.shape[-1]
    most = max(1 << (count - 1).bit_length(), _SHORTEST_AVERAGING)  # few sizes, so that a growing run finds its own
    tables = _averaging(most, decays)[:, :count, first:count]
    return np.asarray(x @ tables.reshape(len(decays), *(1,) * (x.ndim - 2), count, count - first))


def running_mean(x: Array, decay: float) -> Array:
    """The same for one decay: [..., value]."""
    return np.asarray(running_means(x, (decay,))[0])


@dataclass(frozen=True)
class RunFeatures:
    """A batch of runs, read at every cutoff 0..n: axes [run, cutoff]."""

    tokens: Array  # [run, cutoff, TOKEN_FEATURES and those of learning rates, where known], from cutoff `first` on
    step: Array  # the newest step, 0 at the start
    gap: Array  # steps between the two newest values
    last: Array  # the newest value
    unit: Array  # the size of recent movements
    slopes: Array  # [run, cutoff, 2]: recent movement per step, over two memories
    horizon: float
    first: int = 0
    rates: Rates | None = None  # learning rates, where any are known

    @classmethod
    def of(
        cls,
        steps: Array,
        values: Array,
        horizon: float,
        first: int = 0,
        kinds: Array | None = None,
        rates: Rates | None = None,
    ) -> RunFeatures:
        """Read values [run, n] at rising steps [run, n]; a value at step 0 is the untrained model's.

        `kinds` [run] says what was measured: LOSS, SHARE, or UNTOLD, which it is by default. `rates` are the learning
        rates at the steps, where any are known.
        Tokens before cutoff `first` are left out: they are known already to whoever asks for those of new values.
        """
        move = values[..., 1:] - values[..., :-1]
        gap = steps.copy()
        gap[..., 1:] -= steps[..., :-1]
        np.maximum(gap, SMALLEST_GAP, out=gap)
        unit = np.full_like(values, FIRST_UNIT)
        slopes = np.zeros((*values.shape, len(_SLOPE_DECAYS)))
        if move.shape[-1]:
            unit[..., 1:] = np.maximum(running_mean(np.abs(move), _UNIT_DECAY), SMALLEST_UNIT)
            for i, slope in enumerate(running_means(move / gap[..., 1:], _SLOPE_DECAYS)):
                slopes[..., 1:, i] = slope
        features = TOKEN_FEATURES if rates is None else TOKEN_FEATURES + RATE_TOKEN_FEATURES
        tokens = np.empty((*values.shape[:-1], values.shape[-1] + 1 - first, features))
        of_values = tokens
        if first == 0:
            tokens[..., 0, :TOKEN_FEATURES] = _start_token(horizon)
            of_values = tokens[..., 1:, :]
        _fill_tokens(of_values, steps, values, gap, unit, horizon)
        tokens[..., KIND_FEATURE] = UNTOLD if kinds is None else kinds[:, None]
        step = _with_start(steps, 0.0)
        if rates is not None:
            rates = rates.with_start()
            tokens[..., TOKEN_FEATURES:] = rates.token_features(step)[..., first:, :]
        return cls(
            tokens=tokens,
            step=step,
            gap=_with_start(gap, 1.0),
            last=_with_start(values, NO_VALUE),
            unit=_with_start(unit, FIRST_UNIT),
            slopes=_with_start(slopes, 0.0),
            horizon=horizon,
            first=first,
            rates=rates,
        )

    def at(self, cutoffs: NDArray[np.int64]) -> RunFeatures:
        """The same at some cutoffs [run or 1, cutoff]."""
        rows = np.arange(len(self.step))[:, None]
        return RunFeatures(
            tokens=self.tokens[rows, cutoffs - self.first],
            step=self.step[rows, cutoffs],
            gap=self.gap[rows, cutoffs],
            last=self.last[rows, cutoffs],
            unit=self.unit[rows, cutoffs],
            slopes=self.slopes[rows, cutoffs],
            horizon=self.horizon,
            rates=None if self.rates is None else self.rates.pick(cutoffs),
        )

    def queries(self, steps: Array, rates: Rates | None = None) -> Array:
        """[run, cutoff, query, QUERY_FEATURES] of queried steps [run or 1, cutoff, query].

        Learning rates at these steps, which only features with rates make use of, add columns of their own.
        """
        horizon = self.horizon
        newest, gap = np.maximum(self.step, 1e-3)[..., None], self.gap[..., None]
        ahead = np.maximum(steps - newest, 1e-3)
        log_ahead, log_ratio = np.log(ahead), np.log((steps + gap) / (newest + gap))
        places = (
            steps / horizon,
            np.log1p(steps) / _LOG_HUNDRED,
            log_ratio,
            ahead / horizon,
            log_ahead / _LOG_HUNDRED,
            (log_ahead - np.log(gap)) / _LOG_HUNDRED,
            (horizon - steps) / horizon,
            newest / horizon,
            np.log1p(newest) / _LOG_HUNDRED,
            np.full(1, np.log(horizon) / _LOG_HUNDRED),
        )
        # Where the recent slope would lead, if it stayed and if it faded like 1 / step, in units of recent movement.
        fading = (newest + gap) * log_ratio
        slopes = self.slopes / self.unit[..., None]
        ahead_of_slopes = [
            0.25 * np.arcsinh(slopes[..., i, None] * distance)
            for i in range(len(_SLOPE_DECAYS))
            for distance in (ahead, fading)
        ]
        features = _columns((*places, *ahead_of_slopes), np.broadcast_shapes(steps.shape, newest.shape))
        if rates is None or self.rates is None:
            return features
        of_rates = rates.query_features(steps, self.rates, newest, gap)
        wide = np.broadcast_to(of_rates, (*features.shape[:-1], of_rates.shape[-1]))
        return np.concatenate([features, wide], axis=-1)


def _fill_tokens(tokens: Array, steps: Array, values: Array, gap: Array, unit: Array, horizon: float) -> None:
    """Tokens [run, value, TOKEN_FEATURES] of the newest values."""
    first = values.shape[-1] - tokens.shape[-2]
    if tokens.shape[-2] == 0:
        return
    move = np.zeros_like(values)
    np.subtract(values[..., 1:], values[..., :-1], out=move[..., 1:])
    sizes = np.log(running_means(np.abs(move), _MEMORIES, first) + SMALLEST_UNIT) / 4.0  # [memory, run, value]
    means = running_means(values, _MEMORIES, first)
    behind = np.maximum.accumulate(values, axis=-1) - values
    since_start = values - values[..., :1]
    steps, values, gap, unit, move, behind, since_start = (
        array[..., first:] for array in (steps, values, gap, unit, move, behind, since_start)
    )
    log_gap = np.log(gap)
    tokens[..., 0] = 0.0  # the start's flag
    tokens[..., 1] = steps == 0.0  # the untrained model's value
    tokens[..., 2] = steps / horizon
    tokens[..., 3] = np.log1p(steps) / _LOG_HUNDRED
    tokens[..., 4] = np.log(horizon) / _LOG_HUNDRED
    tokens[..., 5] = log_gap / _LOG_HUNDRED
    tokens[..., 6] = (log_gap - np.log(horizon)) / _LOG_HUNDRED
    tokens[..., 7] = values
    end = 8
    for difference in (move, behind, since_start):
        np.arcsinh(difference[..., None] * _SCALES, out=tokens[..., end : end + len(_SCALES)])
        end += len(_SCALES)
    angles = values[..., None] * (np.pi * _FREQUENCIES)
    waves, end = tokens[..., end : end + 2 * len(_FREQUENCIES)], end + 2 * len(_FREQUENCIES)
    np.sin(angles, out=waves[..., ::2])
    np.cos(angles, out=waves[..., 1::2])
    recent, end = tokens[..., end : end + 2 * len(_MEMORIES)], end + 2 * len(_MEMORIES)
    away = 0.25 * np.arcsinh((values - means) / unit)
    recent[..., ::2] = away.transpose(*range(1, away.ndim), 0)
    recent[..., 1::2] = sizes.transpose(*range(1, sizes.ndim), 0)
    tokens[..., end] = np.log(unit) / 4.0
    tokens[..., end + 1] = 0.25 * np.arcsinh(move / unit)
    tokens[..., end + 2] = 0.25 * np.arcsinh(behind / unit)
    tokens[..., end + 3] = np.log(np.abs(move) + SMALLEST_UNIT) / 4.0
    tokens[..., end + 4] = np.log(np.maximum(values, 0.0) + 1e-4) / 4.0
    tokens[..., end + 5] = np.log(np.maximum(1.0 - values, 0.0) + 1e-4) / 4.0


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


def _with_start(array: Array, start: float) -> Array:
    """[run, n, ...] -> [run, 1 + n, ...]"""
    longer = np.empty((len(array), 1 + array.shape[1], *array.shape[2:]))
    longer[:, 0] = start
    longer[:, 1:] = array
    return longer
