"""What a network reads of other runs of the task, beside the one that it forecasts.

The other runs are looked up at any step: between their values by interpolation, beyond them by what the network itself
forecasts of them. All of it is numpy, so that training and inference see the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.features.process import Process
from epochcast.features.run import RunFeatures, running_mean

Array = NDArray[np.float64]
States = NDArray[np.float32]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

RUN_FEATURES = 10  # of another run by itself
NOW_FEATURES = 22  # of another run beside the one forecast, at its cutoff
THEN_FEATURES = 16  # of the same at a queried step
OVERALL_FEATURES = 20  # of all other runs at a queried step
EXPECTED = 4  # numbers that a process of configurations says of a queried step
AHEAD = np.array([0.05, 0.2, 0.5, 1.0])  # shares of what is left of another run at which it is forecast
_OUTPUTS = np.array([0.02, 0.1, 0.3, 0.6, 1.0])  # shares of the horizon at which configurations are made use of
_MEMORY = 0.7  # decay of the running mean that levels are compared by
_SMALL = 1e-6
_FOUR = 0.25  # keeps logarithms and arcsinh about unit size
_MOST_RATIO = 10.0
_FARTHEST = 0.5  # beyond the bounds 0 and 1, of a mean


@dataclass(frozen=True)
class OtherRuns:
    """Other runs of a task as they were read, and what is forecast of them beyond their newest value."""

    horizon: float  # of the runs that are forecast
    steps: Array  # [run, value], padded
    values: Array  # [run, value], padded
    units: Array  # [run, value], padded: the size of recent movements
    lengths: Index  # [run], at least 1
    horizons: Array  # [run]
    states: States  # [run, 1 + value, width]: what the encoder made of each cutoff
    ahead: Array  # [run, AHEAD]: means beyond the newest values
    doubt: Array  # [run, AHEAD]: and standard deviations
    columns: Array  # [run, column]: configurations
    categories: Mask  # [column]

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def together(cls, parts: Sequence[OtherRuns]) -> OtherRuns:
        """Those of several parts, padded to the longest."""
        longest = max(part.values.shape[1] for part in parts)

        def joined(name: str) -> Any:
            return np.concatenate([getattr(part, name) for part in parts])

        def padded(name: str, width: int) -> Any:
            arrays = [getattr(part, name) for part in parts]
            count = sum(len(array) for array in arrays)
            whole = np.zeros((count, width, *arrays[0].shape[2:]), dtype=arrays[0].dtype)
            first = 0
            for array in arrays:
                whole[first : first + len(array), : array.shape[1]] = array
                first += len(array)
            return whole

        return cls(
            parts[0].horizon, padded("steps", longest), padded("values", longest), padded("units", longest),
            joined("lengths").astype(np.int64), joined("horizons"), padded("states", longest + 1),
            joined("ahead"), joined("doubt"), joined("columns"), parts[0].categories,
        )  # fmt: skip

    def __getitem__(self, rows: Index) -> OtherRuns:
        """Some of the runs."""
        names = ("steps", "values", "units", "lengths", "horizons", "states", "ahead", "doubt", "columns")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    @cached_property
    def _rows(self) -> Index:
        return np.arange(len(self))

    @cached_property
    def newest_step(self) -> Array:
        return np.asarray(self.steps[self._rows, self.lengths - 1])

    @cached_property
    def newest_state(self) -> States:
        return np.asarray(self.states[self._rows, self.lengths])

    @cached_property
    def knots(self) -> Knots:
        """The runs as they can be looked up, values first and then forecasts."""
        count, longest = self.values.shape
        left = np.maximum(self.horizons - self.newest_step, 0.0)
        steps = np.concatenate([self.steps, np.zeros((count, len(AHEAD)))], axis=1)
        smooth = running_mean(self.values, _MEMORY)
        channels = np.zeros((4, count, longest + len(AHEAD)))
        channels[0, :, :longest], channels[1, :, :longest] = self.values, smooth
        channels[3, :, :longest] = np.log(np.maximum(self.units, _SMALL))
        places = self.lengths[:, None] + np.arange(len(AHEAD))
        rows = self._rows[:, None]
        steps[rows, places] = self.newest_step[:, None] + AHEAD * left[:, None]
        channels[0][rows, places], channels[1][rows, places] = self.ahead, self.ahead
        channels[2][rows, places] = self.doubt
        channels[3][rows, places] = np.log(self.units[self._rows, self.lengths - 1])[:, None]
        # A finished run has nothing ahead: its newest value stands for all that comes.
        over = left <= 0.0
        for channel in channels[:2]:
            channel[rows[over], places[over]] = self.values[self._rows, self.lengths - 1][over, None]
        channels[2][rows[over], places[over]] = 0.0
        return Knots.of(steps, channels, self.lengths + len(AHEAD), self.lengths)

    @cached_property
    def process(self) -> Process:
        """What configurations say of the values at a few steps."""
        runs = np.broadcast_to(self._rows, (len(_OUTPUTS), len(self)))
        at = self.knots.at(_OUTPUTS[:, None] * self.horizon, runs)
        return Process(self.columns, self.categories, at[0].T, at[2].T)

    def expectations(self, columns: Array) -> tuple[Array, Array, Array]:
        """What the process says of configurations; a run that grows asks again and again about the same one."""
        if self._expected and np.array_equal(self._expected[-1][0], columns, equal_nan=True):
            return self._expected[-1][1]
        answer = self.process.predict(columns)
        self._expected[:] = [(columns, answer)]
        return answer

    @cached_property
    def _expected(self) -> list[tuple[Array, tuple[Array, Array, Array]]]:
        return []

    @cached_property
    def run_features(self) -> Array:
        """[run, RUN_FEATURES]"""
        last = self.values[self._rows, self.lengths - 1]
        seen = np.arange(self.values.shape[1]) < self.lengths[:, None]
        best = np.where(seen, self.values, -np.inf).max(axis=1)
        ends, sure = self.ahead[:, -1], self.doubt[:, -1]
        rank = (ends[:, None] > ends[None]).mean(axis=1)
        return np.stack(
            [
                self.newest_step / self.horizons, np.log(self.horizons / self.horizon), last, best, ends,
                _log(sure), self.newest_step >= self.horizons, rank, np.full(len(self), np.log1p(len(self)) / 4.0),
                _log(last - self.values[:, 0]),
            ],
            axis=-1,
        )  # fmt: skip


@dataclass(frozen=True)
class Knots:
    """Several runs as lines between points, all in one sorted list, so that one search serves them all."""

    keys: Array  # run x 2 + step / longest
    channels: Array  # [channel, knot]: value, its running mean, standard deviation where forecast, log of unit
    first: Index  # [run]: where its knots begin
    last: Index  # [run]: and its last knot
    known: Index  # [run]: how many of its knots are values
    longest: float

    @classmethod
    def of(cls, steps: Array, channels: Array, lengths: Index, known: Index) -> Knots:
        there = np.arange(steps.shape[1]) < lengths[:, None]
        longest = max(float(steps[there].max(initial=0.0)), _SMALL)
        keys = 2.0 * np.arange(len(steps))[:, None] + steps / longest
        ends = np.cumsum(lengths)
        return cls(keys[there], channels[:, there], ends - lengths, ends - 1, known, longest)

    def at(self, steps: Array, runs: Index) -> Array:
        """[channel, ...] of runs [...] at steps [...] or broadcast to them."""
        keys = 2.0 * runs + np.clip(steps / self.longest, 0.0, 1.0)
        after = np.searchsorted(self.keys, keys, side="right")
        low = np.clip(after - 1, self.first[runs], self.last[runs])
        high = np.minimum(low + 1, self.last[runs])
        gap = self.keys[high] - self.keys[low]
        share = np.clip((keys - self.keys[low]) / np.maximum(gap, 1e-12), 0.0, 1.0)
        return np.asarray(self.channels[:, low] + share * (self.channels[:, high] - self.channels[:, low]))

    def seen_at(self, steps: Array, runs: Index) -> Index:
        """How many values of runs [...] there are up to steps [...]."""
        keys = 2.0 * runs + np.clip(steps / self.longest, 0.0, 1.0) + 1e-12
        before = np.searchsorted(self.keys, keys, side="right") - self.first[runs]
        return np.asarray(np.clip(before, 0, self.known[runs]))


@dataclass(frozen=True)
class Cutoffs:
    """Some cutoffs of the runs that are forecast: axes [row]."""

    step: Array
    last: Array
    smooth: Array
    first: Array  # the run's first value
    unit: Array
    distance: Array  # [row, other]: mean distance of the run so far from each other run
    columns: Array  # [row, column]: configurations
    horizon: float

    def __getitem__(self, rows: slice) -> Cutoffs:
        """Some of the rows."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "horizon"})

    @classmethod
    def of(
        cls, seen: RunFeatures, values: Array, cutoffs: Index, rows: Index, others: OtherRuns, columns: Array
    ) -> Cutoffs:
        """Of runs whose values [run, value] were read, at cutoffs [row] of runs `rows`."""
        smooth = np.concatenate([seen.last[:, :1], running_mean(values, _MEMORY)], axis=1)
        first = np.where(cutoffs > 0, values[rows, 0] if values.shape[1] else 0.0, seen.last[rows, cutoffs])
        runs = np.arange(len(others))
        beside = others.knots.at(seen.step[:, 1:, None], np.broadcast_to(runs, (*values.shape, len(others))))[0]
        apart = np.cumsum(np.abs(values[..., None] - beside), axis=1)
        mean = apart / np.arange(1.0, values.shape[1] + 1.0)[:, None]
        start = np.full((len(values), 1, len(others)), 0.5)
        return cls(
            seen.step[rows, cutoffs], seen.last[rows, cutoffs], smooth[rows, cutoffs], first,
            seen.unit[rows, cutoffs], np.concatenate([start, mean], axis=1)[rows, cutoffs], columns, seen.horizon,
        )  # fmt: skip


