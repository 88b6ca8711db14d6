"""`Recall`: a streaming network that remembers, run by run, what it has read, so that growth alone costs."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Array, Curves
from epochcast.distributions import Distribution, Mixture
from epochcast.runtime import StreamEngine, joined

MOST_BYTES = 1 << 29  # kept in all; runs beyond that are read anew each time
_BATCH_TOKENS = 1024  # of all runs of a batch, old and new: what a layer makes of them still fits into the cache

Index = NDArray[np.intp]
Memory = NDArray[np.float32]


@dataclass(frozen=True)
class _Reading:
    """What was read of a run, in the network's own terms, and what it keeps of that."""

    steps: Array  # [value]
    values: Array  # [value]
    horizon: float
    memory: Memory  # [layer, 2, head, 1 + value, size]: keys and values of the start and of each value

    def tokens_shared_with(self, steps: Array, values: Array, horizon: float) -> int:
        """Tokens, counting the start, that need not be read again; the newest always is, as it is asked."""
        if horizon != self.horizon:
            return 0
        most = min(len(self.steps), len(steps) - 1)
        differs = (self.steps[:most] != steps[:most]) | (self.values[:most] != values[:most])
        return 1 + (int(np.argmax(differs)) if differs.any() else most)


class Recall:
    """The keys and values of runs that a network has read, by run.

    A log may be cut, and a run may start again: only as much is recalled as still holds. At most `most_bytes` are kept.
    """

    def __init__(self, engine: StreamEngine, most_bytes: int = MOST_BYTES) -> None:
        self.engine = engine
        self.most_bytes = most_bytes
        self._bytes = 0
        self._readings: dict[Hashable, _Reading] = {}

    def about(self, runs: Sequence[Hashable]) -> Recalling:
        """An engine for one forecast of these runs, in this order."""
        return Recalling(self, runs)

    def forget_all_but(self, runs: Collection[Hashable]) -> None:
        for run in self._readings.keys() - runs:
            self._forget(run)

    def _forget(self, run: Hashable) -> None:
        if run in self._readings:
            self._bytes -= self._readings.pop(run).memory.nbytes

    def predict(self, runs: Sequence[Hashable], curves: Curves, queries: Array, horizon: float) -> Mixture:
        """The engine's answer, of which only what is new of each run is worked out."""
        shared = np.array([self._shared(run, curves, i, horizon) for i, run in enumerate(runs)])
        parts: list[Mixture] = []
        order: list[Index] = []
        for batch in _batches(shared, curves.lengths):
            recalled = [runs[i] for i in batch]
            parts.append(
                self._read_on(recalled, int(shared[batch[0]]), _chosen(curves, batch), queries[batch], horizon)
            )
            order.append(batch)
        return joined(parts)[np.argsort(np.concatenate(order))]

    def _shared(self, run: Hashable, curves: Curves, i: int, horizon: float) -> int:
        """How many tokens of run i are known."""
        if run not in self._readings:
            return 0
        seen = slice(curves.lengths[i])
        return self._readings[run].tokens_shared_with(curves.steps[i, seen], curves.values[i, seen], horizon)

    def _read_on(
        self, runs: Sequence[Hashable], shared: int, curves: Curves, queries: Array, horizon: float
    ) -> Mixture:
        """Answers for runs of which the same number of tokens is known."""
        tokens, question = self.engine.basis.newest(curves, queries, horizon)
        answer, memory = self.engine.read_on(
            tokens[:, shared:], question, (curves.lengths - shared)[:, None], self._recalled(runs, shared)
        )
        for i, run in enumerate(runs):
            self._keep(run, curves, i, horizon, memory[:, :, i])
        return answer[:, 0]

    def _recalled(self, runs: Sequence[Hashable], tokens: int) -> Memory:
        """The first tokens of these runs, [layer, 2, run, head, token, size]."""
        if tokens == 0:
            return self.engine.empty_memory(len(runs))
        return np.stack([self._readings[run].memory[..., :tokens, :] for run in runs], axis=2)

    def _keep(self, run: Hashable, curves: Curves, i: int, horizon: float, memory: Memory) -> None:
        """Remember run i of a batch, if there is room."""
        self._forget(run)
        length = int(curves.lengths[i])
        own = memory[..., : 1 + length, :]
        if self._bytes + own.nbytes <= self.most_bytes:
            # Copies: views would keep the whole batch alive.
            steps, values = curves.steps[i, :length].copy(), curves.values[i, :length].copy()
            self._readings[run] = _Reading(steps, values, horizon, own.copy())
            self._bytes += own.nbytes


class Recalling:
    """An engine that knows which runs it is asked about."""

    def __init__(self, recall: Recall, runs: Sequence[Hashable]) -> None:
        engine = recall.engine
        self.name, self.grid, self.most_values = engine.name, engine.grid, engine.most_values
        self.reads_untrained = engine.reads_untrained
        self._recall, self._runs = recall, runs

    def predict(self, curves: Curves, queries: Array, horizon: float) -> Distribution:
        if curves.values.shape[1] > self.most_values:
            # Such runs are thinned, each time to other values.
            return self._recall.engine.predict(curves, queries, horizon)
        return self._recall.predict(self._runs, curves, queries, horizon)


def _batches(shared: NDArray[np.int64], lengths: NDArray[np.int64]) -> Iterator[Index]:
    """Runs to be read together: with as many known tokens, and of about one length, as a batch is padded."""
    order = np.lexsort((lengths, shared))
    start = 0
    for end in range(1, len(order) + 1):
        whole = end == len(order) or shared[order[end]] != shared[order[start]]
        if whole or (end + 1 - start) * (1 + lengths[order[end]]) > _BATCH_TOKENS:
            yield order[start:end]
            start = end


def _chosen(curves: Curves, index: Index) -> Curves:
    """Some curves, padded no further than they need."""
    width = int(curves.lengths[index].max())
    some = curves[index]
    return replace(some, steps=some.steps[:, :width], values=some.values[:, :width])
