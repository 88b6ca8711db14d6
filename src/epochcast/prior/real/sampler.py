"""Curves that people really have: runs with schedules, plateaus, overfitting, divergence and noise of many kinds.

Whole curves of three plain kinds (the paper's, constant, toggling) stand beside ordinary runs. All curves of a batch
are made at once, and randomness comes only from the generator given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epochcast.errors import InputError
from epochcast.metric import LOSS, SHARE, UNTOLD
from epochcast.prior import paper
from epochcast.prior.families import Array
from epochcast.prior.real import noise, trend
from epochcast.prior.real.config import RealPriorConfig, draw_ingredients
from epochcast.prior.real.grid import Grid
from epochcast.prior.real.measure import Runs, chance_level, keep_within_bounds, loss_level, measure_by_first
from epochcast.prior.real.run import draw_schedules, ordinary
from epochcast.prior.real.source import Mask, Source

_CONSTANT_LOSSES = 0.75  # of constant curves; an accuracy seldom repeats itself for a whole run
_CHUNK = 512  # curves made at once: the temporaries stay in the cache


@dataclass(frozen=True)
class RealDraw:
    """Curves in normalised space, larger is better; row i of every array belongs to curve i.

    `noiseless` is all but the white noise: trend, correlated noise, dips and spikes. So the values that the same runs
    could have shown instead are `observe(z)` with fresh standard normal z.
    """

    noisy: Array  # [curve, step]
    noiseless: Array  # [curve, step]
    white_sd: Array  # [curve, step]
    untrained: Array  # [curve], the value before training
    kinds: Array  # [curve], what is measured: LOSS, SHARE, or UNTOLD for most of the paper's curves
    examples: Array  # [curve], validation examples that the metric counts; 0 where it is not quantised
    rate: Array  # [curve, step], the learning rate, relative to its largest
    clock: Array  # [curve, step], the integral of the rate
    ingredients: dict[str, Mask]  # [curve] each: what the curve was made of

    def observe(self, z: Array) -> Array:
        """Values of the same runs under other white noise, z [..., curve, step] standard normal."""
        return _observed(self.noiseless + self.white_sd * z, self.kinds, self.examples)


def _observed(values: Array, kinds: Array, examples: Array) -> Array:
    """What is shown of values [..., curve, step]; noise carries none beyond the bounds of a metric that is known."""
    values = np.where((kinds == UNTOLD)[:, None], values, np.clip(values, 0.0, 1.0))
    rows = np.flatnonzero(examples > 0.0)
    counted = examples[rows, None]
    values[..., rows, :] = np.round(values[..., rows, :] * counted) / counted
    return values


def constant(grid: Grid, source: Source) -> Runs:
    """Runs that never move: as untrained, at the worst value, or anywhere."""
    size, place = len(source), source.uniform()[:, 0]
    kinds = np.where(source.coin(_CONSTANT_LOSSES)[:, 0], LOSS, SHARE)
    untrained = np.where(kinds == LOSS, loss_level(np.ones(size)), chance_level(source)[:, 0])
    lost = np.where(kinds == LOSS, 0.9, 0.6)  # a loss that diverges at once is as bad as can be from then on
    level = np.where(place < 0.5, untrained, np.where(place < lost, 0.0, source.uniform()[:, 0]))
    still = np.zeros((size, len(grid.steps)))
    return Runs(level[:, None] + still, still, untrained, kinds, np.zeros(size))


def toggling(grid: Grid, source: Source) -> Runs:
    """A constant guess that changes between a few classes of nearly equal size, and settles on one at some step."""
    size, chance = len(source), chance_level(source)
    spread = source.log_uniform(1e-3, 1.0)
    levels = np.clip(chance * (1.0 + spread * source.uniform(-1.0, 1.0, 4)), 0.0, 1.0)
    favour = source.uniform(1.0, 4.0)  # of the first level over the others
    choice = (4.0 * source.fresh(len(grid.steps)) ** favour).astype(np.int64)
    settled = grid.steps > source.uniform(0.3, 2.0) * grid.horizon
    values = np.take_along_axis(levels, np.where(settled, 0, choice), axis=1)
    return Runs(values, np.zeros_like(values), chance[:, 0], np.full(size, SHARE), np.zeros(size))


def paper_curves(grid: Grid, source: Source) -> Runs:
    """Curves of the paper's prior between step 1 and the horizon; what came before step 1 is lower still."""
    size = len(source)
    parameters = source.pick(
        lambda count: trend.paper_parameters(count, grid.horizon, source.generator),
        lambda pool: trend.ends(pool, grid.horizon),
    )
    curves = paper.evaluate(parameters, np.append(np.maximum(grid.steps, 1.0), 1.0))
    values, first = np.clip(curves[:, :-1], 0.0, 1.0), curves[:, -1]
    sd = np.exp(parameters[:, paper.NAMES.index("log_sigma"), None])
    white_sd = np.repeat(sd, len(grid.steps), axis=1)
    return Runs(values, white_sd, source.uniform()[:, 0] * first, np.full(size, UNTOLD), np.zeros(size))


