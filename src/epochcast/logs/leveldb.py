"""The framing of LevelDB's logs: blocks of 32 KiB that hold whole records or parts of them, each with a CRC-32."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from epochcast.logs.tfrecord import DamagedRecordError

BLOCK = 32 * 1024
_HEADER = struct.Struct("<IHB")  # checksum of the kind and the data, size of the data, kind
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def records(file: BinaryIO, size: int, start: int, largest: int) -> Iterator[bytes | None]:
    """Whole records from byte `start` to byte `size`, up to one that is cut off; None for one over `largest` bytes.

    Raises `DamagedRecordError` where a checksum does not match.
    """
    parts: list[bytes] | None = None  # of a record that has begun
    length = 0
    for kind, data, place in _fragments(file, size, start):
        if (kind in (_WHOLE, _FIRST)) != (parts is None):
            raise DamagedRecordError(f"the record at byte {place} does not follow on the one before")
        length = len(data) if parts is None else length + len(data)
        parts = [] if parts is None else parts
        if length <= largest:
            parts.append(data)
        if kind in (_WHOLE, _LAST):
            yield b"".join(parts) if length <= largest else None
            parts = None


def _fragments(file: BinaryIO, size: int, start: int) -> Iterator[tuple[int, bytes, int]]:
    """Kind, data and place of each fragment. What is left of a block that is too small for a header is filled up."""
    for block_start in range(0, size, BLOCK):
        block = file.read(min(BLOCK, size - block_start))
        position = max(start - block_start, 0)
        while len(block) - position >= _HEADER.size:
            checksum, length, kind = _HEADER.unpack_from(block, position)
            place, end = block_start + position, position + _HEADER.size + length
            if checksum == length == kind == 0:
                break  # filled up with zeros
            if end > len(block) and len(block) < BLOCK:
                return  # still being written
            data = block[position + _HEADER.size : end]
            if not _WHOLE <= kind <= _LAST or zlib.crc32(data, zlib.crc32(bytes([kind]))) != checksum:
                raise DamagedRecordError(f"the record at byte {place} does not match its checksum")
            yield kind, data, place
            position = end
