"""Values that hardly fit what they are said to measure: a warning that names both readings."""

from __future__ import annotations

import warnings

import numpy as np

from epochcast.curve import Array, Curves
from epochcast.errors import StrongContradictionWarning
from epochcast.metric import SHARE, Metric

_OPPOSITE = {"accuracy": "error", "error": "accuracy"}


def contradiction(curves: Curves, metric: Metric) -> str | None:
    """What to say of values that hardly fit their metric, which was probably declared wrongly; None where they do."""
    return _against_the_direction(curves, metric) or _shares_as_percentages(curves, metric)


def warn_on_contradiction(curves: Curves, metric: Metric) -> bool:
    """Tell whoever called the caller, if there is anything to say; whether there was."""
    sentence = contradiction(curves, metric)
    if sentence is not None:
        warnings.warn(sentence, StrongContradictionWarning, stacklevel=3)
    return sentence is not None


def _against_the_direction(curves: Curves, metric: Metric) -> str | None:
    """Some curve moves steadily and far against the metric's direction."""
    if curves.values.shape[1] < 5:
        return None
    sign = metric.sign
    spread = metric.soft[1] - metric.soft[0] if metric.soft else np.abs(curves.values[:, 0])
    far = sign * (curves.last_value - curves.values[:, 0]) < -0.2 * spread
    if not far.any():
        return None
    gains = sign * np.where(curves.seen[:, 1:], np.diff(curves.values, axis=1), 0.0)
    steadily = (gains < 0).sum(axis=1) >= 0.8 * (curves.lengths - 1)
    if metric.kind == SHARE:
        # A noisy accuracy that is told to be an error: its setbacks hide the direction from step to step.
        for i in np.flatnonzero(far):
            steadily[i] |= _falls_in_rank(sign * curves.values[i, : curves.lengths[i]])
    contradicts = steadily & far & (curves.lengths >= 5)
    if not contradicts.any():
        return None
    curve = int(np.argmax(contradicts))
    where = "the curve" if curves.single else f"curve {curve}"
    first, last = curves.values[curve, 0], curves.last_value[curve]
    better, other = ("smaller", "larger") if metric.minimize else ("larger", "smaller")
    reading = _OPPOSITE.get(metric.name.removesuffix("%"), "")
    reading += "%" * (bool(reading) and metric.name.endswith("%"))
    instead = f"metric={reading!r}" if reading else f"a Metric with minimize={not metric.minimize}"
    return (
        f"{where} gets steadily worse for {metric.name}, from {first:.4g} to {last:.4g} where {better} is better; "
        f"check the metric's direction: if {other} is better it is {instead}"
    )


def _falls_in_rank(values: Array) -> bool:
    """Whether later values are lower nearly without exception, by Spearman's rank correlation."""
    if len(values) < 8:
        return False
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return bool(np.corrcoef(ranks, np.arange(len(values)))[0, 1] < -0.9)


def _shares_as_percentages(curves: Curves, metric: Metric) -> str | None:
    """Some curve of a percentage never leaves 0 to 1."""
    if not metric.name.endswith("%") or curves.values.shape[1] < 2:
        return None
    largest = np.where(curves.seen, curves.values, 0.0).max(axis=1)
    suspect = (largest > 0.0) & (largest <= 1.0) & (curves.lengths >= 2)
    if not suspect.any():
        return None
    curve = int(np.argmax(suspect))
    where = "the curve" if curves.single else f"curve {curve}"
    return (
        f"{where} has values up to {largest[curve]:.4g}: as {metric.name} that is at most 1 of 100; if they are shares "
        f"of one, it is metric={metric.name.removesuffix('%')!r}"
    )