def draw_runs(grid: Grid, config: RealPriorConfig, source: Source) -> RealDraw:
    """A curve for each row of a source."""
    size, shape = len(source), (len(source), len(grid.steps))
    has = draw_ingredients(source, config, geometric=grid.is_geometric, iterations=grid.counts_iterations)
    runs = Runs(np.empty(shape), np.empty(shape), np.empty(size), np.empty(size), np.empty(size))
    schedule = draw_schedules(grid, has, source)
    rows = np.flatnonzero(has["ordinary"])
    own = {name: mask[rows] for name, mask in has.items()}
    runs.put(rows, ordinary(grid, schedule[rows], own, source[rows]))
    for name, kind in (("paper", paper_curves), ("constant", constant), ("toggling", toggling)):
        rows = np.flatnonzero(has[name])
        runs.put(rows, kind(grid, source[rows]))
    rows = np.flatnonzero(has["paper_quiet"])
    runs.white_sd[rows] *= noise.quieter(source[rows])
    runs.kinds[has["paper_accuracy"]], runs.kinds[has["paper_loss"]] = SHARE, LOSS
    rows = np.flatnonzero(has["paper_loss"] & has["first_as_reference"])
    measure_by_first(runs, rows, source[rows])
    keep_within_bounds(runs, np.flatnonzero(runs.kinds != UNTOLD))
    noisy = _observed(runs.noiseless + runs.white_sd * source.white(shape[1]), runs.kinds, runs.examples)
    return RealDraw(
        noisy, runs.noiseless, runs.white_sd, runs.untrained, runs.kinds, runs.examples,
        schedule.rate, schedule.clock, has,
    )  # fmt: skip


def sample(
    size: int,
    rng: np.random.Generator,
    steps: ArrayLike,
    horizon: float,
    config: RealPriorConfig | None = None,
) -> RealDraw:
    """Draw `size` curves seen at `steps` [step], rising in (0, horizon]; `horizon` is the planned end of the run."""
    if size < 0:
        raise InputError(f"size={size} curves cannot be drawn; ask for 0 or more")
    grid = Grid.of(steps, horizon)
    rates = config or RealPriorConfig()
    sizes = [min(_CHUNK, size - start) for start in range(0, size, _CHUNK)] or [0]
    return _joined([draw_runs(grid, rates, Source(rng, count)) for count in sizes])


def _joined(draws: list[RealDraw]) -> RealDraw:
    if len(draws) == 1:
        return draws[0]
    return RealDraw(
        noisy=np.concatenate([draw.noisy for draw in draws]),
        noiseless=np.concatenate([draw.noiseless for draw in draws]),
        white_sd=np.concatenate([draw.white_sd for draw in draws]),
        untrained=np.concatenate([draw.untrained for draw in draws]),
        kinds=np.concatenate([draw.kinds for draw in draws]),
        examples=np.concatenate([draw.examples for draw in draws]),
        rate=np.concatenate([draw.rate for draw in draws]),
        clock=np.concatenate([draw.clock for draw in draws]),
        ingredients={name: np.concatenate([draw.ingredients[name] for draw in draws]) for name in draws[0].ingredients},
    )
