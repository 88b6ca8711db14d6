"""The configuration of a run, from the files that loggers leave beside its log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from epochcast.checks import is_finite
from epochcast.logs.run import Run

_IN_FOLDER = (  # in the order in which they are looked for
    "hparams.yaml",  # Lightning
    "params.json",  # Ray Tune
    "config.json",
    "hparams.json",
    "config.yaml",
    "config.yml",
    "args.json",
    "args.yaml",
    "files/config.yaml",  # W&B
    ".hydra/config.yaml",
)
_PARAMS = "params"  # the folder of MLflow's file store: a file for each
_BESIDE = (".json", ".yaml", ".yml")  # run7.yaml beside run7.csv
_MOST_BYTES = 2**20
_MOST_ENTRIES = 200
_LONGEST_TEXT = 200
_MOST_DEPTH = 8  # of settings inside others
_PAIR = re.compile(r"( *)([^\s#:'\"{\[-][^:#]*?|'[^']+'|\"[^\"]+\"): *(.*)")
_YAML_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_WANDB_OWN = "_wandb"


def config_beside(run: Run) -> dict[str, Any] | None:
    """What the run's store says of it, or else what a file beside its log says; None where neither says anything.

    A folder with the logs of several runs has one such file for all of them, which tells nothing of their differences.
    """
    return configuration_of(run.path) or None if run.config is None else dict(run.config)


def configuration_of(log: Path) -> dict[str, Any]:
    """The settings of the run whose log this is, by name; those inside others are called `outer.inner`.

    Numbers, truth values and texts are kept, and lists as texts; at most 200. Nothing is found, nothing is raised
    where no file can be read.
    """
    folder = log if log.is_dir() else log.parent
    beside = [] if log == folder else [log.with_suffix(suffix) for suffix in _BESIDE if suffix != log.suffix]
    for path in (*beside, *(folder / name for name in _IN_FOLDER)):
        found = _flat(_parsed(path))
        if found:
            return found
    return _flat(_mlflow(folder / _PARAMS))


def _parsed(path: Path) -> Mapping[str, Any]:
    """What a file says; nothing where it is missing, too large, or something else."""
    text = _text(path)
    if text is None:
        return {}
    if path.suffix != ".json":
        return _yaml(text)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(path: Path) -> str | None:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _mlflow(folder: Path) -> dict[str, Any]:
    try:
        files = sorted(folder.iterdir())[:_MOST_ENTRIES] if folder.is_dir() and not folder.is_symlink() else []
    except OSError:
        return {}
    texts = {path.name: _text(path) for path in files}
    return {name: _scalar(text.strip()) for name, text in texts.items() if text is not None}


def _yaml(text: str) -> dict[str, Any]:
    """Mappings of plain values, one per line, as loggers write them; lists over several lines are left out."""
    root: dict[str, Any] = {}
    open_mappings: list[tuple[int, dict[str, Any]]] = [(-1, root)]
    for line in text.splitlines():
        pair = _PAIR.fullmatch(line.rstrip())
        if pair is None:
            continue
        indent, name, value = len(pair[1]), pair[2].strip("'\""), pair[3]
        while open_mappings[-1][0] >= indent:
            open_mappings.pop()
        if value:
            open_mappings[-1][1][name] = _scalar(value)
        else:
            inner: dict[str, Any] = {}
            open_mappings[-1][1][name] = inner
            open_mappings.append((indent, inner))
    return root


def _scalar(text: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    plain = text.split(" #")[0].strip()
    if plain.lower() in _YAML_WORDS:
        return _YAML_WORDS[plain.lower()]
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    return plain


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in _entries("", settings, depth=0):
        if len(found) == _MOST_ENTRIES:
            break
        found[name] = value
    return found


def _entries(prefix: str, settings: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if name == _WANDB_OWN:
            continue
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            if depth == _MOST_DEPTH:
                continue
            if "value" in value and set(value) <= {"value", "desc"}:  # how W&B writes each of them
                yield from _entries(prefix, {name: value["value"]}, depth + 1)
            else:
                yield from _entries(f"{key}.", value, depth + 1)
        elif value is None or isinstance(value, bool) or is_finite(value):
            yield key, value
        else:
            yield key, str(value)[:_LONGEST_TEXT]
