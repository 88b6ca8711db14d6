"""Other runs as context: each is read once, and a run is answered for beside all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from epochcast.curve import Curves
from epochcast.distributions import Array, Mixture
from epochcast.errors import WeightsError
from epochcast.features.codec import Codec, ContextOutputs, DecoderInputs
from epochcast.features.configuration import columns_of
from epochcast.features.context import (
    AHEAD,
    NOW_FEATURES,
    OVERALL_FEATURES,
    RUN_FEATURES,
    THEN_FEATURES,
    Cutoffs,
    OtherRuns,
    States,
    beside,
    moments,
)
from epochcast.question import Context, Question
from epochcast.schedule import Schedule

_OUTPUTS = ["raw", "of_suggestions", "means", "spreads", "trust"]
_KEPT = 4  # contexts whose runs stay read
_FEATURES = {"now": NOW_FEATURES, "then": THEN_FEATURES, "overall": OVERALL_FEATURES, "features": RUN_FEATURES}
_MOST_BYTES = 1 << 26  # of states of runs that stay read
_CHUNK_PAIRS = 1 << 15  # of a queried step and another run, answered at once

Plan = tuple[float, Schedule | None, float]  # horizon, learning rates and kind
Key = tuple[int, float, Schedule | None, float]


class Reader(Protocol):
    """A network that reads runs by themselves."""

    @property
    def codec(self) -> Codec: ...
    def read_finished(self, question: Question, shares: Array) -> tuple[DecoderInputs, Mixture, States]: ...
    def features(self, asked: DecoderInputs) -> tuple[States, States]: ...


@dataclass(frozen=True)
class _Reading:
    """Runs of a context that were read, without their configurations, and the context itself, so that it lives on."""

    context: Context
    others: OtherRuns


@dataclass
class _Configured:
    """The same with configurations, which are scaled together with those of the runs asked about."""

    reading: _Reading
    configs: tuple[Any, ...]
    others: OtherRuns
    columns: Array  # [run asked about, column]
    summaries: States


class ContextReader:
    """The graphs that read other runs, and the runs that they have read."""

    def __init__(self, summarising: Any, answering: Any) -> None:
        for session in (summarising, answering):
            for entry in session.get_inputs():
                if entry.name in _FEATURES and entry.shape[-1] != _FEATURES[entry.name]:
                    raise WeightsError(
                        f"the graph reads {entry.shape[-1]} features ({entry.name}) of other runs where this version "
                        f"of epochcast has {_FEATURES[entry.name]}; export it again"
                    )
        self._summarising, self._answering = summarising, answering
        self._readings: dict[Key, _Reading] = {}
        self._runs: dict[Any, OtherRuns] = {}  # one each, by all that was read of it; the least recently used first
        self._bytes = 0
        self._configured: _Configured | None = None

    def answer(self, network: Reader, question: Question, asked: DecoderInputs, states: States) -> ContextOutputs:
        """What other runs make of runs in these states [run, 1, width]."""
        known = self._known(network, question)
        every = np.arange(len(question))
        own = Cutoffs.of(asked.whole, asked.values, asked.cutoffs[:, 0], every, known.others, known.columns)
        cutoff_features, query_features = network.features(asked)
        size = max(_CHUNK_PAIRS // (len(known.others) * query_features.shape[2]), 1)
        parts = []
        for start in range(0, len(question), size):
            rows = slice(start, start + size)
            view = beside(own[rows], asked.steps[rows, 0], known.others)
            feed = {
                "summaries": known.summaries,
                "states": states[rows, 0],
                "cutoff_features": cutoff_features[rows, 0],
                "query_features": query_features[rows, 0],
                "other_states": known.others.states[np.arange(len(known.others)), view.positions],
                "now": view.now.astype(np.float32),
                "then": view.then.astype(np.float32),
                "overall": view.overall.astype(np.float32),
                "levels": view.levels.astype(np.float32),
                "moved": view.moved.astype(np.float32),
            }
            raw, of_suggestions, means, spreads, trust = self._answering.run(_OUTPUTS, feed)
            means = np.concatenate([view.expected[..., ::2], means], axis=-1)
            spreads = np.concatenate([view.expected[..., 1::2], spreads], axis=-1)
            parts.append((raw, of_suggestions, means, spreads, trust[..., 0]))
        return ContextOutputs(*(np.concatenate(part)[:, None] for part in zip(*parts, strict=True)))

    def _known(self, network: Reader, question: Question) -> _Configured:
        """The context of a question as it was read, with configurations."""
        reading = self._reading(network, question)
        context, count, known = reading.context, len(question), self._configured
        same = known is not None and known.reading is reading and known.configs == question.configs
        if known is not None and same and len(known.columns) == count:  # configurations may be none for any number
            return known
        configs = [*(context.configs or (None,) * len(context)), *(question.configs or (None,) * count)]
        table = columns_of(configs, context.space, learned_from=len(context))
        others = replace(reading.others, columns=table.values[: len(context)], categories=table.categorical)
        feed = {"states": others.newest_state[None], "features": others.run_features[None].astype(np.float32)}
        summaries = self._summarising.run(["summaries"], feed)[0]
        self._configured = _Configured(reading, question.configs, others, table.values[len(context) :], summaries)
        return self._configured

    def _reading(self, network: Reader, question: Question) -> _Reading:
        context = question.context
        assert context is not None
        key = (id(context), *_plan_of(question))
        if key not in self._readings:
            while len(self._readings) >= _KEPT:
                del self._readings[next(iter(self._readings))]
            self._readings[key] = _Reading(context, self._read(network, question, context))
        return self._readings[key]

    def _read(self, network: Reader, question: Question, context: Context) -> OtherRuns:
        """All runs of a context; from one context to the next most of them stay as they were."""
        return OtherRuns.together([self._run(network, question, context, i) for i in range(len(context))])

    def _run(self, network: Reader, question: Question, context: Context, i: int) -> OtherRuns:
        """One run of a context, read at most once. Runs read together would differ in their last digits."""
        seen = slice(int(context.runs.lengths[i]))
        steps, values = context.runs.steps[i : i + 1, seen], context.runs.values[i : i + 1, seen]
        planned = float(context.horizons[i])
        before = None if context.untrained is None else context.untrained[i : i + 1]
        told = b"" if before is None else before.tobytes()
        key = (*_plan_of(question), planned, steps.tobytes(), values.tobytes(), told)
        if key in self._runs:
            self._runs[key] = self._runs.pop(key)  # the newest, now
            return self._runs[key]
        own = Question(
            Curves(steps, values, context.runs.lengths[i : i + 1]),
            np.full((1, 1), planned),
            planned,
            np.full(1, question.kinds[0]),
            untrained=before,
            schedule=question.schedule if planned == question.horizon else None,
        )
        asked, answer, states = network.read_finished(own, AHEAD)
        scale = network.codec.scale_of(question)
        ahead, doubt = moments(answer.log_weights, answer.means, answer.log_scales)
        read = network.codec.runs(own)
        newest = np.arange(1), read.lengths
        self._runs[key] = OtherRuns(
            scale * question.horizon, scale * read.steps, read.values, asked.whole.unit[:, 1:], read.lengths,
            np.full(1, scale * planned), states, ahead[newest], doubt[newest],
            np.empty((1, 0)), np.empty(0, dtype=np.bool_),
        )  # fmt: skip
        self._bytes += states.nbytes
        while self._bytes > _MOST_BYTES and len(self._runs) > 1:
            self._bytes -= self._runs.pop(next(iter(self._runs))).states.nbytes
        return self._runs[key]


def _plan_of(question: Question) -> Plan:
    """What the other runs are read for, beside themselves."""
    return question.horizon, question.schedule, float(question.kinds[0])
