"""Finds the logs below a directory by the names that the libraries give them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from epochcast.errors import InputError
from epochcast.logs import limits, tensorboard, transformers
from epochcast.logs.run import Kind, Skipped

_KIND_BY_NAME: dict[str, Kind] = {transformers.FILE_NAME: "transformers", "result.json": "jsonl"}  # Ray Tune's result
_KIND_BY_SUFFIX: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".db": "mlflow",
    ".sqlite": "mlflow",
    ".sqlite3": "mlflow",
}
_CHECKPOINT = re.compile(r"checkpoint-\d+")


@dataclass(frozen=True)
class Log:
    """The files of one log; more than one only for TensorBoard, whose run is a directory of event files."""

    kind: Kind
    name: str
    paths: tuple[Path, ...]

    @property
    def path(self) -> Path:
        return self.paths[0].parent if self.kind == "tensorboard" else self.paths[0]


@dataclass
class _Walk:
    """One pass over a directory."""

    root: Path
    files: list[Path] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    seen: int = 0

    def visit(self, directory: Path, depth: int) -> None:
        """Collect the log files below a directory in the order of their names. Symbolic links are not followed."""
        if depth > limits.MAX_DEPTH:
            self.skipped.append(Skipped(directory, f"more than {limits.MAX_DEPTH} directories deep"))
            return
        try:
            entries = sorted(self._entries(directory), key=lambda entry: entry.name)
        except OSError as error:
            self.skipped.append(Skipped(directory, error.strerror or str(error)))
            return
        for entry in entries:
            path = directory / entry.name
            if entry.is_symlink():
                if _kind_of(path) is not None:
                    self.skipped.append(Skipped(path, "a symbolic link"))
            elif entry.is_dir(follow_symlinks=False):
                self.visit(path, depth + 1)
            elif entry.is_file(follow_symlinks=False) and _kind_of(path) is not None:
                self.files.append(path)

    def _entries(self, directory: Path) -> Iterator[os.DirEntry[str]]:
        with os.scandir(directory) as entries:
            for entry in entries:
                self.seen += 1
                if self.seen > limits.MAX_ENTRIES:
                    raise InputError(
                        f"{self.root} holds more than {limits.MAX_ENTRIES:,} files; give a directory in it"
                    )
                if not entry.name.startswith("."):
                    yield entry


def find_logs(root: Path) -> tuple[list[Log], list[Skipped]]:
    """The logs below a directory, sorted by path, and the files that look like logs but were left out."""
    walk = _Walk(root)
    walk.visit(root, 0)
    files = _without_earlier_checkpoints(walk)
    logs: dict[Path, Log] = {}
    for path in files:
        kind = _kind_of(path)
        if kind is None:
            continue
        place = path.parent if kind == "tensorboard" else path
        paths = (*logs[place].paths, path) if place in logs else (path,)
        logs[place] = Log(kind, _name(root, place), paths)
    if len(logs) > limits.MAX_RUNS:
        raise InputError(f"{root} holds {len(logs):,} logs, more than {limits.MAX_RUNS:,}; give a directory in it")
    return list(logs.values()), walk.skipped


def _kind_of(path: Path) -> Kind | None:
    if tensorboard.MARK in path.name:
        return "tensorboard"
    return _KIND_BY_NAME.get(path.name) or _KIND_BY_SUFFIX.get(path.suffix.lower())


def _name(root: Path, place: Path) -> str:
    relative = place.relative_to(root).as_posix()
    return relative if relative != "." else root.resolve().name


def _without_earlier_checkpoints(walk: _Walk) -> list[Path]:
    """The files without the states that Transformers saved earlier in the same training.

    Each checkpoint holds the whole history up to it, so the largest file is the newest state.
    """
    states: dict[Path, list[Path]] = {}  # the output directory of a training -> its states
    for path in walk.files:
        if path.name == transformers.FILE_NAME:
            folder = path.parent
            output = folder.parent if _CHECKPOINT.fullmatch(folder.name) and folder != walk.root else folder
            states.setdefault(output, []).append(path)
    earlier: set[Path] = set()
    for paths in states.values():
        newest = max(paths, key=_size)
        earlier.update(path for path in paths if path != newest)
        walk.skipped += [Skipped(path, f"an earlier state of {newest}") for path in paths if path != newest]
    return [path for path in walk.files if path not in earlier]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it was deleted since: any other state is newer
        return -1
