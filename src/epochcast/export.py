"""From a trained network to the files that ship: one safetensors file, and an ONNX graph that points into it.

A safetensors file is a header followed by plain arrays, which is just what ONNX calls external data: the graph names
file, offset and length of each weight. The weights exist once, for training and for inference alike.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from epochcast.errors import MissingExtraError, WeightsError
from epochcast.model import SetModel, StreamModel
from epochcast.objective import Objective, SetObjective, StreamObjective, TrailObjective
from epochcast.train import Trainer
from epochcast.weights import write_atomically, write_safetensors


def export(trainer: Trainer, folder: Path, name: str) -> tuple[Path, Path]:
    """Write `name`.safetensors and `name`.onnx into a folder."""
    network = trainer.objective.network.cpu().eval()
    arrays = {key: value.numpy() for key, value in network.state_dict().items()} | _tables(trainer.objective)
    header = {"config": trainer.config.to_json(), "step": str(trainer.step), "seconds": f"{trainer.seconds:.0f}"}
    weights, graph = folder / f"{name}.safetensors", folder / f"{name}.onnx"
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(weights, arrays, header)
    write_atomically(graph, _graph_pointing_at(network, weights))
    return weights, graph


def _tables(objective: Objective) -> dict[str, np.ndarray]:
    """Arrays besides the network's own weights that inference needs."""
    if isinstance(objective, StreamObjective):
        anchor = objective.anchor
        return {"anchor.shares": anchor.shares, "anchor.means": anchor.means, "anchor.functions": anchor.functions}
    if isinstance(objective, TrailObjective):
        return {}
    if isinstance(objective, SetObjective):
        return {"borders": objective.borders}
    raise WeightsError(f"{type(objective).__name__} has no export")


def _graph_pointing_at(network: nn.Module, weights: Path) -> bytes:
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("onnx", "train") from None
    model = _traced(network)
    onnx.checker.check_model(model)
    places = _places(weights)
    for initializer in model.graph.initializer:
        if initializer.name in places:
            _point(initializer, weights.name, *places[initializer.name])
    data: bytes = model.SerializeToString()
    return data


def _traced(network: nn.Module) -> Any:
    """The ONNX graph of a network, with batch size and lengths left open."""
    inputs, dynamic, names = _example(network)
    outputs = ["raw", "memory"] if isinstance(network, StreamModel) else ["raw"]
    program = torch.onnx.export(
        network, inputs, dynamo=True, dynamic_shapes=dynamic, input_names=names, output_names=outputs, verbose=False
    )
    assert program is not None
    model = program.model_proto
    for node in model.graph.node:  # the exporter's notes on where a node came from are most of the file
        del node.metadata_props[:]
        node.doc_string = ""
    return model


def _example(network: nn.Module) -> tuple[tuple[torch.Tensor, ...], tuple[dict[int, Any], ...], list[str]]:
    """Inputs to trace with, which of their axes may change, and their names."""
    batch, token, query, cutoff, before = (
        torch.export.Dim(axis, min=low)
        for axis, low in (("batch", 1), ("token", 1), ("query", 1), ("cutoff", 1), ("before", 0))
    )
    if isinstance(network, SetModel):
        values = torch.rand(2, 5)
        inputs: tuple[torch.Tensor, ...] = (torch.rand(2, 5), values, values > 0.5, torch.rand(2, 3))
        context = {0: batch, 1: token}
        return inputs, (context, context, context, {0: batch, 1: query}), ["steps", "values", "observed", "queries"]
    if not isinstance(network, StreamModel):
        raise WeightsError(f"{type(network).__name__} has no export")
    config = network.config
    past = torch.rand(config.layers, 2, 2, config.heads, 3, config.width // config.heads)
    inputs = (
        torch.rand(2, 5, network.embed.weight.shape[0]),
        past,
        torch.tensor([[1, 4], [0, 2]]),
        torch.rand(2, 2, network.from_cutoff.weight.shape[0]),
        torch.rand(2, 2, 3, network.from_query.weight.shape[0]),
    )
    at_cutoff = {0: batch, 1: cutoff}
    dynamic = ({0: batch, 1: token}, {2: batch, 4: before}, at_cutoff, at_cutoff, {**at_cutoff, 2: query})
    return inputs, dynamic, ["tokens", "past", "positions", "cutoff_features", "query_features"]


def _places(weights: Path) -> dict[str, tuple[int, int]]:
    """Offset and length of each array inside a safetensors file."""
    data = weights.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    start = 8 + length
    return {
        name: (start + entry["data_offsets"][0], entry["data_offsets"][1] - entry["data_offsets"][0])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def _point(initializer: Any, location: str, offset: int, length: int) -> None:
    """Replace the bytes of an initializer by their place in another file."""
    import onnx

    if len(initializer.raw_data) != length:
        raise WeightsError(f"{initializer.name}: the graph holds {len(initializer.raw_data)} bytes, the file {length}")
    initializer.ClearField("raw_data")
    initializer.data_location = onnx.TensorProto.EXTERNAL
    del initializer.external_data[:]
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        initializer.external_data.add(key=key, value=value)
