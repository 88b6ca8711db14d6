"""All runs below a directory at a glance: where each will end, and whether it can still win."""

from epochcast.watch.run_details import RunDetails
from epochcast.watch.snapshot import Row, Snapshot, Verdict
from epochcast.watch.watcher import Watcher

__all__ = ["Row", "RunDetails", "Snapshot", "Verdict", "Watcher"]
