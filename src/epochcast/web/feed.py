"""`Feed`: the newest snapshot, and what of it has changed since a browser last asked."""

from __future__ import annotations

import hashlib
import secrets
import threading
from dataclasses import dataclass
from typing import Any

from epochcast.logs import Series
from epochcast.watch import Row, Snapshot
from epochcast.web.payload import cells_of, head_of, sparkline

_ID_DIGITS = 16


@dataclass
class _Shown:
    """A run as it was sent last."""

    row: Row
    cells: dict[str, Any]
    series: Series | None
    version: int  # of the feed when it changed


class Feed:
    """What one thread publishes and others read. Its version grows with each change.

    A browser that knows version 7 of this session is sent the rows that changed since; one that knows another
    session, or nothing, is sent them all.
    """

    def __init__(self) -> None:
        self.session = secrets.token_hex(8)
        self._version = 1
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._shown: dict[str, _Shown] = {}
        self._gone: dict[str, int] = {}  # runs that are there no more, and since which version
        self._head: dict[str, Any] = {}
        self._progress: tuple[str, int, int] | None = ("starting", 0, 1)
        self._trouble: str | None = None

    @property
    def version(self) -> int:
        return self._version

    def publish(self, snapshot: Snapshot, progress: tuple[str, int, int] | None = None) -> None:
        """Take a new snapshot; `progress` says what is still being done."""
        found = {run_id(row): row for row in snapshot.rows}
        head = head_of(snapshot)
        cells = {key: self._cells(key, row, snapshot) for key, row in found.items()}
        with self._lock:
            version = self._version + 1
            changed = (head, progress, None) != (self._head, self._progress, self._trouble)
            for key in self._shown.keys() - found.keys():
                del self._shown[key]
                self._gone[key] = version
                changed = True
            for key, row in found.items():
                known = self._shown.get(key)
                same = known is not None and known.cells == cells[key]
                changed = changed or not same
                self._gone.pop(key, None)
                since = known.version if known is not None and same else version
                self._shown[key] = _Shown(row, cells[key], row.series, since)
            self._snapshot, self._head, self._progress, self._trouble = snapshot, head, progress, None
            if changed:
                self._version = version

    def _cells(self, key: str, row: Row, snapshot: Snapshot) -> dict[str, Any]:
        """What is sent of a run. Only the publishing thread comes here, so it may look at what it sent before."""
        known = self._shown.get(key)
        same_values = known is not None and known.series is row.series
        spark = known.cells["spark"] if known is not None and same_values else sparkline(row, snapshot.horizon)
        return {"id": key, **cells_of(row, snapshot), "spark": spark}

    def tell(self, what: str, done: int, total: int) -> None:
        """Say how far a look has got."""
        with self._lock:
            self._progress = (what, done, total)
            self._version += 1

    def fail(self, trouble: str) -> None:
        """Say why there is nothing new."""
        with self._lock:
            if trouble != self._trouble:
                self._trouble = trouble
                self._version += 1

    def changes(self, session: str, since: int) -> dict[str, Any]:
        """What a browser needs that knows this version."""
        with self._lock:
            everything = session != self.session or since > self._version
            since = 0 if everything else since
            progress = None
            if self._progress is not None:
                progress = dict(zip(("what", "done", "total"), self._progress, strict=True))
            return {
                "session": self.session,
                "version": self._version,
                "everything": everything,
                "head": self._head,
                "progress": progress,
                "trouble": self._trouble,
                "rows": [shown.cells for shown in self._shown.values() if shown.version > since],
                "gone": [] if everything else [key for key, version in self._gone.items() if version > since],
            }

    def find(self, key: str) -> tuple[Row, Snapshot] | None:
        """A run of the newest snapshot."""
        with self._lock:
            shown = self._shown.get(key)
            return None if shown is None or self._snapshot is None else (shown.row, self._snapshot)

    @property
    def snapshot(self) -> Snapshot | None:
        with self._lock:
            return self._snapshot


def run_id(row: Row) -> str:
    """A name for a run that may stand in an address; it stays the same from one start to the next."""
    key = f"{row.path}\0{row.name}".encode("utf-8", errors="surrogatepass")
    return hashlib.sha256(key).hexdigest()[:_ID_DIGITS]
