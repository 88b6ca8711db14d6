"""What the client of Weights & Biases leaves on disk, read without it.

A run has a folder wandb/run-<time>-<id> (or offline-run-...) with its transaction log run-<id>.wandb: after a mark of
seven bytes, records framed as LevelDB does, each a protocol buffer `Record`. Its history holds what was logged, an item
per name, as JSON text or, in the newest format, as numbers. Where that file is gone, files/wandb-summary.json still has
the newest value of each metric. Old clients wrote files/wandb-history.jsonl, which is read as JSON lines.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from epochcast.errors import InputError
from epochcast.logs.columns import Columns
from epochcast.logs.jsonl import loads
from epochcast.logs.leveldb import records
from epochcast.logs.protobuf import BYTES, FIXED64, VARINT, WireError, fields, key, text, varint
from epochcast.logs.records import RecordFormat, read_records

MAGIC = b":W&B\xe1\xbe"  # the first bytes of every transaction log; its version follows
SUFFIX = ".wandb"
SUMMARY, HISTORY, FILES = "wandb-summary.json", "wandb-history.jsonl", "files"
STEP_COLUMN = "_step"
_START = 7
_FOLDER = re.compile(r"(?:offline-)?run-(\d{8}_\d{6})-.+")

_RECORD_HISTORY, _RECORD_RUN = key(2, BYTES), key(17, BYTES)
_HISTORY_ITEM, _HISTORY_STEP, _STEP_NUMBER = key(1, BYTES), key(2, BYTES), key(1, VARINT)
_ITEM_KEY, _ITEM_NESTED_KEY, _ITEM_VALUE_JSON = key(1, BYTES), key(2, BYTES), key(16, BYTES)
_ITEM_INTEGER, _ITEM_NUMBER, _ITEM_JSON = key(5, VARINT), key(6, FIXED64), key(8, BYTES)
_RUN_NAME = key(8, BYTES)


def parse(paths: Sequence[Path], source: str) -> tuple[str, Columns]:
    """The name that its user gave a run, or "", and its numbers; several files where it was resumed."""
    log = _TransactionLog(Columns(source, row_word="record"))
    read_records(sorted(paths, key=start_time), _FORMAT, log.add, log.columns)
    return log.name, log.columns


def parse_summary(data: bytes, source: str) -> Columns:
    """The newest values of a run, which is all that its summary holds."""
    columns = Columns(source, row_word="record")
    try:
        summary = loads(data)
    except ValueError as error:
        raise InputError(f"{source} is not JSON: {error}") from None
    if not isinstance(summary, dict):
        raise InputError(f"{source} is {type(summary).__name__}, not a JSON object")
    columns.add_record(1, {name: value for name, value in summary.items() if _is_metric(name, value)})
    columns.notes.append("a summary has the newest value of each metric and no others")
    return columns


def start_time(path: Path) -> tuple[str, str]:
    """When the folder of a transaction log says that it was begun; what has no time comes first."""
    folder = _FOLDER.fullmatch(path.parent.name)
    return folder[1] if folder else "", str(path)


def _split(file: BinaryIO, size: int, largest: int) -> Iterator[bytes | None]:
    if size < _START:
        return
    if file.read(len(MAGIC)) != MAGIC:
        raise InputError(f"{file.name} does not begin as a transaction log of Weights & Biases does")
    file.seek(0)
    yield from records(file, size, _START, largest)


_FORMAT = RecordFormat(_split, 2**22, "is damaged", "cannot be read")  # larger ones are media and tables


class _TransactionLog:
    """Takes the history and the name of a run out of records."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.name = ""
        self._rows = 0

    def add(self, record: memoryview) -> None:
        for record_key, part in fields(record):
            if record_key == _RECORD_HISTORY:
                self._add_history(part)
            elif record_key == _RECORD_RUN:
                names = [text(name) for run_key, name in fields(part) if run_key == _RUN_NAME]
                self.name = names[-1] if names else self.name

    def _add_history(self, history: memoryview) -> None:
        self._rows += 1
        step = None  # of the record itself; clients have mostly written it as an item too
        has_step = False
        for history_key, part in fields(history):
            if history_key == _HISTORY_ITEM:
                name, value = _item(part)
                has_step = has_step or name == STEP_COLUMN
                if _is_metric(name, value):
                    self.columns.add_record(self._rows, {name: value})
            elif history_key == _HISTORY_STEP:
                step = next((varint(number)[0] for k, number in fields(part) if k == _STEP_NUMBER), 0)
        if step is not None and not has_step:
            self.columns.add(STEP_COLUMN, self._rows, step)


def _is_metric(name: str, value: Any) -> bool:
    """Whether a user logged it as a number: not the client's own notes, nor pictures, histograms and tables."""
    own = name.startswith("_") and name != STEP_COLUMN
    return not own and not (isinstance(value, dict) and "_type" in value)


def _item(item: memoryview) -> tuple[str, Any]:
    """The name and the value of one item; a name of several parts is that of an object in an object."""
    parts: list[str] = []
    value: Any = None
    for item_key, part in fields(item):
        if item_key in (_ITEM_KEY, _ITEM_NESTED_KEY):
            parts.append(text(part))
        elif item_key in (_ITEM_VALUE_JSON, _ITEM_JSON):
            value = _json(text(part))
        elif item_key == _ITEM_NUMBER:
            (value,) = struct.unpack("<d", part)
        elif item_key == _ITEM_INTEGER:
            zigzag, _ = varint(part)
            value = (zigzag >> 1) ^ -(zigzag & 1)
    return "/".join(parts), value


def _json(value: str) -> Any:
    try:
        return loads(value)
    except ValueError as error:
        raise WireError(f"{value[:40]!r} is not JSON ({error})") from None


def run_folder(path: Path) -> Path | None:
    """The folder of the run that a file of this client lies in, where it still lies in such a folder."""
    folder = path.parent.parent if path.parent.name == FILES else path.parent
    return folder if _FOLDER.fullmatch(folder.name) else None


def without_summaries_of_known_runs(paths: Sequence[Path]) -> Iterator[Path]:
    """Files without the summaries of runs whose history is there too."""
    known = {run_folder(path) for path in paths if path.suffix == SUFFIX or path.name == HISTORY} - {None}
    return (path for path in paths if path.name != SUMMARY or run_folder(path) not in known)
