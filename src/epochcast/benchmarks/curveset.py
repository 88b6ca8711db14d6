"""`CurveSet`: the learning curves of one collection with their tasks, metrics, steps and hyperparameters.

Values are one array padded with NaN on the right. A run that diverged keeps what it had until then, so its curve is
shorter than its horizon; a run that diverged at once has no value at all.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.curve import Array, Curves, Lengths, Mask
from epochcast.errors import InputError
from epochcast.metric import LARGEST_VALUE, Metric
from epochcast.normalize import Normalizer
from epochcast.question import Context, Question

LONGEST = 100  # values of a curve that the paper's experiments keep
_BEST_SHARE = 0.1  # of the runs of a task that count as good
NumberT = TypeVar("NumberT", np.int64, np.float64)


@dataclass(frozen=True, eq=False)
class CurveSet:
    """Curves of one collection. Arrays are read-only; rows are curves, and every method keeps them in step."""

    name: str
    values: Array  # [curve, step], in the metric's own space, NaN after the last value
    steps: Array  # [curve, step], NaN after the last value; or [step], shared by all
    horizons: Array  # [curve]: the step at which each run was planned to end
    references: Array  # [curve]: stands in for soft bounds left open: the untrained value, else the first one, else 1
    task: Lengths  # [curve]: index into task_names and metrics
    task_names: tuple[str, ...]
    metrics: tuple[Metric, ...]  # one per task
    untrained: Array | None = None  # [curve]: value before training, NaN where unknown
    config: Array | None = None  # [curve, hyperparameter]
    config_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_shapes(self)
        _check_entries(self)
        for array in vars(self).values():
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    @classmethod
    def of(
        cls,
        name: str,
        values: ArrayLike,
        metrics: Metric | Sequence[Metric],
        *,
        steps: ArrayLike | None = None,
        horizons: ArrayLike | None = None,
        task: ArrayLike | None = None,
        task_names: Sequence[str] | None = None,
        untrained: ArrayLike | None = None,
        config: ArrayLike | None = None,
        config_names: Sequence[str] = (),
    ) -> CurveSet:
        """A set from raw arrays [curve, step], which are copied.

        A curve ends before its first value that is missing or not finite. Without `steps` values belong to steps
        1, 2, 3, ...; without `horizons` a run was planned to go as far as the longest one of its task, or, where every
        curve has steps of its own, as far as it went.
        """
        grid = _ended_at_divergence(np.array(values, dtype=np.float64, ndmin=2))
        count, width = grid.shape
        own = np.arange(1.0, width + 1.0) if steps is None else np.array(steps, dtype=np.float64)
        if own.shape == grid.shape:
            grid[np.isnan(own)] = np.nan
            grid = _ended_at_divergence(grid)
            own[np.isnan(grid)] = np.nan
        index = np.zeros(count, dtype=np.int64) if task is None else np.array(task, dtype=np.int64)
        if index.shape != (count,):
            raise InputError(f"{name}: task has shape {list(index.shape)}, not [{count}]")
        names = tuple(str(item) for item in task_names) if task_names is not None else (name,)
        per_task = (metrics,) * len(names) if isinstance(metrics, Metric) else tuple(metrics)
        grid = _clipped(name, grid, index, per_task)
        planned = _planned(grid, own, index) if horizons is None else np.array(horizons, dtype=np.float64)
        before = None if untrained is None else _one_per_curve(untrained, count)
        return cls(
            name=name,
            values=grid,
            steps=own,
            horizons=_one_per_curve(planned, count),
            references=_references(grid, before),
            task=index,
            task_names=names,
            metrics=per_task,
            untrained=before,
            config=None if config is None else np.array(config, dtype=np.float64),
            config_names=tuple(str(item) for item in config_names),
        )

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        shortest, longest = (int(self.lengths.min()), int(self.lengths.max())) if len(self) else (0, 0)
        metrics = ", ".join(sorted({metric.name for metric in self.metrics}))
        tasks = f"{len(self.task_names)} task{'s' * (len(self.task_names) != 1)}"
        return f"<CurveSet {self.name}: {len(self):,} curves of {shortest}-{longest} values, {tasks}, {metrics}>"

    # --- parts ------------------------------------------------------------------------------------------------------

    def __getitem__(self, rows: slice | NDArray[Any] | Sequence[int]) -> CurveSet:
        """Some of the curves, by a slice, a mask or a list of rows; tasks keep their numbers."""
        index: Any = rows if isinstance(rows, slice) else np.asarray(rows)
        return replace(
            self,
            values=self.values[index],
            steps=self.steps if self.steps.ndim == 1 else self.steps[index],
            horizons=self.horizons[index],
            references=self.references[index],
            task=self.task[index],
            untrained=None if self.untrained is None else self.untrained[index],
            config=None if self.config is None else self.config[index],
        )

    def rows_of(self, task: str) -> Lengths:
        """Rows of the curves of one task."""
        if task not in self.task_names:
            raise InputError(f"{self.name} has no task {task!r}; it has {reprlib.repr(list(self.task_names))}")
        return np.flatnonzero(self.task == self.task_names.index(task))

    def of_task(self, task: str) -> CurveSet:
        """The curves of one task."""
        return self[self.rows_of(task)]

    def tasks(self) -> Iterator[tuple[str, CurveSet]]:
        """Each task that has curves, with its curves."""
        for task in self.task_names:
            rows = self.rows_of(task)
            if len(rows):
                yield task, self[rows]

    def sample(self, count: int, seed: int = 0) -> CurveSet:
        """Curves drawn at random without repetition, in their old order; all of them if there are not so many."""
        return self[_draw(np.arange(len(self)), count, np.random.default_rng([seed, 0]))]

    def sample_halves(self, count: int, seed: int = 0) -> tuple[CurveSet, CurveSet]:
        """As the paper samples TaskSet: half of the curves from the best tenth of each task, half from the rest."""
        good = np.zeros(len(self), dtype=bool)
        for task in range(len(self.task_names)):
            rows = np.flatnonzero(self.task == task)
            order = np.argsort(-self.best_normalised[rows], kind="stable")
            good[rows[order[: math.ceil(_BEST_SHARE * len(rows))]]] = True
        rng = np.random.default_rng([seed, 1])
        best, rest = (_draw(np.flatnonzero(mask), count // 2, rng) for mask in (good, ~good))
        return self[best], self[rest]

    def thinned(self, most: int = LONGEST, every: int | None = None) -> CurveSet:
        """Every k-th value of each curve, as the paper does beyond 100 values; steps keep their numbers.

        k is `every`, or the smallest that leaves at most `most` values: of the longest curve of the task, or, where
        every curve has steps of its own, of the curve itself. Counted so that the last of these values is kept; a
        run that diverged within its first k values may be left with none.
        """
        longest = largest_of_task(self.lengths, self.task) if self.steps.ndim == 1 else self.lengths
        k = np.full(len(self), every) if every is not None else np.maximum(-(-longest // most), 1)
        if (k == 1).all():
            return self
        first = np.maximum(longest - 1, 0) % k
        width = int(np.max((longest - 1 - first) // k + 1, initial=0))
        index = first[:, None] + k[:, None] * np.arange(width)  # [curve, kept]
        inside = index < self.values.shape[1]
        index = np.minimum(index, self.values.shape[1] - 1)
        values, steps = (
            np.where(inside, np.take_along_axis(array, index, axis=1), np.nan)
            for array in (self.values, self.step_grid)
        )
        return replace(self, values=values, steps=np.where(np.isnan(values), np.nan, steps))

    # --- what was seen ----------------------------------------------------------------------------------------------

    @cached_property
    def lengths(self) -> Lengths:
        """How many values each curve has."""
        return np.asarray((~np.isnan(self.values)).sum(axis=1))

    @property
    def step_grid(self) -> Array:
        """The step of each value, [curve, step]; a view where steps are shared."""
        return np.broadcast_to(self.steps, self.values.shape)

    def seen_at(self, share: float) -> Lengths:
        """How many values of each curve lie within a share of its horizon: at least one where there is any."""
        if not 0.0 <= share <= 1.0:
            raise InputError(f"cutoff {share} must be a share of the horizon, between 0 and 1")
        limit = np.ceil(share * self.horizons - 1e-9)
        with np.errstate(invalid="ignore"):
            inside = (self.step_grid <= limit[:, None]) & ~np.isnan(self.values)
        return np.asarray(np.clip(inside.sum(axis=1), np.minimum(1, self.lengths), self.lengths))

    def question(self, counts: ArrayLike, steps: Array, context: Context | None = None) -> Question:
        """What an engine is asked after the first `counts` values of curves that share a horizon, about steps
        [curve, step]."""
        before = None if self.untrained is None else self._normalised(self.untrained[:, None])[:, 0]
        kinds = np.array([metric.kind for metric in self.metrics])[self.task]
        return Question(
            self.prefixes(counts), steps, float(self.horizons[0]), kinds=kinds, untrained=before, context=context
        )

    def context(self) -> Context:
        """All curves as other runs that an engine is told of."""
        return Context(self.prefixes(self.lengths), self.horizons)

    def prefixes(self, counts: ArrayLike) -> Curves:
        """The first `counts` values of each curve, normalised."""
        lengths = np.minimum(np.broadcast_to(np.asarray(counts, dtype=np.int64), (len(self),)), self.lengths)
        width = int(lengths.max(initial=0))
        seen: Mask = np.arange(width) < lengths[:, None]
        values, steps = (np.where(seen, array[:, :width], 0.0) for array in (self.normalised, self.step_grid))
        return Curves(steps, values, lengths)

    # --- the prior's space ------------------------------------------------------------------------------------------

    @cached_property
    def normalised(self) -> Array:
        """Values in [0, 1], larger is better, as in the paper's appendix A; NaN after the last value."""
        result = self._normalised(self.values)
        result.flags.writeable = False
        return result

    def _normalised(self, values: Array) -> Array:
        result = np.full_like(values, np.nan)
        for task in np.unique(self.task):
            rows = self.task == task
            result[rows] = self._normalizer(int(task), rows).forward(values[rows])
        return result

    @property
    def best_normalised(self) -> Array:
        """The best value that each run ever had, normalised; -inf where it has none."""
        best = np.max(np.where(np.isnan(self.values), -np.inf, self.normalised), axis=1, initial=-np.inf)
        return np.asarray(best)

    def normalizer(self, row: int) -> Normalizer:
        """The map of one curve's values to [0, 1]."""
        rows = np.zeros(len(self), dtype=bool)
        rows[row] = True
        return self._normalizer(int(self.task[row]), rows).at(0)

    def _normalizer(self, task: int, rows: Mask) -> Normalizer:
        metric = self.metrics[task]
        needs_reference = metric.transform and metric.soft is None
        return Normalizer.of(metric, self.references[rows][:, None] if needs_reference else None)


