"""`TaskRuns`: the recorded runs of one task, which searches are replayed on."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from epochcast.benchmarks import CurveSet
from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.metric import Metric
from epochcast.stopping.calibration import FinishedRuns

Config = dict[str, float]


@dataclass(frozen=True)
class TaskRuns:
    """All runs of one task on steps 1..horizon, or on its multiples counted; NaN from where a run broke down."""

    benchmark: str
    task: str
    values: Array  # [run, step]
    metric: Metric
    untrained: Array | None = None  # [run], where it is known of all
    configs: tuple[Config, ...] | None = None  # [run]

    @classmethod
    def of(cls, curves: CurveSet, task: str, most: int | None = None, seed: int = 0) -> TaskRuns:
        """The runs of a task, or `most` of them drawn at random."""
        part = curves.of_task(task)
        if most is not None:
            part = part.sample(most, seed)
        steps = _shared_steps(part)
        every = float(steps[0]) if len(steps) else 1.0
        horizon = int(part.horizons.max(initial=0) / every)
        regular = np.array_equal(steps[:horizon], every * np.arange(1.0, horizon + 1.0))
        if not regular or horizon < 2 or (part.horizons != every * horizon).any():
            raise InputError(
                f"{curves.name}, task {task!r}: runs must share one horizon and be measured at the same steps, such as "
                "1, 2, 3, ... or 50, 100, 150, ...; name other tasks, another benchmark or --horizon"
            )
        known = part.untrained is not None and bool(np.isfinite(part.untrained).all())
        metric = curves.metrics[curves.task_names.index(task)]
        untrained = part.untrained if known else None
        return cls(curves.name, task, part.values[:, :horizon], metric, untrained, _configs(part))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def horizon(self) -> int:
        return int(self.values.shape[1])

    @property
    def digest(self) -> str:
        """Changes with all that is recorded of the runs."""
        content = np.ascontiguousarray(self.values).tobytes() + repr((self.metric, self.configs)).encode()
        return f"{zlib.crc32(content):08x}"

    def filled(self, steps: NDArray[np.intp]) -> FinishedRuns:
        """Complete runs on the given steps: a run that broke down goes on at its last value, for nobody asks there."""
        values = self.values[:, steps - 1]
        known = np.isfinite(values)
        newest = np.maximum.accumulate(np.where(known, np.arange(len(steps)), 0), axis=1)
        values = np.take_along_axis(values, newest, axis=1)
        spare = self.metric.soft[0] if self.metric.soft else 1.0
        before = np.full(len(self), spare) if self.untrained is None else self.untrained
        return FinishedRuns(np.where(np.isnan(values), before[:, None], values), self.metric, self.untrained)


def tasks_of(
    collections: Sequence[CurveSet], wanted: Sequence[str] = (), most: int | None = None, seed: int = 0
) -> list[TaskRuns]:
    """The runs of all tasks, or of those wanted by name."""
    known = {task for curves in collections for task in curves.task_names}
    unknown = [task for task in wanted if task not in known]
    if unknown:
        raise InputError(f"task {unknown[0]!r} is in none of {', '.join(curves.name for curves in collections)}")
    return [
        TaskRuns.of(curves, task, most, seed)
        for curves in collections
        for task, _ in curves.tasks()
        if not wanted or task in wanted
    ]


def used(tasks: Sequence[TaskRuns]) -> list[str]:
    """How many runs take part, in words, one line per benchmark."""
    lines = []
    for name, group in groupby(tasks, key=lambda runs: runs.benchmark):
        some = list(group)
        count, short = sum(len(runs) for runs in some), sum(int(np.isnan(runs.values[:, -1]).sum()) for runs in some)
        rest = f"; {short:,} of them end before their horizon and count as broken off there" if short else ""
        lines.append(f"{name}: {count:,} runs of {len(some)} task{'s' * (len(some) != 1)} used{rest}")
    return lines


def _shared_steps(curves: CurveSet) -> Array:
    """The steps that all curves share; none where they have steps of their own."""
    if curves.steps.ndim == 1:
        return curves.steps
    longest = curves.steps[int(np.argmax(curves.lengths))]
    same = np.isnan(curves.steps) | (curves.steps == longest)
    return longest[: int(curves.lengths.max(initial=0))] if same.all() else np.empty(0)


def _configs(curves: CurveSet) -> tuple[Config, ...] | None:
    """The configuration of each run, without what is missing of it."""
    if curves.config is None:
        return None
    return tuple(
        {name: value for name, value in zip(curves.config_names, row, strict=True) if np.isfinite(value)}
        for row in curves.config.tolist()
    )
