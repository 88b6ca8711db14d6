"""The configuration of a run, from its store or from what its logger has left in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epochcast.logs.configuration import configuration_of
from epochcast.logs.jsonl import loads
from epochcast.logs.run import Run

FILE_NAMES = ("config.json", "hparams.json", "params.json")  # the last one is Ray Tune's
_MAX_BYTES = 2**20


def config_beside(run: Run) -> dict[str, Any] | None:
    """What the run's store says of it, or else the first of the files of its folder that says anything.

    None where there is none. A folder with the logs of several runs has one such file for all of them, which tells
    nothing of their differences. Names of nested entries are joined by dots, if they are not left nested.
    """
    if run.config is not None:
        return dict(run.config)
    folder = run.path if run.path.is_dir() else run.path.parent
    for name in FILE_NAMES:
        found = _object_in(folder / name)
        if found is not None:
            return found
    return {name.replace("/", "."): value for name, value in configuration_of(run.path).items()} or None


def _object_in(path: Path) -> dict[str, Any] | None:
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return None
        found = loads(path.read_bytes())
    except (OSError, ValueError):  # a file of some other kind
        return None
    return found if isinstance(found, dict) else None
