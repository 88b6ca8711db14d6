"""Inference on onnxruntime: batches, every cutoff of a finished curve at once, and streams.

An engine answers `predict(curves, queries, horizon)` with one distribution per curve and queried step, in the prior's
own space; it knows nothing of metrics.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epochcast.basis import Basis, Question, thinned
from epochcast.curve import Curves
from epochcast.distributions import Array, Bars, Distribution, Mixture
from epochcast.errors import InputError, WeightsError
from epochcast.limits import HIDDEN, SMALLEST_LOG_SCALE
from epochcast.rates import RATE_TOKEN_FEATURES, widened
from epochcast.schedule import Schedule
from epochcast.trail import TOKEN_FEATURES
from epochcast.weights import ModelFiles, config_of, find, read_safetensors

MOST_VALUES = 200  # of a run without a grid: as many as networks are trained on
_CHUNK_TOKENS = 2048  # tokens and queries per call: what a layer makes of them still fits into the cache
_CUTOFF_BLOCK = 10  # cutoffs per call when a finished curve is forecast from all of them


# Keys and values of the tokens read, as the graph has them: [2, batch, head, token, size] of each layer but the last,
# then [batch, token, width] of the last layer's keys and of its values.
Memory = list[NDArray[np.float32]]


class Engine(Protocol):
    """Anything that turns normalised curves into distributions: a network, a sampler, a baseline."""

    @property
    def name(self) -> str: ...
    @property
    def grid(self) -> int | None:
        """The longest horizon it knows, None for any."""

    def predict(self, curves: Curves, queries: Array, horizon: float) -> Distribution: ...


def load_network(name: str | Path, threads: int = 1) -> SetEngine | StreamEngine:
    """The engine of a shipped model, or of a model file of your own."""
    files = find(name)
    arrays, header = read_safetensors(files.weights)
    config = config_of(files.weights, header)
    session = _session(files, threads)
    _check_inputs(files, session, config["model"])
    engine: SetEngine | StreamEngine
    if config["model"]["layout"] == "set":
        _check_borders(files, session, config["model"], arrays)
        engine = SetEngine(files.name, session, config, arrays)
    else:
        engine = StreamEngine(files.name, session, config, _basis(config))
    engine.source = Source.of(files, threads)
    return engine


@dataclass(frozen=True)
class Source:
    """Where an engine comes from, so that it can be loaded again elsewhere: a loaded network cannot be pickled."""

    model: str  # the name of a model that ships, or the path of an .onnx file
    sha256: str  # of the weights
    threads: int

    @classmethod
    def of(cls, files: ModelFiles, threads: int) -> Source:
        model = files.name if files.ships else str(files.graph.resolve())
        return cls(model, hashlib.sha256(files.weights.read_bytes()).hexdigest(), threads)

    def load(self) -> SetEngine | StreamEngine:
        """The same engine; an error where other weights lie in its place."""
        if Source.of(find(self.model), self.threads) != self:
            raise WeightsError(f"{self.model} holds other weights than those saved, sha256 {self.sha256[:12]}...")
        return load_network(self.model, self.threads)


def _basis(config: dict[str, Any]) -> Basis:
    if config["prior"] == "paper":
        return Basis(config["horizon"], config["horizon"], reads_untrained=False)
    return Basis(None, MOST_VALUES, reads_untrained=True)


def _session(files: ModelFiles, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what is wrong is raised, not printed
    try:
        return onnxruntime.InferenceSession(str(files.graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no other base in common
        reason = " ".join(str(error).split())[:200]
        raise WeightsError(f"{files.graph} cannot be read as a network: {reason}; export it again") from None


def _check_inputs(files: ModelFiles, session: Any, model: dict[str, Any]) -> None:
    """Raise unless the graph takes what a network of this configuration is fed."""
    found = {entry.name: [size for size in entry.shape if isinstance(size, int)] for entry in session.get_inputs()}
    wanted = _inputs_of(model)
    if found.keys() != wanted.keys() or any(sizes not in (None, found[name]) for name, sizes in wanted.items()):
        raise WeightsError(
            f"{files.graph.name} is not the network that {files.weights.name} describes; export both again"
        )


def _check_borders(files: ModelFiles, session: Any, model: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raise unless the weights hold the borders of the bins that the graph answers with."""
    borders = arrays.get("borders", np.empty(0))
    bins = session.get_outputs()[0].shape[-1] if model["head"] == "bars" else len(borders) - 1
    if borders.ndim != 1 or len(borders) < 2 or len(borders) != bins + 1 or not (np.diff(borders) > 0.0).all():
        raise WeightsError(f"{files.weights} lacks the borders of its {bins} bins; export it again")


