"""What other runs cost: a forecast and a streaming update with finished runs in view, against the same without any.

    python benchmarks/beside_others.py

The other runs have been read before, as in a search, where most of them stay as they were. One core; every figure is
the median of several rounds in which both sides take turns. Memory is what a fresh process needs for 64 of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import epochcast as ec

SEEN, HORIZON, ROUNDS, REPEATS = 20, 50, 15, 20


@dataclass(frozen=True)
class Costs:
    """Times as long as without other runs."""

    forecast: dict[int, float]  # by the number of other runs
    update: float  # with 16


def runs(count: int) -> list[ec.Run]:
    """Finished runs with configurations, and one more that is forecast beside them."""
    rng = np.random.default_rng(0)
    values = np.clip(ec.sample_prior(count, HORIZON, seed=2), 0.0, 1.0)
    return [ec.Run(v, config={"lr": 10.0 ** rng.uniform(-4, -1), "width": int(rng.integers(16, 512))}) for v in values]


def measure(ratio: Callable[..., float]) -> Costs:
    """`ratio(slow, fast, repeats)` as in `run.py`."""
    *others, own = runs(65)
    forecaster = ec.Forecaster()
    seen = own.values[:SEEN]

    def forecast(context: list[ec.Run] | None) -> object:
        config = own.config if context else None
        return forecaster.forecast(seen, HORIZON, "accuracy", context=context, config=config)

    def updates(context: list[ec.Run] | None) -> object:
        config = own.config if context else None
        stream = forecaster.stream(HORIZON, "accuracy", context=context, config=config)
        for value in own.values[:-1]:
            answer = stream.update(value)
        return answer

    forecasts = {}
    for count in (16, 64):
        some = others[:count]
        forecasts[count] = ratio(lambda some=some: forecast(some), lambda: forecast(None), (REPEATS, REPEATS))
    return Costs(forecasts, ratio(lambda: updates(others[:16]), lambda: updates(None), (1, 1)))


MEMORY = """
import sys
sys.path.insert(0, {folder!r})
from beside_others import runs
*others, own = runs(65)
ec.Forecaster().forecast(own.values[:20], 50, 'accuracy', context=others, config=own.config).median()
"""