@dataclass(frozen=True)
class Beside:
    """What a network reads of other runs beside cutoffs of its own."""

    positions: Index  # [row, other]: the cutoff of each other run up to the same step
    now: Array  # [row, other, NOW_FEATURES]
    then: Array  # [row, query, other, THEN_FEATURES]
    overall: Array  # [row, query, OVERALL_FEATURES]
    levels: Array  # [row, query, other]: the other runs at the queried step
    moved: Array  # [row, query, other]: the newest value, if it went on as they did
    expected: Array  # [row, query, EXPECTED]: what configurations say of level and move, each a mean and a width


def beside(own: Cutoffs, queries: Array, others: OtherRuns) -> Beside:
    """Other runs beside cutoffs [row] that are asked about steps [row, query]."""
    rows, count = len(own.step), len(others)
    steps = np.concatenate([own.step[:, None], queries], axis=1)  # here first, then there
    found = others.knots.at(steps[..., None], np.broadcast_to(np.arange(count), (*steps.shape, count)))
    here, there = found[:, :, 0], found[:, :, 1:]
    positions = others.knots.seen_at(own.step[:, None], np.broadcast_to(np.arange(count), (rows, count)))
    means, spreads, alike = others.expectations(own.columns)
    mean, spread = _between(np.stack([means, spreads]), steps, own)
    expected, expected_now = (mean[:, 1:], spread[:, 1:]), (mean[:, 0], spread[:, 0])
    moves = own.last[:, None] + expected[0] - expected_now[0][:, None]
    return Beside(
        positions,
        _now(own, here, others, alike),
        _then(own, here, there, queries, others),
        _overall(own, here[0], there[0], expected, expected_now, others),
        there[0],
        own.last[:, None, None] + there[0] - here[0][:, None],
        np.stack([expected[0], expected[1], moves, expected[1]], axis=-1),
    )


