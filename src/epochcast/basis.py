"""What a streaming network is asked about runs, and how its answers are read.

Answers lie around the newest value, in units of recent movement: at the newest value + unit x sinh(offset).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Curves
from epochcast.distributions import Array, Mixture
from epochcast.limits import (
    LARGEST_LOG_SCALE,
    LARGEST_OFFSET,
    SMALLEST_LOG_SCALE,
    SURPRISE,
    SURPRISE_MEAN,
    SURPRISE_SCALE,
)
from epochcast.rates import Rates
from epochcast.schedule import Schedule
from epochcast.special import log_softmax
from epochcast.trail import Trail

Raw = NDArray[np.float32]
LONGEST = 1000.0  # horizon that networks without a grid are trained on


@dataclass(frozen=True)
class Question:
    """Inputs of the decoder for some cutoffs, and how to read its raw outputs [curve, cutoff, query, output]."""

    cutoff_features: Array  # [curve, cutoff, feature]
    query_features: Array  # [curve, cutoff, query, feature]
    read: Callable[[Raw], Mixture]


@dataclass(frozen=True)
class Basis:
    """How curves become inputs and outputs become distributions, for a network that knows certain runs."""

    grid: int | None  # the one horizon it was trained on, None for any
    most_values: int  # values of a run that it has been trained on
    reads_untrained: bool  # whether a value at step 0, before training, is welcome
    schedule: Schedule | None = None  # learning rates that it is told

    def newest(self, curves: Curves, queries: Array, horizon: float, first: int = 0) -> tuple[Array, Question]:
        """Tokens from index `first` on, and the question at each curve's own cutoff about steps [curve, query]."""
        planned = float(self.grid or horizon)
        # A run of 300,000 iterations is read as one of 1,000 steps: the network has seen no longer ones.
        scale = min(LONGEST / planned, 1.0)
        rates = self.rates_at(curves.steps, planned, scale)
        whole = Trail.of(scale * curves.steps, curves.values, scale * planned, first, curves.kinds, rates)
        asked = queries[:, None]
        ahead = self.rates_at(asked, planned, scale)
        return whole.tokens, _question(whole.at(curves.lengths[:, None]), scale * asked, ahead)

    def rates_at(self, steps: Array, horizon: float, scale: float = 1.0) -> Rates | None:
        """Learning rates at some steps of a run, if any are told."""
        return None if self.schedule is None else self.schedule.at(steps, horizon, scale)

    def finished(
        self, values: Array, horizon: int, untrained: Array | None = None, kinds: Array | None = None
    ) -> Finished:
        """Runs [curve, step] on steps 1, 2, 3, ..., and their values before training [curve] where they are welcome."""
        before = 0 if untrained is None else 1
        if untrained is not None:
            values = np.column_stack([untrained, values])
        steps = np.broadcast_to(np.arange(1.0 - before, horizon + 1.0), values.shape)
        planned = float(self.grid or horizon)
        whole = Trail.of(steps, values, planned, kinds=kinds, rates=self.rates_at(steps, planned))
        return Finished(whole, before, self)


@dataclass(frozen=True)
class Finished:
    """Complete runs that can be asked about at any cutoff."""

    whole: Trail
    before: int  # values of the untrained model that come first and are not counted: 0 or 1
    basis: Basis

    @property
    def tokens(self) -> Array:
        """[curve, 1 + value, feature]"""
        return self.whole.tokens

    def at(self, cutoffs: NDArray[np.int64], queries: Array) -> Question:
        """Questions at cutoffs [cutoff] about steps [cutoff, query]."""
        seen, asked = self.whole.at(cutoffs[None] + self.before), queries[None]
        return _question(seen, asked, self.basis.rates_at(asked, self.whole.horizon))


def _question(seen: Trail, queries: Array, rates: Rates | None) -> Question:
    def read(raw: Raw) -> Mixture:
        logits, offsets, stretch, zoom = _outputs(raw)
        log_unit = (np.log(seen.unit)[..., None] + zoom)[..., None]
        reach = np.sinh(np.clip(offsets, -LARGEST_OFFSET, LARGEST_OFFSET))
        log_scales = _limited(log_unit + stretch)
        return Mixture(
            _with_last(log_softmax(logits) + np.log1p(-SURPRISE), np.log(SURPRISE)),
            _with_last(seen.last[..., None, None] + np.exp(log_unit) * reach, SURPRISE_MEAN),
            _with_last(log_scales, np.log(SURPRISE_SCALE)),
        )

    return Question(seen.tokens, seen.queries(queries, rates), read)


def _outputs(raw: Raw) -> tuple[Array, Array, Array, Array]:
    """Logits, offsets and stretches [..., component] of the components, and the zoom [...] of all."""
    outputs = raw.astype(np.float64)
    count = outputs.shape[-1] // 3
    logits, offsets, stretch = (outputs[..., i * count : (i + 1) * count] for i in range(3))
    return logits, offsets, stretch, outputs[..., -1]


def _limited(log_scales: Array) -> Array:
    np.maximum(log_scales, SMALLEST_LOG_SCALE, out=log_scales)
    return np.minimum(log_scales, LARGEST_LOG_SCALE, out=log_scales)


def _with_last(array: Array, value: float) -> Array:
    """One more component."""
    longer = np.empty((*array.shape[:-1], array.shape[-1] + 1))
    longer[..., :-1] = array
    longer[..., -1] = value
    return longer


def thinned(curves: Curves, most: int) -> Curves:
    """At most `most` values of each curve, evenly spread and always with the newest one."""
    every = np.maximum(-(-curves.lengths // most), 1)[
        :, None
    ]  # of each curve by itself: a batch answers as its members
    if (every == 1).all():
        return curves
    lengths = -(-curves.lengths // every[:, 0])
    position = np.arange(int(lengths.max()))[None]
    kept = position < lengths[:, None]
    index = np.where(kept, curves.lengths[:, None] - 1 - every * (lengths[:, None] - 1 - position), 0)
    steps, values = (
        np.where(kept, np.take_along_axis(array, index, axis=1), 0.0) for array in (curves.steps, curves.values)
    )
    return replace(curves, steps=steps, values=values, lengths=lengths)
