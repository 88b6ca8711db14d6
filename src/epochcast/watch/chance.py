"""The chance that the best value a run will reach beats a given one, from forecasts of single steps.

Best is compared with best. The end of a noisy run, or any single step of it, compared with the largest of many noisy
values would hardly ever win, though the run be as good as any. A forecast of a step is unsure for two reasons: where
the run is heading, which all its later values share, and noise, which each of them draws anew. How unsure it is of the
very next value is taken for the noise, and what later steps add to that as shared (a one-factor Gaussian copula).
"""

from __future__ import annotations

import math

import numpy as np

from epochcast.curve import Array
from epochcast.special import ndtr, ndtri

ASKED = 10  # steps of the rest of a run, spread evenly
_PLACES = 64  # of a run, to which its newest step is rounded up: runs at the same place are forecast together
_MOST_DRAWS = 100.0  # of noise: the tails of a forecast are not known well enough to draw from them more often
_MOST_SHARED = 0.999
_GAPS = 10  # between the newest values, that tell how often a run logs
_SMALLEST_GAP = 1e-6  # as a share of the rest of the run, lest the count overflow
_LEAST = 1e-12
_SHARED = ndtri((np.arange(48) + 0.5) / 48)  # equally likely values of what is shared, which is standard normal


def next_place(step: float, horizon: int) -> int:
    """The whole step from which on a run that stands at `step` is asked; it depends on no other run."""
    width = math.ceil(horizon / _PLACES)
    return min((math.floor(step / width) + 1) * width, horizon)


def asked_steps(place: int, horizon: int) -> Array:
    """Steps of the rest of a run, the horizon last."""
    return np.unique(np.linspace(place, horizon, ASKED).round())


def draws(steps: Array, asked: Array) -> Array:
    """How many of its later values each asked step stands for, if a run goes on to log as it did: [asked]."""
    gaps = np.diff(steps[-_GAPS - 1 :])
    gap = float(np.median(gaps)) if len(gaps) else max(float(steps[-1]), 1.0)
    borders = np.concatenate([steps[-1:], (asked[1:] + asked[:-1]) / 2.0, asked[-1:]])
    counts: Array = np.diff(borders) / max(gap, _SMALLEST_GAP * (borders[-1] - borders[0]))
    counts *= min(1.0, _MOST_DRAWS / counts.sum())
    counts[-1] = max(counts[-1], 1.0)
    return counts


def shared_part(variance: Array) -> Array:
    """Of the variance at each asked step [run, asked], the share that all later values of a run have in common."""
    return np.clip(1.0 - variance[:, :1] / np.maximum(variance, 1e-300), 0.0, _MOST_SHARED)


def chance_of_best(better: Array, shared: Array, counts: Array) -> Array:
    """The chance of each run that any later value is better, from that of a value at each asked step [run, asked]."""
    worse = ndtri(np.clip(1.0 - better, _LEAST, 1.0 - _LEAST))[..., None]
    given = ndtr((worse - np.sqrt(shared)[..., None] * _SHARED) / np.sqrt(1.0 - shared)[..., None])
    none = np.exp((counts[..., None] * np.log(np.maximum(given, 1e-300))).sum(axis=1))
    return np.asarray(1.0 - none.mean(axis=-1))