def _between(outputs: Array, steps: Array, own: Cutoffs) -> Array:
    """Outputs [kind, row, output] at steps [row, query], by interpolation over log-steps."""
    places = np.log1p(_OUTPUTS * own.horizon)
    at = np.interp(np.log1p(steps), places, np.arange(len(places)))
    low = np.minimum(at.astype(np.int64), len(places) - 2)
    rows = np.arange(outputs.shape[1])[:, None]
    before = outputs[:, rows, low]
    return np.asarray(before + (at - low) * (outputs[:, rows, low + 1] - before))


def _now(own: Cutoffs, here: Array, others: OtherRuns, alike: Array) -> Array:
    value, smooth, doubt, log_unit = here
    unit = own.unit[:, None]
    apart, gained = own.last[:, None] - value, own.last - own.first
    starts = others.values[:, 0]
    other_gained = value - starts
    newest, ends = others.newest_step, others.ahead[:, -1]
    return _stacked(
        (*value.shape, NOW_FEATURES),
        *_at_scales(apart), _FOUR * np.arcsinh(apart / unit), _FOUR * np.arcsinh((own.smooth[:, None] - smooth) / unit),
        _FOUR * (log_unit - np.log(unit)), _log(own.distance), _FOUR * np.arcsinh(own.distance / unit),
        _log(gained)[:, None], _log(other_gained), np.sign(gained)[:, None] * np.sign(other_gained),
        _share(gained[:, None], other_gained), _log(own.first[:, None] - starts),
        newest >= own.step[:, None], newest / own.horizon, np.log(others.horizons / own.horizon), alike,
        _log(doubt), newest >= others.horizons, *_at_scales(ends - own.last[:, None])[1:],
        (alike >= alike.max(axis=1, keepdims=True)) & others.process.explains,
    )  # fmt: skip


