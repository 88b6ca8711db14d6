"""What a reader found: a `Collection` of curve sets with what was left out, and the `Collector` that readers fill."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.benchmarks.curveset import CurveSet
from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.metric import Metric

MAX_CURVES = 2_000_000
MAX_LENGTH = 100_000  # values of one curve
MAX_VALUES = 200_000_000  # values of one collection, padding included
_LISTED = 20


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

    def describe(self) -> str:
        """What was found and what was left out, one line each."""
        lines = [f"{self.path}: {self.format}", *(f"  {curves!r}" for curves in self.sets)]
        if self.skipped:
            lines.append(f"  {len(self.skipped)} left out:")
            lines += [f"    {item}" for item in self.skipped[:_LISTED]]
            if len(self.skipped) > _LISTED:
                lines.append(f"    and {len(self.skipped) - _LISTED} more")
        return "\n".join(lines)


@dataclass
class Collector:
    """Curves as a reader comes upon them. What is bad ends the reading, or is left out and listed (`skip_bad`)."""

    path: Path
    skip_bad: bool = False
    skipped: list[Skipped] = field(default_factory=list)
    _rows: list[tuple[Array, Array]] = field(default_factory=list)
    _tasks: list[str] = field(default_factory=list)
    _places: list[str] = field(default_factory=list)
    _untrained: list[float] = field(default_factory=list)
    _configs: list[dict[str, float]] = field(default_factory=list)
    _values: int = 0

    def __len__(self) -> int:
        return len(self._rows)

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
        config: dict[str, float] | None = None,
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
        before = float(curve[0]) if at[0] == 0.0 else np.nan
        first = int(at[0] == 0.0)
        self._values += len(curve)
        if len(self._rows) >= MAX_CURVES or self._values > MAX_VALUES:
            raise InputError(f"{self.path} holds more than {MAX_CURVES:,} curves or {MAX_VALUES:,} values; split it")
        self._rows.append((at[first:], curve[first:]))
        self._tasks.append(task)
        self._places.append(place)
        self._untrained.append(before)
        self._configs.append(config or {})

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
        self._leave_out_of_bounds(metric_of)
        if not self._rows:
            raise InputError(f"{self.path} holds no curve that can be used")
        width = max(len(values) for _, values in self._rows)
        if width * len(self._rows) > MAX_VALUES:
            raise InputError(f"{self.path} holds {len(self._rows):,} curves of up to {width:,} values; split it")
        values, steps = np.full((len(self._rows), width), np.nan), np.full((len(self._rows), width), np.nan)
        for row, (at, curve) in enumerate(self._rows):
            values[row, : len(curve)], steps[row, : len(curve)] = curve, at
        task_names = list(dict.fromkeys(self._tasks))
        numbers = {task: number for number, task in enumerate(task_names)}
        task = np.array([numbers[task] for task in self._tasks])
        last = np.nanmax(steps, axis=1, initial=1.0)
        names = list(dict.fromkeys(key for config in self._configs for key in config))
        return CurveSet.of(
            name,
            values,
            [metric_of(task) for task in task_names],
            # Runs of different horizons have steps of their own: each is thinned by itself.
            steps=steps if own_horizons and len(np.unique(last)) > 1 else _shared(steps),
            horizons=horizon if horizon is not None else last if own_horizons else _longest(last, task),
            task=task,
            task_names=task_names,
            untrained=None if np.isnan(self._untrained).all() else self._untrained,
            config=[[config.get(key, np.nan) for key in names] for config in self._configs] if names else None,
            config_names=names,
        )

    def _as_shares(self, metric_of: Callable[[str], Metric]) -> None:
        """Turn percentages into shares of one, where most curves of a metric between 0 and 1 pass 1."""
        rows = [row for row, task in enumerate(self._tasks) if metric_of(task).hard == (0.0, 1.0)]
        tops = [float(np.nanmax(self._rows[row][1], initial=0.0)) for row in rows]
        if tops and np.median(tops) > 1.0 + 1e-6:
            for row in rows:
                steps, curve = self._rows[row]
                self._rows[row], self._untrained[row] = (steps, curve / 100.0), self._untrained[row] / 100.0

    def _leave_out_of_bounds(self, metric_of: Callable[[str], Metric]) -> None:
        keep = []
        for row, (_, curve) in enumerate(self._rows):
            low, high = metric_of(self._tasks[row]).hard
            outside = np.flatnonzero((curve < low - 1e-6) | (curve > high + 1e-6))
            if len(outside):
                value = curve[outside[0]]
                self.bad(self._places[row], f"value {value:g} (number {outside[0] + 1}) is outside [{low:g}, {high:g}]")
            else:
                keep.append(row)
        if len(keep) < len(self._rows):
            for column in (self._rows, self._tasks, self._places, self._untrained, self._configs):
                column[:] = _chosen(column, keep)

    def values_of(self, task: str) -> Iterable[Array]:
        """The curves of one task so far."""
        return (curve for (_, curve), own in zip(self._rows, self._tasks, strict=True) if own == task)


def _chosen(column: list[Any], keep: Sequence[int]) -> list[Any]:
    return [column[row] for row in keep]


def _problem(values: Any, steps: Any) -> str | None:
    """What is wrong with a curve, None if nothing is."""
    if not isinstance(values, (list, tuple, np.ndarray)):
        return f"{reprlib.repr(values)} is not a list of numbers"
    if len(values) < 2:
        return f"a curve of {len(values)} value(s); it takes at least 2"
    if len(values) > MAX_LENGTH:
        return f"a curve of {len(values):,} values; the limit is {MAX_LENGTH:,}"
    for index, value in enumerate(values):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float, np.number))):
            return f"value number {index + 1} is {reprlib.repr(value)}, not a number"
    if steps is not None and (not isinstance(steps, (list, tuple, np.ndarray)) or len(steps) != len(values)):
        return f"{len(values)} values but not as many steps"
    if steps is not None and not all(_is_step(step) for step in steps):
        return "a step is not a finite number"
    return None


def _is_step(step: Any) -> bool:
    return isinstance(step, (int, float, np.number)) and not isinstance(step, bool) and bool(np.isfinite(step))


def _shared(steps: Array) -> Array:
    """Steps [step] where every curve has the same, else [curve, step]."""
    longest = steps[int(np.argmax((~np.isnan(steps)).sum(axis=1)))]
    same = np.isnan(steps) | (steps == longest)
    return longest if same.all() and not np.isnan(longest).any() else steps


def _longest(last: Array, task: Any) -> Array:
    horizons = last.copy()
    for number in np.unique(task):
        horizons[task == number] = last[task == number].max()
    return horizons
