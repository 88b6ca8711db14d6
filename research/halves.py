"""Development runs in two halves: one to choose by, one to report. The split was fixed before anything was chosen.

Runs of one task stay together. Collections of few tasks are split by runs instead, those of one parent together: runs
that branch off the constant part of another run are nearly copies of it up to there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from epochcast.benchmarks import CurveSet, load
from epochcast.benchmarks.npz import arrays_of
from epochcast.curve import Mask
from epochcast.errors import InputError

Half = Literal["choose", "report"]

SEED = 226  # the first of 31, 32, ... whose halves have between a third and two thirds of the runs of each collection
_FEWEST_TASKS = 5  # with fewer, a collection is split by runs
_FEWEST_THRESHOLD = 8  # groups: with fewer, as many on either side rather than by their number alone
# A branch names its dataset, model and learning rate as its parent does; how long it decays comes later.
_PARENT = re.compile(r"([a-z0-9]+(?:_chunk\d+)?_llama(?:_norm)?_nlayers\d+_nhead\d+_lr[\d.]+)_sched")


def load_half(path: str | Path, half: Half) -> list[CurveSet]:
    """The collections of a file or folder, each with the runs of one half."""
    return [curves[rows] for curves, rows in split(path, half)]


def split(path: str | Path, half: Half) -> list[tuple[CurveSet, Mask]]:
    """All runs of each collection, and which of them are in a half."""
    if half not in get_args(Half):
        raise InputError(f"half={half!r} is unknown; choose {' or '.join(get_args(Half))}")
    folder = Path(path)
    files = sorted(folder.glob("*.npz")) if folder.is_dir() else [folder]
    found = []
    for file in files:
        for curves in load(file, skip_bad=True).sets:
            names = arrays_of(file).get("run_names", np.arange(len(curves)))
            chosen = in_choosing_half(groups(curves, [str(name) for name in names]))
            found.append((curves, chosen if half == "choose" else ~chosen))
    return found


def groups(curves: CurveSet, run_names: Sequence[str]) -> list[str]:
    """What each run must stay together with: its task, its parent, or itself."""
    parents = [_PARENT.search(name) for name in run_names]
    if len(parents) == len(curves) and any(parents):
        return [match[1] if match else name for match, name in zip(parents, run_names, strict=True)]
    if len(np.unique(curves.task)) >= _FEWEST_TASKS:
        return [curves.task_names[task] for task in curves.task]
    # Runs that are left out as bad ones shift the others: then only their order is left to tell them by.
    names = run_names if len(run_names) == len(curves) else [str(row) for row in range(len(curves))]
    return [f"{curves.task_names[task]}/{name}" for task, name in zip(curves.task, names, strict=True)]


def in_choosing_half(groups: Sequence[str]) -> Mask:
    """Which runs [run] belong to the half to choose by; a group that is in two collections is on the same side of
    both, unless there are few."""
    places = {group: _place(group) for group in set(groups)}
    ordered = sorted(places.values())
    few = len(ordered) < _FEWEST_THRESHOLD
    border = ordered[len(ordered) // 2] if few else 0.5
    return np.array([places[group] < border for group in groups])


def _place(group: str) -> float:
    """A number in [0, 1) that depends on the name alone."""
    digest = hashlib.sha256(f"{SEED}/{group}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