def _then(own: Cutoffs, here: Array, there: Array, queries: Array, others: OtherRuns) -> Array:
    value, smooth, _, log_unit = (part[:, None] for part in here)
    later, later_smooth, doubt, later_log_unit = there
    unit, last = own.unit[:, None, None], own.last[:, None, None]
    move, level = later - value, later - last
    gained, other_gained = last - own.first[:, None, None], value - others.values[:, 0]
    ratio = np.clip((np.abs(gained) + 1e-4) / (np.abs(other_gained) + 1e-4), 0.0, _MOST_RATIO)
    return _stacked(
        (*later.shape, THEN_FEATURES),
        *_at_scales(move), _FOUR * np.arcsinh(move / unit), _FOUR * np.arcsinh(move / np.exp(log_unit)),
        *_at_scales(level), _FOUR * np.arcsinh(level / unit), _FOUR * np.arcsinh((later_smooth - smooth) / unit),
        _log(move), _FOUR * np.arcsinh(move * ratio / unit), _FOUR * (later_log_unit - np.log(unit)),
        others.newest_step >= queries[..., None], _log(doubt), _FOUR * np.log(doubt / unit + 1e-2),
    )  # fmt: skip


def _overall(
    own: Cutoffs, here: Array, there: Array, expected: tuple[Array, Array], now: tuple[Array, Array], others: OtherRuns
) -> Array:
    mean, spread = expected
    unit, last = own.unit[:, None], own.last[:, None]
    off = mean - last
    moves = mean - now[0][:, None]
    surprise = (last - now[0][:, None]) / now[1][:, None]
    average, best = there.mean(axis=-1), there.max(axis=-1)
    below = (here < last).mean(axis=-1)[:, None]
    return _stacked(
        (*off.shape, OVERALL_FEATURES),
        *_at_scales(off), _FOUR * np.arcsinh(off / unit), np.arcsinh(30.0 * moves), _FOUR * np.arcsinh(moves / unit),
        _log(spread), _FOUR * np.log(spread / unit), _FOUR * np.arcsinh(surprise), _log(now[1])[:, None],
        float(others.process.explains), np.log1p(len(others)) / 4.0, np.arcsinh(30.0 * (average - last)),
        _log(there.std(axis=-1)), np.arcsinh(30.0 * (best - last)), below, own.step[:, None] == 0.0,
        (others.newest_step >= others.horizons).mean(), np.arcsinh(3.0 * (there.min(axis=-1) - last)),
        _log((there - here[:, None]).std(axis=-1)),
    )  # fmt: skip


def _at_scales(difference: Array) -> tuple[Array, Array, Array]:
    return np.arcsinh(3.0 * difference), np.arcsinh(30.0 * difference), np.arcsinh(300.0 * difference)


def _log(size: Array) -> Array:
    return np.asarray(_FOUR * np.log(np.abs(size) + _SMALL))


def _share(own: Array, other: Array) -> Array:
    return np.asarray((np.abs(own) + 1e-4) / (np.abs(own) + np.abs(other) + 2e-4))


def _stacked(shape: tuple[int, ...], *columns: Array | Mask | float) -> Array:
    together = np.empty(shape)
    for i, column in enumerate(columns):
        together[..., i] = column
    return together


def moments(log_weights: Array, means: Array, log_scales: Array) -> tuple[Array, Array]:
    """Means and standard deviations of mixtures [..., component], without the last one: by it anything can happen."""
    weights = np.exp(log_weights[..., :-1])
    weights /= weights.sum(axis=-1, keepdims=True)
    mean = (weights * means[..., :-1]).sum(axis=-1)
    spread = np.exp(2.0 * log_scales[..., :-1]) + (means[..., :-1] - mean[..., None]) ** 2
    return np.clip(mean, -_FARTHEST, 1.0 + _FARTHEST), np.sqrt(np.minimum((weights * spread).sum(axis=-1), 1.0))
