"""What was found in a log: a `Run` with its metrics, and `Findings`, the runs below one path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from epochcast.curve import Array
from epochcast.errors import InputError

Format = Literal["csv", "json", "jsonl", "mlflow", "tensorboard", "transformers", "wandb"]

_NAMES_LISTED = 40
_LONGEST_NAME_SHOWN = 100


class UnknownColumnError(InputError):
    """A log has no metric of the name asked for."""


class Series(NamedTuple):
    """One metric of a run: finite, growing steps, and a value at each. Values may be nan or infinite, as logged."""

    steps: Array  # [value]
    values: Array  # [value]


@dataclass(frozen=True)
class Run:
    """One training run as its log tells it.

    Attributes:
        name: The run's own, or that of its file.
        path: Where it was found.
        metrics: The series of each metric, by its name in the log.
        format: Of the log.
        step_name: What the log calls its steps; None: values were counted 1, 2, 3, ...
        notes: What the reader left out or changed, one sentence each.
        restarted: Metrics that started again, of which only the last attempt is here.
        config: The run's configuration, where the log itself tells it.
        label: What tells it from other runs of its log: a cell of a column such as `run_id`, its name in a store.
    """

    name: str
    path: Path
    metrics: dict[str, Series]
    format: Format
    step_name: str | None
    notes: tuple[str, ...] = ()
    restarted: frozenset[str] = frozenset()
    config: Mapping[str, Any] | None = None
    label: str | None = None

    def metric(self, name: str | None = None) -> tuple[str, Series]:
        """One of the metrics.

        Args:
            name: That in the log; may be left out where there is only one.

        Returns:
            Its name and its series.

        Raises:
            InputError: If there is no such metric, or several are meant.
        """
        if name is not None:
            if name not in self.metrics:
                known = list_names(self.metrics)
                raise UnknownColumnError(f"{self.path} has no column {shown(name)}; it has {known}")
            return name, self.metrics[name]
        if not self.metrics:
            raise InputError(f"{self.path} has no column of numbers; give one value per line, or a table with a header")
        if len(self.metrics) != 1:
            raise InputError(f"{self.path} has {len(self.metrics)} columns; name one: {list_names(self.metrics)}")
        return next(iter(self.metrics.items()))

    def describe(self) -> str:
        """One line that tells what was found, and one more for each note."""
        steps = "counted values" if self.step_name is None else shown(self.step_name)
        sizes = [f"{shown(name)} ({len(series.steps)})" for name, series in self.metrics.items()]
        head = f"{shown(self.name)}: {self.format}, by {steps}: {_listed(sizes)}"
        return "\n".join([head, *(f"  {note}" for note in self.notes)])


@dataclass(frozen=True)
class Skipped:
    """A file that looked like a log but was left out, and why."""

    path: Path
    reason: str


class Findings(list[Run]):
    """The runs found at one path, in order of their paths, and what was left out."""

    def __init__(self, path: Path, runs: Iterable[Run] = (), skipped: Iterable[Skipped] = ()) -> None:
        super().__init__(runs)
        self.path = path
        self.skipped = list(skipped)

    def describe(self) -> str:
        """What was found and what was left out, one line each, after a summary."""
        formats = Counter(run.format for run in self)
        summary = f"{self.path}: {len(self)} run{'s' * (len(self) != 1)}"
        if formats:
            summary += " (" + ", ".join(f"{count} {format}" for format, count in sorted(formats.items())) + ")"
        if self.skipped:
            summary += f", {len(self.skipped)} left out"
        left_out = [f"left out {skipped.path}: {skipped.reason}" for skipped in self.skipped]
        return "\n".join([summary, *(run.describe() for run in self), *left_out])


def shown(name: str) -> str:
    """A name from a file as it may be printed: no control characters that could drive a terminal, and not too long."""
    short = name if len(name) <= _LONGEST_NAME_SHOWN else name[:_LONGEST_NAME_SHOWN] + "..."
    return short if short.isprintable() and short.strip() else repr(short)


def printable(text: str) -> str:
    """A sentence as it may be printed, whatever names and paths it quotes."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def list_names(names: Iterable[str]) -> str:
    """Names for an error message, sorted."""
    return _listed([shown(name) for name in sorted(names)])


def _listed(items: Sequence[str]) -> str:
    more = len(items) - _NAMES_LISTED
    return (", ".join(items[:_NAMES_LISTED]) + (f" and {more} more" if more > 0 else "")) or "nothing"
