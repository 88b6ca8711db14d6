"""How questions become inputs of a streaming network, and how its outputs become distributions.

Answers lie around the newest value, in units of recent movement: at the newest value + unit x sinh(offset).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Curves, thinned
from epochcast.distributions import Array, Mixture
from epochcast.features import constants
from epochcast.features.run import RunFeatures
from epochcast.question import Input, Question
from epochcast.rates import Rates
from epochcast.special import log_expit, log_softmax

Raw = NDArray[np.float32]
LONGEST = 1000.0  # horizon that networks without a grid are trained on


@dataclass(frozen=True)
class DecoderInputs:
    """Inputs of the decoder at some cutoffs, and how to read its raw outputs [run, cutoff, query, output]."""

    cutoff_features: Array  # [run, cutoff, feature]
    query_features: Array  # [run, cutoff, query, feature]
    read: Callable[..., Mixture]  # of raw outputs, and of what other runs suggest where there are any
    whole: RunFeatures  # what these were made from, in the network's own steps
    values: Array  # [run, value]
    cutoffs: NDArray[np.int64]  # [run, cutoff]
    steps: Array  # [run, cutoff, query]


@dataclass(frozen=True)
class Codec:
    """Inputs and outputs of a network that knows certain runs."""

    grid: int | None  # the one horizon it was trained on, None for any
    most_values: int  # values of a run that it has been trained on
    reads: frozenset[Input]

    def runs(self, question: Question) -> Curves:
        """What the network reads of the runs: at most so many values, with that before training if it knows such."""
        begun = question.with_untrained_at_zero() if "untrained" in self.reads else question.runs
        return thinned(begun, self.most_values)

    def thins(self, question: Question) -> bool:
        """Whether some run has more values than the network reads."""
        before = question.untrained is not None and "untrained" in self.reads
        return int(question.runs.lengths.max(initial=0)) + before > self.most_values

    def _kinds(self, question: Question) -> Array | None:
        return question.kinds if "kind" in self.reads else None

    def scale_of(self, question: Question) -> float:
        """A run of 300,000 iterations is read as one of 1,000 steps: the network has seen no longer ones."""
        return min(LONGEST / float(self.grid or question.horizon), 1.0)

    def newest(self, question: Question, runs: Curves, first: int = 0) -> tuple[Array, DecoderInputs]:
        """Tokens of the runs from index `first` on, and what the decoder is asked at the cutoff of each."""
        whole = self._features(question, runs, first)
        return whole.tokens, self._asked(question, whole, runs, runs.lengths[:, None], question.steps[:, None])

    def every(self, question: Question, runs: Curves, shares: Array) -> tuple[Array, DecoderInputs]:
        """Tokens of the runs, and what the decoder is asked at every cutoff: shares [share] of what is left."""
        whole = self._features(question, runs, 0)
        cutoffs = np.broadcast_to(np.arange(whole.step.shape[1]), whole.step.shape)
        newest = whole.step[..., None] / self.scale_of(question)
        asked = newest + shares * np.maximum(question.horizon - newest, 0.0)
        return whole.tokens, self._asked(question, whole, runs, cutoffs, asked)

    def _features(self, question: Question, runs: Curves, first: int) -> RunFeatures:
        planned, scale = float(self.grid or question.horizon), self.scale_of(question)
        rates = _rates_at(question, runs.steps, planned, scale)
        return RunFeatures.of(scale * runs.steps, runs.values, scale * planned, first, self._kinds(question), rates)

    def _asked(
        self, question: Question, whole: RunFeatures, runs: Curves, cutoffs: NDArray[np.int64], steps: Array
    ) -> DecoderInputs:
        scale = self.scale_of(question)
        ahead = _rates_at(question, steps, float(self.grid or question.horizon), scale)
        return _decoder_inputs(whole, runs.values, cutoffs, scale * steps, ahead)

    def finished(self, question: Question) -> Finished:
        """Complete runs on steps 1, 2, 3, ... up to the horizon, which can be asked about at any cutoff."""
        planned = float(self.grid or question.horizon)
        runs = self.runs(question)
        rates = _rates_at(question, runs.steps, planned)
        whole = RunFeatures.of(runs.steps, runs.values, planned, kinds=self._kinds(question), rates=rates)
        return Finished(whole, runs.values, int(runs.lengths[0] - question.runs.lengths[0]), question)


@dataclass(frozen=True)
class Finished:
    """Complete runs that can be asked about at any cutoff."""

    whole: RunFeatures
    values: Array  # [run, value]
    before: int  # values of the untrained model that come first and are not counted: 0 or 1
    question: Question

    @property
    def tokens(self) -> Array:
        """[run, 1 + value, feature]"""
        return self.whole.tokens

    def at(self, cutoffs: NDArray[np.int64], queries: Array) -> DecoderInputs:
        """What the decoder is asked at cutoffs [cutoff] about steps [cutoff, query]."""
        asked = queries[None]
        ahead = _rates_at(self.question, asked, self.whole.horizon)
        return _decoder_inputs(self.whole, self.values, cutoffs[None] + self.before, asked, ahead)


def _rates_at(question: Question, steps: Array, horizon: float, scale: float = 1.0) -> Rates | None:
    """Learning rates at some steps of the runs, where they are known."""
    return None if question.schedule is None else question.schedule.at(steps, horizon, scale)


def _decoder_inputs(
    whole: RunFeatures, values: Array, cutoffs: NDArray[np.int64], queries: Array, rates: Rates | None
) -> DecoderInputs:
    seen = whole.at(cutoffs)

    def read(raw: Raw, beside: ContextOutputs | None = None) -> Mixture:
        log_weights, means, log_scales = _alone(raw, seen)
        if beside is not None:
            share = beside.trust[..., None].astype(np.float64)
            others = beside.components(seen)
            log_weights = np.concatenate([log_weights + log_expit(-share), others[0] + log_expit(share)], axis=-1)
            means, log_scales = np.concatenate([means, others[1]], axis=-1), np.concatenate([log_scales, others[2]], -1)
        return Mixture(
            _with_last(log_weights + np.log1p(-constants.SURPRISE), np.log(constants.SURPRISE)),
            _with_last(means, constants.SURPRISE_MEAN),
            _with_last(_limited(log_scales), np.log(constants.SURPRISE_SCALE)),
        )

    return DecoderInputs(seen.tokens, seen.queries(queries, rates), read, whole, values, cutoffs, queries)


def _alone(raw: Raw, seen: RunFeatures) -> tuple[Array, Array, Array]:
    """Log-weights, means and log-scales [run, cutoff, query, component] of the answer without other runs."""
    logits, means, log_scales = _around_newest(raw, seen)
    return log_softmax(logits), means, log_scales


def _around_newest(raw: Raw, seen: RunFeatures) -> tuple[Array, Array, Array]:
    """Logits, means and log-scales [run, cutoff, query, component] of components around the newest value."""
    logits, offsets, stretch, scale = _outputs(raw)
    log_unit = (np.log(seen.unit)[..., None] + scale)[..., None]
    distance = np.sinh(np.clip(offsets, -constants.LARGEST_OFFSET, constants.LARGEST_OFFSET))
    return logits, seen.last[..., None, None] + np.exp(log_unit) * distance, log_unit + stretch


@dataclass(frozen=True)
class ContextOutputs:
    """What the decoder that reads other runs answers: [run, cutoff, query, ...]."""

    raw: Raw  # 3 x outputs + 1: components around the newest value
    of_suggestions: Raw  # 3 x SUGGESTIONS: logits, shifts and stretches of components around suggestions
    means: Array  # SUGGESTIONS: what is suggested
    spreads: Array
    trust: Raw  # logit of this answer against the one without other runs

    def components(self, seen: RunFeatures) -> tuple[Array, Array, Array]:
        """Log-weights, means and log-scales, those around the newest value first."""
        logits, means, log_scales = _around_newest(self.raw, seen)
        own_logits, shifts, stretches = np.split(self.of_suggestions.astype(np.float64), 3, axis=-1)
        widths = self.spreads + constants.WIDTH_OF_NOISE * seen.unit[..., None, None]
        shifted = self.means + widths * np.clip(shifts, -constants.LARGEST_SHIFT, constants.LARGEST_SHIFT)
        return (
            log_softmax(np.concatenate([logits, own_logits], axis=-1)),
            np.concatenate([means, shifted], axis=-1),
            np.concatenate([log_scales, np.log(widths) + stretches], axis=-1),
        )


def _outputs(raw: Raw) -> tuple[Array, Array, Array, Array]:
    """Logits, offsets and stretches [..., component] of the components, and the scale [...] of all."""
    outputs = raw.astype(np.float64)
    count = outputs.shape[-1] // 3
    logits, offsets, stretch = (outputs[..., i * count : (i + 1) * count] for i in range(3))
    return logits, offsets, stretch, outputs[..., -1]


def _limited(log_scales: Array) -> Array:
    np.maximum(log_scales, constants.SMALLEST_LOG_SCALE, out=log_scales)
    return np.minimum(log_scales, constants.LARGEST_LOG_SCALE, out=log_scales)


def _with_last(array: Array, value: float) -> Array:
    """One more component."""
    longer = np.empty((*array.shape[:-1], array.shape[-1] + 1))
    longer[..., :-1] = array
    longer[..., -1] = value
    return longer
