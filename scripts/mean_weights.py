"""The mean of the weights of several runs, as a checkpoint that `ship_model.py` takes.

    python scripts/mean_weights.py runs/mean.safetensors runs/a.safetensors runs/b.safetensors
    python scripts/mean_weights.py runs/mean.safetensors runs/a.safetensors:0.7 runs/b.safetensors:0.3

For runs that began at the same weights, whose ends are close enough to be averaged. A number after a colon is a run's
share. Steps and seconds are added up; the optimisers' states are left out.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epochcast.errors import ConfigError
from epochcast.runtime.weights import read_safetensors, write_safetensors

Weights = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Run:
    """Weights of a checkpoint or a model file, and what its header says."""

    path: Path
    share: float
    weights: Weights
    header: dict[str, str]

    @classmethod
    def read(cls, text: str) -> Run:
        name, _, share = text.partition(":")
        arrays, header = read_safetensors(Path(name))
        own = {key.removeprefix("model."): array for key, array in arrays.items() if not key.startswith("optimizer.")}
        return cls(Path(name), float(share or 1.0), {key: a.astype(np.float64) for key, a in own.items()}, header)


def mean(runs: list[Run]) -> Weights:
    """Each run counts by its share."""
    total = sum(run.share for run in runs)
    if total <= 0.0:
        raise ConfigError(f"the shares add up to {total:g}; give some run a positive one")
    first = runs[0]
    for run in runs[1:]:
        for name in first.weights.keys() | run.weights.keys():
            shapes = [r.weights[name].shape if name in r.weights else None for r in (first, run)]
            if shapes[0] != shapes[1]:
                raise ConfigError(f"{name} is {shapes[0]} in {first.path.name} and {shapes[1]} in {run.path.name}")
    return {name: sum(run.share / total * run.weights[name] for run in runs) for name in first.weights}


def main() -> None:
    parser = argparse.ArgumentParser(description="the mean of the weights of several runs")
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="+", help="checkpoints or model files, each with :SHARE if they count unevenly")
    arguments = parser.parse_args()
    runs = [Run.read(text) for text in arguments.runs]
    header = {
        "config": runs[0].header["config"],
        "step": str(sum(int(run.header["step"]) for run in runs)),
        "seconds": repr(sum(float(run.header["seconds"]) for run in runs)),
    }
    tensors = {f"model.{name}": array.astype(np.float32) for name, array in mean(runs).items()}
    write_safetensors(arguments.out, tensors, header)


if __name__ == "__main__":
    main()
