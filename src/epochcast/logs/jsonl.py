"""JSON lines: one object per line, as Ray Tune's result.json and many training scripts write them."""

from __future__ import annotations

import io
import json
from typing import Any

from epochcast.errors import InputError
from epochcast.logs import limits
from epochcast.logs.columns import Columns


def parse(data: bytes, source: str) -> Columns:
    """The numbers of all objects. A last line that does not parse and has no line end is still being written."""
    columns = Columns(source)
    row = records = 0
    for row, line in enumerate(io.BytesIO(data), start=1):
        limits.check_size(row, limits.MAX_ROWS, source, "lines")
        if not line.strip():
            continue
        try:
            record = loads(line)
        except ValueError as error:
            if line.endswith(b"\n"):
                raise InputError(f"{source}, line {row} is not JSON: {error}") from None
            columns.notes.append("the last line is not a whole record and was left out")
            break
        if not isinstance(record, dict):
            raise InputError(f"{source}, line {row} is {type(record).__name__}, not a JSON object")
        columns.add_record(row, record)
        records += 1
    if records == 0:
        raise InputError(f"{source} has no whole record yet")
    return columns


def loads(text: bytes | str) -> Any:
    """JSON with every number as a float, so that no integer is too long; a ValueError for whatever is not JSON."""
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    try:
        return json.loads(text, parse_int=float)
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None
