"""TFRecord framing: length, masked CRC-32C of the length, data, masked CRC-32C of the data; all little-endian."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from typing import BinaryIO

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_POLYNOMIAL = 0x82F63B78  # Castagnoli, bit-reversed
_MASK_DELTA = 0xA282EAD8


class DamagedRecordError(ValueError):
    """A record that does not match its checksum. What follows it cannot be found."""


def records(file: BinaryIO, size: int, largest: int) -> Iterator[bytes | None]:
    """Whole records of the first `size` bytes, up to one that is cut off; None for one larger than `largest` bytes.

    Raises `DamagedRecordError` where a checksum does not match.
    """
    position = 0
    while size - position >= _HEADER.size:
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:  # the file has shrunk since its size was taken
            return
        length, length_checksum = _HEADER.unpack(head)
        if masked_crc(head[:8]) != length_checksum:
            raise DamagedRecordError(f"the length of the record at byte {position} does not match its checksum")
        end = position + _HEADER.size + length + _FOOTER.size
        if end > size:
            return
        if length > largest:
            file.seek(end)
            yield None
        else:
            body = file.read(length + _FOOTER.size)
            if len(body) < length + _FOOTER.size:
                return
            data = body[:length]
            if masked_crc(data) != _FOOTER.unpack(body[length:])[0]:
                raise DamagedRecordError(f"the record at byte {position} does not match its checksum")
            yield data
        position = end


def masked_crc(data: bytes) -> int:
    """The checksum as TFRecord stores it: rotated and shifted, so that a CRC over a CRC stays a good one."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) of the data."""
    table = _table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    table = []
    for entry in range(256):
        for _ in range(8):
            entry = (entry >> 1) ^ (_POLYNOMIAL if entry & 1 else 0)
        table.append(entry)
    return tuple(table)
