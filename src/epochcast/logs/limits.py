"""How much of a log is read at most, so that no file can fill the memory, and the one way files are opened."""

from __future__ import annotations

from pathlib import Path

from epochcast.checks import cut
from epochcast.errors import InputError

MAX_BYTES = 256 * 2**20  # of a text log; event files and databases are streamed and bounded by rows and values
MAX_ROWS = 5_000_000  # lines, records or table rows of one log
MAX_FIELDS = 10_000  # different metrics of one run
MAX_VALUES = 20_000_000  # numbers of one run
MAX_RESTARTS = 1_000  # of one run
MAX_RUNS = 10_000  # logs below one directory, runs in one store
MAX_ENTRIES = 500_000  # files and directories looked at below one directory
MAX_DEPTH = 16  # directories below directories


def require_file(path: Path) -> None:
    """Raise unless `path` is a regular file: opening a pipe or a device could wait for ever."""
    try:
        if path.is_file():
            return
        exists = path.exists()
    except OSError as error:
        raise unreadable(path, error) from None
    if exists:
        raise InputError(
            f"{cut(path)} is not a regular file; to read a pipe give '-' and send it to the standard input"
        )
    raise InputError(f"{cut(path)} does not exist")


def is_directory(path: Path) -> bool:
    """Whether `path` is a directory that the system lets us see."""
    try:
        return path.is_dir()
    except OSError as error:
        raise unreadable(path, error) from None


def read_bytes(path: Path) -> bytes:
    """All bytes of a text log, or an error if there are too many."""
    require_file(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise unreadable(path, error) from None
    check_size(len(data), MAX_BYTES, str(path), "bytes")
    return data


def unreadable(path: Path, error: OSError) -> InputError:
    """The error for a file that the system refuses to open or read."""
    return InputError(f"{cut(path)} cannot be read: {error.strerror or error}")


def check_size(count: int, limit: int, source: str, unit: str) -> None:
    """Raise if a log passes a limit."""
    if count > limit:
        raise too_large(source, unit, limit)


def too_large(source: str, unit: str, limit: int) -> InputError:
    """The error for a log that passes a limit."""
    return InputError(f"{source} holds more than {limit:,} {unit}; thin it out or split it")
