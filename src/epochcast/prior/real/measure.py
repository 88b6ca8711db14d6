"""From relative errors to the values that a metric shows, normalised as in the paper's appendix A."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epochcast.metric import LOSS, SHARE, UNTOLD
from epochcast.prior.families import Array
from epochcast.prior.real.source import Mask, Rows, Source, Topic
from epochcast.special import expit, logit

_BEST_LOGISTIC = float(expit(1.0))
_LOWEST_LEVEL = 0.01  # normalised: losses below it are as good as infinite
_SMALLEST_REFERENCE = 0.05  # relative error: a first loss below this would be no unit to measure by
_FARTHEST = 4.0  # relative error: a newest loss beyond it becomes the reference
_SMALLEST_SHOWN = 1e-3  # range that a return is measured by
_SD_PER_DISTANCE = 0.4  # largest white noise, of the distance to the nearer bound of the metric


@dataclass(frozen=True)
class Runs:
    """Runs in normalised space before their white noise; row i of every array belongs to curve i."""

    noiseless: Array  # [curve, step]
    white_sd: Array  # [curve, step]
    untrained: Array  # [curve]
    kinds: Array  # [curve]: LOSS, SHARE or UNTOLD
    examples: Array  # [curve], 0 where the metric is not quantised

    def put(self, rows: Rows, part: Runs) -> None:
        """Replace some rows."""
        self.noiseless[rows], self.white_sd[rows] = part.noiseless, part.white_sd
        self.untrained[rows], self.kinds[rows], self.examples[rows] = part.untrained, part.kinds, part.examples


def chance_level(source: Source) -> Array:
    """The accuracy [curve, 1] of a guess: 1 / classes, or the share of the largest class."""
    source = source.about(Topic.METRIC)
    classes = np.round(source.log_uniform(2.0, 1000.0))
    return np.where(source.coin(0.6), 1.0 / classes, source.uniform(0.0, 0.95))


def loss_level(error: Array) -> Array:
    """The paper's normalisation of a loss that is given as a multiple of its untrained value."""
    return np.asarray(expit(1.0 - 2.0 * error) / _BEST_LOGISTIC)


def _slope(levels: Array) -> Array:
    """How much `loss_level` falls per error, where it has come to these levels."""
    return 2.0 * levels * (1.0 - _BEST_LOGISTIC * levels)


def measured(error: Array, white: Array, examples: Array, has: dict[str, Mask], source: Source) -> Runs:
    """From relative errors to normalised values: losses are squeezed, accuracies run straight from chance to 1."""
    size = len(error)
    kinds = np.where(has["loss"], LOSS, SHARE)
    runs = Runs(np.empty_like(error), np.empty_like(error), np.empty(size), kinds, examples)

    rows = np.flatnonzero(has["loss"])
    losses = np.maximum(error[rows], 0.0)
    _put_losses(runs, rows, losses, white[rows], has["first_as_reference"][rows], source[rows])

    rows = np.flatnonzero(has["accuracy"])
    chance = chance_level(source[rows])
    runs.noiseless[rows] = np.clip(1.0 - (1.0 - chance) * error[rows], 0.0, 1.0)
    runs.white_sd[rows] = (1.0 - chance) * white[rows]
    runs.untrained[rows] = chance[:, 0]
    rows = np.flatnonzero(has["unbounded"])
    _take_bounds_away(runs, rows, source[rows])
    return runs


def measure_by_first(runs: Runs, rows: Rows, source: Source) -> None:
    """Take the normalised values of some rows for losses, and normalise them by their first value instead."""
    levels = np.maximum(runs.noiseless[rows], _LOWEST_LEVEL)
    losses, sd = 0.5 - 0.5 * logit(_BEST_LOGISTIC * levels), runs.white_sd[rows] / _slope(levels)
    _put_losses(runs, rows, losses, sd, np.ones(len(rows), dtype=bool), source)


def keep_within_bounds(runs: Runs, rows: Rows) -> None:
    """White noise of some rows has no room beyond the bounds of the metric."""
    room = np.minimum(runs.noiseless[rows], 1.0 - runs.noiseless[rows])
    runs.white_sd[rows] = np.minimum(runs.white_sd[rows], _SD_PER_DISTANCE * room)


def _take_bounds_away(runs: Runs, rows: Rows, source: Source) -> None:
    """Returns, which have no bounds: what a run has shown up to some step becomes the middle of the scale."""
    values, sd = runs.noiseless[rows], runs.white_sd[rows]
    count = values.shape[1]
    shown = values + sd * source.white(count)
    seen = np.arange(count) <= source.integers(0, count)
    low = np.where(seen, shown, np.inf).min(axis=1, keepdims=True)
    high = np.where(seen, shown, -np.inf).max(axis=1, keepdims=True)
    low[:, 0], high[:, 0] = source.together(low[:, 0], np.min), source.together(high[:, 0], np.max)
    middle, half = 0.5 * (low + high), 0.5 * np.maximum(high - low, _SMALLEST_SHOWN)
    scaled = expit((values - middle) / half)
    runs.noiseless[rows] = scaled
    runs.white_sd[rows] = np.minimum(sd / half, 1.0) * scaled * (1.0 - scaled)
    runs.untrained[rows] = expit((runs.untrained[rows, None] - middle) / half)[:, 0]
    runs.kinds[rows], runs.examples[rows] = UNTOLD, 0.0


def _put_losses(runs: Runs, rows: Rows, losses: Array, sd: Array, by_first: Mask, source: Source) -> None:
    """Losses as multiples of the untrained one, and their white noise [curve, step], which both may be changed."""
    unit = _use_first_as_unit(losses, sd, by_first, source) * _anchor_again(losses, sd, source)
    levels = loss_level(losses)
    runs.noiseless[rows] = levels
    runs.white_sd[rows] = sd * _slope(levels)
    runs.untrained[rows] = loss_level(1.0 / unit)


def _use_first_as_unit(losses: Array, sd: Array, chosen: Mask, source: Source) -> Array:
    """Divides chosen losses by their first noisy value, in place, and returns what they were divided by [curve]."""
    unit = np.ones(len(losses))
    first = losses[chosen, 0] + sd[chosen, 0] * source[chosen].white(1)[:, 0]
    shared = source[chosen].together(first, np.median)
    unit[chosen] = np.maximum(shared, _SMALLEST_REFERENCE)
    losses[chosen] /= unit[chosen, None]
    sd[chosen] /= unit[chosen, None]
    itself = np.flatnonzero(chosen)[shared == first]
    losses[itself, 0], sd[itself, 0] = 1.0, 0.0
    return unit


def _anchor_again(losses: Array, sd: Array, source: Source) -> Array:
    """Losses that are far beyond their reference when they are looked at are measured by their newest value, in place;
    returns what they were divided by [curve]. Runs that are seen beside others keep the reference of their task."""
    if not source.alone:
        return np.ones(len(losses))
    looked_at = source.integers(0, losses.shape[1])[:, 0]
    unit = np.maximum(losses[np.arange(len(losses)), looked_at] / _FARTHEST, 1.0)
    losses /= unit[:, None]
    sd /= unit[:, None]
    return unit
