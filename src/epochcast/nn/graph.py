"""The ONNX graph of a network, written operation by operation.

On one curve the number of operations decides the speed, and a traced graph has four times as many: here attention and
the sum before a normalisation are onnxruntime's fused operators, and the last layer answers only where it is asked.
The graph holds no weights but their places in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epochcast.errors import MissingExtraError
from epochcast.features.constants import HIDDEN
from epochcast.nn.model import ModelConfig

_FUSED = {"Attention", "MultiHeadAttention", "BiasGelu"}
_FUSED_DOMAIN = "com.microsoft"
_OPSET, _FUSED_OPSET, _IR_VERSION = 20, 1, 9
_NORM_EPSILON = 1e-5  # torch's default
_TO_THE_END = 2**62

Axes = Sequence[int | str]  # a name is a length that may change from call to call


@dataclass(frozen=True)
class Place:
    """Where a weight lies in its file."""

    shape: tuple[int, ...]
    offset: int
    length: int


def graph_of(config: ModelConfig, places: Mapping[str, Place], file: str) -> bytes:
    """The graph of a network whose weights lie at some places of a file beside it."""
    return written(_set_network if config.layout == "set" else _stream_network, config, places, file)


def written(
    network: Callable[[Graph, ModelConfig], None], config: ModelConfig, places: Mapping[str, Place], file: str
) -> bytes:
    """The graph that a function makes."""
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("onnx", "train") from None
    graph = Graph(onnx, places, file)
    network(graph, config)
    return graph.to_bytes()


class Graph:
    """Operations under construction; a tensor is known by its name."""

    def __init__(self, onnx: Any, places: Mapping[str, Place], file: str) -> None:
        self._onnx = onnx
        self._places = places
        self._file = file
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, axes: Axes, kind: str = "FLOAT") -> str:
        self._inputs.append(self._value(name, axes, kind))
        return name

    def output(self, name: str, axes: Axes) -> str:
        self._outputs.append(self._value(name, axes, "FLOAT"))
        return name

    def _value(self, name: str, axes: Axes, kind: str) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, getattr(self._onnx.TensorProto, kind), axes)

    def add(self, operator: str, *inputs: str, to: str | Sequence[str] = "", **attributes: Any) -> str:
        """One more operation; the first of its outputs. An empty name is an input or output left out."""
        outputs = [to] if isinstance(to, str) else list(to)
        outputs[0] = outputs[0] or f"{operator}.{len(self._nodes)}"
        domain = _FUSED_DOMAIN if operator in _FUSED else ""
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def weight(self, name: str) -> str:
        place = self._places[name]
        tensor = self._onnx.TensorProto(name=name, dims=place.shape, data_type=self._onnx.TensorProto.FLOAT)
        tensor.data_location = self._onnx.TensorProto.EXTERNAL
        for key, value in (("location", self._file), ("offset", place.offset), ("length", place.length)):
            tensor.external_data.add(key=key, value=str(value))
        self._constants[name] = tensor
        return name

    def integers(self, *values: int) -> str:
        name = f"integers.{'.'.join(map(str, values))}"
        self._constants[name] = self._onnx.helper.make_tensor(name, self._onnx.TensorProto.INT64, [len(values)], values)
        return name

    def number(self, value: float) -> str:
        name = f"number.{value}"
        self._constants[name] = self._onnx.helper.make_tensor(name, self._onnx.TensorProto.FLOAT, [], [value])
        return name

    def zeros(self, count: int) -> str:
        name = f"zeros.{count}"
        kind = self._onnx.TensorProto.FLOAT
        self._constants[name] = self._onnx.helper.make_tensor(name, kind, [count], [0.0] * count)
        return name

    def as_floats(self, x: str) -> str:
        to = f"floats.{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node("Cast", [x], [to], to=self._onnx.TensorProto.FLOAT))
        return to

    def product(self, x: str, layer: str) -> str:
        return self.add("MatMul", x, self.weight(f"{layer}.weight"))

    def linear(self, x: str, layer: str, to: str = "") -> str:
        return self.add("Add", self.product(x, layer), self.weight(f"{layer}.bias"), to=to)

    def linear_gelu(self, x: str, layer: str) -> str:
        return self.add("BiasGelu", self.product(x, layer), self.weight(f"{layer}.bias"))

    def norm(self, x: str, layer: str, to: str = "") -> str:
        scale, bias = self.weight(f"{layer}.weight"), self.weight(f"{layer}.bias")
        return self.add("LayerNormalization", x, scale, bias, to=to, axis=-1, epsilon=_NORM_EPSILON)

    def slice(self, x: str, start: int, end: int | None, axis: int) -> str:
        last = _TO_THE_END if end is None else end
        return self.add("Slice", x, self.integers(start), self.integers(last), self.integers(axis))

    def to_bytes(self) -> bytes:
        helper = self._onnx.helper
        graph = helper.make_graph(self._nodes, "network", self._inputs, self._outputs, list(self._constants.values()))
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_FUSED_DOMAIN, _FUSED_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="epochcast")
        data: bytes = model.SerializeToString()
        return data


# --- blocks -----------------------------------------------------------------------------------------------------------


def _attention(graph: Graph, config: ModelConfig, asked: str, keys: str, values: str, hidden: str, block: str) -> str:
    """What normalised states see through keys and values."""
    query = graph.product(asked, f"{block}.query")
    # The operator would repeat what is hidden for every head by itself, but onnxruntime 1.20 does so wrongly.
    hidden = graph.add("Expand", hidden, graph.integers(1, config.heads, 1, 1)) if config.heads > 1 else hidden
    return graph.add("MultiHeadAttention", query, keys, values, "", "", hidden, num_heads=config.heads)


def _causal_attention(graph: Graph, config: ModelConfig, block: str, states: str, past: str, memory: str) -> str:
    """The same where each state sees itself and the earlier ones, in one operation with the projections."""
    parts = (graph.weight(f"{block}.{part}.weight") for part in ("query", "key", "value"))
    projections = graph.add("Concat", *parts, axis=1)  # done once, when the graph is loaded
    no_bias = graph.zeros(3 * config.width)  # which the operator does not let us leave out
    return graph.add(
        "Attention", states, projections, no_bias, "", past, to=["", memory],
        num_heads=config.heads, unidirectional=1, mask_filter_value=HIDDEN,
    )  # fmt: skip


def _after_attention(graph: Graph, config: ModelConfig, layer: int, x: str, seen: str, to: str = "") -> tuple[str, str]:
    """The rest of a block: the new states, as they are and as the next layer normalises them."""
    block = f"blocks.{layer}"
    x = graph.add("Add", x, graph.product(seen, f"{block}.mix"))
    change = graph.linear(graph.linear_gelu(graph.norm(x, f"{block}.mlp_norm"), f"{block}.up"), f"{block}.down")
    x = graph.add("Add", x, change)
    return x, graph.norm(x, "norm" if layer + 1 == config.layers else f"blocks.{layer + 1}.attention_norm", to)


# --- the two networks: nobody reads the states of the last layer except those that are asked --------------------------


def _set_network(graph: Graph, config: ModelConfig) -> None:
    """Inputs as of `SetModel.forward`, and `hidden`: HIDDEN where a token [row] may not look at another [column]."""
    context = ("batch", "context")
    inputs = [graph.input("steps", context), graph.input("values", context), graph.input("observed", context, "BOOL")]
    inputs.append(graph.input("queries", ("batch", "query")))
    hidden = graph.input("hidden", ("batch or 1", 1, "token", "token"))
    steps, values, observed, queries = (graph.add("Unsqueeze", x, graph.integers(2)) for x in inputs)
    known = graph.add("Mul", graph.linear(values, "embed_value"), graph.as_floats(observed))
    seen = graph.add("Add", graph.linear(steps, "embed_step"), known)
    x = graph.add("Concat", seen, graph.linear(queries, "embed_step"), axis=1)
    normed = graph.norm(x, "blocks.0.attention_norm")
    for layer in range(config.layers - 1):
        keys, values = (graph.product(normed, f"blocks.{layer}.{part}") for part in ("key", "value"))
        seen = _attention(graph, config, normed, keys, values, hidden, f"blocks.{layer}")
        x, normed = _after_attention(graph, config, layer, x, seen)
    last = config.layers - 1
    start, end = graph.add("Shape", "steps", start=1, end=2), graph.integers(_TO_THE_END)
    x, asked = (graph.add("Slice", whole, start, end, graph.integers(1)) for whole in (x, normed))
    hidden = graph.add("Slice", hidden, start, end, graph.integers(2))
    keys, values = (graph.product(normed, f"blocks.{last}.{part}") for part in ("key", "value"))
    seen = _attention(graph, config, asked, keys, values, hidden, f"blocks.{last}")
    _, states = _after_attention(graph, config, last, x, seen)
    outputs = config.outputs if config.head == "bars" else 3 * config.outputs
    raw = graph.output("raw", ("batch", "query", outputs))
    graph.linear(graph.linear_gelu(states, "decode_hidden"), "head", to=raw)


def _stream_network(graph: Graph, config: ModelConfig) -> None:
    """Inputs as of `StreamModel.forward`, but the memory apart by layers, and `hidden`, HIDDEN where a cutoff [row]
    may not look at a token [column]."""
    at_cutoff = ("batch", "cutoff")
    tokens = graph.input("tokens", ("batch", "token", config.token_features))
    positions = graph.input("positions", at_cutoff, "INT64")
    hidden = graph.input("hidden", ("batch", 1, "cutoff", "before and token"))
    cutoff_features = graph.input("cutoff_features", (*at_cutoff, config.token_features))
    query_features = graph.input("query_features", (*at_cutoff, "query", config.query_features))
    raw = graph.output("raw", (*at_cutoff, "query", 3 * config.outputs + 1))
    x = graph.linear(tokens, "embed")
    normed = graph.norm(x, "blocks.0.attention_norm")
    size = config.width // config.heads
    for layer in range(config.layers - 1):
        past = graph.input(f"past.{layer}", (2, "batch", config.heads, "before", size))
        memory = graph.output(f"memory.{layer}", (2, "batch", config.heads, "before and token", size))
        seen = _causal_attention(graph, config, f"blocks.{layer}", normed, past, memory)
        x, normed = _after_attention(graph, config, layer, x, seen)
    last = config.layers - 1
    index = graph.add("Unsqueeze", positions, graph.integers(2))
    x, asked = (graph.add("GatherND", whole, index, batch_dims=1) for whole in (x, normed))
    keys, values = (_extended(graph, config, normed, f"{last}.{part}") for part in ("key", "value"))
    seen = _attention(graph, config, asked, keys, values, hidden, f"blocks.{last}")
    states = graph.output("states", (*at_cutoff, config.width))
    _after_attention(graph, config, last, x, seen, to=states)
    _decoder(graph, states, cutoff_features, query_features, raw)


def _extended(graph: Graph, config: ModelConfig, states: str, name: str) -> str:
    """Keys or values of earlier tokens, an input, and of the new ones behind them, an output."""
    past = graph.input(f"past.{name}", ("batch", "before", config.width))
    memory = graph.output(f"memory.{name}", ("batch", "before and token", config.width))
    return graph.add("Concat", past, graph.product(states, f"blocks.{name}"), axis=1, to=memory)


def _decoder(graph: Graph, states: str, cutoff_features: str, query_features: str, raw: str) -> None:
    context = graph.add("Add", graph.linear(states, "from_state"), graph.product(cutoff_features, "from_cutoff"))
    context = graph.add("Unsqueeze", context, graph.integers(2))
    hidden = graph.add("Gelu", graph.add("Add", graph.product(query_features, "from_query"), context))
    graph.linear(graph.linear_gelu(hidden, "decode_hidden"), "head", to=raw)
