"""`OtherTrials`: what the trials of a search have shown, which makes each of them context to the others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epochcast.encode import Others
from epochcast.metric import Metric
from epochcast.others import FEWEST_VALUES, newest_and_largest, others_of
from epochcast.run import Run
from epochcast.space import Scale, Space

_KEPT = 16  # trials whose context is kept: as many as run side by side are asked about in turn

Chosen = tuple[tuple[str, int], ...]  # trials, and how many values each has shown


@dataclass
class _Shown:
    """What one trial has shown."""

    config: dict[str, Any] | None = None
    steps: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)  # finite ones
    trained: int = 0  # how many of them come after training began
    best: float = -math.inf  # of the values, where larger is better


class OtherTrials:
    """The values of all trials, oldest trial first."""

    def __init__(self, horizon: int, metric: Metric) -> None:
        self._horizon, self._metric = horizon, metric
        self._shown: dict[str, _Shown] = {}
        self._scales: dict[str, Scale] = {}
        self._made: dict[str, tuple[Chosen, Others]] = {}  # the newest context of each trial

    def add(self, trial: str, seen: Iterable[tuple[float, float]], config: Mapping[str, Any] | None = None) -> None:
        """Take in newer values of a trial, (step, value) each, or its first; its configuration need be told once."""
        shown = self._shown.setdefault(trial, _Shown())
        if config is not None and shown.config is None:
            shown.config = dict(config)
        for step, value in seen:
            if math.isfinite(value) and 0.0 <= step <= self._horizon and (not shown.steps or step > shown.steps[-1]):
                shown.steps.append(float(step))
                shown.values.append(float(value))
                shown.trained += step > 0.0
                shown.best = max(shown.best, self._metric.sign * value)

    def replace(self, trial: str, seen: Iterable[tuple[float, float]], config: Mapping[str, Any] | None = None) -> None:
        """The same for a trial all of whose values are told."""
        if trial in self._shown:  # it keeps its place
            self._shown[trial] = _Shown(self._shown[trial].config)
        self.add(trial, seen, config)

    def know_scales(self, scales: Mapping[str, Scale]) -> None:
        """On which scales entries of the configurations live."""
        if not scales.items() <= self._scales.items():
            self._scales.update(scales)
            self._made.clear()

    def beside(self, trial: str) -> Others | None:
        """All trials but this one, of very many the newest and the best; None where none of them has shown anything.

        It is the same object as long as none of them grows, so that the engine need not read them again.
        """
        there = [name for name, shown in self._shown.items() if name != trial and shown.trained >= FEWEST_VALUES]
        if not there:
            return None
        rows = newest_and_largest(np.array([self._shown[name].best for name in there]))
        chosen = tuple((there[row], len(self._shown[there[row]].values)) for row in rows)
        for known, others in self._made.values():  # trials that are not yet among the others have the same ones
            if known == chosen:
                return others
        runs = [self._shown[name] for name, _ in chosen]
        found = others_of(
            [Run(run.values, run.steps, run.config) for run in runs],
            self._metric,
            self._horizon,
            space=Space(self._scales) if self._scales else None,
        )
        self._made.pop(trial, None)
        while len(self._made) >= _KEPT:
            del self._made[next(iter(self._made))]
        self._made[trial] = chosen, found
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_made": {}}