def _inputs_of(model: dict[str, Any]) -> dict[str, list[int] | None]:
    """The inputs of a network by name, and the sizes that its graph fixes, where its configuration tells them."""
    if model["layout"] == "set":
        return dict.fromkeys(("steps", "values", "observed", "queries", "hidden"))
    last, heads, width = model["layers"] - 1, model["heads"], model["width"]
    return {
        **dict.fromkeys(("tokens", "positions", "hidden", "cutoff_features", "query_features")),
        **{f"past.{layer}": [2, heads, width // heads] for layer in range(last)},
        **{f"past.{last}.{part}": [width] for part in ("key", "value")},
    }


def _chunks(curves: Curves, queries: Array) -> Iterator[tuple[slice, Curves]]:
    size = max(1, _CHUNK_TOKENS // (curves.values.shape[1] + queries.shape[1] + 1))
    if len(curves) <= size:
        yield slice(None), curves
        return
    for start in range(0, len(curves), size):
        part = slice(start, start + size)
        yield part, curves[part]


class SetEngine:
    """The paper's set transformer with its bins."""

    source: Source | None = None

    def __init__(self, name: str, session: Any, config: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.name = name
        self.session = session
        self.grid: int | None = config["horizon"]
        self._bars = config["model"]["head"] == "bars"
        self._borders = np.asarray(arrays["borders"], dtype=np.float64)

    def feed(self, curves: Curves, queries: Array) -> dict[str, NDArray[Any]]:
        """The network's inputs."""
        scale = 1.0 / float(self.grid or 1)
        observed = curves.seen
        return {
            "steps": (curves.steps * scale).astype(np.float32),
            "values": curves.values.astype(np.float32),
            "observed": observed,
            "queries": (queries * scale).astype(np.float32),
            "hidden": _hidden_from_others(observed, queries.shape[1]),
        }

    def predict(self, curves: Curves, queries: Array, horizon: float) -> Distribution:
        raw = np.empty(0, dtype=np.float32)
        for part, some in _chunks(curves, queries):
            answer = self.session.run(["raw"], self.feed(some, queries[part]))[0]
            if len(answer) == len(curves):
                raw = answer
                break
            if raw.size == 0:  # at once in its final size: the answers for a large batch are large
                raw = np.empty((len(curves), *answer.shape[1:]), dtype=np.float32)
            raw[part] = answer
        if self._bars:
            return Bars(self._borders, raw)
        logits, means, log_scales = np.split(raw.astype(np.float64), 3, axis=-1)
        return Mixture.of(logits, means, np.maximum(log_scales, SMALLEST_LOG_SCALE))


def _hidden_from_others(observed: NDArray[np.bool_], queries: int) -> NDArray[np.float32]:
    """[curve or 1, 1, token, token]: every token sees the observed ones and itself, never another query."""
    if observed.all():
        observed = observed[:1]
    context = observed.shape[1]
    hidden = np.full((len(observed), 1, context + queries, context + queries), HIDDEN, dtype=np.float32)
    hidden[..., :context] = np.where(observed, np.float32(0.0), np.float32(HIDDEN))[:, None, None]
    token = np.arange(context + queries)
    hidden[..., token, token] = 0.0
    return hidden


class StreamEngine:
    """The streaming transformer; its basis prepares its inputs and reads its outputs."""

    source: Source | None = None

    def __init__(self, name: str, session: Any, config: dict[str, Any], basis: Basis) -> None:
        self.name = name
        self.session = session
        self.basis = basis
        self.grid = basis.grid
        model = config["model"]
        self._memory_shape = (model["layers"], 2, model["heads"], model["width"] // model["heads"])
        self._features = {entry.name: entry.shape[-1] for entry in session.get_inputs()}
        self.reads_rates = bool(model.get("rates", False))
        known = TOKEN_FEATURES + RATE_TOKEN_FEATURES * self.reads_rates
        if self._features["tokens"] != known:
            raise WeightsError(
                f"{name} reads {self._features['tokens']} features of a value where this version of epochcast has "
                f"{known}; export it again"
            )
        self._past = [entry.name for entry in session.get_inputs() if entry.name.startswith("past")]
        self._outputs = [entry.name for entry in session.get_outputs()]

    @property
    def reads_untrained(self) -> bool:
        """Whether it makes use of a value at step 0, before training."""
        return self.basis.reads_untrained

    @property
    def schedule(self) -> Schedule | None:
        """The learning rates that it is told."""
        return self.basis.schedule

    def told(self, schedule: Schedule | None) -> StreamEngine:
        """The same network, which is told the learning rates of the runs that it will see, or none."""
        if schedule is not None and not self.reads_rates:
            raise InputError(f"{self.name} cannot be told learning rates; leave schedule={schedule.name!r} out")
        engine = copy.copy(self)
        engine.basis = replace(self.basis, schedule=schedule)
        model = self.name.removesuffix(f"@{self.schedule.name}") if self.schedule else self.name
        engine.name = f"{model}@{schedule.name}" if schedule else model
        return engine

    @property
    def most_values(self) -> int:
        """Values of a run that are read at once; longer runs are thinned."""
        return self.basis.most_values

    def empty_memory(self, batch: int) -> NDArray[np.float32]:
        """Keys and values of no token at all."""
        layers, two, heads, size = self._memory_shape
        return np.zeros((layers, two, batch, heads, 0, size), dtype=np.float32)

    def predict(self, curves: Curves, queries: Array, horizon: float) -> Distribution:
        curves = thinned(curves, self.most_values)
        parts = [self._answer(some, queries[part], horizon) for part, some in _chunks(curves, queries)]
        return parts[0] if len(parts) == 1 else joined(parts)

    def _answer(self, curves: Curves, queries: Array, horizon: float) -> Mixture:
        tokens, question = self.basis.newest(curves, queries, horizon)
        memory = self.by_layer(self.empty_memory(len(curves)))
        raw = self.session.run(["raw"], self._feed(tokens, question, curves.lengths[:, None], memory))[0]
        return question.read(raw)[:, 0]

    def predict_all_cutoffs(
        self, values: Array, horizon: int, first: int = 0, untrained: Array | None = None, kinds: Array | None = None
    ) -> Iterator[tuple[range, Mixture]]:
        """Forecasts of finished curves [curve, horizon] from every cutoff, in blocks of cutoffs.

        Yields (cutoffs, distribution [curve, cutoff, step]) with steps cutoffs[0] + 1..horizon. Each block's tokens
        join the keys and values of the earlier ones, so that nothing is encoded twice. `untrained` holds the values
        before training [curve], for an engine that reads them, and `kinds` [curve] what is measured.
        """
        if horizon > self.most_values:
            raise InputError(f"horizon={horizon} is longer than the {self.most_values} values that {self.name} reads")
        runs = self.basis.finished(values, horizon, untrained, kinds)
        memory = self.by_layer(self.empty_memory(len(values)))
        done = 0
        for start in range(first, horizon, _CUTOFF_BLOCK):
            cutoffs = range(start, min(start + _CUTOFF_BLOCK, horizon))
            index = np.array(cutoffs)
            queries = np.broadcast_to(np.arange(start + 1.0, horizon + 1.0), (len(index), horizon - start))
            question = runs.at(index, queries)
            positions = np.broadcast_to(index + runs.before - done, (len(values), len(index)))
            end = cutoffs[-1] + runs.before + 1
            answer, memory = self.read_on_by_layer(runs.tokens[:, done:end], question, positions, memory)
            done = end
            yield cutoffs, answer

    def read_on(
        self, tokens: Array, question: Question, positions: NDArray[np.int64], memory: NDArray[np.float32]
    ) -> tuple[Mixture, NDArray[np.float32]]:
        """Answers after new tokens of runs whose earlier ones are in the memory, and the memory of all of them."""
        answer, parts = self.read_on_by_layer(tokens, question, positions, self.by_layer(memory))
        last = np.stack(parts[-2:])  # [2, batch, token, width]
        heads = last.reshape(*last.shape[:3], *self._memory_shape[2:]).swapaxes(2, 3)
        return answer, np.stack([*parts[:-2], heads])

    def read_on_by_layer(
        self, tokens: Array, question: Question, positions: NDArray[np.int64], memory: Memory
    ) -> tuple[Mixture, Memory]:
        """The same with the memory as the network gives and takes it, for those who only hand it on."""
        raw, *memory = self.session.run(self._outputs, self._feed(tokens, question, positions, memory))
        return question.read(raw), memory

    def by_layer(self, memory: NDArray[np.float32]) -> Memory:
        """Keys and values of one layer after the other; the last layer's apart, with their heads side by side."""
        two, batch, heads, token, size = memory.shape[1:]
        return [*memory[:-1], *memory[-1].swapaxes(2, 3).reshape(two, batch, token, heads * size)]

    def _feed(
        self, tokens: Array, question: Question, positions: NDArray[np.int64], memory: Memory
    ) -> dict[str, NDArray[Any]]:
        """The network's inputs: new tokens on the memory of earlier ones, asked at some positions among the new."""
        before = memory[0].shape[-2]
        token = np.arange(before + tokens.shape[1])
        hidden = np.where(token > before + positions[..., None], np.float32(HIDDEN), np.float32(0.0))
        return {
            "tokens": self._read("tokens", tokens),
            "positions": positions,
            "hidden": hidden[:, None],
            "cutoff_features": self._read("cutoff_features", question.cutoff_features),
            "query_features": self._read("query_features", question.query_features),
            **dict(zip(self._past, memory, strict=True)),
        }

    def _read(self, name: str, features: Array) -> NDArray[np.float32]:
        return widened(features, self._features[name])

    def session_for_one(self) -> StreamSession:
        """A forecaster of one run that remembers what it has seen."""
        return StreamSession(self)


class StreamSession:
    """One run, value by value: only the new tokens are encoded, on the keys and values of the earlier ones."""

    def __init__(self, engine: StreamEngine) -> None:
        self._engine = engine
        self._forget()

    def _forget(self) -> None:
        self._memory = self._engine.by_layer(self._engine.empty_memory(1))
        self._encoded = 0
        self._known = np.empty((2, 0))  # steps and values

    def predict(self, curves: Curves, queries: Array, horizon: float) -> Distribution:
        """The forecast of a curve; what extends the one given before is read on from there."""
        engine = self._engine
        if curves.values.shape[1] > engine.most_values:
            return engine.predict(curves, queries, horizon)
        seen = np.stack([curves.steps[0], curves.values[0]])
        if not np.array_equal(seen[:, : self._known.shape[1]], self._known):
            self._forget()  # a run that has left its range is seen at another scale
        self._known = seen
        new, question = engine.basis.newest(curves, queries, horizon, self._encoded)
        answer, self._memory = engine.read_on_by_layer(new, question, np.array([[new.shape[1] - 1]]), self._memory)
        self._encoded += new.shape[1]
        return answer[:, 0]


def joined(parts: list[Mixture]) -> Mixture:
    """The mixtures of all curves, from those of some each."""
    return Mixture(
        np.concatenate([part.log_weights for part in parts]),
        np.concatenate([part.means for part in parts]),
        np.concatenate([part.log_scales for part in parts]),
    )
