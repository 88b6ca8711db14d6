"""What the page is sent: plain JSON of a `Snapshot` and its rows, with no more digits than can be seen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from epochcast.logs.run import printable
from epochcast.watch import Row, Snapshot
from epochcast.watch.lines import Line

_DIGITS = 12  # rounding to four of them, as the page does, then gives what the terminal shows
_CHANCE_PLACES = 4
_MOST_LEFT_OUT = 100  # files that are named
_SPARK_POINTS, _SPARK_SIZE = 32, 100


def head_of(snapshot: Snapshot) -> dict[str, Any]:
    """What is said of all runs together."""
    return {
        "monitor": snapshot.monitor,
        "metric": snapshot.metric.name,
        "minimize": snapshot.metric.minimize,
        "horizon": snapshot.horizon,
        "best": rounded(snapshot.best),
        "chance_of": snapshot.probability_of,
        "counts": {verdict.value: count for verdict, count in snapshot.counts.items()},
        "steps_saved": rounded(snapshot.steps_saved),
        "notes": [printable(note) for note in snapshot.notes],
        "left_out": [[printable(str(one.path)), printable(one.reason)] for one in snapshot.skipped[:_MOST_LEFT_OUT]],
        "problem": None if snapshot.problem is None else printable(snapshot.problem),
    }


def cells_of(row: Row, snapshot: Snapshot) -> dict[str, Any]:
    """What the table shows of a run, but for its sparkline."""
    return {
        "name": name_of(row, snapshot),
        "verdict": row.verdict.value,
        "step": row.step,
        "now": rounded(row.value),
        "diverged": row.value is not None and not math.isfinite(row.value),
        "best": rounded(row.best),
        "end": None if row.final is None else [rounded(value) for value in row.final],
        "chance": None if row.probability is None else round(row.probability, _CHANCE_PLACES),
        "note": None if row.note is None else printable(row.note),
    }


def name_of(row: Row, snapshot: Snapshot) -> str:
    """The name of a run without what all names have in common."""
    return printable(row.name.removesuffix(snapshot.common_file_name))


def sparkline(row: Row, horizon: int) -> list[int]:
    """Points of a small curve, x and y in turn, 0 to 100: x is the share of the horizon, y that of the run's range."""
    line = Line.of(row.series).until(horizon).thinned(_SPARK_POINTS)
    if len(line.steps) == 0:
        return []
    low, high = float(line.values.min()), float(line.values.max())
    with np.errstate(over="ignore", invalid="ignore"):  # of a range beyond what numbers hold: drawn in the middle
        heights = (line.values - low) / (high - low) if high > low else np.full(len(line.values), 0.5)
    heights = np.nan_to_num(heights, nan=0.5)
    points = np.stack([line.steps / horizon, heights], axis=1) * _SPARK_SIZE
    return [int(number) for number in np.clip(points, 0, _SPARK_SIZE).round().ravel()]


def rounded(data: Any) -> Any:
    """The same with numbers of twelve digits; what is not finite is None."""
    if isinstance(data, dict):
        return {key: rounded(item) for key, item in data.items()}
    if isinstance(data, (list, tuple)):
        return [rounded(item) for item in data]
    if isinstance(data, float):
        return float(f"{data:.{_DIGITS}g}") if math.isfinite(data) else None
    return data
