"""Inference on onnxruntime: batches, every cutoff of a finished curve at once, and streams.

The networks as engines; what an engine is stands in `question`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Curves
from epochcast.distributions import Array, Bars, Distribution, Mixture, joined
from epochcast.errors import InputError, WeightsError
from epochcast.features.codec import Codec, DecoderInputs
from epochcast.features.constants import HIDDEN, SMALLEST_LOG_SCALE
from epochcast.features.run import TOKEN_FEATURES
from epochcast.question import Engine, Input, Predictor, Question, RunCache
from epochcast.rates import RATE_TOKEN_FEATURES, widened
from epochcast.runtime.context import ContextReader
from epochcast.runtime.format import config_of
from epochcast.runtime.weights import ModelFiles, context_graphs, find, read_safetensors

MOST_VALUES = 200  # of a run without a grid: as many as networks are trained on
_CHUNK_TOKENS = 2048  # tokens and queries per call: what a layer makes of them still fits into the cache
_CUTOFF_BLOCK = 10  # cutoffs per call when a finished curve is forecast from all of them


_log = logging.getLogger("epochcast")

# Keys and values of the tokens read, as the graph has them: [2, batch, head, token, size] of each layer but the last,
# then [batch, token, width] of the last layer's keys and of its values.
Memory = list[NDArray[np.float32]]


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
        reader = _context_reader(files, threads) if config["model"]["context"] else None
        engine = StreamEngine(files.name, session, config, _codec(config), reader)
    engine.source = ModelSource.of(files, threads)
    return engine


@dataclass(frozen=True)
class ModelSource:
    """Where an engine comes from, so that it can be loaded again elsewhere: a loaded network cannot be pickled."""

    model: str  # the name of a model that ships, or the path of an .onnx file
    sha256: str  # of the weights
    threads: int

    @classmethod
    def of(cls, files: ModelFiles, threads: int) -> ModelSource:
        model = files.name if files.ships else str(files.graph.resolve())
        return cls(model, hashlib.sha256(files.weights.read_bytes()).hexdigest(), threads)

    def load(self) -> SetEngine | StreamEngine:
        """The same engine. Where a file of one's own holds other weights that is an error; what ships may be newer."""
        files = find(self.model)
        if ModelSource.of(files, self.threads) != self:
            changed = f"{self.model} holds other weights than those saved, sha256 {self.sha256[:12]}..."
            if not files.ships:
                raise WeightsError(changed)
            _log.warning("%s: it came with another version of epochcast, forecasts may differ", changed)
        return load_network(self.model, self.threads)


def _codec(config: dict[str, Any]) -> Codec:
    reads: frozenset[Input] = frozenset(config["reads"])
    if config["prior"] == "paper":
        return Codec(config["horizon"], config["horizon"], reads)
    return Codec(None, MOST_VALUES, reads)


def _context_reader(files: ModelFiles, threads: int) -> ContextReader:
    return ContextReader(*(_session(replace(files, graph=graph), threads) for graph in context_graphs(files.graph)))


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


