"""TensorBoard event files, read without TensorFlow or TensorBoard.

An event file is a sequence of records, each a protocol buffer `Event`. Scalars need six of its messages and eleven of
their fields, which are read by hand: that spares users a package with gRPC, a web server and a version of protobuf
that may clash with the one of their training stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from epochcast.logs import limits
from epochcast.logs.columns import Columns
from epochcast.logs.protobuf import BYTES, FIXED32, FIXED64, VARINT, fields, int64, key, text
from epochcast.logs.records import RecordFormat, read_records
from epochcast.logs.tfrecord import records

MARK = "tfevents"  # in the name of every event file
_FORMAT = RecordFormat(records, 2**20, "is not an event file", "is not an event")  # larger ones are graphs and images

_EVENT_STEP, _EVENT_SUMMARY, _EVENT_SESSION = key(2, VARINT), key(5, BYTES), key(7, BYTES)
_SESSION_STATUS, _SESSION_START = key(1, VARINT), 1
_SUMMARY_VALUE = key(1, BYTES)
_VALUE_TAG, _VALUE_SIMPLE, _VALUE_TENSOR, _VALUE_METADATA = key(1, BYTES), key(2, FIXED32), key(8, BYTES), key(9, BYTES)
_METADATA_PLUGIN, _PLUGIN_NAME = key(1, BYTES), key(1, BYTES)
_TENSOR_DTYPE, _TENSOR_SHAPE, _SHAPE_DIMENSION = key(1, VARINT), key(2, BYTES), key(2, BYTES)
# raw bytes, or repeated floats or doubles, which may be stored packed or one by one
_TENSOR_NUMBERS = (key(4, BYTES), key(5, BYTES), key(5, FIXED32), key(6, BYTES), key(6, FIXED64))
_DTYPES = {1: "<f4", 2: "<f8", 19: "<f2"}  # TensorFlow's number of a type -> numpy's name
_SCALAR_PLUGIN = "scalars"


def parse(paths: Sequence[Path], source: str) -> Columns:
    """The scalars of the event files of one run, in the order of their names, which tell when they were made."""
    scalars = _Scalars(Columns(source, rows_are_steps=True))
    read_records(sorted(paths), _FORMAT, scalars.add_event, scalars.columns)
    return scalars.columns


class _Scalars:
    """Takes the scalars out of events. Only the first event of a tag says which plugin draws it."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._other_plugins: set[str] = set()  # tags

    def add_event(self, event: memoryview) -> None:
        step, starts = 0, False
        values: list[memoryview] = []
        for event_key, part in fields(event):
            if event_key == _EVENT_STEP:
                step = int64(part)
            elif event_key == _EVENT_SUMMARY:
                values += [value for summary_key, value in fields(part) if summary_key == _SUMMARY_VALUE]
            elif event_key == _EVENT_SESSION:
                starts = any(k == _SESSION_STATUS and int64(status) == _SESSION_START for k, status in fields(part))
        if starts:  # what `purge_step` writes, and TensorFlow 1 whenever it goes on from a checkpoint
            self.columns.mark_restart(step)
        for value in values:
            self._add_value(step, value)

    def _add_value(self, step: int, message: memoryview) -> None:
        tag, plugin = "", _SCALAR_PLUGIN
        scalar: float | None = None
        for value_key, part in fields(message):
            if value_key == _VALUE_TAG:
                tag = text(part)
            elif value_key == _VALUE_SIMPLE:
                scalar = _number(part, "<f4")
            elif value_key == _VALUE_TENSOR:
                scalar = _scalar_tensor(part)
            elif value_key == _VALUE_METADATA:
                plugin = _plugin_name(part) or plugin
        if scalar is None:
            return
        # Other plugins store numbers that are no curve: that of hyperparameters writes a zero under each of its tags.
        if plugin != _SCALAR_PLUGIN and len(self._other_plugins) < limits.MAX_FIELDS:
            self._other_plugins.add(tag)
        if plugin == _SCALAR_PLUGIN and tag not in self._other_plugins:
            self.columns.add(tag, step, scalar)


def _plugin_name(metadata: memoryview) -> str:
    for metadata_key, plugin in fields(metadata):
        if metadata_key == _METADATA_PLUGIN:
            for plugin_key, name in fields(plugin):
                if plugin_key == _PLUGIN_NAME:
                    return text(name)
    return ""


def _scalar_tensor(tensor: memoryview) -> float | None:
    """The number in a tensor without dimensions; None for any other tensor."""
    dtype = ""
    content: memoryview | None = None
    for tensor_key, part in fields(tensor):
        if tensor_key == _TENSOR_DTYPE:
            dtype = _DTYPES.get(int64(part), "")
        elif tensor_key == _TENSOR_SHAPE:
            if any(shape_key == _SHAPE_DIMENSION for shape_key, _ in fields(part)):
                return None
        elif tensor_key in _TENSOR_NUMBERS:
            content = part
    return None if content is None else _number(content, dtype)


def _number(data: memoryview, dtype: str) -> float | None:
    """The one number that the bytes hold, or None."""
    if not dtype or len(data) != np.dtype(dtype).itemsize:
        return None
    return float(np.frombuffer(data, dtype=dtype)[0])
