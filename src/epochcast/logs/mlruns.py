"""One run of MLflow's file store: mlruns/<experiment>/<run>, with a file for each metric and a meta.yaml.

A metric's file has a line for each value, `timestamp value step`. Older clients left the step out, newer ones may add
the name and the digest of a dataset. A metric named `val/acc` lies in a folder `val`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from epochcast.errors import InputError
from epochcast.logs import limits
from epochcast.logs.columns import Columns
from epochcast.logs.run import shown

META = "meta.yaml"
METRICS = "metrics"
OTHER_FOLDERS = ("params", "tags", "inputs", "outputs")  # of a run: small files of any name, none of them a log
MODELS = "models"  # a folder of an experiment whose entries look like runs, but hold what was measured of a model
_STEP = re.compile(r"-?\d{1,18}")
_PAIR = re.compile(r"(\w+): *(.*)")


def parse(folder: Path, metric_files: Sequence[Path]) -> tuple[str, Columns] | None:
    """The name of a run (experiment/run) and its numbers; None if it was deleted."""
    run, experiment = _pairs(folder / META), _pairs(folder.parent / META)
    if "deleted" in (run.get("lifecycle_stage"), experiment.get("lifecycle_stage")):
        return None
    columns = Columns(str(folder), rows_are_steps=True)
    for path in metric_files:
        _read_metric(path, path.relative_to(folder / METRICS).as_posix(), columns)
    return f"{experiment.get('name') or folder.parent.name}/{run.get('run_name') or folder.name}", columns


def _read_metric(path: Path, name: str, columns: Columns) -> None:
    """Add the values of one metric. A last line without a line end is still being written."""
    data = limits.read_bytes(path)
    columns.declare(name)
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        limits.check_size(number, limits.MAX_ROWS, str(path), "lines")
        if not line.strip():
            continue
        parts = line.decode("utf-8", errors="replace").split()
        step = parts[2] if len(parts) > 2 else "0"
        try:
            value = float(parts[1])
        except (IndexError, ValueError):
            value = None
        if value is None or not _STEP.fullmatch(step):
            found = shown(" ".join(parts))
            raise InputError(f"{path}, line {number}: {found} is not a timestamp, a value and a step; correct it")
        columns.add(name, int(step), value)


def _pairs(path: Path) -> dict[str, str]:
    """The plain entries of a YAML file as MLflow writes it; what cannot be read is not there."""
    try:
        text = limits.read_bytes(path).decode("utf-8")
    except (InputError, UnicodeDecodeError):
        return {}
    return {pair[1]: _plain(pair[2].strip()) for line in text.splitlines() if (pair := _PAIR.fullmatch(line))}


def _plain(scalar: str) -> str:
    """The text that a YAML scalar on one line stands for."""
    if len(scalar) > 1 and scalar[0] == scalar[-1] == "'":
        return scalar[1:-1].replace("''", "'")
    if len(scalar) > 1 and scalar[0] == scalar[-1] == '"':
        try:
            return str(json.loads(scalar))
        except (ValueError, RecursionError):
            return scalar[1:-1]
    return "" if scalar in ("null", "~") else scalar
