"""Logs of made-up runs, for tests of what watches them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

HORIZON = 50


def curve(end: float, steps: int = HORIZON) -> list[float]:
    """A run that comes to rest at `end`."""
    return [end * (1.0 - 0.8 * 0.7**step) for step in range(1, steps + 1)]


def write(path: Path, values: Iterable[float], column: str = "val_acc") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"epoch,{column}"] + [f"{step},{value}" for step, value in enumerate(values, start=1)]
    path.write_text("\n".join(lines) + "\n")
    return path


def append(path: Path, step: int, value: float) -> None:
    with path.open("a") as file:
        file.write(f"{step},{value}\n")
