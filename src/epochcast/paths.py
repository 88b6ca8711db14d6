"""Joint futures of one run, drawn step by step: each draw is fed back to the network as if it had been measured.

A forecast gives the distribution at each step by itself. Whether a run will *ever* beat a value, or *when*, depends on
how its steps hang together, which only whole paths tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epochcast.basis import thinned
from epochcast.curve import Array, Curves
from epochcast.distributions import Distribution
from epochcast.errors import InputError
from epochcast.metric import is_number
from epochcast.runtime import Engine, StreamEngine

MOST_KNOTS = 100  # steps of a path that are drawn one after the other
_REDRAWS = 4  # of values outside the image, before they are drawn from its inside by quantiles
Bounds = tuple[float, float]


def draw(
    engine: Engine, run: Curves, steps: Array, horizon: float, size: int, rng: np.random.Generator, image: Bounds
) -> tuple[NDArray[np.intp], Array]:
    """Joint draws of one run's normalised values, inside the image of the normalisation.

    Of rising steps some are drawn, evenly spread, with the first and the last: their positions, and values
    [size, position].
    """
    most = getattr(engine, "most_values", None)
    room = MOST_KNOTS if most is None else min(MOST_KNOTS, most // 2)
    positions = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), room)).round().astype(np.intp))
    if most is not None:
        run = thinned(run, most - len(positions))
    kind = _Stream if isinstance(engine, StreamEngine) else _Anew
    reader = kind(engine, run, horizon, size)  # type: ignore[arg-type]
    values = np.empty((size, len(positions)))
    for i, step in enumerate(steps[positions]):
        if i:
            reader.take(steps[positions[i - 1]], values[:, i - 1])
        values[:, i] = _inside(reader.ask(step), rng, image)
    return positions, values


def _inside(distribution: Distribution, rng: np.random.Generator, image: Bounds) -> Array:
    """One draw per path of the part of a distribution [path] that lies inside the image."""
    low, high = image
    values: Array = distribution.sample(1, rng)[0]
    for _ in range(_REDRAWS):
        outside = np.flatnonzero((values < low) | (values > high))
        if len(outside) == 0:
            return values
        values[outside] = distribution[outside].sample(1, rng)[0]
    outside = np.flatnonzero((values < low) | (values > high))
    if len(outside):
        rest = distribution[outside]
        below, above = rest.cdf(low), rest.cdf(high)
        level = below + rng.random(len(outside)) * (above - below)
        values[outside] = np.clip(rest.icdf(np.clip(level, 1e-15, 1.0 - 1e-15)), low, high)
    return values


class _Anew:
    """Paths of an engine that reads all values at every step."""

    def __init__(self, engine: Engine, run: Curves, horizon: float, size: int) -> None:
        self._engine, self._horizon = engine, horizon
        length = int(run.lengths[0])
        self._paths = replace(
            run,
            steps=np.repeat(run.steps[:, :length], size, axis=0),
            values=np.repeat(run.values[:, :length], size, axis=0),
            lengths=np.repeat(run.lengths, size),
            single=False,
            kinds=None if run.kinds is None else np.repeat(run.kinds, size),
        )

    def ask(self, step: float) -> Distribution:
        """The distribution [path] at a step."""
        return self._engine.predict(self._paths, np.full((len(self._paths), 1), step), self._horizon)[:, 0]

    def take(self, step: float, values: Array) -> None:
        """Go on with these values [path]."""
        self._paths = replace(
            self._paths,
            steps=np.column_stack([self._paths.steps, np.full(len(values), step)]),
            values=np.column_stack([self._paths.values, values]),
            lengths=self._paths.lengths + 1,
        )


class _Stream(_Anew):
    """Paths of a streaming network, which reads each value once, and what all paths share once for all of them."""

    def __init__(self, engine: StreamEngine, run: Curves, horizon: float, size: int) -> None:
        super().__init__(engine, run, horizon, size)
        self._network = engine
        self._memory = engine.by_layer(engine.empty_memory(1))
        self._encoded = 0

    def ask(self, step: float) -> Distribution:
        fresh = self._encoded == 0
        paths = self._paths[:1] if fresh else self._paths
        queries = np.full((len(paths), 1), step)
        new, question = self._network.basis.newest(paths, queries, self._horizon, self._encoded)
        newest = np.full((len(paths), 1), new.shape[1] - 1)
        answer, self._memory = self._network.read_on_by_layer(new, question, newest, self._memory)
        self._encoded += new.shape[1]
        if not fresh:
            return answer[:, 0, 0]
        size = len(self._paths)
        *layers, keys, values = self._memory
        self._memory = [np.repeat(layer, size, axis=1) for layer in layers]
        self._memory += [np.repeat(keys, size, axis=0), np.repeat(values, size, axis=0)]
        return answer[np.zeros(size, dtype=np.intp), 0, 0]


@dataclass(frozen=True)
class FirstStep:
    """When a run first reaches a value: a probability for each step, and for never within the horizon."""

    value: float
    steps: Array  # [step], rising
    probability: Array  # [step]
    never: float

    def __repr__(self) -> str:
        when = self.median()
        likely = f"step {when:g}" if math.isfinite(when) else "never"
        return f"<FirstStep at {self.value:.4g}: median {likely}, {100 * self.never:.0f} % never>"

    def quantile(self, q: float) -> float:
        """The step by which the value is reached with probability q; infinite where that is never."""
        if not (is_number(q) and 0.0 < q < 1.0):
            raise InputError(f"q={q!r} must lie between 0 and 1, both excluded")
        reached = np.flatnonzero(np.cumsum(self.probability) >= q - 1e-12)
        return float(self.steps[reached[0]]) if len(reached) else math.inf

    def median(self) -> float:
        return self.quantile(0.5)
