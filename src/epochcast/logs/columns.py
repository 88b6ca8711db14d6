"""`Columns`: the numbers of one log while it is read, and how they become metrics over steps.

A reader adds each number under its name and the row it stands in. A row is a line or an entry of a text log, or the
step itself in logs that store a step with every number.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.logs import limits
from epochcast.logs.labels import Labels, is_run_name, label_of, plain_name
from epochcast.logs.restart import Mark, Survivors, survivors
from epochcast.logs.run import Format, Run, Series, list_names, shown

# The first of these that a log has is its step column. Epochs come first: they are what people set a horizon in.
STEP_NAMES = (
    *("epoch", "epochs", "training_iteration", "global_step", "trainer/global_step", "step", "steps", "_step"),
    *("iteration", "iterations", "iter", "round", "index"),
)
_DEEPEST_OBJECT = 4  # nested objects of a JSON record
_NON_FINITE_WORDS = {"nan", "inf", "-inf", "+inf", "infinity", "-infinity", "+infinity"}  # JSON has no such numbers


@dataclass(frozen=True)
class _Axis:
    """Where the steps come from: a column to join on the row, or the rows themselves, or nothing but counting."""

    name: str | None
    rows: Array | None = None  # [row] sorted, of a step column
    steps: Array | None = None  # [row]
    marks: tuple[Mark, ...] = ()  # restarts that a text log announces


class _Dead:
    """What restarts took back, one sentence for all columns that lost the same."""

    def __init__(self, step_name: str) -> None:
        self.step_name = step_name
        self._columns: dict[str, list[str]] = {}  # sentence -> columns

    def add(self, column: str, count: int, left: Survivors) -> None:
        lost = count - len(left.alive)
        if lost:
            often = "" if left.restarts == 1 else f" {left.restarts} times, at last"
            again = f"the run starts again{often} at {shown(self.step_name)} {left.step:g}"
            sentence = f"{again}: left out {lost} of {count} values, of the attempt before"
            self._columns.setdefault(sentence, []).append(column)

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(column for columns in self._columns.values() for column in columns)

    def notes(self) -> list[str]:
        return [f"{list_names(columns)}: {sentence}" for sentence, columns in self._columns.items()]


class Columns:
    """Numbers of one log by name. `rows_are_steps`: the log stores a step with each number instead of rows."""

    def __init__(self, source: str, *, row_word: str = "line", rows_are_steps: bool = False) -> None:
        self.source = source
        self.row_word = row_word
        self.rows_are_steps = rows_are_steps
        self.notes: list[str] = []
        self._numbers: dict[str, tuple[array[float], array[float]]] = {}  # name -> rows, values
        self._places: dict[str, array[float]] = {}  # name -> places in the log, where rows do not tell them
        self._marks: list[Mark] = []  # restarts that the log announces
        self._largest_row = -math.inf
        self._total = 0
        self._not_numbers: dict[str, int] = {}  # name -> entries of a JSON log under that name that are no numbers
        self._labels = Labels(source)  # of rows that tell to which of several runs they belong

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    @property
    def names(self) -> list[str]:
        """The columns that there are."""
        return list(self._numbers)

    def declare(self, name: str) -> None:
        """Make a column that may stay empty."""
        if name in self._numbers:
            return
        limits.check_size(len(self._numbers) + 1, limits.MAX_FIELDS, self.source, "different columns")
        self._numbers[name] = (array("d"), array("d"))
        self._places[name] = array("d")

    def discard(self, name: str) -> None:
        """Forget a column."""
        if name in self._numbers:
            self._total -= len(self._numbers.pop(name)[0])

    def count(self, name: str) -> int:
        """How many numbers a column holds."""
        return len(self._numbers[name][0])

    def add(self, name: str, row: float, value: float) -> None:
        """Add one number."""
        if name not in self._numbers:
            self.declare(name)
        if self._total >= limits.MAX_VALUES:
            raise limits.too_large(self.source, "numbers", limits.MAX_VALUES)
        rows, values = self._numbers[name]
        rows.append(row)
        values.append(value)
        self._total += 1
        self._largest_row = max(self._largest_row, row)
        if self.rows_are_steps:
            self._places[name].append(self._total)

    def label(self, column: str, row: float, text: str) -> None:
        """Take down to which run a row belongs, by what stands in a column such as `run_id`."""
        self._labels.add(column, row, text)

    def parted(self, spared: Collection[str] = ()) -> list[tuple[str | None, Columns]]:
        """The numbers of each run of the log with its label, which is None where nothing tells runs apart.

        Columns that tell runs apart are no metrics; those that are `spared` are asked for as something else.
        """
        parting = self._labels.parting(spared)
        if parting is None:
            return [(None, self)]
        for name in self._labels.columns(spared):
            self.discard(name)
            self._not_numbers.pop(name, None)
        if len(parting.names) == 1:
            return [(parting.names[0], self)]
        parts = [Columns(self.source, row_word=self.row_word) for _ in parting.names]
        lost = 0
        for name in self._numbers:
            rows, values = self._arrays(name)
            place = np.minimum(np.searchsorted(parting.rows, rows), len(parting.rows) - 1)
            known = parting.rows[place] == rows
            lost += int((~known).sum())
            for part, those in zip(parts, _split(parting.runs[place[known]], len(parts)), strict=True):
                part._take(name, rows[known][those], values[known][those])
        for part in parts:
            part.notes = [*self.notes, *([f"left out {lost} values, which belong to no run"] if lost else [])]
            part._marks, part._not_numbers = self._marks, self._not_numbers
        return list(zip(parting.names, parts, strict=True))

    def _take(self, name: str, rows: Array, values: Array) -> None:
        """Make a column of what belongs to one run."""
        self._numbers[name] = array("d", rows.tobytes()), array("d", values.tobytes())
        self._total += len(rows)
        self._largest_row = max(self._largest_row, rows.max(initial=-math.inf))

    def mark_restart(self, row: float) -> None:
        """Take down that the log says the run starts again: after this row, or at this step where rows are steps."""
        if self.rows_are_steps and row > self._largest_row:
            return  # there is nothing to take back
        self._marks.append(Mark(self._total + 0.5 if self.rows_are_steps else row, row))
        if self.rows_are_steps:
            limits.check_size(len(self._marks), limits.MAX_RESTARTS, self.source, "restarts")

    def add_record(self, row: float, record: Mapping[str, Any], prefix: str = "", depth: int = 1) -> None:
        """Add the numbers of a JSON object; those of objects inside it are named `outer/inner`."""
        for key, item in record.items():
            name = prefix + key
            if depth == 1 and is_run_name(name) and isinstance(item, (str, float)):
                self.label(name, row, label_of(item))
            if isinstance(item, dict) and depth < _DEEPEST_OBJECT:
                self.add_record(row, item, f"{name}/", depth + 1)
            elif isinstance(item, (int, float)) and not isinstance(item, bool):
                self.add(name, row, item)
            elif isinstance(item, str) and item.strip().lower() in _NON_FINITE_WORDS:
                self.add(name, row, float(item))
            elif item is not None:
                self._not_numbers[name] = self._not_numbers.get(name, 0) + 1

    def run(self, name: str, path: Path, format: Format, step_column: str | None = None) -> Run:
        """The run that these numbers describe, over the steps of `step_column` or of the column that looks like it."""
        notes = list(self.notes)
        notes += [f"{shown(n)}: left out {k} entries, not numbers" for n, k in self._not_numbers.items() if n in self]
        axis = self._axis(step_column)
        axis = axis if self.rows_are_steps else replace(axis, marks=self._marks_on(axis))
        dead = _Dead(axis.name or "value")
        joined = {
            column: self._on_axis(column, axis, notes, dead)
            for column in self._numbers
            if column != axis.name and not is_step_name(column)
        }
        notes += dead.notes()
        shift = self._shift(axis, joined)
        if shift:
            notes.append(f"{axis.name} counts from 0 in the log and from 1 here: the first value belongs to step 1")
        metrics = {}
        for column, (steps, values) in joined.items():
            series = _newest_per_step(steps + shift, values)
            if len(series.steps) < len(steps):
                dropped = f"{len(steps) - len(series.steps)} of {len(steps)} values"
                notes.append(f"{shown(column)}: left out {dropped}, each followed by another of the same {axis.name}")
            metrics[column] = series
        return Run(name, path, metrics, format, axis.name, tuple(notes), dead.columns)

    def _axis(self, step_column: str | None) -> _Axis:
        if self.rows_are_steps and step_column in (None, "step"):
            return _Axis("step")
        if step_column is None:
            candidates = [name for name in self._numbers if is_step_name(name)]
            if not candidates:
                return _Axis(None)
            step_column = min(candidates, key=lambda name: (self.count(name) == 0, STEP_NAMES.index(plain_name(name))))
        if not self._numbers:
            return _Axis(None)
        if step_column not in self._numbers:
            has = list_names(["step", *self._numbers] if self.rows_are_steps else self._numbers)
            raise InputError(f"{self.source} has no step column {shown(step_column)}; it has {has}")
        rows, steps = self._living(step_column) if self.rows_are_steps else self._arrays(step_column)
        bad = ~((steps >= 0.0) & (steps < math.inf))
        if bad.any():
            first = int(np.argmax(bad))
            where = f"{self.row_word} {rows[first]:g}, column {shown(step_column)}"
            raise InputError(
                f"{self.source}, {where}: step {steps[first]:g} must be finite and not negative; "
                "correct it or name another step column"
            )
        return _Axis(step_column, *_newest_per_step(rows, steps))

    def _arrays(self, name: str) -> tuple[Array, Array]:
        rows, values = self._numbers[name]
        return np.array(rows, dtype=np.float64), np.array(values, dtype=np.float64)

    def _living(self, name: str, dead: _Dead | None = None) -> tuple[Array, Array]:
        """Steps and values of a column, where rows are steps, without those that a restart took back."""
        steps, values = self._arrays(name)
        left = survivors(steps, np.array(self._places[name]), self._marks)
        if dead is not None:
            dead.add(name, len(steps), left)
        return steps[left.alive], values[left.alive]

    def _on_axis(self, name: str, axis: _Axis, notes: list[str], dead: _Dead) -> tuple[Array, Array]:
        """Steps and values of a column in the order of the log, without those that have no step or are taken back."""
        if axis.name is None:
            rows, values = self._arrays(name)
            if axis.marks:
                first = int(np.searchsorted(rows, axis.marks[-1].place))
                dead.add(name, len(rows), Survivors(np.arange(first, len(rows)), len(axis.marks), 1.0))
                values = values[first:]
            return np.arange(1.0, len(values) + 1.0), values
        rows, values = self._living(name, dead) if self.rows_are_steps else self._arrays(name)
        if axis.rows is None or axis.steps is None:
            known = rows >= 0.0
            steps = rows[known]
        else:
            known = np.isin(rows, axis.rows)
            steps = axis.steps[np.searchsorted(axis.rows, rows[known])]
        if not known.all():
            problem = "at negative steps" if axis.rows is None else f"without {shown(axis.name)}"
            notes.append(f"{shown(name)}: left out {int((~known).sum())} of {len(known)} values, {problem}")
        values = values[known]
        if not self.rows_are_steps:
            left = survivors(steps, rows[known], axis.marks)
            dead.add(name, len(steps), left)
            steps, values = steps[left.alive], values[left.alive]
        return steps, values

    def _marks_on(self, axis: _Axis) -> tuple[Mark, ...]:
        """The restarts that a text log announces, each at the step that comes next, and only those that go back."""
        if axis.rows is None or axis.steps is None:
            marks = [Mark(place, 1.0) for place, _ in self._marks if place < self._largest_row]
        else:
            highest = np.maximum.accumulate(axis.steps)
            places = np.array([place for place, _ in self._marks])
            following = np.searchsorted(axis.rows, places)
            marks = [
                Mark(float(place), float(axis.steps[i]))
                for place, i in zip(places, following, strict=True)
                if 0 < i < len(axis.rows) and axis.steps[i] <= highest[i - 1]
            ]
        limits.check_size(len(marks), limits.MAX_RESTARTS, self.source, "restarts")
        return tuple(marks)

    def _shift(self, axis: _Axis, joined: Mapping[str, tuple[Array, Array]]) -> float:
        """1 where the log counts epochs, or whatever goes up by one, from 0; else 0.

        Keras, Lightning and `for epoch in range(n)` call the first epoch 0, but its value is that of a model trained
        for one epoch. Coarse steps (0, 500, 1000) stay: their 0 is the untrained model.
        """
        if axis.name is None:
            return 0.0
        every = axis.steps if axis.steps is not None else np.concatenate([[], *(steps for steps, _ in joined.values())])
        distinct = np.unique(every)
        if len(distinct) == 0 or distinct[0] != 0.0 or (distinct % 1.0).any():
            return 0.0
        counts_by_one = len(distinct) == 1 or distinct[1] == 1.0
        return 1.0 if counts_by_one or "epoch" in axis.name.lower() else 0.0


def is_step_name(name: str) -> bool:
    """Whether a column of that name counts steps rather than measuring something."""
    return plain_name(name) in STEP_NAMES


def _split(codes: NDArray[np.intp], count: int) -> Iterator[NDArray[np.intp]]:
    """The indices of each code, 0 to count - 1."""
    order = np.argsort(codes, kind="stable")
    yield from np.split(order, np.searchsorted(codes[order], np.arange(1, count)))


def _newest_per_step(steps: Array, values: Array) -> Series:
    """Sorted by step; of several values of one step the last, because a resumed training logs its steps again."""
    order = np.argsort(steps, kind="stable")
    ordered = steps[order]
    last = np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)]
    return Series(ordered[last], values[order][last])
