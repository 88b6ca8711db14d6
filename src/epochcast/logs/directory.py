"""Finds the logs below a directory by the names that the libraries give them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from epochcast.errors import InputError
from epochcast.logs import limits, mlruns, tensorboard, transformers, wandb
from epochcast.logs.run import Format, Skipped

_FORMAT_BY_NAME: dict[str, Format] = {
    transformers.FILE_NAME: "transformers",
    "result.json": "jsonl",  # Ray Tune's
    wandb.SUMMARY: "wandb",
}
_FORMAT_BY_SUFFIX: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".db": "mlflow",
    ".sqlite": "mlflow",
    ".sqlite3": "mlflow",
    wandb.SUFFIX: "wandb",
}
_CHECKPOINT = re.compile(r"checkpoint-\d+")


@dataclass(frozen=True)
class Log:
    """The files of one log. Some runs are a folder of files: those of TensorBoard, MLflow's file store and W&B."""

    format: Format
    name: str
    paths: tuple[Path, ...]
    folder: Path | None = None

    @property
    def path(self) -> Path:
        return self.folder or self.paths[0]


@dataclass
class _Walk:
    """One pass over a directory."""

    root: Path
    files: list[Path] = field(default_factory=list)
    stored: list[Log] = field(default_factory=list)  # runs of MLflow's file store
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
        inside = {entry.name for entry in entries}
        is_stored = mlruns.META in inside and mlruns.METRICS in inside and directory.parent.name != mlruns.MODELS
        if is_stored:
            files = (directory / mlruns.META, *self._below(directory / mlruns.METRICS, depth))
            self.stored.append(Log("mlflow", _name_of_store(self.root, directory), files, directory))
        for entry in entries:
            if is_stored and entry.name in (mlruns.METRICS, *mlruns.OTHER_FOLDERS):
                continue
            try:
                self._visit_entry(directory / entry.name, entry, depth)
            except OSError as error:  # of a file system that fails
                self.skipped.append(Skipped(directory / entry.name, error.strerror or str(error)))

    def _visit_entry(self, path: Path, entry: os.DirEntry[str], depth: int) -> None:
        if entry.is_symlink():
            if format_of_name(path) is not None:
                self.skipped.append(Skipped(path, "a symbolic link"))
        elif entry.is_dir(follow_symlinks=False):
            self.visit(path, depth + 1)
        elif entry.is_file(follow_symlinks=False) and format_of_name(path) is not None:
            self.files.append(path)

    def _below(self, directory: Path, depth: int) -> Iterator[Path]:
        """All files below the metrics of a stored run; none where that is no directory."""
        try:
            entries = sorted(self._entries(directory), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield directory / entry.name
            elif entry.is_dir(follow_symlinks=False) and depth < limits.MAX_DEPTH:
                yield from self._below(directory / entry.name, depth + 1)

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
    logs: dict[Path, Log] = {log.path: log for log in walk.stored}
    groups: dict[Path, list[Path]] = {}
    for path in wandb.without_summaries_of_known_runs(_without_earlier_checkpoints(walk)):
        groups.setdefault(_place(path), []).append(path)
    for place, paths in groups.items():
        format = format_of_name(paths[0])
        if format == "wandb":
            newest = max(paths, key=wandb.start_time)
            folder = wandb.run_folder(newest)
            folder = folder if folder is not None and root in (folder, *folder.parents) else None
            logs[place] = Log(format, _name(root, folder or newest), tuple(paths), folder)
        elif format is not None:
            logs[place] = Log(format, _name(root, place), tuple(paths), place if format == "tensorboard" else None)
    if len(logs) > limits.MAX_RUNS:
        raise InputError(f"{root} holds {len(logs):,} logs, more than {limits.MAX_RUNS:,}; give a directory in it")
    return sorted(logs.values(), key=lambda log: log.path), walk.skipped


def _place(path: Path) -> Path:
    """What the files of one run share: the folder of event files, or, as each resumption of a W&B run has a folder of
    its own, the name that holds its id."""
    if tensorboard.MARK in path.name:
        return path.parent
    return path.parent.parent / path.name if path.suffix.lower() == wandb.SUFFIX else path


def format_of_name(path: Path) -> Format | None:
    """The format that the name of a file tells; None of one that is no log by its name."""
    if tensorboard.MARK in path.name:
        return "tensorboard"
    return _FORMAT_BY_NAME.get(path.name) or _FORMAT_BY_SUFFIX.get(path.suffix.lower())


def _name(root: Path, place: Path) -> str:
    relative = place.relative_to(root).as_posix()
    return relative if relative != "." else root.resolve().name


def _name_of_store(root: Path, run: Path) -> str:
    """Where the store of a run lies below the root; nothing if it is the root or lies above."""
    store = run.parent.parent
    return _name(root, store) if root in store.parents else ""


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
