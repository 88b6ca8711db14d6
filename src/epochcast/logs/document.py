"""Files that are one JSON value: lists of numbers or records, TensorBoard's download, and Keras' history."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from epochcast.checks import is_number
from epochcast.errors import InputError
from epochcast.logs import limits
from epochcast.logs.columns import Columns
from epochcast.logs.csv import PLAIN_COLUMN
from epochcast.logs.jsonl import loads

_DEEPEST_OBJECT = 4


def parse(data: bytes, source: str) -> Columns:
    """The numbers of a list: [0.5, 0.6], [[step, value], ...], [[time, step, value], ...] or [{"acc": 0.5}, ...]."""
    try:
        entries = loads(data)
    except ValueError as error:
        raise InputError(f"{source} begins as a JSON list and is not one: {error}") from None
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{source} is an empty list; give [0.5, 0.6, ...] or [[time, step, value], ...]")
    limits.check_size(len(entries), limits.MAX_ROWS, source, "entries")
    columns = Columns(source, row_word="entry")
    for row, entry in enumerate(entries, start=1):
        columns.add_record(row, _record(entry, f"{source}, entry {row}", entries[0]))
    if isinstance(entries[0], list) and len(entries[0]) == 3:
        columns.notes.append("each entry is taken as [time, step, value], as TensorBoard downloads them")
    return columns


def _record(entry: Any, where: str, first: Any) -> dict[str, Any]:
    """One entry of a list by name."""
    if isinstance(first, dict):
        if isinstance(entry, dict):
            return entry
    elif isinstance(first, list):
        if isinstance(entry, list) and len(entry) == len(first) and len(first) in (2, 3):
            step, value = entry[-2:]
            if is_number(step):
                return {"step": step, PLAIN_COLUMN: math.nan if value is None else value}
    elif entry is None or is_number(entry) or isinstance(entry, str):
        return {PLAIN_COLUMN: math.nan if entry is None else entry}
    raise InputError(
        f"{where} is {str(entry)[:40]!r}; give numbers, [step, value], [time, step, value] or objects, alike in all"
    )


def history(data: bytes, source: str) -> Columns | None:
    """The lists of an object of lists alone, as Keras' `History.history` is: {"loss": [...]}. None of any other."""
    try:
        found = loads(data)
    except ValueError:  # cut off, or JSON lines
        return None
    if not isinstance(found, dict) or not _holds_lists_alone(found):
        return None
    columns = Columns(source, row_word="entry")
    for name, values in _lists(found):
        limits.check_size(len(values), limits.MAX_ROWS, source, "entries")
        for row, value in enumerate(values, start=1):
            columns.add_record(row, {name: math.nan if value is None else value})
    return columns if columns.names else None


def _lists(found: Mapping[str, Any], prefix: str = "", depth: int = 1) -> Iterator[tuple[str, list[Any]]]:
    """The lists that hold numbers, those of objects inside named `outer/inner`."""
    for key, item in found.items():
        if isinstance(item, dict) and depth < _DEEPEST_OBJECT:
            yield from _lists(item, f"{prefix}{key}/", depth + 1)
        elif isinstance(item, list) and any(is_number(value) for value in item):
            yield prefix + key, item


def _holds_lists_alone(found: Mapping[str, Any], depth: int = 1) -> bool:
    """Whether nothing but lists is in an object: a record of JSON lines has a number or a word beside them."""
    return all(
        isinstance(item, list)
        or (isinstance(item, dict) and depth < _DEEPEST_OBJECT and _holds_lists_alone(item, depth + 1))
        for item in found.values()
    )
