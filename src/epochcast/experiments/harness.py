"""A map over the items of an experiment that is cached, parallel and resumable.

    items = {f"exact-{fingerprint(settings)}/{i}": curve for i, curve in ...}
    report = Harness(Store(folder / "prior.jsonl")).run(score_curve, items)

The function is one of a module (or a `functools.partial` of one) that takes an item and returns a flat dict of JSON
numbers and lists, numpy's included. A key names the item together with everything that its result depends on: the
engine, its settings, the digest of its weights. Stop the run at any moment: started again with the same store it goes
on where it was.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from epochcast.errors import EpochcastError
from epochcast.experiments.store import Result, Store, fingerprint
from epochcast.experiments.workers import Function, Workers

__all__ = ["PLAIN", "Harness", "Report", "Result", "Store", "Workers", "fingerprint"]

Progress = Callable[[int, int], None]  # (items done, items in total)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Report:
    """Results by key, in the order of the items, and why other items have none."""

    results: dict[str, Result]
    failures: dict[str, str] = field(default_factory=dict)

    def demand(self) -> dict[str, Result]:
        """The results, or an error if any item failed."""
        if self.failures:
            key, reason = next(iter(self.failures.items()))
            raise EpochcastError(f"{len(self.failures)} item(s) failed, the first one {key}: {reason}")
        return self.results


@dataclass(frozen=True)
class Harness:
    """Where finished results are kept, who computes the others, and who is told how far it has come."""

    store: Store | None = None
    workers: Workers = field(default_factory=Workers)
    progress: Progress | None = None
    cached_only: bool = False  # compute nothing: what the store holds is all there is

    def run(self, function: Function, items: Mapping[str, Any]) -> Report:
        """Map a function over items, taking from the store what it holds and adding what it does not.

        Failures are not stored: the next run tries these items again.
        """
        results = {key: self.store[key] for key in items if key in self.store} if self.store is not None else {}
        todo = {key: item for key, item in items.items() if key not in results and not self.cached_only}
        failures: dict[str, str] = {}
        self._tell(len(results), len(items))
        for finished in self.workers.map(function, todo):
            if finished.text is not None:
                results[finished.key] = json.loads(finished.text)
                if self.store is not None:
                    self.store.put(finished.key, results[finished.key])
            else:
                failures[finished.key] = str(finished.failure)
                _log.warning("%s failed: %s", finished.key, finished.failure)
            self._tell(len(results) + len(failures), len(items))
        return Report({key: results[key] for key in items if key in results}, failures)

    def _tell(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(done, total)


PLAIN = Harness()  # in this process, keeping nothing
