"""`KeyValueCache`: the keys and values of what a streaming network has read, run by run, so that growth alone costs."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Array, Curves
from epochcast.distributions import Distribution, Mixture, joined
from epochcast.question import Predictor, Question, RunCache
from epochcast.runtime.networks import StreamEngine
from epochcast.schedule import Schedule

MOST_BYTES = 1 << 29  # kept in all; runs beyond that are read anew each time
_BATCH_TOKENS = 1024  # of all runs of a batch, old and new: what a layer makes of them still fits into the cache

Index = NDArray[np.intp]
Memory = NDArray[np.float32]
Plan = tuple[float, Schedule | None]  # horizon and learning rates


@dataclass(frozen=True)
class _Reading:
    """What was read of a run, in the network's own terms, and what it keeps of that."""

    steps: Array  # [value]
    values: Array  # [value]
    plan: Plan
    memory: Memory  # [layer, 2, head, 1 + value, size]: keys and values of the start and of each value

    def tokens_shared_with(self, steps: Array, values: Array, plan: Plan) -> int:
        """Tokens, counting the start, that need not be read again; the newest always is, as it is asked."""
        if plan != self.plan:
            return 0
        most = min(len(self.steps), len(steps) - 1)
        differs = (self.steps[:most] != steps[:most]) | (self.values[:most] != values[:most])
        return 1 + (int(np.argmax(differs)) if differs.any() else most)


class KeyValueCache(RunCache):
    """The keys and values of runs that a network has read, by run.

    A log may be cut, and a run may start again: only as much is used as still holds. At most `most_bytes` are kept:
    where they are full, a run that is asked about takes the place of those that have not been for a while.
    """

    batch = 1024  # they are sorted by length here

    def __init__(self, engine: StreamEngine, most_bytes: int) -> None:
        super().__init__(engine)
        self.network = engine
        self.most_bytes = most_bytes
        self._bytes = 0
        self._readings: dict[Hashable, _Reading] = {}  # those that were asked about longest ago first
        self._look = 0
        self._looked_at: dict[Hashable, int] = {}  # when each of them was asked about last

    def about(self, runs: Sequence[Hashable]) -> Predictor:
        return CachedRuns(self, runs)

    def forget_all_but(self, runs: Collection[Hashable]) -> None:
        self._look += 1  # this is asked once before each look at the runs
        for run in self._readings.keys() - runs:
            self._forget(run)

    def _forget(self, run: Hashable) -> None:
        if run in self._readings:
            self._bytes -= self._readings.pop(run).memory.nbytes
            del self._looked_at[run]

    def predict(self, keys: Sequence[Hashable], question: Question) -> Mixture:
        """The network's answer, of which only what is new of each run is worked out."""
        for key in keys:
            if key in self._readings:
                self._readings[key] = self._readings.pop(key)
                self._looked_at[key] = self._look
        runs = self.network.codec.runs(question)
        shared = np.array([self._shared(key, runs, i, question) for i, key in enumerate(keys)])
        parts: list[Mixture] = []
        order: list[Index] = []
        for batch in _batches(shared, runs.lengths):
            known = int(shared[batch[0]])
            parts.append(self._read_on([keys[i] for i in batch], known, question[batch], _chosen(runs, batch)))
            order.append(batch)
        return joined(parts)[np.argsort(np.concatenate(order))]

    def _shared(self, key: Hashable, runs: Curves, i: int, question: Question) -> int:
        """How many tokens of run i are known."""
        if key not in self._readings:
            return 0
        seen = slice(runs.lengths[i])
        plan = (question.horizon, question.schedule)
        return self._readings[key].tokens_shared_with(runs.steps[i, seen], runs.values[i, seen], plan)

    def _read_on(self, keys: Sequence[Hashable], shared: int, question: Question, runs: Curves) -> Mixture:
        """Answers for runs of which the same number of tokens is known."""
        tokens, asked = self.network.codec.newest(question, runs)
        answer, memory = self.network.read_on(
            tokens[:, shared:], asked, (runs.lengths - shared)[:, None], self._known(keys, shared), question
        )
        for i, key in enumerate(keys):
            self._keep(key, runs, i, (question.horizon, question.schedule), memory[:, :, i])
        return answer[:, 0]

    def _known(self, runs: Sequence[Hashable], tokens: int) -> Memory:
        """The first tokens of these runs, [layer, 2, run, head, token, size]."""
        if tokens == 0:
            return self.network.empty_memory(len(runs))
        return np.stack([self._readings[run].memory[..., :tokens, :] for run in runs], axis=2)

    def _keep(self, run: Hashable, curves: Curves, i: int, plan: Plan, memory: Memory) -> None:
        """Remember run i of a batch, if there is room."""
        self._forget(run)
        length = int(curves.lengths[i])
        own = memory[..., : 1 + length, :]
        self._make_room(own.nbytes)
        if self._bytes + own.nbytes <= self.most_bytes:
            # Copies: views would keep the whole batch alive.
            steps, values = curves.steps[i, :length].copy(), curves.values[i, :length].copy()
            self._readings[run] = _Reading(steps, values, plan, own.copy())
            self._looked_at[run] = self._look
            self._bytes += own.nbytes

    def _make_room(self, size: int) -> None:
        """Forget runs that stand still: those that were asked about neither in this look nor in the one before."""
        while self._readings and self._bytes + size > self.most_bytes:
            oldest = next(iter(self._readings))
            if self._looked_at[oldest] >= self._look - 1:
                return
            self._forget(oldest)


@dataclass(frozen=True)
class CachedRuns:
    """A network that knows which runs it is asked about, and what of them is in its cache."""

    cache: KeyValueCache
    runs: Sequence[Hashable]

    def predict(self, question: Question) -> Distribution:
        if self.cache.network.codec.thins(question):
            # Such runs are thinned, each time to other values.
            return self.cache.network.predict(question)
        return self.cache.predict(self.runs, question)


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
