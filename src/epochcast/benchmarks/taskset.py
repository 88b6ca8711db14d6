"""TaskSet (Metz et al. 2020): one `.npz` per task and optimiser family, `<task>/<family>_10000_replica5.npz`.

Arrays: `optimizers` [configuration], `xs` [51] training steps from 0 on, `ys` [configuration, seed, 51, 4] with the
losses train, valid, valid2 and test. Every configuration and seed is a curve. Evenly spaced steps are counted 1, 2, ...

Means over seeds are also published as JSON, `<task>.json`: a list of `{"hp": {...}, "valid": {"loss": [...]}, ...}`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epochcast.benchmarks.collection import Collection, Collector, numbers_of
from epochcast.benchmarks.json_stream import open_text
from epochcast.benchmarks.npz import Arrays, arrays_of
from epochcast.errors import InputError
from epochcast.metric import Metric

_SPLITS = ("train", "valid", "valid2", "test")
DEFAULT_METRIC = "valid"
MAX_TEXT = 256 * 2**20  # characters of the JSON of one task


def is_taskset(arrays: Arrays) -> bool:
    """Whether the arrays of an .npz file are those of TaskSet."""
    return {"xs", "ys"} <= arrays.keys()


def read_taskset(paths: list[Path], monitor: str | None = None, *, skip_bad: bool = False) -> Collection:
    """The curves of one split from some files; a task is called after the folder of its file."""
    split = monitor or DEFAULT_METRIC
    root = paths[0] if len(paths) == 1 else paths[0].parent.parent
    collector = Collector(root, skip_bad)
    for path in paths:
        if split not in _SPLITS:
            collector.bad(str(path), f"metric {split!r} is not among {', '.join(_SPLITS)}")
            continue
        arrays = arrays_of(path)
        ys, xs = arrays.get("ys"), arrays.get("xs")
        if ys is None or xs is None or ys.ndim != 4 or xs.shape != ys.shape[2:3] or ys.shape[3] != len(_SPLITS):
            shapes = {name: list(array.shape) for name, array in arrays.items()}
            collector.bad(str(path), f"not xs [step] and ys [configuration, seed, step, 4] but {shapes}")
            continue
        _add(collector, path, ys[..., _SPLITS.index(split)], _counted(xs))
    curves = collector.build("taskset", lambda _: _loss(split))
    return Collection(root, f"TaskSet, {split} loss", (curves,), tuple(collector.skipped))


def read_taskset_json(path: Path, monitor: str | None = None, *, skip_bad: bool = False) -> Collection:
    """The curves of one split from the JSON of one task; the first value was measured before training."""
    split = monitor or DEFAULT_METRIC
    collector = Collector(path, skip_bad)
    with open_text(path) as file:
        text = file.read(MAX_TEXT + 1)
    if len(text) > MAX_TEXT:
        raise InputError(f"{path} holds more than {MAX_TEXT:,} characters; split it")
    try:
        members = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is cut off or not JSON: {error}") from None
    for number, member in enumerate(members):
        losses = member.get(split) if isinstance(member, dict) else None
        values = losses.get("loss") if isinstance(losses, dict) else losses
        if not isinstance(values, list):
            collector.bad(f"entry {number}", f"no list of losses under {split!r}")
            continue
        collector.add(
            f"entry {number}", path.stem, values, list(range(len(values))), config=numbers_of(member.get("hp"))
        )
    curves = collector.build(f"taskset_{path.stem}", lambda _: _loss(split))
    return Collection(path, f"TaskSet JSON, {split} loss", (curves,), tuple(collector.skipped))


def _loss(split: str) -> Metric:
    return Metric(f"{split} loss", True, (0.0, np.inf))


def _add(collector: Collector, path: Path, losses: NDArray[np.floating], steps: NDArray[np.float64]) -> None:
    for (configuration, seed), _ in np.ndenumerate(losses[..., 0]):
        place = f"{path.parent.name}/{path.name}: configuration {configuration}, seed {seed}"
        collector.add(place, path.parent.name, losses[configuration, seed], steps)


def _counted(xs: NDArray[np.floating]) -> NDArray[np.float64]:
    steps = np.asarray(xs, dtype=np.float64)
    gaps = np.diff(steps)
    even = len(gaps) > 0 and gaps[0] > 0 and np.allclose(gaps, gaps[0])
    return np.asarray(np.round(steps / gaps[0], 6)) if even else steps
