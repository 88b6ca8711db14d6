"""Results on the disk, one JSON line each: what an experiment has computed survives whatever stops it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochcast.errors import InputError

Result = dict[str, Any]  # of JSON types

_log = logging.getLogger(__name__)


def fingerprint(settings: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits that change when any setting (of JSON types) does."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


class Store:
    """Results by key in an append-only file; a key's last line counts.

    A process that dies while it writes leaves a torn line at the end, which is skipped, as is any other line that
    cannot be read: their results are computed again. Several processes may append at once, for each line is one write
    at the end of the file. Nothing forces lines to the disk: what the death of a process cannot lose is enough for
    results that can be computed again.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._results: dict[str, Result] = {}
        self._read()

    def __len__(self) -> int:
        return len(self._results)

    def __contains__(self, key: str) -> bool:
        return key in self._results

    def __getitem__(self, key: str) -> Result:
        return self._results[key]

    def put(self, key: str, result: Result) -> None:
        """Keep a result and append it to the file."""
        line = json.dumps({"key": key, "result": result}).encode() + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab", buffering=0) as file:
            # After a torn line the new one must not become its tail.
            file.write(line if self._ends_with_a_line() else b"\n" + line)
        self._results[key] = result

    def _ends_with_a_line(self) -> bool:
        with open(self.path, "rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return True
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def _read(self) -> None:
        if self.path.parent.is_file():
            raise InputError(f"{self.path.parent} is no folder; --cache must name the one that it lies in")
        if not self.path.exists():
            return
        if not self.path.is_file():
            raise InputError(f"{self.path} is no file, so no results can be kept in it; choose another --cache")
        damaged = 0
        with open(self.path, "rb") as file:
            for line in file:
                try:
                    record = json.loads(line)
                    self._results[record["key"]] = dict(record["result"])
                except (ValueError, KeyError, TypeError):
                    damaged += bool(line.strip())
        if damaged:
            _log.warning("%s: %d line(s) cannot be read; their results are computed again", self.path, damaged)
