"""One way in: `load(path)` finds out what lies there and reads it."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from epochcast.benchmarks.collection import Collection, Skipped
from epochcast.benchmarks.curveset import CurveSet
from epochcast.benchmarks.json_stream import first_character
from epochcast.benchmarks.lcbench import read_nested_json, refuse_pickle
from epochcast.benchmarks.npz import arrays_of, digits_bench, read_npz
from epochcast.benchmarks.pd1 import is_other_than_pd1, read_pd1
from epochcast.benchmarks.runs import Horizon, read_logs
from epochcast.benchmarks.tables import is_long_table, read_long_table
from epochcast.benchmarks.taskset import is_taskset, read_taskset, read_taskset_json
from epochcast.checks import cut, flag, name_of, path_of, shown
from epochcast.errors import InputError
from epochcast.logs.directory import format_of_name
from epochcast.metric import Metric, is_preset

SHIPPED = "digits_bench"
_PICKLES = (".pth", ".pt", ".p", ".pkl", ".pickle", ".pbz2", ".pickle.pbz2", ".joblib")
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".7z")
_READ = (".npz", ".json", ".json.gz", ".jsonl", ".jsonl.gz", ".csv", ".csv.gz")


def load(
    path: str | Path,
    *,
    monitor: str | None = None,
    metric: Metric | str | None = None,
    kind: Metric | str | None = None,
    skip_bad: bool = False,
    horizon: Horizon = "own",
) -> Collection:
    """The curves of a file or a folder.

    Args:
        path: A collection, a folder of them or of logs, or `"digits_bench"`, the collection that ships.
        monitor: The name in the file, where there are several metrics.
        metric: What a column of logs measures, where its name does not say it.
        kind: The former name of `metric`, when `metric` was that of `monitor`.
        skip_bad: Leave out and list what cannot be read.
        horizon: Where the runs of logs were planned to end: each at its `"own"` last step, all of a task at that of its
            `"longest"` run, or all at a given step, after which nothing is read.

    Returns:
        One set of curves for each collection and metric.

    Raises:
        InputError: If there is nothing that can be read; the message names file and place.

    Examples:
        >>> from epochcast.benchmarks import load
        >>> load("digits_bench").sets[0]
        <CurveSet digits_bench_accuracy: 1,056 curves of 0-100 values, 12 tasks, accuracy>
    """
    path, skip_bad = path_of(path, "path"), flag(skip_bad, "skip_bad")
    monitor, metric = _named(monitor, metric, kind)
    if str(path) == SHIPPED:
        return Collection(path, "shipped with epochcast", (digits_bench("accuracy"), digits_bench("log_loss")))
    if _is_of_logs(path, metric) if os.path.isdir(path) else _is_log(path):
        return read_logs(path, monitor, metric=metric, skip_bad=skip_bad, horizon=horizon)
    if not isinstance(horizon, str):
        way_out = f"the runs of {path} have horizons of their own"
        raise InputError(f"horizon={shown(horizon)} is for a folder of logs, or one log; {way_out}")
    if os.path.isdir(path):
        return _folder(path, monitor, skip_bad)
    if not os.path.isfile(path):
        raise InputError(f"{cut(path)} does not exist; give a file, a folder or {SHIPPED}")
    return _file(path, monitor, skip_bad)


def _named(
    monitor: str | None, metric: Metric | str | None, kind: Metric | str | None
) -> tuple[str | None, Metric | str | None]:
    """The name in the file and what it measures, from the arguments of this version and of the one before."""
    if monitor is not None:
        name_of(monitor, "monitor")
    if kind is not None:
        _deprecated("kind= will go: say monitor= for the name in the file and metric= for what it measures")
        return monitor or (metric if isinstance(metric, str) else None), kind
    if monitor is None and isinstance(metric, str):  # a preset alone names the metric, too
        if not is_preset(metric):
            _deprecated(f"metric={metric!r} is a name in the file: say monitor={metric!r}")
        return metric, None
    return monitor, metric


def _deprecated(sentence: str) -> None:
    warnings.warn(sentence, DeprecationWarning, stacklevel=4)


def _file(path: Path, monitor: str | None, skip_bad: bool) -> Collection:
    name = path.name.lower()
    if name.endswith(_PICKLES):
        raise refuse_pickle(path)
    if name.endswith(_ARCHIVES):
        raise InputError(f"{path} is an archive; unpack it and load what it holds")
    if name.endswith(".npz"):
        return _npz(path, monitor, skip_bad)
    if name.endswith((".json", ".json.gz")):
        is_list = first_character(path) == "["
        return (read_taskset_json if is_list else read_nested_json)(path, monitor, skip_bad=skip_bad)
    if name.endswith((".jsonl", ".jsonl.gz", ".csv.gz")) or (name.endswith(".csv") and not is_long_table(path)):
        return read_pd1(path, monitor, skip_bad=skip_bad)
    if name.endswith(".csv"):
        return read_long_table(path, monitor, skip_bad=skip_bad)
    raise InputError(f"{path} is of no format that is known; collections end in {', '.join(_READ)}")


def _npz(path: Path, monitor: str | None, skip_bad: bool) -> Collection:
    if is_taskset(arrays_of(path)):
        return read_taskset([path], monitor, skip_bad=skip_bad)
    skipped: list[Skipped] = []
    curves = read_npz(path, values=monitor or "curves", skipped=skipped if skip_bad else None)
    return Collection(path, "npz", (curves,), tuple(skipped))


def _files(path: Path) -> list[Path]:
    """The files of a folder that look like collections."""
    files = [file for file in sorted(path.iterdir()) if file.is_file() and file.name.lower().endswith(_READ)]
    return [file for file in files if not file.name.endswith(".csv") or is_long_table(file)]


def _of_taskset(path: Path) -> list[Path]:
    return sorted(path.glob("*/*_replica*.npz"))


def _is_log(path: Path) -> bool:
    """Whether a file is a log, perhaps of several runs, and no collection."""
    if not os.path.isfile(path):
        return False
    if path.name.lower().endswith((".csv", ".jsonl")):
        return not is_long_table(path) and is_other_than_pd1(path)
    return not path.name.lower().endswith(_READ) and format_of_name(path) is not None


def _is_of_logs(path: Path, metric: Metric | str | None) -> bool:
    """Whether a folder holds logs: told by `metric`, or because there is nothing else in it."""
    if (metric is None and _files(path)) or _of_taskset(path):
        return False
    for file in sorted(path.iterdir()):
        if file.name.lower().endswith(_PICKLES):
            raise refuse_pickle(file)
    return True


def _folder(path: Path, monitor: str | None, skip_bad: bool) -> Collection:
    """All collections in a folder; else the TaskSet files below it."""
    files = _files(path)
    if files:
        return _joined(path, files, monitor, skip_bad)
    return read_taskset(_of_taskset(path), monitor, skip_bad=skip_bad)


def _joined(path: Path, files: list[Path], monitor: str | None, skip_bad: bool) -> Collection:
    sets: list[CurveSet] = []
    skipped: list[Skipped] = []
    for file in files:
        try:
            found = _file(file, monitor, skip_bad)
        except InputError as error:
            if not skip_bad and ".json" in file.name:
                raise InputError(f"{error}; of a folder of logs say what they measure: metric= (--metric)") from None
            if not skip_bad:
                raise
            skipped.append(Skipped(file, "", str(error)))
            continue
        sets += found.sets
        skipped += found.skipped
    if not sets:
        raise InputError(f"{path}: none of its {len(files)} collections can be read: {skipped[0].reason}")
    return Collection(path, f"folder of {len(sets)} collections", tuple(sets), tuple(skipped))
