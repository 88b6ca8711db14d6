"""What a reader found: a `Collection` of curve sets with what was left out, and the `Collector` that readers fill."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.benchmarks.curveset import CurveSet, largest_of_task
from epochcast.checks import is_number
from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.metric import Metric

MAX_CURVES = 2_000_000
MAX_LENGTH = 100_000  # values of one curve
MAX_VALUES = 200_000_000  # values of one collection, padding included


@dataclass(frozen=True)
class Skipped:
    """Something that was left out: the file, the place in it, and why."""

    path: Path
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.place}: {self.reason}" if self.place else f"{self.path}: {self.reason}"


@dataclass(frozen=True)
class Collection:
    """The curve sets found at one path, in order, and what was left out."""

    path: Path
    format: str
    sets: tuple[CurveSet, ...]
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True)
class _Found:
    """One curve as a reader came upon it."""

    place: str
    task: str
    steps: Array
    values: Array
    untrained: float  # NaN where it is not known
    config: Mapping[str, float]


@dataclass
class Collector:
    """Curves as a reader comes upon them. What is bad ends the reading, or is left out and listed (`skip_bad`)."""

    path: Path
    skip_bad: bool = False
    skipped: list[Skipped] = field(default_factory=list)
    _curves: list[_Found] = field(default_factory=list)
    _values: int = 0

    def __len__(self) -> int:
        return len(self._curves)

    def bad(self, place: str, reason: str) -> None:
        """Refuse something: an error that names file and place, or an entry in the list of what was left out."""
        item = Skipped(self.path, place, reason)
        if not self.skip_bad:
            raise InputError(f"{item} (skip_bad, --skip-bad on the command line, leaves it out)")
        self.skipped.append(item)

    def add(
        self,
        place: str,
        task: str,
        values: Any,
        steps: Any = None,
        *,
        config: Mapping[str, float] | None = None,
    ) -> None:
        """One curve; missing and non-finite values end it. A value at step 0 is the untrained model's."""
        problem = _problem(values, steps)
        if problem:
            self.bad(place, problem)
            return
        curve = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        at = np.arange(1.0, len(curve) + 1.0) if steps is None else np.array(steps, dtype=np.float64)
        order = np.argsort(at, kind="stable")
        curve, at = curve[order], at[order]
        if (np.diff(at) <= 0.0).any() or at[0] < 0.0:
            self.bad(place, "steps appear twice or are negative")
            return
        first = int(at[0] == 0.0)
        before = float(curve[0]) if first else np.nan
        self._values += len(curve)
        if len(self._curves) >= MAX_CURVES or self._values > MAX_VALUES:
            raise InputError(f"{self.path} holds more than {MAX_CURVES:,} curves or {MAX_VALUES:,} values; split it")
        self._curves.append(_Found(place, task, at[first:], curve[first:], before, config or {}))

    def build(
        self,
        name: str,
        metric_of: Callable[[str], Metric],
        *,
        own_horizons: bool = False,
        horizon: float | None = None,
    ) -> CurveSet:
        """The set of all curves; horizons are those of the longest run of a task, of each run itself, or as given."""
        self._as_shares(metric_of)
        found = self._inside_bounds(metric_of)
        if not found:
            raise InputError(f"{self.path} holds no curve that can be used")
        width = max(len(curve.values) for curve in found)
        if width * len(found) > MAX_VALUES:
            raise InputError(f"{self.path} holds {len(found):,} curves of up to {width:,} values; split it")
        values, steps = np.full((len(found), width), np.nan), np.full((len(found), width), np.nan)
        for row, curve in enumerate(found):
            values[row, : len(curve.values)], steps[row, : len(curve.values)] = curve.values, curve.steps
        task_names = list(dict.fromkeys(curve.task for curve in found))
        numbers = {task: number for number, task in enumerate(task_names)}
        task = np.array([numbers[curve.task] for curve in found])
        last = np.nanmax(steps, axis=1, initial=1.0)
        names = list(dict.fromkeys(key for curve in found for key in curve.config))
        untrained = np.array([curve.untrained for curve in found])
        return CurveSet.of(
            name,
            values,
            [metric_of(task) for task in task_names],
            # Runs of different horizons have steps of their own: each is thinned by itself.
            steps=steps if own_horizons and len(np.unique(last)) > 1 else _shared(steps),
            horizons=horizon if horizon is not None else last if own_horizons else largest_of_task(last, task),
            task=task,
            task_names=task_names,
            untrained=None if np.isnan(untrained).all() else untrained,
            config=[[curve.config.get(key, np.nan) for key in names] for curve in found] if names else None,
            config_names=names,
        )

    def _as_shares(self, metric_of: Callable[[str], Metric]) -> None:
        """Turn percentages into shares of one, where most curves of a metric between 0 and 1 pass 1."""
        rows = [row for row, curve in enumerate(self._curves) if metric_of(curve.task).hard == (0.0, 1.0)]
        tops = [float(np.nanmax(self._curves[row].values, initial=0.0)) for row in rows]
        if tops and np.median(tops) > 1.0 + 1e-6:
            for row in rows:
                curve = self._curves[row]
                self._curves[row] = replace(curve, values=curve.values / 100.0, untrained=curve.untrained / 100.0)

    def _inside_bounds(self, metric_of: Callable[[str], Metric]) -> list[_Found]:
        keep = []
        for curve in self._curves:
            metric = metric_of(curve.task)
            outside = np.flatnonzero(metric.outside(curve.values))
            if len(outside):
                low, high = metric.hard
                value = curve.values[outside[0]]
                self.bad(curve.place, f"value {value:g} (number {outside[0] + 1}) is outside [{low:g}, {high:g}]")
            else:
                keep.append(curve)
        return keep

    def values_of(self, task: str) -> Iterable[Array]:
        """The curves of one task so far."""
        return (curve.values for curve in self._curves if curve.task == task)


def numbers_of(config: Any) -> dict[str, float]:
    """The hyperparameters that are numbers."""
    if not isinstance(config, dict):
        return {}
    return {key: float(value) for key, value in config.items() if isinstance(value, (int, float))}


def _problem(values: Any, steps: Any) -> str | None:
    """What is wrong with a curve, None if nothing is."""
    if not isinstance(values, (list, tuple, np.ndarray)):
        return f"{reprlib.repr(values)} is not a list of numbers"
    if len(values) < 2:
        return f"a curve of {len(values)} value(s); it takes at least 2"
    if len(values) > MAX_LENGTH:
        return f"a curve of {len(values):,} values; the limit is {MAX_LENGTH:,}"
    for index, value in enumerate(values):
        if value is not None and not is_number(value):
            return f"value number {index + 1} is {reprlib.repr(value)}, not a number"
    if steps is not None and (not isinstance(steps, (list, tuple, np.ndarray)) or len(steps) != len(values)):
        return f"{len(values)} values but not as many steps"
    if steps is not None and not all(is_number(step) and math.isfinite(step) for step in steps):
        return "a step is not a finite number"
    return None


def _shared(steps: Array) -> Array:
    """Steps [step] where every curve has the same, else [curve, step]."""
    longest = steps[int(np.argmax((~np.isnan(steps)).sum(axis=1)))]
    same = np.isnan(steps) | (steps == longest)
    return longest if same.all() and not np.isnan(longest).any() else steps
