"""Weight files: written so that a crash cannot damage them, read without ever running code from them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from epochcast.errors import WeightsError


def write_safetensors(path: Path, tensors: Mapping[str, NDArray[np.generic]], header: Mapping[str, str]) -> None:
    """Write to a temporary file, flush it to the disk, then rename: the old file is there until the new one is whole."""
    data = save({name: np.ascontiguousarray(array) for name, array in tensors.items()}, metadata=dict(header))
    write_atomically(path, data)


def write_atomically(path: Path, data: bytes) -> None:
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
