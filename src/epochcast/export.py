"""From a trained network to the files that ship: one safetensors file, and an ONNX graph that points into it.

A safetensors file is a header followed by plain arrays, which is just what ONNX calls external data: the graph names
file, offset and length of each weight. The weights exist once, for training and for inference alike.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from epochcast.errors import WeightsError
from epochcast.graph import Place, graph_of
from epochcast.objective import Objective, SetObjective, StreamObjective
from epochcast.train import Trainer
from epochcast.weights import GRAPH_DIGEST, write_atomically, write_safetensors


def export(trainer: Trainer, folder: Path, name: str) -> tuple[Path, Path]:
    """Write `name`.safetensors and `name`.onnx into a folder."""
    network = trainer.objective.network.cpu().eval()
    arrays = {key: value.numpy() for key, value in network.state_dict().items()} | _tables(trainer.objective)
    header = {"config": trainer.config.to_json(), "step": str(trainer.step), "seconds": f"{trainer.seconds:.0f}"}
    weights, graph = folder / f"{name}.safetensors", folder / f"{name}.onnx"
    folder.mkdir(parents=True, exist_ok=True)
    # Weights know their graph by its digest, the graph knows where each weight lies: any digest takes the same room.
    write_safetensors(weights, arrays, {**header, GRAPH_DIGEST: hashlib.sha256().hexdigest()})
    written = graph_of(trainer.config.model, places_in(weights), weights.name)
    write_safetensors(weights, arrays, {**header, GRAPH_DIGEST: hashlib.sha256(written).hexdigest()})
    write_atomically(graph, written)
    return weights, graph


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
