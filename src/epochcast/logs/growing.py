"""`GrowingLogs`: the logs below a directory, read again only where a file has changed since the last look."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from epochcast.checks import cut, path_of
from epochcast.errors import InputError
from epochcast.logs import limits
from epochcast.logs.directory import Log, find_logs
from epochcast.logs.read import gathered, read_log
from epochcast.logs.run import Findings

_Key = tuple[str, tuple[Path, ...]]  # format and files of a log; a folder may hold logs of several formats
_Signature = tuple[tuple[str, int, int], ...]  # of each file: its path, size and time of change


@dataclass(frozen=True)
class _Reading:
    """What a log held when its files looked like this."""

    signature: _Signature
    findings: Findings


class GrowingLogs:
    """The logs of trainings that are under way.

    logs = GrowingLogs("runs")
    logs.read()  # all of them
    logs.read()  # a moment later: those that have grown are read again, the rest is remembered
    """

    def __init__(self, root: str | os.PathLike[str], *, step_column: str | None = None) -> None:
        self.root = path_of(root, "root")
        self.step_column = step_column
        self.files_read = 0  # logs read so far, each time counted
        self._readings: dict[_Key, _Reading] = {}  # by log
        if not limits.is_directory(self.root):
            raise InputError(
                f"{cut(self.root)} is not a directory; give the one that the trainings write their logs below"
            )

    def read(self, advance: Callable[[int, int], None] | None = None) -> Findings:
        """The runs as they are now; `advance` is told how many logs were looked at, and of how many."""
        logs, skipped = find_logs(self.root)
        readings: dict[_Key, _Reading] = {}
        for done, log in enumerate(logs, start=1):
            readings[log.format, log.paths] = self._reading_of(log)
            if advance is not None:
                advance(done, len(logs))
        self._readings = readings
        return gathered(self.root, [reading.findings for reading in self._readings.values()], skipped)

    def _reading_of(self, log: Log) -> _Reading:
        # The files are looked at before they are read: what is written in between is read again next time.
        signature = _signature(log)
        known = self._readings.get((log.format, log.paths))
        if known is not None and known.signature == signature:
            return known
        self.files_read += 1
        return _Reading(signature, read_log(log, self.step_column))


def _signature(log: Log) -> _Signature:
    paths = [*log.paths]
    if log.format == "mlflow":
        paths += [path.with_name(f"{path.name}-wal") for path in log.paths]  # where SQLite writes first
    states = []
    for path in paths:
        try:
            state = path.stat()
        except OSError:  # deleted since it was found, or never there
            continue
        states.append((str(path), state.st_size, state.st_mtime_ns))
    return tuple(states)
