"""Files that are a sequence of records, each a protocol buffer: how they are read, whatever frames the records."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from epochcast.errors import InputError
from epochcast.logs import limits
from epochcast.logs.columns import Columns
from epochcast.logs.protobuf import WireError
from epochcast.logs.tfrecord import DamagedRecordError


@dataclass(frozen=True)
class RecordFormat:
    """How a kind of file frames its records, and what is said of one that cannot be read."""

    split: Callable[[BinaryIO, int, int], Iterator[bytes | None]]  # file, its size, largest -> records, None if larger
    largest: int  # bytes of a record; larger ones hold no scalars and are passed over
    bad_file: str  # such as "is not an event file"
    bad_record: str  # such as "is not an event"


def read_records(
    paths: Iterable[Path], kind: RecordFormat, add: Callable[[memoryview], None], columns: Columns
) -> None:
    """Hand the records of all files of a log on, one of which must be whole."""
    if sum([_read_file(path, kind, add, columns.notes) for path in paths]) == 0:
        raise InputError(f"{columns.source} has no whole record yet")


def _read_file(path: Path, kind: RecordFormat, add: Callable[[memoryview], None], notes: list[str]) -> int:
    """How many whole records one file has, which are handed on."""
    limits.require_file(path)
    count = large = 0
    try:
        with path.open("rb") as file:
            for record in kind.split(file, os.fstat(file.fileno()).st_size, kind.largest):
                count += 1
                limits.check_size(count, limits.MAX_ROWS, str(path), "records")
                if record is None:
                    large += 1
                else:
                    add(memoryview(record))
    except OSError as error:
        raise limits.unreadable(path, error) from None
    except DamagedRecordError as error:
        if count == 0:
            raise InputError(f"{path} {kind.bad_file}: {error}") from None
        notes.append(f"{path.name}: {error}; the file was read up to there")
    except (WireError, struct.error) as error:
        raise InputError(f"{path}: record {count} {kind.bad_record}: {error}") from None
    if large:
        notes.append(f"{path.name}: {large} records of more than {kind.largest:,} bytes were passed over")
    return count
