"""Configurations as columns of numbers (`Columns`): any names, in any order, with gaps.

Nested mappings are flattened, with dots between the names. A column of text, of truth values, or of both numbers and
text, is one of categories; a column of numbers is scaled to [0, 1] over the rows that it is learned
from. It is on a logarithmic scale where `Space` says so, or, where that says nothing, if

- all its values are positive,
- the largest is at least 10 times the smallest, and
- the logarithms are spread more evenly than the values: their mean lies nearer to the middle of their range (values
  that occur twice count once).

Where a scale was told to be logarithmic, zero and what lies below it stand a factor of ten below the smallest positive
value. Columns that do not vary say nothing and are left out. Of more than 16 columns those are read that are known for
most rows, and of these the first by name. None, NaN, infinity, numbers that no float holds, lists and all other objects
count as missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epochcast.checks import is_number
from epochcast.curve import Array, Mask
from epochcast.space import Scale, Space

MOST_COLUMNS = 16
_LOG_FROM = 10.0  # the largest value as a multiple of the smallest, from which on a scale may be logarithmic
_BEYOND = 0.5  # how far beyond [0, 1] a number is still told from others
_MOST_NESTED = 8  # mappings within mappings; what lies deeper is missing

Entry = float | str | bool


@dataclass(frozen=True)
class Columns:
    """What can be read of configurations, one row each."""

    values: Array  # [row, column]: numbers about [0, 1], codes 0, 1, 2, ... of categories, NaN where missing
    categorical: Mask  # [column]
    names: tuple[str, ...]  # [column], sorted


def columns_of(
    configs: Sequence[Mapping[str, Any] | None], space: Space | None = None, learned_from: int | None = None
) -> Columns:
    """The columns of all configurations that are to be compared: those of the context first, then those asked about.

    Which columns there are, and on which scale, is learned from the first rows, all of them if nothing is said: what
    is asked about beside a context must not change how others are read.

    >>> columns = columns_of([{"lr": 0.1, "optimizer": "sgd"}, {"lr": 0.001, "optimizer": "adam"}, {"lr": 0.01}, None])
    >>> columns.names, columns.categorical.tolist()
    (('lr', 'optimizer'), [False, True])
    >>> columns.values.round(3).tolist()
    [[1.0, 1.0], [0.0, 0.0], [0.5, nan], [nan, nan]]
    """
    rows = [{} if config is None else dict(entries_of(config)) for config in configs]
    count = len(rows) if learned_from is None else learned_from
    made = {}
    for name in sorted({name for row in rows[:count] for name in row}):
        column = _column([row.get(name) for row in rows], None if space is None else space.scale_of(name), count)
        if _varies(column[0][:count]):
            made[name] = column
    most_known = sorted(made, key=lambda name: (np.isnan(made[name][0][:count]).sum(), name))[:MOST_COLUMNS]
    names = tuple(sorted(most_known))
    values = np.stack([made[name][0] for name in names], axis=1) if names else np.empty((len(rows), 0))
    return Columns(values, np.array([made[name][1] for name in names], dtype=np.bool_), names)


def entries_of(config: Mapping[str, Any], prefix: str = "", depth: int = 1) -> Iterator[tuple[str, Entry]]:
    """The entries that can be read, with the names of nested ones joined by dots."""
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if depth < _MOST_NESTED:
                yield from entries_of(value, f"{name}.", depth + 1)
            continue
        entry = _entry(value)
        if entry is not None:
            yield name, entry


def _entry(value: Any) -> Entry | None:
    """One value as a number, a text or a truth value; None if it is none of these."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str):
        return str(value)
    if not is_number(value):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number that no float holds
        return None
    return number if math.isfinite(number) else None


def _column(entries: list[Entry | None], scale: Scale | None, count: int) -> tuple[Array, bool]:
    """A column and whether it is one of categories, by its first `count` entries."""
    known = [entry for entry in entries[:count] if entry is not None]
    plain = not any(isinstance(entry, (bool, str)) for entry in known)
    if scale == "category" or (scale is None and not plain):
        return _codes(entries), True
    numbers = np.array([math.nan if entry is None or isinstance(entry, (bool, str)) else entry for entry in entries])
    learned = numbers[:count]
    if np.isfinite(learned).any() and (scale == "log" or (scale is None and _is_logarithmic(learned))):
        numbers = _logarithms(numbers, learned)
    return np.clip(_scaled(numbers, numbers[:count]), -_BEYOND, 1.0 + _BEYOND), False


def _codes(entries: list[Entry | None]) -> Array:
    """Categories counted in the order of their names."""
    names = [None if entry is None else str(entry) for entry in entries]
    codes = {name: float(code) for code, name in enumerate(sorted({name for name in names if name is not None}))}
    return np.array([math.nan if name is None else codes[name] for name in names])


def _is_logarithmic(numbers: Array) -> bool:
    """Whether values are spread more evenly on a logarithmic scale than on a linear one."""
    values = np.unique(numbers[np.isfinite(numbers)])
    if values[0] <= 0.0 or values[-1] / _LOG_FROM < values[0]:
        return False
    return _off_the_middle(np.log(values)) < _off_the_middle(values)


def _off_the_middle(values: Array) -> float:
    """How far the mean lies from the middle of the range."""
    return abs(float(_scaled(values, values).mean()) - 0.5)


def _logarithms(numbers: Array, learned: Array) -> Array:
    positive = learned[learned > 0.0]
    if len(positive) == 0:
        return numbers
    least = math.log(float(positive.min()))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(numbers)
    return np.where(numbers <= 0.0, least - math.log(_LOG_FROM), logs)


def _scaled(numbers: Array, learned: Array) -> Array:
    """Numbers from the smallest that was learned from, 0, to the largest, 1."""
    if not _varies(learned):
        return numbers
    size = 1.0 if np.nanmax(np.abs(learned)) < 1.0 else 0.5  # the range of the largest floats is no float
    low, high = size * np.nanmin(learned), size * np.nanmax(learned)
    with np.errstate(over="ignore"):
        return np.asarray((size * numbers - low) / (high - low))


def _varies(column: Array) -> bool:
    known = column[~np.isnan(column)]
    return bool(len(known) and (known != known[0]).any())
