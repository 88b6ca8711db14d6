"""What a streaming network is asked, and what its answers are relative to.

Two bases: the anchor's closed-form answer (for the paper's prior on its grid of steps), and the newest value in units
of recent movement (for real runs). Each turns curves into the network's inputs and its raw outputs into a mixture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epochcast.anchor import Anchor, Belief, on_grid
from epochcast.curve import Curves
from epochcast.distributions import Array, Mixture
from epochcast.features import (
    LARGEST_LOG_SCALE,
    NO_VALUE,
    OUTLINE_STEPS,
    SMALLEST_LOG_SCALE,
    Moments,
    cutoff_features,
    moments,
    outline_features,
    query_features,
    token_features,
)
from epochcast.special import log_softmax
from epochcast.trail import LARGEST_OFFSET, SURPRISE, SURPRISE_MEAN, SURPRISE_SCALE, Trail

Raw = NDArray[np.float32]
_WHOLE_OUTLINE_STEPS = OUTLINE_STEPS.astype(np.intp)[None]
LONGEST = 1000.0  # horizon that networks without a grid are trained on


@dataclass(frozen=True)
class Question:
    """Inputs of the decoder for some cutoffs, and how to read its raw outputs [curve, cutoff, query, output]."""

    cutoff_features: Array  # [curve, cutoff, feature]
    query_features: Array  # [curve, cutoff, query, feature]
    read: Callable[[Raw], Mixture]


class Finished(Protocol):
    """Complete runs that can be asked about at any cutoff."""

    @property
    def tokens(self) -> Array:
        """[curve, 1 + value, feature]"""

    @property
    def before(self) -> int:
        """Values of the untrained model that come first and are not counted: 0 or 1."""

    def at(self, cutoffs: NDArray[np.int64], queries: Array) -> Question:
        """Questions at cutoffs [cutoff] about steps [cutoff, query]."""


class Basis(Protocol):
    """How curves become inputs and outputs become distributions."""

    grid: int | None  # the longest horizon it knows, None for any
    most_values: int  # values of a run that the network has been trained on
    reads_untrained: bool  # whether a value at step 0, before training, is welcome

    def newest(self, curves: Curves, queries: Array, horizon: float) -> tuple[Array, Question]:
        """Tokens, and the question at each curve's own cutoff about steps [curve, query]."""

    def finished(self, values: Array, horizon: int, untrained: Array | None = None) -> Finished:
        """Runs [curve, step] on steps 1, 2, 3, ..., and their values before training [curve] where they are welcome."""


# --- relative to the anchor's answer ----------------------------------------------------------------------------------


class AnchorBasis:
    """Answers in units of the mean and the standard deviation of the anchor's answer."""

    reads_untrained = False

    def __init__(self, anchor: Anchor, horizon: int) -> None:
        self.anchor = anchor
        self.grid: int | None = horizon
        self.most_values = horizon

    def newest(self, curves: Curves, queries: Array, horizon: float) -> tuple[Array, Question]:
        planned = float(self.most_values)
        cutoff, first = self._cutoff_features_and_moments(curves, queries)
        last = np.where(curves.lengths > 0, curves.last_value, NO_VALUE)
        query = query_features(curves.last_step, last, queries, first, planned)
        mean, _, scale = first
        question = Question(
            cutoff[:, None], query[:, None], lambda raw: _around_anchor(raw, mean[:, None], scale[:, None])
        )
        return token_features(curves.steps, curves.values, planned), question

    def _cutoff_features_and_moments(self, curves: Curves, queries: Array) -> tuple[Array, Moments]:
        """What the anchor says at the cutoffs, and its moments at queried steps [curve, query]."""
        anchor = self.anchor
        whole = queries.astype(np.intp)
        if on_grid(curves) and (whole == queries).all():
            answer = anchor.answer_on_grid(curves)
            outline = answer.moments_at(_WHOLE_OUTLINE_STEPS)
            return outline_features(answer.weights, answer.noise_weights, outline), answer.moments_at(whole)
        belief = anchor.belief(curves)
        return cutoff_features(anchor, belief), moments(anchor.components(belief, queries))

    def finished(self, values: Array, horizon: int, untrained: Array | None = None) -> Finished:
        steps = np.broadcast_to(np.arange(1.0, horizon + 1.0), values.shape)
        planned = float(self.most_values)
        before = np.concatenate([np.full((len(values), 1), NO_VALUE), values], axis=1)
        return _AnchoredRuns(
            self.anchor, self.anchor.beliefs(values), token_features(steps, values, planned), before, planned
        )


