"""Collections stored as one `.npz` file: the project's own `digits_bench` and files of the same layout.

Arrays: `curves` [curve, step] padded with NaN; `task`, `task_names`; `metric`, `minimize` (one, or one per task, with
`metric_of_task`); and where known `y0` (value before training; when it is also the first column of `curves`, that
column is step 0 and is taken out), `x` (steps), `epochs` (horizons), `config` with `config_names` and perhaps
`config_index`.
"""

from __future__ import annotations

import zipfile
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epochcast.benchmarks.collection import Skipped
from epochcast.benchmarks.curveset import CurveSet
from epochcast.errors import InputError
from epochcast.metric import Metric
from epochcast.naming import metric_from

MAX_BYTES = 2**30  # of one array, unpacked

Arrays = dict[str, NDArray[Any]]

_NOT_PER_CURVE = ("task_names", "metric", "metric_of_task", "minimize", "config_names")


def read_npz(path: str | Path, *, values: str = "curves", skipped: list[Skipped] | None = None) -> CurveSet:
    """The collection in a file; `values` names another array of curves in it, such as `curves_test`.

    With a list for what is `skipped`, curves that cannot be used are left out and listed there.
    """
    path = Path(path)
    arrays = arrays_of(path)
    if values not in arrays:
        curves = [name for name in arrays if name.startswith("curves")]
        raise InputError(f"{path} has no array {values!r}; arrays of curves in it: {', '.join(curves) or 'none'}")
    try:
        if skipped is not None:
            arrays = _usable(path, arrays, values, skipped)
        return _curve_set(path.stem, arrays, values)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise error if isinstance(error, InputError) else InputError(f"{path}: {error}") from None


def digits_bench(metric: Literal["accuracy", "log_loss"] = "accuracy") -> CurveSet:
    """The collection that ships with epochcast: validation curves of 1,056 small networks on 12 tasks.

    Args:
        metric: Which of the two that were measured.

    Returns:
        The curves.

    Raises:
        InputError: If another metric is asked for.

    Examples:
        >>> len(digits_bench("log_loss"))
        1056
    """
    if metric not in ("accuracy", "log_loss"):
        raise InputError(f"digits_bench holds accuracy and log_loss, not {metric!r}")
    with resources.as_file(resources.files("epochcast.data") / "digits_bench.npz") as path:
        arrays = arrays_of(path)
    arrays["y0"] = arrays[f"y0_{metric}"]
    arrays["metric"], arrays["minimize"] = np.array(metric), np.array(metric == "log_loss")
    return _curve_set(f"digits_bench_{metric}", arrays, f"curves_{metric}")


def arrays_of(path: Path) -> Arrays:
    """All arrays of a file; never unpickles, and never unpacks more than the limit."""
    if not path.is_file():
        raise InputError(f"{path} is not a file")
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.file_size > MAX_BYTES:
                    raise InputError(
                        f"{path}: {member.filename} unpacks to {member.file_size:,} bytes, more than {MAX_BYTES:,}"
                    )
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except InputError:
        raise
    except (zipfile.BadZipFile, OSError, EOFError, ValueError) as error:
        raise InputError(f"{path} is damaged or not an .npz file: {error}") from None


def _usable(path: Path, arrays: Arrays, key: str, skipped: list[Skipped]) -> Arrays:
    """The arrays without the rows of curves that are out of bounds or belong to no task."""
    curves = arrays[key]
    names = arrays.get("task_names", np.array([path.stem]))
    task = arrays.get("task", np.zeros(len(curves), dtype=np.int64))
    if curves.ndim != 2 or task.shape != (len(curves),):
        return arrays
    known = (task >= 0) & (task < len(names))
    reasons = {int(row): f"task number {task[row]} is not among {len(names)}" for row in np.flatnonzero(~known)}
    for number, metric in enumerate(_metrics(arrays, len(names))):
        rows = np.flatnonzero(known & (task == number))
        outside = np.isfinite(curves[rows]) & metric.outside(curves[rows])
        reasons |= {int(row): f"a value outside {metric.hard} of {metric.name}" for row in rows[outside.any(axis=1)]}
    skipped += [Skipped(path, f"curve {row}", reasons[row]) for row in sorted(reasons)]
    keep = np.setdiff1d(np.arange(len(curves)), list(reasons))
    per_curve = {name: array for name, array in arrays.items() if array.ndim and len(array) == len(curves)}
    return arrays | {name: array[keep] for name, array in per_curve.items() if name not in _NOT_PER_CURVE}


def _curve_set(name: str, arrays: Arrays, key: str) -> CurveSet:
    curves = arrays[key].astype(np.float64)
    if curves.ndim != 2 or curves.dtype.kind != "f":
        raise InputError(f"{name}: array {key!r} has shape {list(curves.shape)}, not [curve, step]")
    task_names = [str(task) for task in arrays.get("task_names", np.array([name]))]
    untrained = arrays.get("y0")
    steps = arrays.get("x")
    if steps is None and _starts_untrained(curves, untrained):
        curves = curves[:, 1:]
    config = arrays.get("config")
    if config is not None and "config_index" in arrays:
        config = config[arrays["config_index"]]
    return CurveSet.of(
        name,
        curves,
        _metrics(arrays, len(task_names)),
        steps=steps,
        horizons=arrays.get("epochs"),
        task=arrays.get("task"),
        task_names=task_names,
        untrained=untrained,
        config=config,
        config_names=[str(item) for item in arrays.get("config_names", ())],
    )


def _starts_untrained(curves: NDArray[np.float64], untrained: NDArray[Any] | None) -> bool:
    """Whether the first column repeats the values before training."""
    if untrained is None or untrained.shape != (len(curves),) or curves.shape[1] < 2:
        return False
    return bool(np.allclose(curves[:, 0], untrained, equal_nan=True))


def _metrics(arrays: Arrays, tasks: int) -> list[Metric]:
    names = arrays.get("metric_of_task", arrays.get("metric"))
    if names is None or "minimize" not in arrays:
        raise InputError("the arrays 'metric' and 'minimize' are missing")
    per_task = np.broadcast_to(names, (tasks,)), np.broadcast_to(arrays["minimize"], (tasks,))
    return [metric_from(str(name), minimize=bool(down)) for name, down in zip(*per_task, strict=True)]
