"""Inference on onnxruntime: batches, every cutoff of a finished curve at once, and streams.

An engine answers `predict(curves, queries, horizon)` with one distribution per curve and queried step, in the prior's
own space; it knows nothing of metrics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from epochcast.anchor import Anchor
from epochcast.curve import Curves
from epochcast.distributions import Array, Bars, Distribution, Mixture
from epochcast.errors import WeightsError
from epochcast.features import (
    LARGEST_LOG_SCALE,
    NO_VALUE,
    SMALLEST_LOG_SCALE,
    Moments,
    cutoff_features,
    moments,
    query_features,
    token_features,
)
from epochcast.weights import ModelFiles, find, read_safetensors

_CHUNK_TOKENS = 4096  # tokens per call: bounds the memory of a large batch
_CUTOFF_BLOCK = 10  # cutoffs per call when a finished curve is forecast from all of them


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
    try:
        config = json.loads(header["config"])
        layout = config["model"]["layout"]
    except (KeyError, TypeError, json.JSONDecodeError):
        raise WeightsError(f"{files.weights.name} does not say which network it belongs to") from None
    session = _session(files, threads)
    if layout == "set":
        return SetEngine(files.name, session, config, arrays)
    return StreamEngine(files.name, session, config, arrays)


def _session(files: ModelFiles, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(files.graph), options, providers=["CPUExecutionProvider"])


def _chunks(curves: Curves) -> Iterator[slice]:
    size = max(1, _CHUNK_TOKENS // (curves.values.shape[1] + 1))
    for start in range(0, len(curves), size):
        yield slice(start, start + size)


class SetEngine:
    """The paper's set transformer with its bins."""

    def __init__(self, name: str, session: Any, config: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.name = name
        self.session = session
        self.grid: int | None = config["horizon"]
        self._bars = config["model"]["head"] == "bars"
        self._borders = np.asarray(arrays["borders"], dtype=np.float64)

    def feed(self, curves: Curves, queries: Array) -> dict[str, NDArray[Any]]:
        """The network's inputs."""
        scale = 1.0 / float(self.grid or 1)
        return {
            "steps": (curves.steps * scale).astype(np.float32),
            "values": curves.values.astype(np.float32),
            "observed": curves.seen,
            "queries": (queries * scale).astype(np.float32),
        }

    def predict(self, curves: Curves, queries: Array, horizon: float) -> Distribution:
        parts = [self.session.run(None, self.feed(curves[part], queries[part]))[0] for part in _chunks(curves)]
        raw = np.concatenate(parts).astype(np.float64)
        if self._bars:
            return Bars(self._borders, raw)
        logits, means, log_scales = np.split(raw, 3, axis=-1)
        return Mixture.of(logits, means, np.maximum(log_scales, SMALLEST_LOG_SCALE))


class StreamEngine:
    """The streaming transformer, which answers in units of the anchor's closed-form answer."""

    def __init__(self, name: str, session: Any, config: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.name = name
        self.session = session
        self.grid: int | None = config["horizon"]
        self._planned = float(config["horizon"])
        self.anchor = Anchor(
            *(arrays[f"anchor.{part}"].astype(np.float64) for part in ("shares", "means", "functions"))
        )
        model = config["model"]
        self._memory_shape = (model["layers"], 2, model["heads"], model["width"] // model["heads"])

    def empty_memory(self, batch: int) -> NDArray[np.float32]:
        """Keys and values of no token at all."""
        layers, two, heads, size = self._memory_shape
        return np.zeros((layers, two, batch, heads, 0, size), dtype=np.float32)

    def predict(self, curves: Curves, queries: Array, horizon: float) -> Distribution:
        parts = [self._answer(curves[part], queries[part]) for part in _chunks(curves)]
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _answer(self, curves: Curves, queries: Array) -> Mixture:
        tokens = token_features(curves.steps, curves.values, self._planned)
        feed, first = self.feed(curves, queries)
        feed |= {"tokens": tokens.astype(np.float32), "past": self.empty_memory(len(curves))}
        feed["positions"] = curves.lengths[:, None]
        raw = self.session.run(["raw"], feed)[0]
        return placed(raw[:, 0], first)

    def feed(self, curves: Curves, queries: Array) -> tuple[dict[str, NDArray[Any]], Moments]:
        """The decoder's inputs at each curve's own cutoff, and the anchor's answer that it refines."""
        belief = self.anchor.belief(curves)
        first = moments(self.anchor.components(belief, queries))
        last = np.where(curves.lengths > 0, curves.last_value, NO_VALUE)
        query = query_features(curves.last_step, last, queries, first, self._planned)
        return {
            "cutoff_features": cutoff_features(self.anchor, belief).astype(np.float32)[:, None],
            "query_features": query.astype(np.float32)[:, None],
        }, first

    def predict_all_cutoffs(self, values: Array, horizon: int, first: int = 0) -> Iterator[tuple[range, Mixture]]:
        """Forecasts of finished curves [curve, horizon] from every cutoff, in blocks of cutoffs.

        Yields (cutoffs, distribution [curve, cutoff, step]) with steps cutoffs[0] + 1..horizon. Each block's tokens
        join the keys and values of the earlier ones, so that nothing is encoded twice.
        """
        beliefs = self.anchor.beliefs(values)
        steps = np.broadcast_to(np.arange(1.0, horizon + 1.0), values.shape)
        tokens = token_features(steps, values, self._planned).astype(np.float32)
        before = np.concatenate([np.full((len(values), 1), NO_VALUE), values], axis=1)
        memory = self.empty_memory(len(values))
        done = 0
        for start in range(first, horizon, _CUTOFF_BLOCK):
            cutoffs = range(start, min(start + _CUTOFF_BLOCK, horizon))
            index = np.array(cutoffs)
            belief = beliefs.at(index)
            queries = np.broadcast_to(np.arange(start + 1.0, horizon + 1.0), (len(index), horizon - start))
            answer = moments(self.anchor.components(belief, queries))
            query = query_features(index.astype(np.float64), before[:, index], queries, answer, self._planned)
            raw, memory = self.session.run(
                ["raw", "memory"],
                {
                    "tokens": tokens[:, done : cutoffs[-1] + 1],
                    "past": memory,
                    "positions": np.broadcast_to(index - done, (len(values), len(index))),
                    "cutoff_features": cutoff_features(self.anchor, belief).astype(np.float32),
                    "query_features": query.astype(np.float32),
                },
            )
            done = cutoffs[-1] + 1
            yield cutoffs, placed(raw, answer)

    def session_for_one(self) -> StreamSession:
        """A forecaster of one run that remembers what it has seen."""
        return StreamSession(self)


class StreamSession:
    """One run, value by value: only the new tokens are encoded, on the keys and values of the earlier ones."""

    def __init__(self, engine: StreamEngine) -> None:
        self._engine = engine
        self._memory = engine.empty_memory(1)
        self._encoded = 0

    def predict(self, curves: Curves, queries: Array, horizon: float) -> Distribution:
        """The forecast of a curve that extends the one given before."""
        engine = self._engine
        tokens = token_features(curves.steps, curves.values, engine._planned)[:, self._encoded :]
        feed, first = engine.feed(curves, queries)
        feed |= {"tokens": tokens.astype(np.float32), "past": self._memory}
        feed["positions"] = np.array([[tokens.shape[1] - 1]])
        raw, self._memory = engine.session.run(["raw", "memory"], feed)
        self._encoded += tokens.shape[1]
        return placed(raw[:, 0], first)


def placed(raw: NDArray[np.float32], first_answer: Moments) -> Mixture:
    """The mixture of raw outputs [..., 3 x component + 1] in units of the anchor's mean and standard deviation."""
    mean, _, scale = (part[..., None] for part in first_answer)
    outputs = raw.astype(np.float64)
    logits, offsets, stretch = np.split(outputs[..., :-1], 3, axis=-1)
    log_scales = np.clip(np.log(scale) + stretch, SMALLEST_LOG_SCALE, LARGEST_LOG_SCALE)
    return Mixture(log_softmax(logits, axis=-1), mean + scale * np.exp(outputs[..., -1:]) * offsets, log_scales)


def _joined(parts: list[Mixture]) -> Mixture:
    return Mixture(
        np.concatenate([part.log_weights for part in parts]),
        np.concatenate([part.means for part in parts]),
        np.concatenate([part.log_scales for part in parts]),
    )
