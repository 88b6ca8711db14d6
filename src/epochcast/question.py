"""What an engine is asked (`Question`), and what an engine is (`Engine`).

Everything that can be known of runs is a field of the question, in the prior's own space: an engine knows nothing of
metrics. What it makes use of is in `Engine.reads`; what it cannot use is refused in one place, `answer`.
"""

from __future__ import annotations

import math
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Array, Curves, Mask
from epochcast.distributions import Distribution, joined
from epochcast.errors import InputError
from epochcast.metric import UNTOLD
from epochcast.schedule import Schedule
from epochcast.space import Space

Input = Literal["untrained", "kind", "schedule", "context", "config"]
NOTHING: frozenset[Input] = frozenset()
# What is asked for by name is refused where it would have no effect; what a run just carries is left to the engine.
_REFUSED: tuple[Input, ...] = ("schedule", "context")
_SAID: dict[Input, str] = {
    "untrained": "the value before training",
    "schedule": "learning rates",
    "context": "other runs",
    "config": "configurations",
}


@dataclass(frozen=True)
class Context:
    """Other runs of the same task, normalised like the runs asked about."""

    runs: Curves
    horizons: Array  # [run]
    configs: tuple[Mapping[str, Any] | None, ...] = ()  # one per run, or none at all
    untrained: Array | None = None  # [run]: the value before training, NaN where it is not known
    space: Space | None = None  # on which scales the entries of the configurations live, where that was told

    def __len__(self) -> int:
        return len(self.runs)


@dataclass(frozen=True)
class Question:
    """Runs that were seen so far, and the steps at which their future is asked for."""

    runs: Curves  # values normalised, larger is better
    steps: Array  # [run, step]
    horizon: float
    kinds: Array  # [run]: what is measured, as `Metric.kind` says it
    untrained: Array | None = None  # [run]: the value before training, NaN where it is not known
    schedule: Schedule | None = None  # how the learning rate goes
    configs: tuple[Mapping[str, Any] | None, ...] = ()  # one per run, or none at all
    context: Context | None = None
    alone: Mask | None = None  # [run]: which of them are asked about as if there were no context

    @classmethod
    def of(cls, runs: Curves, steps: Array, horizon: float, **known: Any) -> Question:
        """A question about normalised runs of which nothing else is known unless it is said."""
        kinds = known.pop("kinds", None)
        return cls(runs, steps, float(horizon), np.full(len(runs), UNTOLD) if kinds is None else kinds, **known)

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, index: slice | NDArray[np.integer[Any]]) -> Question:
        """The same about some of the runs."""
        alone = None if self.alone is None else self.alone[index]
        mixed = alone is not None and alone.any() and not alone.all()
        return replace(
            self,
            runs=self.runs[index],
            steps=self.steps[index],
            kinds=self.kinds[index],
            untrained=None if self.untrained is None else self.untrained[index],
            configs=tuple(np.array(self.configs, dtype=object)[index]) if self.configs else (),
            context=None if alone is not None and len(alone) and alone.all() else self.context,
            alone=alone if mixed else None,
        )

    def given(self, what: Input) -> bool:
        """Whether something is known that not every engine reads."""
        return _GIVEN[what](self)

    def with_untrained_at_zero(self) -> Curves:
        """The runs with their values before training, where these are known, at step 0."""
        if self.untrained is None:
            return self.runs
        known = np.isfinite(self.untrained)
        steps, values = (np.pad(array, ((0, 0), (1, 0))) for array in (self.runs.steps, self.runs.values))
        if not known.all():
            steps[~known] = np.roll(steps[~known], -1, axis=1)
            values[~known] = np.roll(values[~known], -1, axis=1)
        values[known, 0] = self.untrained[known]
        return replace(self.runs, steps=steps, values=values, lengths=self.runs.lengths + known)


_GIVEN: dict[Input, Callable[[Question], bool]] = {
    "untrained": lambda question: question.untrained is not None,
    "kind": lambda question: bool((question.kinds != UNTOLD).any()),
    "schedule": lambda question: question.schedule is not None,
    "context": lambda question: question.context is not None and len(question.context) > 0,
    "config": lambda question: any(config is not None for config in question.configs),
}