def _ended_at_divergence(values: Array) -> Array:
    """Values with everything from the first missing, infinite or enormous one on set to NaN."""
    with np.errstate(invalid="ignore"):
        ended = np.logical_or.accumulate(~(np.abs(values) <= LARGEST_VALUE), axis=1)
    values[ended] = np.nan
    return values


def _one_per_curve(numbers: ArrayLike, count: int) -> Array:
    array = np.asarray(numbers, dtype=np.float64)
    return np.array(np.broadcast_to(array, (count,))) if array.ndim == 0 else array.copy()


def _references(values: Array, untrained: Array | None) -> Array:
    first = values[:, 0] if values.shape[1] else np.full(len(values), np.nan)
    known = first if untrained is None else np.where(np.isfinite(untrained), untrained, first)
    return np.where(np.isnan(known), 1.0, known)


def _planned(values: Array, steps: Array, task: Lengths) -> Array:
    """The horizon of each run where nobody says it."""
    last = np.max(np.where(np.isnan(values), 0.0, steps), axis=1, initial=0.0)
    return np.asarray(np.maximum(largest_of_task(last, task) if steps.ndim == 1 else last, 1.0))


def largest_of_task(numbers: NDArray[NumberT], task: Lengths) -> NDArray[NumberT]:
    """For each curve the largest number [curve] among the curves of its task."""
    largest = numbers.copy()
    for number in np.unique(task):
        largest[task == number] = numbers[task == number].max()
    return largest