@dataclass(frozen=True)
class _AnchoredRuns:
    anchor: Anchor
    beliefs: Belief
    tokens: Array
    last: Array  # [curve, cutoff]
    planned: float
    before: int = 0

    def at(self, cutoffs: NDArray[np.int64], queries: Array) -> Question:
        belief = self.beliefs.at(cutoffs)
        first = moments(self.anchor.components(belief, queries))
        query = query_features(cutoffs.astype(np.float64), self.last[:, cutoffs], queries, first, self.planned)
        mean, _, scale = first
        return Question(cutoff_features(self.anchor, belief), query, lambda raw: _around_anchor(raw, mean, scale))


def _around_anchor(raw: Raw, mean: Array, scale: Array) -> Mixture:
    """Mean and scale are [curve, cutoff, query]."""
    logits, offsets, stretch, zoom = _outputs(raw)
    offsets *= (scale * np.exp(zoom))[..., None]
    offsets += mean[..., None]
    stretch += np.log(scale)[..., None]
    return Mixture(log_softmax(logits), offsets, _limited(stretch))


def _outputs(raw: Raw) -> tuple[Array, Array, Array, Array]:
    """Logits, offsets and stretches [..., component] of the components, and the zoom [...] of all."""
    outputs = raw.astype(np.float64)
    count = outputs.shape[-1] // 3
    logits, offsets, stretch = (outputs[..., i * count : (i + 1) * count] for i in range(3))
    return logits, offsets, stretch, outputs[..., -1]


def _limited(log_scales: Array) -> Array:
    np.maximum(log_scales, SMALLEST_LOG_SCALE, out=log_scales)
    return np.minimum(log_scales, LARGEST_LOG_SCALE, out=log_scales)


# --- relative to the newest value -------------------------------------------------------------------------------------


class TrailBasis:
    """Answers around the newest value, in units of recent movement; any horizon and any steps."""

    reads_untrained = True
    grid: int | None = None

    def __init__(self, most_values: int) -> None:
        self.most_values = most_values

    def newest(self, curves: Curves, queries: Array, horizon: float) -> tuple[Array, Question]:
        # A run of 300,000 iterations is read as one of 1,000 steps: the network has seen no longer ones.
        scale = min(LONGEST / horizon, 1.0)
        whole = Trail.of(scale * curves.steps, curves.values, scale * horizon)
        return whole.tokens, _around_trail(whole.at(curves.lengths[:, None]), scale * queries[:, None])

    def finished(self, values: Array, horizon: int, untrained: Array | None = None) -> Finished:
        before = 0 if untrained is None else 1
        if untrained is not None:
            values = np.column_stack([untrained, values])
        steps = np.broadcast_to(np.arange(1.0 - before, horizon + 1.0), values.shape)
        return _TrailedRuns(Trail.of(steps, values, float(horizon)), before)


class _TrailedRuns:
    def __init__(self, whole: Trail, before: int) -> None:
        self._whole = whole
        self.tokens = whole.tokens
        self.before = before

    def at(self, cutoffs: NDArray[np.int64], queries: Array) -> Question:
        return _around_trail(self._whole.at(cutoffs[None] + self.before), queries[None])


def _around_trail(seen: Trail, queries: Array) -> Question:
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

    return Question(seen.tokens, seen.queries(queries), read)


def _with_last(array: Array, value: float) -> Array:
    """One more component."""
    longer = np.empty((*array.shape[:-1], array.shape[-1] + 1))
    longer[..., :-1] = array
    longer[..., -1] = value
    return longer


def thinned(curves: Curves, most: int) -> Curves:
    """At most `most` values of each curve, evenly spread and always with the newest one."""
    every = -(-int(curves.lengths.max(initial=0)) // most)
    if every <= 1:
        return curves
    lengths = -(-curves.lengths // every)
    back = np.arange(int(lengths.max()))[None]  # counted from the newest kept value
    index = curves.lengths[:, None] - 1 - every * (lengths[:, None] - 1 - back)
    kept = back < lengths[:, None]
    index = np.where(kept, index, 0)
    steps, values = (
        np.where(kept, np.take_along_axis(array, index, axis=1), 0.0) for array in (curves.steps, curves.values)
    )
    return replace(curves, steps=steps, values=values, lengths=lengths)
