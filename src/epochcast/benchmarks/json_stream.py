"""Members of a JSON object of objects, one at a time: files of gigabytes pass through the memory of one member."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from epochcast.errors import InputError

MAX_MEMBER = 64 * 2**20  # characters of one member
_BLOCK = 1 << 20
_SPACE = " \t\r\n"


def open_text(path: Path) -> IO[str]:
    """A text file to read, gzipped or not."""
    if path.suffix == ".gz":
        return cast("IO[str]", gzip.open(path, "rt", encoding="utf-8"))
    return path.open(encoding="utf-8")


def first_character(path: Path) -> str:
    """The first character of a text file that is not space."""
    try:
        with open_text(path) as file:
            return file.read(_BLOCK).lstrip()[:1]
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


class TruncatedError(InputError):
    """The text ends, or stops being JSON, before its object is closed."""


class Stream:
    """A text file read as JSON from the front."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        self._path, self._file = path, file
        self._text, self._at, self._before = "", 0, 0
        self._decoder = json.JSONDecoder()

    def objects(self) -> Iterator[tuple[str, Iterator[tuple[str, Any]]]]:
        """(key, members) of each member of the outer object, where members are (key, value) pairs of the inner one.

        The members of one must be consumed before the next is asked for.
        """
        for key in self._members():
            yield key, self.values()

    def values(self) -> Iterator[tuple[str, Any]]:
        """(key, value) of each member of the object that comes next."""
        for key in self._members():
            yield key, self._value()

    def _members(self) -> Iterator[str]:
        self._expect("{")
        if self._peek() == "}":
            self._at += 1
            return
        while True:
            key = self._value()
            if not isinstance(key, str):
                raise self._broken(f"a key is {type(key).__name__}, not text")
            self._expect(":")
            yield key
            if self._peek() == "}":
                self._at += 1
                return
            self._expect(",")

    def _value(self) -> Any:
        """The next whole value; more is read until it is complete."""
        self._peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if len(self._text) - self._at > MAX_MEMBER:
                    raise self._broken(f"a member is longer than {MAX_MEMBER:,} characters or broken") from None
                if not self._more():
                    raise self._broken(error.msg) from None
                continue
            # A number at the end of what was read may go on.
            if end < len(self._text) or not self._more():
                self._at = end
                return value

    def _peek(self) -> str:
        """The next character that is not space, which stays."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                raise self._broken("the file ends")

    def _expect(self, character: str) -> None:
        found = self._peek()
        if found != character:
            raise self._broken(f"{character!r} expected, not {found!r}")
        self._at += 1

    def _more(self) -> bool:
        """Read another block behind what is left of the text."""
        try:
            block = self._file.read(max(_BLOCK, len(self._text) - self._at))
        except (OSError, EOFError, UnicodeDecodeError) as error:
            raise self._broken(str(error)) from None
        self._before += self._at
        self._text, self._at = self._text[self._at :] + block, 0
        return bool(block)

    def _broken(self, reason: str) -> TruncatedError:
        return TruncatedError(f"{self._path} is cut off or not JSON at character {self._before + self._at:,}: {reason}")
