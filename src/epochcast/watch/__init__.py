"""All runs below a directory at a glance: where each will end, and whether it can still win."""

from epochcast.watch.closeup import Closeup
from epochcast.watch.snapshot import Row, Snapshot, Verdict
from epochcast.watch.watcher import Watcher

__all__ = ["Closeup", "Row", "Snapshot", "Verdict", "Watcher"]