def _chunks(question: Question) -> Iterator[tuple[slice, Question]]:
    size = max(1, _CHUNK_TOKENS // (question.runs.values.shape[1] + question.steps.shape[1] + 1))
    if len(question) <= size:
        yield slice(None), question
        return
    for start in range(0, len(question), size):
        part = slice(start, start + size)
        yield part, question[part]


class SetEngine(Engine):
    """The paper's set transformer with its bins."""

    def __init__(self, name: str, session: Any, config: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.name = name
        self.session = session
        self.grid: int | None = config["horizon"]
        self._bars = config["model"]["head"] == "bars"
        self._borders = np.asarray(arrays["borders"], dtype=np.float64)

    def feed(self, question: Question) -> dict[str, NDArray[Any]]:
        """The network's inputs."""
        runs, scale = question.runs, 1.0 / float(self.grid or 1)
        observed = runs.seen
        return {
            "steps": (runs.steps * scale).astype(np.float32),
            "values": runs.values.astype(np.float32),
            "observed": observed,
            "queries": (question.steps * scale).astype(np.float32),
            "hidden": _hidden_from_others(observed, question.steps.shape[1]),
        }

    def predict(self, question: Question) -> Distribution:
        raw = np.empty(0, dtype=np.float32)
        for part, some in _chunks(question):
            answer = self.session.run(["raw"], self.feed(some))[0]
            if len(answer) == len(question):
                raw = answer
                break
            if raw.size == 0:  # at once in its final size: the answers for a large batch are large
                raw = np.empty((len(question), *answer.shape[1:]), dtype=np.float32)
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


class StreamEngine(Engine):
    """The streaming transformer; its codec prepares its inputs and reads its outputs."""

    def __init__(
        self, name: str, session: Any, config: dict[str, Any], codec: Codec, reader: ContextReader | None = None
    ) -> None:
        self.name = name
        self.session = session
        self.codec = codec
        self._reader = reader
        self.grid, self.most_values, self.reads = codec.grid, codec.most_values, codec.reads
        model = config["model"]
        self._memory_shape = (model["layers"], 2, model["heads"], model["width"] // model["heads"])
        self._features = {entry.name: entry.shape[-1] for entry in session.get_inputs()}
        known = TOKEN_FEATURES + RATE_TOKEN_FEATURES * model["rates"]
        if self._features["tokens"] != known:
            raise WeightsError(
                f"{name} reads {self._features['tokens']} features of a value where this version of epochcast has "
                f"{known}; export it again"
            )
        self._past = [entry.name for entry in session.get_inputs() if entry.name.startswith("past")]
        self._memories = [entry.name for entry in session.get_outputs() if entry.name.startswith("memory")]

    def empty_memory(self, batch: int) -> NDArray[np.float32]:
        """Keys and values of no token at all."""
        layers, two, heads, size = self._memory_shape
        return np.zeros((layers, two, batch, heads, 0, size), dtype=np.float32)

    def predict(self, question: Question) -> Distribution:
        parts = [self._answer(some) for _, some in _chunks(question)]
        return parts[0] if len(parts) == 1 else joined(parts)

    def _answer(self, question: Question) -> Mixture:
        runs = self.codec.runs(question)
        tokens, asked = self.codec.newest(question, runs)
        memory = self.by_layer(self.empty_memory(len(runs)))
        return self._answers(question, asked, self._feed(tokens, asked, runs.lengths[:, None], memory), [])[0][:, 0]

    def _answers(
        self, question: Question | None, asked: DecoderInputs, feed: dict[str, NDArray[Any]], memories: list[str]
    ) -> tuple[Mixture, Memory]:
        """What the network answers, beside other runs if the question has any, and its memory as far as wanted."""
        if question is None or question.context is None or self._reader is None:
            raw, *memory = self.session.run(["raw", *memories], feed)
            return asked.read(raw), memory
        raw, states, *memory = self.session.run(["raw", "states", *memories], feed)
        return asked.read(raw, self._reader.answer(self, question, asked, states)), memory

    def read_finished(self, question: Question, shares: Array) -> tuple[DecoderInputs, Mixture, NDArray[np.float32]]:
        """Runs read at every cutoff [run, 1 + value]: what was asked at shares of what is left, answers and states."""
        runs = self.codec.runs(question)
        tokens, asked = self.codec.every(question, runs, shares)
        feed = self._feed(tokens, asked, asked.cutoffs, self.by_layer(self.empty_memory(len(runs))))
        raw, states = self.session.run(["raw", "states"], feed)
        return asked, asked.read(raw), states

    def features(self, asked: DecoderInputs) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Features of cutoffs and of queries as the network reads them."""
        return self._read("cutoff_features", asked.cutoff_features), self._read("query_features", asked.query_features)

    def at_cutoffs(self, question: Question, cutoffs: Collection[int]) -> Iterator[tuple[int, Distribution]]:
        """In one pass: the tokens of some cutoffs join the keys and values of the earlier ones."""
        horizon, wanted = int(question.horizon), sorted(cutoffs)
        if question.context is not None and "context" in self.reads:
            yield from super().at_cutoffs(question, wanted)
            return
        if horizon > self.codec.most_values:
            raise InputError(f"horizon={horizon} is longer than the {self.most_values} values that {self.name} reads")
        before = question.untrained if "untrained" in self.reads else None
        # Runs that begin differently have no cutoffs in common, and a value more than is read is one too many.
        if before is not None and (np.isnan(before).any() or horizon >= self.codec.most_values):
            yield from super().at_cutoffs(question, wanted)
            return
        runs = self.codec.finished(question)
        memory = self.by_layer(self.empty_memory(len(question)))
        done = 0
        for start in range(0, len(wanted), _CUTOFF_BLOCK):
            block = np.array(wanted[start : start + _CUTOFF_BLOCK])
            first, end = int(block[0]), int(block[-1]) + runs.before + 1
            queries = np.broadcast_to(np.arange(first + 1.0, horizon + 1.0), (len(block), horizon - first))
            asked = runs.at(block, queries)
            positions = np.broadcast_to(block + runs.before - done, (len(question), len(block)))
            answer, memory = self.read_on_by_layer(runs.tokens[:, done:end], asked, positions, memory)
            done = end
            for position, cutoff in enumerate(block.tolist()):
                yield cutoff, answer[:, position, cutoff - first :]

    def read_on(
        self,
        tokens: Array,
        asked: DecoderInputs,
        positions: NDArray[np.int64],
        memory: NDArray[np.float32],
        question: Question | None = None,
    ) -> tuple[Mixture, NDArray[np.float32]]:
        """Answers after new tokens of runs whose earlier ones are in the memory, and the memory of all of them."""
        answer, parts = self.read_on_by_layer(tokens, asked, positions, self.by_layer(memory), question)
        last = np.stack(parts[-2:])  # [2, batch, token, width]
        heads = last.reshape(*last.shape[:3], *self._memory_shape[2:]).swapaxes(2, 3)
        return answer, np.stack([*parts[:-2], heads])

    def read_on_by_layer(
        self,
        tokens: Array,
        asked: DecoderInputs,
        positions: NDArray[np.int64],
        memory: Memory,
        question: Question | None = None,
    ) -> tuple[Mixture, Memory]:
        """The same with the memory as the network gives and takes it, for those who only hand it on."""
        return self._answers(question, asked, self._feed(tokens, asked, positions, memory), self._memories)

    def by_layer(self, memory: NDArray[np.float32]) -> Memory:
        """Keys and values of one layer after the other; the last layer's apart, with their heads side by side."""
        two, batch, heads, token, size = memory.shape[1:]
        return [*memory[:-1], *memory[-1].swapaxes(2, 3).reshape(two, batch, token, heads * size)]

    def _feed(
        self, tokens: Array, asked: DecoderInputs, positions: NDArray[np.int64], memory: Memory
    ) -> dict[str, NDArray[Any]]:
        """The network's inputs: new tokens on the memory of earlier ones, asked at some positions among the new."""
        before = memory[0].shape[-2]
        token = np.arange(before + tokens.shape[1])
        hidden = np.where(token > before + positions[..., None], np.float32(HIDDEN), np.float32(0.0))
        return {
            "tokens": self._read("tokens", tokens),
            "positions": positions,
            "hidden": hidden[:, None],
            "cutoff_features": self._read("cutoff_features", asked.cutoff_features),
            "query_features": self._read("query_features", asked.query_features),
            **dict(zip(self._past, memory, strict=True)),
        }

    def _read(self, name: str, features: Array) -> NDArray[np.float32]:
        return widened(features, self._features[name])

    def for_one_run(self) -> Predictor:
        return StreamSession(self)

    def for_paths(self) -> Predictor:
        return PathSession(self)

    def for_many_runs(self, most_bytes: int) -> RunCache:
        from epochcast.runtime.kv_cache import KeyValueCache

        return KeyValueCache(self, most_bytes)


class StreamSession:
    """A network beside one run that grows: it reads new values alone, on the keys and values of the earlier ones."""

    def __init__(self, engine: StreamEngine) -> None:
        self._engine = engine
        self._forget()

    def _forget(self) -> None:
        self._memory = self._engine.by_layer(self._engine.empty_memory(1))
        self._encoded = 0
        self._known = np.empty((2, 0))  # steps and values

    def predict(self, question: Question) -> Distribution:
        """The forecast of a run; what extends the one given before is read on from there."""
        codec = self._engine.codec
        if codec.thins(question):
            return self._engine.predict(question)
        runs = codec.runs(question)
        seen = np.stack([runs.steps[0], runs.values[0]])
        known = self._known.shape[1]
        if (self._encoded and known == seen.shape[1]) or not np.array_equal(seen[:, :known], self._known):
            self._forget()  # asked again, or a run that has left its range and is seen at another scale
        self._known = seen
        return self._read_on(question, runs)[:, 0]

    def _read_on(self, question: Question, runs: Curves) -> Mixture:
        new, asked = self._engine.codec.newest(question, runs, self._encoded)
        newest = np.full((len(runs), 1), new.shape[1] - 1)
        answer, self._memory = self._engine.read_on_by_layer(new, asked, newest, self._memory, question)
        self._encoded += new.shape[1]
        return answer


class PathSession(StreamSession):
    """The same beside many copies of one run that go on differently: what they share is read once for all of them."""

    def predict(self, question: Question) -> Distribution:
        fresh = self._encoded == 0
        some = question[:1] if fresh else question
        answer = self._read_on(some, self._engine.codec.runs(some))[:, 0]
        if not fresh:
            return answer
        *layers, keys, values = self._memory
        self._memory = [np.repeat(layer, len(question), axis=1) for layer in layers]
        self._memory += [np.repeat(part, len(question), axis=0) for part in (keys, values)]
        return answer[np.zeros(len(question), dtype=np.intp)]
