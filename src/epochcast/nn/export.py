"""From a trained network to the files that ship: one safetensors file, and an ONNX graph that points into it.

A safetensors file is a header followed by plain arrays, which is just what ONNX calls external data: the graph names
file, offset and length of each weight. The weights exist once, for training and for inference alike.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from epochcast.errors import WeightsError
from epochcast.nn.context_graph import answers_beside_runs, summaries_of_runs
from epochcast.nn.graph import Place, graph_of, written
from epochcast.nn.model import ModelConfig
from epochcast.nn.objective import Objective, SetObjective, StreamObjective
from epochcast.nn.trainer import Trainer
from epochcast.runtime.weights import (
    GRAPH_DIGEST,
    context_graphs,
    digest_of,
    write_atomically,
    write_safetensors,
)


def export(trainer: Trainer, folder: Path, name: str) -> tuple[Path, Path]:
    """Write `name`.safetensors and `name`.onnx into a folder, and two more graphs if the network reads other runs."""
    network = trainer.objective.network.cpu().eval()
    arrays = {key: value.numpy() for key, value in network.state_dict().items()} | _tables(trainer.objective)
    header = {**trainer.header(), "step": str(trainer.step), "seconds": f"{trainer.seconds:.0f}"}
    weights, graph = folder / f"{name}.safetensors", folder / f"{name}.onnx"
    folder.mkdir(parents=True, exist_ok=True)
    # Weights know their graphs by a digest, graphs know where each weight lies: any digest takes the same room.
    write_safetensors(weights, arrays, {**header, GRAPH_DIGEST: digest_of([])})
    graphs = _graphs(trainer.config.model, weights, graph)
    write_safetensors(weights, arrays, {**header, GRAPH_DIGEST: digest_of(graphs.values())})
    for file, data in graphs.items():
        write_atomically(file, data)
    return weights, graph


def _graphs(config: ModelConfig, weights: Path, graph: Path) -> dict[Path, bytes]:
    """The graphs of a network by their files."""
    places = places_in(weights)
    graphs = {graph: graph_of(config, places, weights.name)}
    if config.context:
        for file, network in zip(context_graphs(graph), (summaries_of_runs, answers_beside_runs), strict=True):
            graphs[file] = written(network, config, places, weights.name)
    return graphs


def _tables(objective: Objective) -> dict[str, np.ndarray]:
    """Arrays besides the network's own weights that inference needs."""
    if isinstance(objective, StreamObjective):
        return {}
    if isinstance(objective, SetObjective):
        return {"borders": objective.borders}
    raise WeightsError(f"{type(objective).__name__} has no export")


def places_in(weights: Path) -> dict[str, Place]:
    """Where each array lies inside a safetensors file."""
    data = weights.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    start = 8 + length
    places = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            places[name] = Place(tuple(entry["shape"]), start + begin, end - begin)
    return places