class Source(Protocol):
    """A place from which an engine can be loaded again."""

    @property
    def model(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    def load(self) -> Engine: ...


class Predictor(Protocol):
    """What answers: an engine, or one that remembers what it has read of the runs that it is asked about."""

    def predict(self, question: Question) -> Distribution:
        """One distribution per run and step asked for, in the prior's own space."""
        ...


class Engine(ABC):
    """Anything that answers questions: a network, a sampler, a baseline, or one of your own."""

    name: str
    reads: frozenset[Input] = NOTHING
    grid: int | None = None  # the longest horizon it knows, None for any
    most_values: int | None = None  # of a run that it reads; longer ones are thinned
    samples: bool = False  # whether it takes seconds per run
    source: Source | None = None  # where to load it again; an engine without one is pickled as it is
    diagnostics: tuple[Any, ...] = ()  # of a sampler: a record per run of its latest answer

    @abstractmethod
    def predict(self, question: Question) -> Distribution:
        """One distribution per run and step asked for, in the prior's own space."""

    def for_one_run(self) -> Predictor:
        """The same for one run that grows from question to question; a streaming network reads each value once."""
        return self

    def for_paths(self) -> Predictor:
        """The same for many copies of one run that go on differently: the first question is about the copies."""
        return self

    def for_many_runs(self, most_bytes: int) -> RunCache:
        """The same for many runs that grow, of which up to `most_bytes` are kept in memory."""
        return RunCache(self)

    def at_cutoffs(self, question: Question, cutoffs: Collection[int]) -> Iterator[tuple[int, Distribution]]:
        """Forecasts of finished runs on steps 1, 2, 3, ... after some of their values, fewest first.

        Each is a distribution [run, step] of all steps after the cutoff; the steps of the question do not count.
        """
        whole = question.runs
        for cutoff in sorted(cutoffs):
            lengths = np.full(len(whole), cutoff)
            seen = replace(whole, steps=whole.steps[:, :cutoff], values=whole.values[:, :cutoff], lengths=lengths)
            ahead = np.tile(np.arange(cutoff + 1.0, question.horizon + 1.0), (len(whole), 1))
            yield cutoff, self.predict(replace(question, runs=seen, steps=ahead))


class RunCache:
    """An engine for runs that are known by a key each and grow from question to question; this one keeps nothing."""

    batch: int = 64  # runs of about one length that are best asked about at once

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def about(self, runs: Sequence[Hashable]) -> Predictor:
        """What answers questions about these runs, in this order."""
        return self.engine

    def forget_all_but(self, runs: Collection[Hashable]) -> None:
        """Free what is kept of other runs."""


def answer(
    engine: Engine, question: Question, predictor: Predictor | None = None
) -> tuple[Distribution, tuple[str, ...]]:
    """The engine's answer, on its own grid of steps, and what was left out for it; what it cannot use is refused.

    `predictor` is the engine with what it remembers of the runs.
    """
    check(engine, question)
    question, notes = on_grid(engine, question)
    if question.alone is None:
        return (predictor or engine).predict(question), notes
    # The runs are asked about in two parts, and what remembers them counts on all of them.
    among, alone = np.flatnonzero(~question.alone), np.flatnonzero(question.alone)
    parts: list[Any] = [engine.predict(question[rows]) for rows in (among, alone)]
    order = np.argsort(np.concatenate([among, alone]))
    return joined(parts)[order], notes


def check(engine: Engine, question: Question) -> None:
    """Raise if the question says something that the engine cannot use."""
    for what in _REFUSED:
        if question.given(what):
            check_reads(engine, what)


def check_reads(engine: Engine, what: Input, value: object = ...) -> None:
    """Raise if the engine makes no use of such an input, here of this value."""
    if what not in engine.reads:
        shown = "..." if value is ... else reprlib.repr(value)
        raise InputError(f"{engine.name} makes no use of {_SAID[what]}; leave {what}={shown} out or take another model")


def on_grid(engine: Engine, question: Question) -> tuple[Question, tuple[str, ...]]:
    """The question as the engine counts steps, and what was left out of the runs for it."""
    runs, grid, most = question.runs, engine.grid, engine.most_values
    if grid is None:
        if most is not None and runs.lengths.max(initial=0) > most:
            return question, (f"{engine.name} reads {most} values of a run: longer ones were thinned evenly",)
        return question, ()
    if question.horizon <= grid and runs.values.shape[1] <= grid:
        return question, ()
    cell = max(math.ceil(question.horizon / grid), 1)
    note = f"{engine.name} knows up to {grid} steps: the run was thinned to one value per {cell} steps"
    thin = replace(
        question, runs=_newest_of_cells(runs, cell), steps=question.steps / cell, horizon=question.horizon / cell
    )
    return thin, (note,)


def _newest_of_cells(curves: Curves, cell: int) -> Curves:
    """The newest value of every `cell` steps, at step / cell."""
    bins = np.ceil(curves.steps / cell)
    seen = curves.seen
    newest = seen.copy()
    newest[:, :-1] &= (bins[:, :-1] != bins[:, 1:]) | ~seen[:, 1:]
    rows = [(curves.steps[i, keep] / cell, curves.values[i, keep]) for i, keep in enumerate(newest)]
    thinned = Curves.of([values for _, values in rows], [steps for steps, _ in rows])
    return replace(thinned, single=curves.single)
