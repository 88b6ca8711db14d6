"""Joint futures of one run, drawn step by step: each draw is fed back to the network as if it had been measured.

A forecast gives the distribution at each step by itself. Whether a run will *ever* beat a value, or *when*, depends on
how its steps hang together, which only whole paths tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epochcast.checks import share
from epochcast.curve import Array, thinned
from epochcast.distributions import Distribution
from epochcast.question import Engine, Question

MOST_KNOTS = 100  # steps of a path that are drawn one after the other
_REDRAWS = 4  # of values outside the image, before they are drawn from its inside by quantiles
Bounds = tuple[float, float]


def draw(
    engine: Engine, question: Question, size: int, rng: np.random.Generator, image: Bounds
) -> tuple[NDArray[np.intp], Array]:
    """Joint draws of one run's normalised values at rising steps, inside the image of the normalisation.

    Of the steps asked for some are drawn, evenly spread, with the first and the last: their positions, and values
    [size, position].
    """
    steps, most = question.steps[0], engine.most_values
    room = MOST_KNOTS if most is None else min(MOST_KNOTS, most // 2)
    positions = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), room)).round().astype(np.intp))
    length = int(question.runs.lengths[0])  # a run of a ragged batch is padded to the longest
    seen = replace(question.runs, steps=question.runs.steps[:, :length], values=question.runs.values[:, :length])
    runs = seen if most is None else thinned(seen, most - len(positions))
    paths = replace(question, runs=runs)[np.zeros(size, dtype=np.intp)]
    reader = engine.for_paths()
    values = np.empty((size, len(positions)))
    for i, step in enumerate(steps[positions]):
        asked = replace(paths, steps=np.full((size, 1), step))
        values[:, i] = _inside(reader.predict(asked)[:, 0], rng, image)
        paths = replace(paths, runs=paths.runs.extended(step, values[:, i]))
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


@dataclass(frozen=True)
class FirstStep:
    """When a run first reaches a value: a probability for each step, and for never within the horizon.

    Attributes:
        value: The value to be reached.
        steps: The steps at which that can be, rising.
        probability: The probability of each step.
        never: The probability that it is not reached up to the horizon.
    """

    value: float
    steps: Array
    probability: Array
    never: float

    @classmethod
    def of(cls, value: float, steps: Array, first: Array, there: Array) -> FirstStep:
        """From the shares of paths that reach the value first at each step, and the chance to be beyond it there.

        A run that is beyond it at a step has reached it: where the paths say less than that, they all count for more.
        """
        ever, least = float(first.sum()), float(there.max())
        if ever < least:
            first = first * (least / ever) if ever else np.where(np.arange(len(there)) == there.argmax(), least, 0.0)
        return cls(value, steps, first, 1.0 - max(ever, least))

    def __repr__(self) -> str:
        when = self.median()
        likely = f"step {when:g}" if math.isfinite(when) else "never"
        return f"<FirstStep at {self.value:.4g}: median {likely}, {100 * self.never:.0f} % never>"

    def quantile(self, q: float) -> float:
        """The step by which the value is reached with probability `q`.

        Args:
            q: A probability between 0 and 1, both excluded.

        Returns:
            A step, infinite where the value is not reached with this probability.

        Raises:
            InputError: If `q` does not lie between 0 and 1.

        Examples:
            >>> f.first_step(0.5).quantile(0.9)  # the third value was 0.52
            3.0
        """
        reached = np.flatnonzero(np.cumsum(self.probability) >= share(q, "q") - 1e-12)
        return float(self.steps[reached[0]]) if len(reached) else math.inf

    def median(self) -> float:
        """The step by which the value is as likely reached as not.

        Returns:
            A step, or infinity.

        Examples:
            >>> f.first_step(0.5).median()
            3.0
        """
        return self.quantile(0.5)