def _clipped(name: str, values: Array, task: Lengths, metrics: Sequence[Metric]) -> Array:
    """Values inside the hard bounds of their metric; what lies further outside than rounding is an error."""
    for number, metric in enumerate(metrics):
        rows = np.flatnonzero(task == number)
        outside = metric.outside(values[rows])
        if outside.any():
            row, column = np.unravel_index(int(np.argmax(outside)), outside.shape)
            raise InputError(
                f"{name}: value {values[rows[row], column]:g} (number {column + 1}) of curve {rows[row]} is outside "
                f"the hard bounds {metric.hard} of {metric.name}"
            )
        values[rows] = np.clip(values[rows], *metric.hard)
    return values


def _draw(rows: Lengths, count: int, rng: np.random.Generator) -> Lengths:
    if count < 1:
        raise InputError(f"{count} curves cannot be sampled; ask for at least 1")
    if count >= len(rows):
        return rows
    return np.sort(rng.choice(rows, size=count, replace=False))


def _check_shapes(curves: CurveSet) -> None:
    if curves.values.ndim != 2:
        raise InputError(f"{curves.name}: values have {curves.values.ndim} dimensions, not [curve, step]")
    count, width = curves.values.shape
    wanted: dict[str, tuple[Any, set[tuple[int, ...]]]] = {
        "steps": (curves.steps, {(width,), (count, width)}),
        "horizons": (curves.horizons, {(count,)}),
        "references": (curves.references, {(count,)}),
        "task": (curves.task, {(count,)}),
        "untrained": (curves.untrained, {(count,)}),
        "config": (curves.config, {(count, len(curves.config_names))}),
    }
    for what, (array, shapes) in wanted.items():
        if array is not None and array.shape not in shapes:
            allowed = " or ".join(str(list(shape)) for shape in sorted(shapes))
            raise InputError(f"{curves.name}: {what} has shape {list(array.shape)}, not {allowed}")
    if len(curves.metrics) != len(curves.task_names):
        raise InputError(f"{curves.name}: {len(curves.metrics)} metrics for {len(curves.task_names)} tasks")
    if count and not (curves.task.min() >= 0 and curves.task.max() < len(curves.task_names)):
        raise InputError(f"{curves.name}: task numbers must be 0 to {len(curves.task_names) - 1}")


def _check_entries(curves: CurveSet) -> None:
    """Raise unless values end once, steps rise and no run passes its horizon."""
    missing = np.isnan(curves.values)
    gap = missing[:, :-1] & ~missing[:, 1:]
    if gap.any():
        raise InputError(f"{curves.name}: curve {int(np.argmax(gap.any(axis=1)))} has a gap; NaN may only end a curve")
    steps = curves.step_grid
    with np.errstate(invalid="ignore"):
        falling = ~missing[:, 1:] & ~(np.diff(steps, axis=1) > 0.0)
        late = ~missing & ~((steps > 0.0) & (steps <= curves.horizons[:, None]))
    if falling.any():
        raise InputError(f"{curves.name}: the steps of curve {int(np.argmax(falling.any(axis=1)))} do not rise")
    if late.any():
        row = int(np.argmax(late.any(axis=1)))
        raise InputError(
            f"{curves.name}: curve {row} has a step outside 0 (excluded) to its horizon {curves.horizons[row]:g}"
        )
