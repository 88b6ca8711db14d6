"""The state that the Transformers Trainer saves: trainer_state.json with its `log_history`."""

from __future__ import annotations

import json
import re
from typing import Any

from epochcast.errors import InputError
from epochcast.logs import limits
from epochcast.logs.columns import Columns
from epochcast.logs.jsonl import loads

FILE_NAME = "trainer_state.json"
STEP_COLUMN = "step"  # of every entry; its epochs are rounded fractions
_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_BETWEEN_ENTRIES = re.compile(r"[\s,]*")


def parse(data: bytes, source: str) -> Columns:
    """The numbers of the log history; of a file that is cut off, those of its whole entries."""
    columns = Columns(source, row_word="log_history entry")
    try:
        state = loads(data)
        history = state.get("log_history") if isinstance(state, dict) else None
    except ValueError:
        history = _whole_entries(data.decode("utf-8", errors="replace"))
        if not history:
            raise InputError(f"{source} is not JSON, or has no whole entry of log_history yet") from None
        columns.notes.append("the file is cut off: the entries of log_history after the last whole one were left out")
    if not isinstance(history, list):
        raise InputError(f"{source} has no list log_history, so it is not a state of the Transformers Trainer")
    limits.check_size(len(history), limits.MAX_ROWS, source, "entries")
    for row, entry in enumerate(history, start=1):
        if not isinstance(entry, dict):
            raise InputError(f"{source}: log_history entry {row} is {type(entry).__name__}, not an object")
        columns.add_record(row, entry)
    return columns


def _whole_entries(text: str) -> list[dict[str, Any]]:
    """Entries of the log history up to the first that does not parse."""
    start = _HISTORY.search(text)
    entries: list[dict[str, Any]] = []
    if start is None:
        return entries
    decoder = json.JSONDecoder(parse_int=float)
    position = start.end()
    while True:
        between = _BETWEEN_ENTRIES.match(text, position)
        position = between.end() if between else position
        try:
            entry, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return entries
        if not isinstance(entry, dict):
            return entries
        entries.append(entry)
