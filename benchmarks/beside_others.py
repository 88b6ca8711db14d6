"""What other runs cost: a forecast and a streaming update with finished runs in view, against the same without any.

    python benchmarks/run.py

The other runs have been read before, as in a search, where most of them stay as they were. Memory is what a fresh
process needs for 64 of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import epochcast as ec

SEEN, HORIZON, REPEATS = 20, 50, 20


@dataclass(frozen=True)
class Costs:
    """Times as long as something else takes."""

    forecast: dict[int, float]  # against one without other runs, by the number of those
    update: float  # with 16, against one without
    reference: float  # how many forecasts with 16 take as long as the reference


def runs(count: int) -> list[ec.Run]:
    """Finished runs with configurations, and one more that is forecast beside them."""
    rng = np.random.default_rng(0)
    values = np.clip(ec.sample_prior(count, HORIZON, seed=2), 0.0, 1.0)
    return [ec.Run(v, config={"lr": 10.0 ** rng.uniform(-4, -1), "width": int(rng.integers(16, 512))}) for v in values]


def measure(ratio: Callable[..., float], reference: Callable[[], object]) -> Costs:
    """`ratio(slow, fast, repeats)` as in `run.py`."""
    *others, own = runs(65)
    forecaster = ec.Forecaster()
    seen = own.values[:SEEN]

    def forecast(count: int) -> object:
        known = {"context": others[:count], "config": own.config} if count else {}
        return forecaster.forecast(seen, HORIZON, "accuracy", **known)

    def updates(count: int) -> object:
        known = {"context": others[:count], "config": own.config} if count else {}
        stream = forecaster.stream(HORIZON, "accuracy", **known)
        for value in own.values[:-1]:
            answer = stream.update(value)
        return answer

    forecasts = {
        count: ratio(lambda count=count: forecast(count), lambda: forecast(0), (REPEATS, REPEATS)) for count in (16, 64)
    }
    update = ratio(lambda: updates(16), lambda: updates(0), (1, 1))
    return Costs(forecasts, update, ratio(reference, lambda: forecast(16), (2, REPEATS)))


MEMORY = """
import sys
sys.path.insert(0, {folder!r})
from beside_others import runs
*others, own = runs(65)
ec.Forecaster().forecast(own.values[:20], 50, 'accuracy', context=others, config=own.config).median()
"""
