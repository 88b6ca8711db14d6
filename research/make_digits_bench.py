"""Train a thousand small real networks and store how their validation accuracy and log loss went.

    python research/make_digits_bench.py            # about 6 minutes on one core; a second call resumes

writes `src/epochcast/data/digits_bench.npz`, described in the README beside it. Networks of one architecture train
together as a chunk; a chunk is seeded by the seed of the collection and its place in the plan, so finished chunks are
kept in the folder `--cache` and are not trained again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from digits_bench.networks import ACTIVATIONS, FAMILIES
from digits_bench.tasks import RECIPES, load_task
from digits_bench.training import CONFIG_NAMES, OPTIMIZERS, SCHEDULES, Chunk, train_chunk
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

DEFAULT_OUTPUT = Path(__file__).resolve().parents[1] / "src" / "epochcast" / "data" / "digits_bench.npz"
DEFAULT_CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "epochcast" / "digits_bench"

Arrays = dict[str, NDArray[Any]]
_MANTISSA_BITS = 11  # log losses are stored to 1 in 4096: far below their sampling error, and they compress well


def plan(networks: int, per_chunk: int, epochs: int | None, seed: int) -> list[Chunk]:
    """Chunks that go round all pairs of task and family until there are enough networks."""
    pairs = itertools.cycle((task, family) for task, recipe in RECIPES.items() for family in recipe.families)
    chunks: list[Chunk] = []
    while (left := networks - sum(chunk.networks for chunk in chunks)) > 0:
        task, family = next(pairs)
        length = epochs or RECIPES[task].epochs
        chunks.append(Chunk.draw(task, family, min(left, per_chunk), length, (seed, len(chunks))))
    return chunks


def finished_chunks(chunks: list[Chunk], cache: Path, seed: int) -> Iterator[Arrays]:
    """The results of all chunks in order, from the cache where they are there already."""
    cache.mkdir(parents=True, exist_ok=True)
    for chunk in chunks:
        path = cache / cache_name(chunk)
        if not path.exists():
            save(path, dict(train_chunk(chunk, seed)))
        with np.load(path, allow_pickle=False) as stored:
            yield dict(stored)


def cache_name(chunk: Chunk) -> str:
    """A file name that changes with everything the result depends on, the code included."""
    digest = hashlib.sha256(json.dumps(asdict(chunk), sort_keys=True).encode())
    for source in sorted(Path(__file__).with_name("digits_bench").glob("*.py")):
        digest.update(source.read_bytes())
    return f"{chunk.task}-{chunk.family}-{digest.hexdigest()[:16]}.npz"


def save(path: Path, arrays: Arrays) -> None:
    """Write to a neighbouring file first, so that a crash leaves no half file behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.savez_compressed(file, **arrays)
    unfinished.replace(path)


def collect(chunks: list[Chunk], results: list[Arrays], seed: int) -> Arrays:
    """The collection as it is stored, one row per network."""
    sizes = [chunk.networks for chunk in chunks]
    task_names, family_names = list(RECIPES), list(FAMILIES)
    accuracy, log_loss = (_padded([result[key] for result in results]) for key in ("accuracy", "log_loss"))
    log_loss = round_mantissa(log_loss, _MANTISSA_BITS)
    tasks = [load_task(name, seed) for name in task_names]
    return {
        "curves_accuracy": accuracy[:, 1:],
        "curves_log_loss": log_loss[:, 1:],
        "y0_accuracy": accuracy[:, 0],
        "y0_log_loss": log_loss[:, 0],
        "epochs": np.repeat([chunk.epochs for chunk in chunks], sizes).astype(np.int16),
        "task": np.repeat([task_names.index(chunk.task) for chunk in chunks], sizes).astype(np.int16),
        "task_names": np.array(task_names),
        "n_train": np.array([len(task.y_train) for task in tasks]),
        "n_val": np.array([len(task.y_val) for task in tasks]),
        "n_classes": np.array([task.n_classes for task in tasks]),
        "family": np.repeat([family_names.index(chunk.family) for chunk in chunks], sizes).astype(np.int16),
        "family_names": np.array(family_names),
        "config": np.concatenate([result["config"] for result in results]).astype(np.float32),
        "config_names": np.array(CONFIG_NAMES),
        "schedule_names": np.array(SCHEDULES),
        "optimizer_names": np.array(OPTIMIZERS),
        "activation_names": np.array(list(ACTIVATIONS)),
        "license": np.array("CC0-1.0"),
    }


def _padded(blocks: list[NDArray[np.float64]]) -> NDArray[np.float32]:
    longest = max(block.shape[1] for block in blocks)
    rows = [np.pad(block, ((0, 0), (0, longest - block.shape[1])), constant_values=np.nan) for block in blocks]
    return np.concatenate(rows).astype(np.float32)


def round_mantissa(values: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    """Values rounded to `bits` binary digits behind the first."""
    mantissa, exponent = np.frexp(values)  # mantissa in [0.5, 1)
    return np.ldexp(np.round(np.ldexp(mantissa, bits + 1)), exponent - bits - 1)


def main(
    output: Annotated[Path, typer.Option(help="The .npz file to write.")] = DEFAULT_OUTPUT,
    cache: Annotated[Path, typer.Option(help="Folder of finished chunks.")] = DEFAULT_CACHE,
    networks: Annotated[int, typer.Option(min=1, help="How many networks to train.")] = 1056,
    per_chunk: Annotated[int, typer.Option(min=1, help="Networks of one architecture, trained together.")] = 16,
    epochs: Annotated[int | None, typer.Option(min=1, help="Train all for so long; default: 50 or 100.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides everything that is random.")] = 0,
) -> None:
    """Train the networks that the cache does not hold yet and write the collection."""
    torch.set_num_threads(1)  # the tensors are small: more threads cost more than they bring
    torch.set_flush_denormal(True)
    chunks = plan(networks, per_chunk, epochs, seed)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn()) as progress:
        results = list(progress.track(finished_chunks(chunks, cache, seed), len(chunks), description="chunks"))
    save(output, collect(chunks, results, seed))


if __name__ == "__main__":
    typer.run(main)
