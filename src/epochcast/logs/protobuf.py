"""The wire format of protocol buffers: a message is a sequence of fields, each a key and the bytes of its value."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types

_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
_LONGEST_VARINT = 10  # bytes: 64 bits, seven to a byte


class WireError(ValueError):
    """Bytes that are not a message."""


def key(number: int, wire_type: int) -> int:
    """How a field of that number and type announces itself."""
    return number << 3 | wire_type


def fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The key and the value of each field, in the order in which they are stored."""
    position = 0
    while position < len(message):
        field_key, start = varint(message, position)
        wire_type = field_key & 7
        if wire_type == VARINT:
            _, position = varint(message, start)
        elif wire_type == BYTES:
            size, start = varint(message, start)
            position = start + size
        elif wire_type in _FIXED_SIZES:
            position = start + _FIXED_SIZES[wire_type]
        else:
            raise WireError(f"byte {start} follows a key of wire type {wire_type}, which does not exist")
        if position > len(message):
            raise WireError(f"field {field_key >> 3} ends {position - len(message)} bytes past its message")
        yield field_key, message[start:position]


def varint(message: memoryview, position: int = 0) -> tuple[int, int]:
    """An unsigned number of up to 64 bits, and the position behind it."""
    number = 0
    for place in range(_LONGEST_VARINT):
        if position + place >= len(message):
            raise WireError("it ends inside a number")
        byte = message[position + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, position + place + 1
    raise WireError(f"the number at byte {position} is longer than {_LONGEST_VARINT} bytes")


def int64(value: memoryview) -> int:
    """A signed number from the bytes of a varint."""
    number, _ = varint(value)
    return number - (1 << 64) if number >= 1 << 63 else number


def text(value: memoryview) -> str:
    """Text; bytes that are not UTF-8 show as replacement characters."""
    return bytes(value).decode("utf-8", errors="replace")
