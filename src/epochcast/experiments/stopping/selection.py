"""Vertical model selection (paper, section 4.3), replayed on finished runs: many orders and rules as array work.

Runs are trained one after another until the budget of epochs is spent; a rule may stop a run, which is never resumed.
Every rule is a table of limits [run, step]: a run is stopped at the first step at which the best of the runs before it
is no worse than the limit. No stopping is a table of infinities; a rule built on forecasts has the reach of each run.

Inside this module values are oriented: larger is better, and losses are negated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Array, Mask
from epochcast.errors import InputError

Index = NDArray[np.intp]


@dataclass(frozen=True)
class Pool:
    """The finished runs of one task, oriented; a run ends where it finishes or breaks down."""

    running: Array  # [run, step]: the best value up to each step, -inf before there is one
    later: Array  # [run, step]: the best value after each step, -inf where nothing comes
    lengths: Index  # [run]: epochs that the run takes when nothing stops it

    @classmethod
    def of(cls, values: Array, minimize: bool) -> Pool:
        """Runs [run, step]; the first value that is not finite ends a run, and its epoch is spent."""
        if values.ndim != 2 or values.size == 0:
            raise InputError(f"runs have shape {values.shape}; model selection needs [run, step], at least one of each")
        horizon = values.shape[1]
        broken = ~np.isfinite(values)
        first_broken = np.where(broken.any(axis=1), broken.argmax(axis=1), horizon)
        alive = np.arange(horizon) < first_broken[:, None]
        oriented = np.where(alive, -values if minimize else values, -np.inf)
        later = np.full_like(oriented, -np.inf)
        later[:, :-1] = np.maximum.accumulate(oriented[:, :0:-1], axis=1)[:, ::-1]
        return cls(np.maximum.accumulate(oriented, axis=1), later, np.minimum(first_broken + 1, horizon))

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def horizon(self) -> int:
        return int(self.running.shape[1])

    @property
    def best(self) -> float:
        """The best value that any run attains."""
        return float(self.running[:, -1].max())


# --- rules as limits --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """A rule: what the best must reach to stop a run, and after which steps the rule forecasts."""

    table: Array  # [run, step]
    forecast_at: Mask  # [step]


def never(pool: Pool) -> Limits:
    """No best stops a run."""
    return Limits(np.full(pool.running.shape, np.inf), np.zeros(pool.horizon, dtype=bool))


def patience(pool: Pool, k: int) -> Limits:
    """Any best stops a run that has not improved for k epochs."""
    steps = np.arange(pool.horizon)
    before = np.concatenate([np.full((len(pool), 1), -np.inf), pool.running[:, :-1]], axis=1)
    newest_gain = np.maximum.accumulate(np.where(pool.running > before, steps, -1), axis=1)
    table = np.where(steps - newest_gain >= k, -np.inf, np.inf)
    return Limits(table, np.zeros(pool.horizon, dtype=bool))


def by_forecast(pool: Pool, reach: Array, checks: Index, *, stop_leader: bool = False) -> Limits:
    """Limits from the reach [run, check] of runs, known after each of the steps `checks`, counted from 1.

    A run that leads goes on; with `stop_leader` it is held against its own best value too.
    """
    table = np.full(pool.running.shape, np.inf)
    running = pool.running[:, checks - 1]
    table[:, checks - 1] = np.where(running >= reach, -np.inf, reach) if stop_leader else np.maximum(reach, running)
    forecast_at = np.zeros(pool.horizon, dtype=bool)
    forecast_at[checks - 1] = True
    return Limits(table, forecast_at)


# --- the replay -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replay:
    """What one rule did in each order."""

    best: Array  # [order, epoch]: the best value found so far, oriented; -inf before the first
    runs: Index  # [order]: runs begun
    stopped: Index  # [order]: runs that the rule stopped
    wrong: Index  # [order]: those of them that later on would have beaten the best so far, their own included
    forecasts: Index  # [order]: how often the rule asked for one


def random_orders(runs: int, orders: int, rng: np.random.Generator) -> Index:
    """Random orders [order, position] of the runs."""
    return np.stack([rng.permutation(runs) for _ in range(orders)])


def replay(pool: Pool, limits: Limits, orders: Index, budget: int) -> Replay:
    """Train the runs of each order one after another until the budget of epochs is spent or no run is left."""
    count = len(orders)
    found = np.full((count, budget), -np.inf)
    best = np.full(count, -np.inf)
    spent, runs, stopped, wrong, forecasts = (np.zeros(count, dtype=np.intp) for _ in range(5))
    for position in range(orders.shape[1]):
        active = np.flatnonzero(spent < budget)
        if len(active) == 0:
            break
        run, held = orders[active, position], best[active]
        cost, stops = _costs(pool, limits.table[run], run, held)
        left = budget - spent[active]
        stops &= cost <= left
        cost = np.minimum(cost, left)
        running = np.maximum(pool.running[run], held[:, None])  # [active, step]
        best[active] = running[np.arange(len(active)), cost - 1]
        trained = np.arange(pool.horizon) < cost[:, None]
        row, step = np.nonzero(trained)
        found[active[row], spent[active[row]] + step] = running[row, step]
        runs[active] += 1
        stopped[active] += stops
        wrong[active] += stops & (pool.later[run, cost - 1] > best[active])
        forecasts[active] += (trained & limits.forecast_at).sum(axis=1)
        spent[active] += cost
    # Orders that ran out of runs keep what they found.
    return Replay(np.maximum.accumulate(found, axis=1), runs, stopped, wrong, forecasts)


def _costs(pool: Pool, table: Array, run: Index, best: Array) -> tuple[Index, Mask]:
    """Epochs that each run takes when held against its best, and whether the rule ends it."""
    stops = best[:, None] >= table  # [active, step]
    first = np.where(stops.any(axis=1), stops.argmax(axis=1) + 1, pool.horizon + 1)
    by_rule = first < pool.lengths[run]  # a stop after the last epoch saves nothing and is none
    return np.where(by_rule, first, pool.lengths[run]), by_rule


# --- what comes of it -------------------------------------------------------------------------------------------------


def regret(pool: Pool, replayed: Replay) -> Array:
    """[order, epoch]: how far the best so far is from the best of the task.

    Before an order's first value, which only runs that break down at once delay, the regret at that value counts.
    """
    gap = pool.best - replayed.best
    first = np.min(np.where(np.isfinite(gap), np.arange(gap.shape[1]), gap.shape[1] - 1), axis=1)
    return np.where(np.isfinite(gap), gap, np.take_along_axis(gap, first[:, None], axis=1))


def speedup(baseline: Array, other: Array) -> float:
    """How many times sooner a mean regret [epoch] is as low as the one that the baseline ends with.

    Where it never is, the roles are changed: the share of the baseline's epochs after which the baseline was as good
    as the other ends, which is below one.
    """
    needed = _epochs_until(baseline, float(baseline[-1]))
    if other[-1] <= baseline[-1]:
        return needed / _epochs_until(other, float(baseline[-1]))
    return _epochs_until(baseline, float(other[-1])) / needed


def _epochs_until(falling: Array, level: float) -> int:
    """Epochs until a line that falls to the level or below it gets there."""
    return int(np.argmax(falling <= level)) + 1
