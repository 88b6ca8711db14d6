"""Peers on the curves of the real-curve study, as items of its harness: cached, resumed after a stop."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from epochcast.benchmarks import CurveSet
from epochcast.curve import Lengths
from epochcast.experiments import harness
from epochcast.experiments.real.scores import CurveScores, score
from epochcast.experiments.real.study import Scored
from peers.registry import Peer, peer

_CHUNK = 25  # curves of one item: what a stop may cost
COLUMNS = ("log_likelihood", "squared_error", "crps", "inside90", "pit")


@dataclass(frozen=True)
class Item:
    """Some curves for a peer to forecast from one cutoff."""

    peer: str
    curves: CurveSet
    rows: Lengths  # where these curves stand in their collection
    share: float

    @cached_property
    def key(self) -> str:
        """Changes with everything that the scores depend on. The peer need not be installed to know it."""
        who = peer(self.peer)
        digest = hashlib.sha256(repr((self.share, self.curves.horizons.tolist())).encode())
        for array in (self.curves.normalised, self.curves.steps):
            digest.update(np.ascontiguousarray(array).tobytes())
        made_by = f"{who.package}-{who.version}-r{who.revision}"
        return f"{who.name}/{made_by}/{self.curves.name}/{self.share:g}/{digest.hexdigest()[:16]}"


def score_item(item: Item) -> dict[str, Any]:
    """Scores of one item as lists, for the harness."""
    engine = peer(item.peer).build()
    scores = score(engine, item.curves, item.share)
    columns = {name: getattr(scores, name) for name in COLUMNS}
    return {"rows": scores.rows, **columns, "answered": engine.answered}


@dataclass(frozen=True)
class PeerScores:
    """Scores of one engine on one collection at one cutoff."""

    benchmark: str
    engine: str
    share: float
    scores: CurveScores  # rows count in the collection
    answered: int  # runs that the peer answered itself

    @classmethod
    def of(cls, ours: Scored) -> PeerScores:
        """The same for an engine of our own, which answers every run."""
        return cls(ours.benchmark, ours.engine, ours.share, ours.scores, len(ours.scores))


@dataclass(frozen=True)
class Entry:
    """One peer on one collection at one cutoff."""

    peer: Peer
    curves: CurveSet
    share: float

    @cached_property
    def items(self) -> list[Item]:
        count = min(len(self.curves), self.peer.curves or len(self.curves))
        blocks = [np.arange(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
        return [Item(self.peer.name, self.curves[rows], rows, self.share) for rows in blocks]

    def joined(self, results: dict[str, dict[str, Any]]) -> PeerScores:
        parts = [(item.rows, results[item.key]) for item in self.items]
        rows = np.concatenate([rows[np.asarray(part["rows"], dtype=np.int64)] for rows, part in parts])
        columns = {name: np.concatenate([np.asarray(part[name]) for _, part in parts]) for name in COLUMNS}
        answered = sum(int(part["answered"]) for _, part in parts)
        return PeerScores(self.curves.name, self.peer.name, self.share, CurveScores(rows, **columns), answered)


def entries(who: Peer, collections: Sequence[CurveSet], shares: Sequence[float]) -> list[Entry]:
    return [Entry(who, curves, share) for curves in collections for share in shares]


def missing(found: Sequence[Entry], store: harness.Store) -> int:
    """How many items are not in the store."""
    return sum(item.key not in store for entry in found for item in entry.items)


def run(
    found: Sequence[Entry], store: harness.Store | None = None, progress: harness.Progress | None = None
) -> list[PeerScores]:
    """Scores of all entries, from the store where it holds them."""
    items = {item.key: item for entry in found for item in entry.items}
    results = harness.Harness(store, progress=progress).run(score_item, items).demand()
    return [entry.joined(results) for entry in found]
