"""Weight files and the registry of what ships.

Files are written so that a crash cannot damage them, and read without ever running code from them; the sha256 of a
shipped file is checked before it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from epochcast.errors import WeightsError

FOLDER = Path(__file__).parent / "models"
DEFAULT = "default"
_NAME = re.compile(r"^[a-z0-9][a-z0-9._-]*$")


def write_safetensors(path: Path, tensors: Mapping[str, NDArray[np.generic]], header: Mapping[str, str]) -> None:
    """Write arrays and a header of texts; see `write_atomically`."""
    data = save({name: np.asarray(array, order="C") for name, array in tensors.items()}, metadata=dict(header))
    write_atomically(path, data)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a temporary file, flush it to the disk, then rename: the old file stays until the new one is whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def read_safetensors(path: Path) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
    """Arrays and header of a weight file."""
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise WeightsError(f"{path} cannot be read as safetensors: {error}") from None


@dataclass(frozen=True)
class ModelFiles:
    """Where a model lies on the disk, and what its card says."""

    name: str
    graph: Path
    weights: Path
    card: dict[str, Any]

    @property
    def ships(self) -> bool:
        """Whether it comes with epochcast, so that its name tells which it is."""
        return self.graph.parent == FOLDER


@cache
def registry() -> dict[str, Any]:
    """What ships: {"default": name, "models": {name: {"sha256": {file: digest}, "card": {...}}}}."""
    data: dict[str, Any] = json.loads((FOLDER / "registry.json").read_text())
    return data


def models() -> list[str]:
    """Names of the models that ship."""
    return sorted(registry()["models"])


def find(name: str | Path) -> ModelFiles:
    """The files of a shipped model by its name, or of your own by the path of its .onnx file."""
    if isinstance(name, Path) or name.endswith(".onnx"):
        graph = Path(name)
        weights = graph.with_suffix(".safetensors")
        for file in (graph, weights):
            if not file.is_file():
                raise WeightsError(f"{file} does not exist; train a model with: epochcast train --out {graph.parent}")
        return ModelFiles(graph.stem, graph, weights, {})
    if not _NAME.match(name):
        raise WeightsError(f"model name {name!r} must match {_NAME.pattern}")
    known = registry()
    name = known["default"] if name == DEFAULT else name
    if name not in known["models"]:
        raise WeightsError(f"model {name!r} is unknown; shipped are {', '.join(models())}")
    entry = known["models"][name]
    for file, digest in entry["sha256"].items():
        _check_digest(FOLDER / file, digest)
    return ModelFiles(name, FOLDER / f"{name}.onnx", FOLDER / f"{name}.safetensors", entry["card"])


@cache  # once per process: a file that ships does not change under a running program
def _check_digest(file: Path, digest: str) -> None:
    if not file.is_file():
        raise WeightsError(f"{file.name} is missing from the installation; install epochcast again")
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != digest:
        raise WeightsError(f"{file.name} has sha256 {found[:12]}..., not {digest[:12]}...; install epochcast again")
