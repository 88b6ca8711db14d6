"""Random numbers that know which runs they are for.

    source = Source(rng, 512)
    source.uniform(0.1, 0.9)          # [512, 1], one number for each run
    source[rows].log_uniform(1, 10)   # [len(rows), 1], for some of the runs

Every number of the prior that belongs to a run is drawn through a source. So a source of another kind, which knows the
tasks of its rows, can make runs of one task alike without a change to any law (`task.TaskSource`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.prior.families import Array

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]


class Topic(enum.Enum):
    """What a number says something of: runs of one task agree on some topics more than on others."""

    RUN = enum.auto()
    METRIC = enum.auto()  # what is measured, and on which examples
    SCHEDULE = enum.auto()  # how the learning rate goes


class Source:
    """A generator and the rows that it draws for. Draws are [run, width], one number for each run by default."""

    alone = True  # whether each run is a task of its own

    def __init__(self, generator: np.random.Generator, rows: Rows | int) -> None:
        self.generator = generator
        self.rows: Rows = np.arange(rows) if isinstance(rows, int) else rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Rows | Mask) -> Source:
        """The same for some of the rows, by their places or by a mask."""
        return type(self)(self.generator, self.rows[chosen])

    def about(self, topic: Topic) -> Source:
        """The same for numbers of a topic, which matters to runs that have a task in common."""
        return self

    def together(self, values: Array, summary: Callable[[Array], Any]) -> Array:
        """Values [run] as they are; for runs of one task, a summary of all of theirs in place of each."""
        return values

    def pick(self, draw: Callable[[int], Array], order: Callable[[Array], Array]) -> Array:
        """What `draw` makes so many of, one for each run. Runs of a task pick alike from a pool sorted by `order`."""
        return draw(len(self))

    # --- numbers that make a run --------------------------------------------------------------------------------------

    def uniform(self, low: Any = 0.0, high: Any = 1.0, width: int = 1) -> Array:
        return np.asarray(low + (high - low) * self.generator.random((len(self), width)))

    def log_uniform(self, low: Any, high: Any, width: int = 1) -> Array:
        """Numbers whose logarithms are uniform."""
        return np.exp(self.uniform(np.log(low), np.log(high), width))

    def normal(self, mean: Any = 0.0, sd: Any = 1.0, width: int = 1) -> Array:
        return np.asarray(mean + sd * self.generator.standard_normal((len(self), width)))

    def beta(self, a: float, b: float, width: int = 1) -> Array:
        return self.generator.beta(a, b, (len(self), width))

    def integers(self, low: int, high: int, width: int = 1) -> NDArray[np.int64]:
        """Whole numbers from `low` to below `high`."""
        return self.generator.integers(low, high, (len(self), width))

    def choice(self, options: Sequence[float], width: int = 1, p: Sequence[float] | None = None) -> Array:
        """One of some numbers, all alike or with probabilities `p`."""
        return np.asarray(self.generator.choice(np.asarray(options), (len(self), width), p=p))

    def coin(self, chance: Any, width: int = 1) -> Mask:
        """True with a chance."""
        return np.asarray(self.generator.random((len(self), width)) < chance)

    # --- what is fresh at every step and never shared -----------------------------------------------------------------

    def white(self, steps: int) -> Array:
        """Standard normal numbers [run, step]."""
        return self.generator.standard_normal((len(self), steps))

    def exponential(self, steps: int) -> Array:
        """Standard exponential numbers [run, step]."""
        return self.generator.standard_exponential((len(self), steps))

    def fresh(self, steps: int) -> Array:
        """Uniform numbers [run, step]."""
        return self.generator.random((len(self), steps))
