"""Weight files and the registry of what ships.

Files are written so that a crash cannot damage them, and read without ever running code from them. The sha256 of a
shipped file stands in the registry; files of your own carry one in their header, of all that they hold, and one of the
graph beside them. What does not agree is refused. Files from before version 0.2 carry none: a copy of one that ships is
known by its header and compared with the registry, any other is loaded with a warning.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from epochcast.checks import cut
from epochcast.errors import WeightsError

FOLDER = Path(__file__).parents[1] / "models"
DEFAULT = "default"
GRAPH_DIGEST = "graph_sha256"  # in the header of weights: which graph belongs to them
# The second key tells a header whose first was damaged from that of an older file, which has neither.
_DIGEST, _DIGEST_OF = "sha256", "sha256_of"
_log = logging.getLogger("epochcast")
_NAME = re.compile(r"^[a-z0-9][a-z0-9._-]*$")


def write_safetensors(path: Path, tensors: Mapping[str, NDArray[np.generic]], header: Mapping[str, str]) -> None:
    """Write arrays and a header of texts, with a checksum of both; see `write_atomically`."""
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    texts = {**header, _DIGEST_OF: "header and arrays"}
    write_atomically(path, save(arrays, metadata={**texts, _DIGEST: _digest(arrays, texts)}))


def write_atomically(path: Path, data: bytes) -> None:
    """Write a temporary file, flush it to the disk, then rename: the old file stays until the new one is whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def read_safetensors(path: Path) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
    """Arrays and header of a weight file; one that was damaged since it was written is refused."""
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            header = file.metadata() or {}
    except (OSError, SafetensorError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise WeightsError(f"{path} cannot be read as safetensors: {error}") from None
    if _DIGEST in header or _DIGEST_OF in header:
        written = header.pop(_DIGEST, "nothing")
        found = _digest(arrays, header)
        if found != written:
            raise WeightsError(
                f"{path} is damaged: what it holds has sha256 {found[:12]}..., its header says {written[:12]}...; "
                "take a copy of it, or make it again"
            )
        header.pop(_DIGEST_OF, None)
    return arrays, header


def _digest(arrays: Mapping[str, NDArray[np.generic]], header: Mapping[str, str]) -> str:
    """sha256 of the header's texts, and of names, types, shapes and bytes of the arrays, both in the order of names."""
    digest = hashlib.sha256(json.dumps(sorted(header.items())).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def context_graphs(graph: Path) -> tuple[Path, Path]:
    """Where the graphs lie that read other runs: one sums them up, the other answers beside them."""
    return graph.with_suffix(".others.onnx"), graph.with_suffix(".context.onnx")


def digest_of(graphs: Iterable[bytes]) -> str:
    """sha256 of the graphs of a network, one behind the other."""
    return hashlib.sha256(b"".join(graphs)).hexdigest()


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
    file = FOLDER / "registry.json"
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        for name, entry in {data["default"]: data["models"][data["default"]], **data["models"]}.items():
            digests = [entry["sha256"][f"{name}{suffix}"] for suffix in (".onnx", ".safetensors")]
            if not isinstance(entry["card"], dict) or not all(isinstance(digest, str) for digest in digests):
                raise TypeError(f"the entry of {name}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WeightsError(f"{file} is damaged ({error!r}); install epochcast again") from None
    return data


def models() -> list[str]:
    """The names of the models that ship.

    Returns:
        Names that `model=` knows, in alphabetical order.

    Examples:
        >>> models()
        ['lcpfn', 'real', 'stream']
    """
    return sorted(registry()["models"])


def shipped_digest(name: str) -> str:
    """The sha256 of the weights of a model that ships."""
    return str(registry()["models"][name]["sha256"][f"{name}.safetensors"])


def find(name: str | Path) -> ModelFiles:
    """The files of a shipped model by its name, or of your own by the path of its .onnx file."""
    if isinstance(name, Path) or name.endswith(".onnx"):
        return _own(Path(name))
    if not _NAME.match(name):
        raise WeightsError(f"model name {cut(name)!r} must match {_NAME.pattern}")
    known = registry()
    name = known["default"] if name == DEFAULT else name
    if name not in known["models"]:
        raise WeightsError(f"model {cut(name)!r} is unknown; shipped are {', '.join(models())}")
    entry = known["models"][name]
    for file, digest in entry["sha256"].items():
        _check_digest(FOLDER / file, digest)
    return ModelFiles(name, FOLDER / f"{name}.onnx", FOLDER / f"{name}.safetensors", entry["card"])


def _own(graph: Path) -> ModelFiles:
    """A model of one's own; its weights say which graph belongs to them, unless they are older than that."""
    if not graph.name:
        raise WeightsError(f"{graph} is a folder; name the .onnx file in it")
    weights = graph.with_suffix(".safetensors")
    for file in (graph, weights):
        if not os.path.isfile(file):  # unlike Path.is_file it answers for names too long for the system, too
            folder = cut(graph.parent)
            raise WeightsError(f"{cut(file)} does not exist; train a model with: epochcast train --out {folder}")
    _, header = read_safetensors(weights)
    graphs = [file for file in (graph, *context_graphs(graph)) if file.is_file()]
    found = digest_of(file.read_bytes() for file in graphs)
    wanted = header.get(GRAPH_DIGEST) or _graph_of_copy(weights)
    if wanted not in (None, found):
        raise WeightsError(
            f"{graph} has sha256 {found[:12]}..., but {weights.name} goes with {wanted[:12]}...: it is damaged, or "
            "another model's; export both again"
        )
    return ModelFiles(graph.stem, graph, weights, {})


def _graph_of_copy(weights: Path) -> str | None:
    """The digest of the graph of weights without a checksum, if they are a copy of some that ship."""
    head = _head(weights)
    for name, entry in registry()["models"].items():
        file = f"{name}.safetensors"
        if head == _head(FOLDER / file):
            found, digest = hashlib.sha256(weights.read_bytes()).hexdigest(), entry["sha256"][file]
            if found != digest:
                raise WeightsError(
                    f"{weights} is a damaged copy of the {name} that ships: it has sha256 {found[:12]}..., not "
                    f"{digest[:12]}...; copy it again from {FOLDER}"
                )
            # Graphs name the file of their weights, so that of a renamed copy is another one.
            return str(entry["sha256"][f"{name}.onnx"]) if weights.name == file else None
    _log.warning("%s carries no checksum, so that damage to it goes unnoticed; export it again to give it one", weights)
    return None


def _head(file: Path) -> bytes:
    """The header of a safetensors file: texts, and name, type, shape and place of each array."""
    with open(file, "rb") as data:
        return data.read(int.from_bytes(data.read(8), "little"))


@cache  # once per process: a file that ships does not change under a running program
def _check_digest(file: Path, digest: str) -> None:
    if not file.is_file():
        raise WeightsError(f"{file.name} is missing from the installation; install epochcast again")
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != digest:
        raise WeightsError(f"{file.name} has sha256 {found[:12]}..., not {digest[:12]}...; install epochcast again")
