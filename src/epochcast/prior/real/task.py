"""Tasks: runs of the same prior that have something in common, and configurations that explain a part of it.

Every number that makes a run is drawn through a Gaussian copula,

    z = sqrt(a) z_task + sqrt(b) f(x) + sqrt(c) z_own,   a + b + c = 1,   u = Phi(z), then the number's own law

so each single run keeps the law that it has alone, whatever its configuration x; what is shared differs from task to
task and from number to number. f follows mostly one of a few factors of the configuration, which so move many
ingredients together: a function of its own for each number would cancel out in the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtr, ndtri

from epochcast.errors import InputError
from epochcast.metric import UNTOLD
from epochcast.prior.families import Array
from epochcast.prior.real.config import RealPriorConfig
from epochcast.prior.real.grid import Grid
from epochcast.prior.real.sampler import RealDraw, draw_runs
from epochcast.prior.real.source import Mask, Rows, Source, Topic

MOST_COLUMNS = 8  # of a configuration
_SPARE = 1.8  # times as many rows as runs: those that measure something else are left out
_POOL = 128  # curves of the paper's prior to pick from
_FACTORS = 3
_FACTOR_RATES = (0.9, 0.07, 0.03)  # of the numbers that follow mostly this one
_OTHER_FACTORS = 0.08  # how much they follow the others
_WITHOUT_CONFIG = 0.2  # of tasks
_NO_EFFECT = 0.08  # of tasks: nothing depends on the configuration
_STRONG = 0.8  # of the others: nearly all that is not shared does
_UNEXPLAINED = 0.02  # of the numbers of any task
_SAME_SCHEDULE = 0.8  # of tasks
_ALIKE = 0.4  # of tasks: most numbers are shared entirely
_WITH_STRANGERS = 0.15  # of tasks: some runs have nothing in common with the rest
_TINY = 1e-9
_CATEGORY, _FEW_LEVELS = 0.1, 0.15  # of columns


@dataclass(frozen=True)
class TaskLaw:
    """What the runs of each task have in common, in how far, and what their configurations are; rows are runs."""

    task: Rows  # [row]
    columns: Array  # [row, column]: configurations in 0 to 1, codes of categories, NaN beyond those of the task
    categories: Mask  # [task, column]
    factors: Array  # [row, factor], mean 0 and variance 1 in each task
    strength: Array  # [task]: the share of what is not common that follows the configuration
    same_schedule: Mask  # [task]
    alike: Mask  # [task]
    stranger: Mask  # [row]

    @classmethod
    def draw(cls, tasks: int, runs: int, rng: np.random.Generator) -> TaskLaw:
        task = np.repeat(np.arange(tasks), runs)
        columns = np.full((tasks * runs, MOST_COLUMNS), np.nan)
        categories = np.zeros((tasks, MOST_COLUMNS), dtype=bool)
        factors = np.zeros((tasks * runs, _FACTORS))
        for i in range(tasks):
            rows = slice(i * runs, (i + 1) * runs)
            count = 0 if rng.random() < _WITHOUT_CONFIG else int(rng.integers(1, MOST_COLUMNS + 1))
            if count:
                columns[rows, :count], categories[i, :count] = _configurations(runs, count, rng)
                factors[rows] = _factors(columns[rows, :count], categories[i], rng)
        strong = rng.random(tasks) < _STRONG
        strength = np.where(strong, rng.beta(20.0, 1.0, tasks), rng.beta(2.0, 1.0, tasks))
        configured = ~np.isnan(columns[::runs, 0]) & (rng.random(tasks) >= _NO_EFFECT)
        strange = np.where(rng.random(tasks) < _WITH_STRANGERS, rng.uniform(0.05, 0.25, tasks), 0.0)
        return cls(
            task, columns, categories, factors, np.where(configured, strength, 0.0),
            rng.random(tasks) < _SAME_SCHEDULE, rng.random(tasks) < _ALIKE, rng.random(len(task)) < strange[task],
        )  # fmt: skip

    def common(self, topic: Topic, rng: np.random.Generator) -> Array:
        """How much [task] of a number is common to the runs of a task: the a above."""
        tasks = len(self.alike)
        if topic is Topic.METRIC:
            return np.ones(tasks)
        place = rng.random(tasks)
        same = np.where(self.alike, 0.65, 0.35)
        some = np.where(place < same + 0.25, 0.0, rng.beta(1.5, 1.0, tasks))
        shared = np.where(place < same, 1.0, some)
        return np.where(self.same_schedule, 1.0, shared) if topic is Topic.SCHEDULE else shared

    def direction(self, rows: Rows, rng: np.random.Generator) -> Array:
        """What the configurations make of a number [row]: a standard normal one over the rows of each task."""
        tasks = len(self.alike)
        weights = _OTHER_FACTORS * rng.standard_normal((tasks, _FACTORS))
        weights[np.arange(tasks), rng.choice(_FACTORS, tasks, p=_FACTOR_RATES)] += rng.choice((-1.0, 1.0), tasks)
        along = np.einsum("rf,rf->r", self.factors, weights[self.task])
        runs = len(self.task) // tasks
        along = along.reshape(tasks, runs) + _TINY * rng.standard_normal((tasks, runs))  # ties fall either way
        ranks = along.argsort(axis=1).argsort(axis=1)
        return np.asarray(ndtri((ranks + rng.random((tasks, runs))) / runs).reshape(-1)[rows])


def _configurations(runs: int, count: int, rng: np.random.Generator) -> tuple[Array, Mask]:
    """Configurations [run, column] as a random search draws them, and which columns are categories."""
    columns = rng.random((runs, count))
    kind = rng.random(count)
    for j in np.flatnonzero(kind < _CATEGORY + _FEW_LEVELS):
        levels = int(rng.integers(2, 6))
        codes = np.minimum((columns[:, j] * levels).astype(np.int64), levels - 1)
        columns[:, j] = codes if kind[j] < _CATEGORY else codes / (levels - 1)
    return columns, kind < _CATEGORY


def _factors(columns: Array, categories: Mask, rng: np.random.Generator) -> Array:
    """Functions [run, factor] of a few columns each, of which some matter more than others in all of them."""
    runs, count = columns.shape
    importance = rng.gamma(0.4, 1.0, count) + 1e-9
    total = np.zeros((runs, _FACTORS))
    for k in range(_FACTORS):
        few = min(count, 1 + int(rng.poisson(1.0)))
        chosen: Rows = rng.choice(np.arange(count), few, replace=False, p=importance / np.sum(importance))
        for j in chosen:
            effect = _effect(columns[:, j], bool(categories[j]), rng)
            total[:, k] += rng.standard_normal() * (effect - effect.mean()) / (effect.std() + _TINY)
    return np.asarray((total - total.mean(axis=0)) / (total.std(axis=0) + _TINY))


def _effect(column: Array, category: bool, rng: np.random.Generator) -> Array:
    """A random function of a column: a line, a bump, a wave, a step, or a number for each category."""
    if category:
        return np.asarray(rng.standard_normal(int(column.max()) + 1)[column.astype(np.int64)])
    shape = rng.random()
    if shape < 0.4:
        return column
    if shape < 0.7:
        return np.asarray(-((column - rng.uniform(0.1, 0.9)) ** 2))
    if shape < 0.9:
        return np.asarray(np.cos(rng.uniform(1.0, 5.0) * column + rng.uniform(0.0, 6.0)))
    return np.asarray(column > rng.uniform(0.2, 0.8)).astype(np.float64)


class TaskSource(Source):
    """Numbers that the runs of a task have in common, more or less."""

    alone = False

    def __init__(
        self, generator: np.random.Generator, rows: Rows | int, law: TaskLaw, topic: Topic = Topic.RUN
    ) -> None:
        super().__init__(generator, rows)
        self.law, self.topic = law, topic

    def __getitem__(self, chosen: Rows | Mask) -> TaskSource:
        return TaskSource(self.generator, self.rows[chosen], self.law, self.topic)

    def about(self, topic: Topic) -> TaskSource:
        return TaskSource(self.generator, self.rows, self.law, topic)

    def together(self, values: Array, summary: Callable[[Array], Any]) -> Array:
        task, result = self.law.task[self.rows], np.empty_like(values)
        for one in np.unique(task):
            result[task == one] = summary(values[task == one])
        return result

    def pick(self, draw: Callable[[int], Array], order: Callable[[Array], Array]) -> Array:
        task = self.law.task[self.rows]
        tasks, own = np.unique(task, return_inverse=True)
        pools = draw(len(tasks) * _POOL)
        pools = pools.reshape(len(tasks), _POOL, *pools.shape[1:])
        ranked = np.stack([pool[np.argsort(order(pool))] for pool in pools]) if len(tasks) else pools
        place = np.minimum((self.uniform()[:, 0] * _POOL).astype(np.int64), _POOL - 1)
        return np.asarray(ranked[own, place])

    def _z(self, width: int) -> Array:
        """Standard normal numbers [run, width]."""
        law, rng, task = self.law, self.generator, self.law.task[self.rows]
        tasks = len(law.alike)
        shared = law.common(self.topic, rng)
        explained = np.where(rng.random(tasks) < _UNEXPLAINED, 0.0, (1.0 - shared) * law.strength)
        own = np.maximum(1.0 - shared - explained, 0.0)
        z_task, z_own = rng.standard_normal((tasks, width)), rng.standard_normal((len(self), width))
        along = law.direction(self.rows, rng)[:, None]
        a, b, c = (np.sqrt(part)[task, None] for part in (shared, explained, own))
        z = a * z_task[task] + b * along + c * z_own
        strangers = law.stranger[self.rows] & (self.topic is not Topic.METRIC)
        return np.where(strangers[:, None], z_own, z)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, width: int = 1) -> Array:
        return np.asarray(low + (high - low) * ndtr(self._z(width)))

    def normal(self, mean: Any = 0.0, sd: Any = 1.0, width: int = 1) -> Array:
        return np.asarray(mean + sd * self._z(width))

    def beta(self, a: float, b: float, width: int = 1) -> Array:
        return np.asarray(betaincinv(a, b, self.uniform(width=width)))

    def integers(self, low: int, high: int, width: int = 1) -> NDArray[np.int64]:
        return np.minimum(np.floor(self.uniform(low, high, width)), high - 1).astype(np.int64)

    def choice(self, options: Any, width: int = 1, p: Any = None) -> Array:
        values = np.asarray(options)
        ends = np.cumsum(np.full(len(values), 1.0 / len(values)) if p is None else np.asarray(p))
        return np.asarray(values[np.minimum(np.searchsorted(ends, self.uniform(width=width)), len(values) - 1)])

    def coin(self, chance: Any, width: int = 1) -> Mask:
        return np.asarray(self.uniform(width=width) < chance)


@dataclass(frozen=True)
class Task:
    """Runs of one task, which measure the same: rows of a draw, with their configurations."""

    runs: RealDraw
    columns: Array  # [run, column]: configurations in 0 to 1, or codes of categories; no column where there are none
    categories: Mask  # [column]


def sample_tasks(
    tasks: int,
    runs: int,
    rng: np.random.Generator,
    steps: ArrayLike,
    horizon: float,
    config: RealPriorConfig | None = None,
) -> list[Task]:
    """Tasks of up to `runs` runs each, seen at `steps`; there are fewer where others measure something else."""
    if tasks < 1 or runs < 1:
        raise InputError(f"tasks={tasks} of runs={runs} cannot be drawn; ask for at least 1 of each")
    rows = round(runs * _SPARE) + 6
    law = TaskLaw.draw(tasks, rows, rng)
    grid = Grid.of(steps, horizon)
    draw = draw_runs(grid, config or RealPriorConfig(), TaskSource(rng, tasks * rows, law))
    found = []
    for i in range(tasks):
        own = np.arange(i * rows, (i + 1) * rows)
        kept, kind = _that_measure_the_same(draw, own, runs)
        known = ~np.isnan(law.columns[own[0]])
        found.append(Task(_rows_of(draw, kept, kind), law.columns[kept][:, known], law.categories[i, known]))
    return found


def _that_measure_the_same(draw: RealDraw, rows: Rows, most: int) -> tuple[Rows, float]:
    """Rows of a task with the first one's kind, and this; the paper's curves, if nothing is told of them, have any."""
    open_to_any = draw.ingredients["paper"] & (draw.kinds == UNTOLD)
    told = rows[~open_to_any[rows]]
    kind = float(draw.kinds[told[0]]) if len(told) else UNTOLD
    return rows[(draw.kinds[rows] == kind) | open_to_any[rows]][:most], kind


def _rows_of(draw: RealDraw, rows: Rows, kind: float) -> RealDraw:
    return replace(
        draw,
        noisy=draw.noisy[rows],
        noiseless=draw.noiseless[rows],
        white_sd=draw.white_sd[rows],
        untrained=draw.untrained[rows],
        kinds=np.full(len(rows), kind),
        examples=draw.examples[rows],
        rate=draw.rate[rows],
        clock=draw.clock[rows],
        ingredients={name: mask[rows] for name, mask in draw.ingredients.items()},
    )
