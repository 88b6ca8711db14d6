"""Forecasts of a few prior curves by several contenders, to look at (the paper's figure 10)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epochcast.distributions import Array
from epochcast.experiments.contenders import Contender
from epochcast.experiments.harness import PLAIN, Harness, Result
from epochcast.experiments.prior import scores as prior
from epochcast.experiments.prior.comparison import Batch, Plan, forecasts

LEVELS = (0.05, 0.5, 0.95)
CURVES = 7


@dataclass(frozen=True)
class Gallery:
    """Quantiles of every contender's forecast of every curve at every cutoff."""

    labels: Sequence[str]
    values: Array  # [curve, step]
    cutoffs: Sequence[int]
    quantiles: dict[tuple[str, int, int], Array]  # of (label, curve, cutoff): [level, unseen step]

    def at(self, label: str, curve: int, cutoff: int) -> Array:
        return self.quantiles[label, curve, cutoff]


def quantiles(batch: Batch) -> Result:
    """Quantiles [level][unseen step] of one contender's forecast of one curve."""
    horizon = batch.values.shape[1]
    queries = np.arange(batch.cutoff + 1.0, horizon + 1.0)[None]
    (part,) = forecasts(batch, queries)
    return {"quantiles": [part.forecast.icdf(level)[0] for level in LEVELS]}


def make_gallery(plan: Plan, harness: Harness = PLAIN, curves: int = CURVES) -> Gallery:
    """Forecast the first curves of a plan."""
    values = prior.draw_curves(curves, plan.seed).noisy
    places: dict[str, tuple[str, int, int]] = {}
    items: dict[str, Batch] = {}
    for contender in plan.contenders:
        name = f"quantiles:{contender.label}:{contender.fingerprint}"
        for i in range(curves):
            for cutoff in plan.cutoffs:
                key = f"{name}/{cutoff}/{i}:{zlib.crc32(values[i].tobytes()):08x}"
                places[key] = contender.label, i, cutoff
                items[key] = _single(contender, values[i], cutoff)
    results = harness.run(quantiles, items).demand()
    found = {places[key]: np.array(result["quantiles"]) for key, result in results.items()}
    return Gallery([contender.label for contender in plan.contenders], values, plan.cutoffs, found)


def _single(contender: Contender, values: Array, cutoff: int) -> Batch:
    return Batch((contender,), values[None], cutoff, np.zeros(1, dtype=np.int64))
