"""Tasks to train on: runs of the prior over tasks, as a search or a person leaves them behind.

Some runs of a task are forecast, others are in view: finished, stopped or under way, on grids of their own, with or
without their configurations, and at times those of another task, which say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from epochcast.metric import UNTOLD
from epochcast.nn.batch import RealSampler, TrainingBatch
from epochcast.prior import real
from epochcast.prior.families import Array
from epochcast.prior.real.task import Task, sample_tasks
from epochcast.question import Input
from epochcast.rates import Rates

Index = NDArray[np.int64]

MOST_OTHERS = 64
_TARGETS, _CUTOFFS, _QUERIES = 8, 6, 2  # of each lesson
_LESSONS = 4  # of each task
_MOST_VALUES = 64  # of a run: longer ones would cost more than they teach
_LARGE_RATE, _LARGE, _SMALL = 0.3, 72, 24  # of tasks, and their runs
_UNTRAINED_RATE, _KIND_RATE, _SCHEDULE_RATE, _CONFIG_RATE = 0.4, 0.9, 0.3, 0.8  # of tasks: these are known
_HIDDEN_COLUMN, _HIDDEN_ENTRIES = 0.1, 0.1  # of columns, and of tasks that miss some entries of their configurations
_THINNED_RATE = 0.15  # of runs of a quarter of the tasks: evaluated less often than the others
_SHORTER_RATE = 0.5  # of the runs without a schedule of one task in five: planned to be shorter
_STRANGE_RATE, _HALF_STRANGE_RATE = 0.08, 0.08  # of lessons: all or half of the runs are those of another task
_EARLY = 0.4  # share of a run that half of the cutoffs lie in
_UNSEEN = 0.6  # of targets: the first cutoff comes before the first value, where other runs are all there is to know


@dataclass(frozen=True)
class TaskRuns:
    """The runs of one task as far as they are known; padded on the right."""

    steps: Array  # [run, value]
    values: Array  # [run, value]
    targets: Array  # [draw, run, value]: values that could have been seen instead
    lengths: Index  # [run]
    horizon: float
    horizons: Array  # [run]: those of some runs, which end earlier, are shorter
    kinds: Array  # [run]
    rates: Rates
    columns: Array  # [run, column]
    categories: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True)
class Lesson:
    """Runs of a task to forecast with some others in view."""

    task: int
    targets: Index  # [target]
    cutoffs: Index  # [target, cutoff]
    queries: Index  # [target, cutoff, query]: indices of later values
    others: tuple[tuple[int, Index], ...]  # tasks, and which of their runs are in view
    seen: tuple[Index, ...]  # how many values of these are known


@dataclass(frozen=True)
class TaskBatch:
    tasks: list[TaskRuns]
    lessons: list[Lesson]
    alone: TrainingBatch | None = None  # runs without any others


class TaskSampler:
    """Draws tasks, and lessons from them; `size` counts lessons."""

    reads: ClassVar[frozenset[Input]] = RealSampler.reads | {"context", "config"}

    def __init__(self, alone: int = 0) -> None:
        self.alone = alone  # runs of a batch that have no others beside them

    def __call__(self, size: int, rng: np.random.Generator) -> TaskBatch:
        tasks: list[TaskRuns] = []
        while len(tasks) < max(size // _LESSONS, 2):
            steps, horizon = real.sample_grid(rng)
            steps = _at_most(steps, _MOST_VALUES, rng)
            runs = _LARGE if rng.random() < _LARGE_RATE else _SMALL
            tasks += [_prepared(task, steps, horizon, rng) for task in sample_tasks(2, runs, rng, steps, horizon)]
        lessons = [_lesson(i % len(tasks), tasks, rng) for i in range(size)]
        return TaskBatch(tasks, lessons, RealSampler()(self.alone, rng) if self.alone else None)

    def validation(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        return RealSampler().validation(size, rng)


def _at_most(steps: Array, most: int, rng: np.random.Generator) -> Array:
    if len(steps) <= most:
        return steps
    kept = np.unique(np.linspace(0, len(steps) - 1, most).round().astype(np.int64))
    return np.asarray(steps[kept])


def _prepared(task: Task, steps: Array, horizon: float, rng: np.random.Generator) -> TaskRuns:
    draw, count = task.runs, len(task.runs.noisy)
    noise = rng.standard_normal(draw.noisy.shape)
    targets = np.stack([draw.observe(noise), draw.observe(-noise)])
    columns, categories = _known_columns(task, rng)
    known = float(rng.random() < _SCHEDULE_RATE and not draw.ingredients["amounts"].any())
    rate, clock = draw.rate, draw.clock
    values, every = draw.noisy, np.broadcast_to(steps, draw.noisy.shape).copy()
    if rng.random() < _UNTRAINED_RATE:
        before = draw.untrained[:, None]
        values, every = np.concatenate([before, values], axis=1), np.pad(every, ((0, 0), (1, 0)))
        targets = np.concatenate([np.broadcast_to(before, (2, *before.shape)), targets], axis=2)
        rate, clock = (np.pad(part, ((0, 0), (1, 0))) for part in (rate, clock))
    runs = TaskRuns(
        every, values, targets, np.full(count, values.shape[1]), horizon, _horizons(draw, horizon, rng),
        draw.kinds if rng.random() < _KIND_RATE else np.full(count, UNTOLD),
        Rates(np.full(count, known), rate, clock), columns, categories,
    )  # fmt: skip
    return _thinned(runs, rng)


def _known_columns(task: Task, rng: np.random.Generator) -> tuple[Array, NDArray[np.bool_]]:
    """Configurations as far as they are known."""
    if rng.random() > _CONFIG_RATE:
        return task.columns[:, :0], task.categories[:0]
    kept = rng.random(task.columns.shape[1]) > _HIDDEN_COLUMN
    columns = task.columns[:, kept].copy()
    if rng.random() < _HIDDEN_ENTRIES:
        columns[rng.random(columns.shape) < rng.uniform(0.0, 0.4)] = np.nan
    return columns, task.categories[kept]


def _horizons(draw: real.RealDraw, horizon: float, rng: np.random.Generator) -> Array:
    """Planned lengths: without a schedule, a run may as well have been planned to end earlier."""
    shorter = (rng.random() < 0.2) & ~draw.ingredients["scheduled"] & (rng.random(len(draw.noisy)) < _SHORTER_RATE)
    return np.where(shorter, np.maximum(np.round(horizon * rng.uniform(0.2, 1.0)), 2.0), horizon)


def _thinned(runs: TaskRuns, rng: np.random.Generator) -> TaskRuns:
    """Some runs with every second to fifth value only, and those that end earlier up to their end."""
    count, longest = runs.values.shape
    every = np.where((rng.random(count) < _THINNED_RATE) & (rng.random() < 0.25), rng.integers(2, 6, count), 1)
    kept = (np.arange(1, longest + 1) % every[:, None] == 0) & (runs.steps <= runs.horizons[:, None])
    few = kept.sum(axis=1) < 2
    kept[few, :2] = True
    order = np.argsort(~kept, axis=1, kind="stable")
    lengths = kept.sum(axis=1)
    there = np.arange(longest) < lengths[:, None]

    def pick(array: Array) -> Array:
        return np.where(there, np.take_along_axis(array, order, axis=1), 0.0)

    rates = Rates(runs.rates.told, pick(runs.rates.rate), pick(runs.rates.clock))
    targets = np.stack([pick(part) for part in runs.targets])
    return TaskRuns(
        pick(runs.steps), pick(runs.values), targets, lengths, runs.horizon,
        np.maximum(runs.horizons, runs.steps[:, :2].max(axis=1)), runs.kinds, rates, runs.columns, runs.categories,
    )  # fmt: skip


def _lesson(i: int, tasks: list[TaskRuns], rng: np.random.Generator) -> Lesson:
    task = tasks[i]
    order = rng.permutation(len(task))
    able = order[(task.horizons[order] == task.horizon) & (task.lengths[order] >= 2)]
    targets = np.resize(able[:_TARGETS], _TARGETS)
    rest = order[~np.isin(order, targets)]
    most = min(len(rest), MOST_OTHERS)
    count = min(int(np.exp(rng.uniform(0.0, np.log(most + 1.0)))), most) if most else 0
    others: list[tuple[int, Index]] = [(i, rest[:count])]
    place, stranger = rng.random(), int(rng.integers(len(tasks)))
    if count == 0 or place < _STRANGE_RATE + _HALF_STRANGE_RATE:
        own = 0 if place < _STRANGE_RATE else count // 2
        strange = rng.permutation(len(tasks[stranger]))[: max(count - own, 1)]
        if stranger == i:
            strange = strange[~np.isin(strange, targets)]
        others = [part for part in ((i, rest[:own]), (stranger, strange)) if len(part[1])] or [(i, targets[:1])]
    cutoffs = _cutoffs(task.lengths[targets], rng)
    left = task.lengths[targets][:, None] - cutoffs
    share = (np.arange(_QUERIES) + rng.random((*cutoffs.shape, _QUERIES))) / _QUERIES
    queries = cutoffs[..., None] + np.minimum((share * left[..., None]).astype(np.int64), left[..., None] - 1)
    seen = tuple(_seen(tasks[which], rows, rng) for which, rows in others)
    return Lesson(i, targets, cutoffs, queries, tuple(others), seen)


def _cutoffs(lengths: Index, rng: np.random.Generator) -> Index:
    """Numbers of values seen [target, cutoff], one from each part of the run, of every second run only early ones."""
    within = np.where(rng.random(len(lengths)) < 0.5, lengths, np.maximum(_EARLY * lengths, 1.0))[:, None]
    share = (np.arange(_CUTOFFS) + rng.random((len(lengths), _CUTOFFS))) / _CUTOFFS
    share[rng.random(len(lengths)) < _UNSEEN, 0] = 0.0
    return np.minimum((share * within).astype(np.int64), lengths[:, None] - 1)


def _seen(task: TaskRuns, rows: Index, rng: np.random.Generator) -> Index:
    """How many values are known of runs in view: of all, of some only a part, or less the worse they are."""
    lengths = task.lengths[rows]
    part = 1 + (rng.random(len(rows)) * lengths).astype(np.int64)
    place = rng.random()
    if place < 0.45:
        return lengths
    if place < 0.7:
        return np.where(rng.random(len(rows)) < rng.uniform(0.1, 1.0), part, lengths)
    ends = task.values[rows, lengths - 1]
    poor = ends <= np.quantile(ends, rng.uniform(0.3, 0.95))
    early = 1 + (rng.beta(1.0, 3.0, len(rows)) * lengths).astype(np.int64)
    return np.where(poor & (rng.random(len(rows)) < 0.9), np.minimum(early, lengths), lengths)
