"""`Labels`: which run each row of a log belongs to, where columns such as `run_id` tell that."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Array
from epochcast.logs import limits

# Names before ids, as people know their runs by name. A later one counts only where it tells more runs apart.
RUN_NAMES = ("run_name", "run", "trial_name", "trial", "run_id", "trial_id", "run_number", "trial_number")


class Parting(NamedTuple):
    """Rows of a log, and the run of each."""

    rows: Array  # [row], sorted
    runs: NDArray[np.intp]  # [row]: the place of its run among the names
    names: list[str]  # in the order of the log


@dataclass
class _Labels:
    """One column: its labels in the order of the log."""

    rows: array[float] = field(default_factory=lambda: array("d"))
    codes: array[int] = field(default_factory=lambda: array("q"))
    names: dict[str, int] = field(default_factory=dict)

    def at(self, rows: Array) -> NDArray[np.intp]:
        """The code of each of these rows, -1 where it has none."""
        own = np.array(self.rows)
        found = np.minimum(np.searchsorted(own, rows), len(own) - 1)
        return np.where(own[found] == rows, np.array(self.codes)[found], -1)


class Labels:
    """The labels of a log's rows while it is read, row after row."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._columns: dict[str, _Labels] = {}

    def add(self, column: str, row: float, label: str) -> None:
        """Take down what a column says of a row."""
        labels = self._columns.setdefault(column, _Labels())
        labels.rows.append(row)
        labels.codes.append(labels.names.setdefault(label, len(labels.names)))

    def columns(self, spared: Collection[str]) -> list[str]:
        """The columns that tell runs apart, but for those that are asked for as something else."""
        return sorted(self._columns.keys() - set(spared), key=lambda name: RUN_NAMES.index(plain_name(name)))

    def parting(self, spared: Collection[str] = ()) -> Parting | None:
        """The run of each row that has a label; None where nothing is labelled."""
        columns = [self._columns[name] for name in self.columns(spared)]
        if not columns:
            return None
        rows = np.unique(np.concatenate([np.array(labels.rows) for labels in columns]))
        codes, names = np.zeros(len(rows), dtype=np.intp), [""]
        for labels in columns:
            pairs = np.stack([codes, labels.at(rows)], axis=1)
            both, place = np.unique(pairs, axis=0, return_inverse=True)
            if len(both) > len(names) or names == [""]:
                texts = [*labels.names, ""]  # the last of a row without a label, whose code is -1
                names = ["/".join(filter(None, (names[first], texts[second]))) for first, second in both.tolist()]
                codes = place.reshape(-1)
        if len(names) > limits.MAX_RUNS:
            raise limits.too_large(self._source, "runs", limits.MAX_RUNS)
        return _in_order_of_log(rows, codes, names)


def _in_order_of_log(rows: Array, codes: NDArray[np.intp], names: list[str]) -> Parting:
    _, first = np.unique(codes, return_index=True)
    order = np.argsort(first)
    return Parting(rows, np.argsort(order)[codes], [names[place] for place in order])


def is_run_name(name: str) -> bool:
    """Whether a column of that name tells to which run a row belongs."""
    return plain_name(name) in RUN_NAMES


def plain_name(name: str) -> str:
    """The name of a column without what loggers write in different ways."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def label_of(item: str | float) -> str:
    """An entry of JSON, whose whole numbers were read as floats, as a label."""
    if isinstance(item, str):
        return item.strip()
    return str(int(item)) if math.isfinite(item) and item == int(item) else str(item)
