"""An ordinary run: schedule, falling error, what may happen to it, noise, and the metric that shows it.

Everything happens to relative errors (1 for the untrained model, 0 for a perfect one); only the last step turns them
into normalised values. The private functions below add ingredients to arrays [curve, step] in place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epochcast.metric import LOSS, SHARE, UNTOLD
from epochcast.prior.families import Array
from epochcast.prior.real import noise, trend
from epochcast.prior.real.config import Mask, Rows
from epochcast.prior.real.grid import Grid, log_uniform
from epochcast.prior.real.schedule import Schedule
from epochcast.special import expit, logit

Ingredients = dict[str, Mask]

_BEST_LOGISTIC = float(expit(1.0))
_LOWEST_LEVEL = 0.01  # normalised: losses below it are as good as infinite
_SMALLEST_REFERENCE = 0.05  # relative error: a first loss below this would be no unit to measure by
_SMALLEST_REACH = 1e-9
_FARTHEST = 4.0  # relative error: a newest loss beyond it becomes the reference
_SMALLEST_SHOWN = 1e-3  # range that a return is measured by
_OVERFITTING_WAITS = 2.0  # power of the share that is learned: who still learns much does not overfit much
_ACCURACY_OVERFITTING = 0.65  # of what a loss would show
_NOISE_OF_ACCURACIES = 2.0  # times that of losses: examples on the edge fall to either side, at any learning rate
_LARGEST_FACTOR = 1e3  # of noise that grows with a loss
_ASLEEP = 3e-4  # a change of relative error that no evaluation shows
_SD_PER_DISTANCE = 0.4  # largest white noise, of the distance to the nearer bound of the metric


@dataclass(frozen=True)
class Runs:
    """Runs in normalised space before their white noise; row i of every array belongs to curve i."""

    noiseless: Array  # [curve, step]
    white_sd: Array  # [curve, step]
    untrained: Array  # [curve]
    kinds: Array  # [curve]: LOSS, SHARE or UNTOLD
    examples: Array  # [curve], 0 where the metric is not quantised


def ordinary(grid: Grid, schedule: Schedule, has: Ingredients, rng: np.random.Generator) -> Runs:
    """A run for each row of the masks `has`, with its schedule."""
    gap, final = _gap(schedule, has, rng)
    pace = _pace(has, rng)
    error = _trend(grid, schedule, gap + final, pace, has, rng)
    examples = np.where(has["quantised"], noise.examples(len(error), rng), 0.0)
    # [2, curve, step]: noise that may be correlated, and that of a learning rate too high to settle, which is white.
    scales = np.stack([_noise_scale(grid, schedule, error, examples, has, rng), _gap_noise(gap, has, rng)])
    scales *= pace ** rng.uniform(0.6, 1.2, pace.shape)  # small steps go astray less, too
    _silence(error, scales, has, rng)
    rows = np.flatnonzero(has["wild"])
    error[rows] += trend.wild(schedule.felt[rows], rng)
    _add_events(grid, error, schedule, pace * (1.0 - final), has, rng)
    _worsen(error, has, rng)
    _shrink(error, scales, has, rng)
    _start_far(grid, error, scales, has, rng)
    _collapse(grid, error, scales, has, rng)
    rows = np.flatnonzero(has["exploding"])
    factor = trend.exploding(grid, len(rows), rng)
    error[rows] *= factor
    scales[:, rows] *= np.minimum(factor, _LARGEST_FACTOR)
    white = _add_correlated_noise(grid, error, scales, has, rng)
    return _measured(error, white, examples, has, rng)


def _gap(schedule: Schedule, has: Ingredients, rng: np.random.Generator) -> tuple[Array, Array]:
    """What the learning rate keeps open [curve, step], and the error that can never be trained away [curve, 1]."""
    final = trend.final_error(has["loss"], rng)
    rows = np.flatnonzero(has["solved"])
    final[rows] = trend.solved(len(rows), rng)
    rows = np.flatnonzero(has["held"])
    gap = np.zeros_like(schedule.rate)
    gap[rows] = trend.gap(schedule.felt[rows], final[rows], has["gap_noise"][rows], has["loss"][rows], rng)
    rows = np.flatnonzero(has["tokens"])
    final[rows] = trend.floor_of_tokens(len(rows), rng)
    rows = np.flatnonzero(has["tokens"] & has["held"])
    gap[rows] = trend.quiet_gap(schedule.felt[rows], rng)
    return gap, final


def _pace(has: Ingredients, rng: np.random.Generator) -> Array:
    """The share of a decay that each run gets through, [curve, 1]; 1 where there is time for all of it."""
    pace = np.ones((len(has["weak"]), 1))
    rows = np.flatnonzero(has["weak"])
    pace[rows] = trend.slow_pace(len(rows), rng)
    return pace


def _trend(
    grid: Grid, schedule: Schedule, floor: Array, pace: Array, has: Ingredients, rng: np.random.Generator
) -> Array:
    """The falling error [curve, step] above a floor that moves with the schedule."""
    clock = np.where(has["paced"][:, None], schedule.clock, grid.steps)
    rows = np.flatnonzero(has["counted_start"])
    clock[rows] -= clock[rows, :1]
    rows = np.flatnonzero(has["bent"])
    sd = np.where(
        has["tokens"][rows, None],
        log_uniform(0.003, 0.15, (len(rows), 1), rng),
        log_uniform(0.01, 0.4, (len(rows), 1), rng),
    )
    clock[rows] = trend.warped(grid, clock[rows], sd, rng)
    for name, changed in (("waiting", trend.delayed), ("stall", trend.stalled), ("stays", trend.staying)):
        rows = np.flatnonzero(has[name])
        clock[rows] = changed(clock[rows], grid.horizon, rng)
    start = np.ones((len(clock), 1))
    rows = np.flatnonzero(has["bad_start"])
    start[rows, 0] = trend.bad_start(len(rows), rng)
    left = trend.decay(clock, grid.horizon, pace, has["second_decay"], has["slow"], rng)
    rows = np.flatnonzero(has["second_wind"])
    left[rows] = trend.second_wind(left[rows], clock[rows], grid.horizon, rng)
    rows = np.flatnonzero(has["paper_trend"] & ~has["weak"])
    left[rows] = trend.paper_decay(clock[rows], grid.horizon, rng)
    rows = np.flatnonzero(has["tokens"] & ~has["weak"])
    left[rows] = trend.tokens(clock[rows], grid.horizon, rng)
    rows = np.flatnonzero(has["strayed"])
    stray = log_uniform(0.002, 0.1, (len(rows), 1), rng)
    left[rows] *= np.exp(stray * trend.smooth_path(grid, len(rows), rng))
    return floor + (start - floor) * left


def _noise_scale(
    grid: Grid, schedule: Schedule, error: Array, examples: Array, has: Ingredients, rng: np.random.Generator
) -> Array:
    """How large the noise is at each step, [curve, step]."""
    start = noise.base_scale(has["tame"], rng)
    start[has["accuracy"] & has["training"]] *= _NOISE_OF_ACCURACIES
    rows = np.flatnonzero(has["tokens"])
    start[rows] = noise.of_tokens(len(rows), rng)
    rows = np.flatnonzero(has["quantised"])
    start[rows] = np.hypot(start[rows], noise.of_few_examples(examples[rows], rng))
    scale = np.repeat(start[:, None], len(grid.steps), axis=1)
    rows = np.flatnonzero(has["smooth"])
    scale[rows] *= noise.smooth(len(rows), rng)[:, None]
    rows = np.flatnonzero(has["wandering"])
    scale[rows] *= noise.beside_a_walk(len(rows), rng)[:, None]
    rows = np.flatnonzero(has["noise_decays"])
    scale[rows] *= noise.decaying(grid, len(rows), rng)
    rows = np.flatnonzero(has["noise_follows_error"])
    scale[rows] *= noise.following_error(error[rows], rng)
    rows = np.flatnonzero(has["noise_follows_schedule"])
    scale[rows] *= noise.following_schedule(schedule.rate[rows], rng)
    return np.minimum(scale, noise.LARGEST)


def _gap_noise(gap: Array, has: Ingredients, rng: np.random.Generator) -> Array:
    """White noise [curve, step] of a learning rate that is too high to settle: each evaluation finds it elsewhere."""
    scale = np.zeros_like(gap)
    rows = np.flatnonzero(has["gap_noise"] & ~has["tokens"])
    scale[rows] = noise.of_gap(gap[rows], has["loss"][rows], rng)
    return scale


def _silence(error: Array, scales: Array, has: Ingredients, rng: np.random.Generator) -> None:
    """A run that has not begun to learn makes one constant guess, exactly the same each time."""
    rows = np.flatnonzero(has["silent_delay"])
    asleep = np.abs(1.0 - error[rows]) < _ASLEEP
    error[rows] = np.where(asleep, 1.0, error[rows])
    scales[:, rows] *= noise.silent_at_first(error[rows], rng)


def _add_events(
    grid: Grid, error: Array, schedule: Schedule, reach: Array, has: Ingredients, rng: np.random.Generator
) -> None:
    """Setbacks in proportion to what a run can gain, `reach` [curve, 1]; overfitting to what it has gained by then,
    and the less the more there is still to learn."""
    gained = np.clip(1.0 - error, 0.0, reach)
    rows = np.flatnonzero(has["wandering"])
    error[rows] += np.minimum(error, gained)[rows] * trend.wandering(grid, schedule.rate[rows], rng)
    rows = np.flatnonzero(has["overfitting"])
    anywhere = log_uniform(0.01, 0.4, len(rows), rng) * grid.horizon
    at_turn = has["overfitting_at_turn"][rows] & np.isfinite(schedule.turn[rows])
    onset = np.where(at_turn, schedule.turn[rows], anywhere)[:, None]
    # An overconfident mistake costs a loss without limit, an accuracy only itself.
    felt = np.where(has["loss"][rows], 1.0, _ACCURACY_OVERFITTING)[:, None]
    learned = (gained[rows] / np.maximum(reach[rows], _SMALLEST_REACH)) ** _OVERFITTING_WAITS
    error[rows] += felt * learned * gained[rows] * trend.overfitting(grid, onset, rng)
    rows = np.flatnonzero(has["memorising"])
    onset = log_uniform(0.02, 0.9, (len(rows), 1), rng) * grid.horizon
    error[rows] += gained[rows] * trend.overfitting(grid, onset, rng)
    for name, event in (("unsteady", trend.unstable), ("double_descent", trend.double_descent)):
        rows = np.flatnonzero(has[name])
        error[rows] += gained[rows] * event(grid, len(rows), rng)
    for name, event in (("spikes", trend.spikes), ("dips", noise.dips)):
        rows = np.flatnonzero(has[name])
        error[rows] += reach[rows] * event(grid, len(rows), rng)


def _worsen(error: Array, has: Ingredients, rng: np.random.Generator) -> None:
    """Runs that lose what others gain: their whole curve mirrored at the untrained level."""
    rows = np.flatnonzero(has["worsening"])
    error[rows] = trend.worsening(error[rows], rng)


def _shrink(error: Array, scales: Array, has: Ingredients, rng: np.random.Generator) -> None:
    """Runs that barely move, with noise that shrinks less than they do."""
    rows = np.flatnonzero(has["small"])
    factor = log_uniform(5e-5, 0.05, (len(rows), 1), rng)
    error[rows] = trend.miniature(error[rows], factor, rng)
    scales[:, rows] *= factor ** rng.random(factor.shape)


def _start_far(grid: Grid, error: Array, scales: Array, has: Ingredients, rng: np.random.Generator) -> None:
    """Runs whose untrained model is far off, so that all that comes later is small beside its loss."""
    rows = np.flatnonzero(has["far_start"])
    excess = log_uniform(3.0, 300.0, (len(rows), 1), rng)
    trained = grid.steps - np.where(has["counted_start"][rows], grid.steps[0], 0.0)[:, None]
    error[rows] = trend.far_start(error[rows], trained, excess, grid.horizon, rng)
    scales[:, rows] /= excess


def _collapse(grid: Grid, error: Array, scales: Array, has: Ingredients, rng: np.random.Generator) -> None:
    """Runs that are lost at some step: accuracies fall to chance, losses may grow without bound."""
    rows = np.flatnonzero(has["lost"])
    lost = trend.collapse(grid, len(rows), rng)
    level = np.where(has["loss"][rows], trend.lost_level(len(rows), rng), 1.0)[:, None]
    error[rows] += lost * (level - error[rows])
    silent = rng.random(level.shape) < 0.6
    scales[:, rows] *= 1.0 - silent * lost


def _add_correlated_noise(grid: Grid, error: Array, scales: Array, has: Ingredients, rng: np.random.Generator) -> Array:
    """Adds the correlated part of the noise to the error; returns the scale of the white part [curve, step]."""
    scale, unsettled = scales
    white = scale.copy()
    rows = np.flatnonzero(has["correlated"])
    share = noise.correlated_share(len(rows), rng)[:, None]
    error[rows] += np.sqrt(share) * scale[rows] * noise.correlated(grid, len(rows), rng)
    white[rows] *= np.sqrt(1.0 - share)
    white = np.asarray(np.hypot(white, unsettled))
    rows = np.flatnonzero(has["heavy_tailed"])
    white[rows] *= noise.heavy_tails(grid, len(rows), rng)
    return white


def chance_level(size: int, rng: np.random.Generator) -> Array:
    """The accuracy [curve] of a guess: 1 / classes, or the share of the largest class."""
    classes = np.round(log_uniform(2.0, 1000.0, size, rng))
    return np.where(rng.random(size) < 0.6, 1.0 / classes, rng.uniform(0.0, 0.95, size))


def loss_level(error: Array) -> Array:
    """The paper's normalisation of a loss that is given as a multiple of its untrained value."""
    return np.asarray(expit(1.0 - 2.0 * error) / _BEST_LOGISTIC)


def _slope(levels: Array) -> Array:
    """How much `loss_level` falls per error, where it has come to these levels."""
    return 2.0 * levels * (1.0 - _BEST_LOGISTIC * levels)


def measure_by_first(runs: Runs, rows: Rows, rng: np.random.Generator) -> None:
    """Take the normalised values of some rows for losses, and normalise them by their first value instead."""
    levels = np.maximum(runs.noiseless[rows], _LOWEST_LEVEL)
    losses, sd = 0.5 - 0.5 * logit(_BEST_LOGISTIC * levels), runs.white_sd[rows] / _slope(levels)
    _put_losses(runs, rows, losses, sd, np.ones(len(rows), dtype=bool), rng)


def keep_within_bounds(runs: Runs, rows: Rows) -> None:
    """White noise of some rows has no room beyond the bounds of the metric."""
    room = np.minimum(runs.noiseless[rows], 1.0 - runs.noiseless[rows])
    runs.white_sd[rows] = np.minimum(runs.white_sd[rows], _SD_PER_DISTANCE * room)


def _measured(error: Array, white: Array, examples: Array, has: Ingredients, rng: np.random.Generator) -> Runs:
    """From relative errors to normalised values: losses are squeezed, accuracies run straight from chance to 1."""
    size = len(error)
    kinds = np.where(has["loss"], LOSS, SHARE)
    runs = Runs(np.empty_like(error), np.empty_like(error), np.empty(size), kinds, examples)

    rows = np.flatnonzero(has["loss"])
    _anchor_again(error, white, rows, rng)
    _put_losses(runs, rows, np.maximum(error[rows], 0.0), white[rows], has["first_as_reference"][rows], rng)

    rows = np.flatnonzero(has["accuracy"])
    chance = chance_level(len(rows), rng)
    runs.noiseless[rows] = np.clip(1.0 - (1.0 - chance[:, None]) * error[rows], 0.0, 1.0)
    runs.white_sd[rows] = (1.0 - chance[:, None]) * white[rows]
    runs.untrained[rows] = chance
    _free(runs, np.flatnonzero(has["unbounded"]), rng)
    return runs


def _anchor_again(error: Array, white: Array, rows: Rows, rng: np.random.Generator) -> None:
    """A loss that is far beyond its reference when it is looked at is measured by its newest value instead."""
    seen = rng.integers(0, error.shape[1], len(rows))
    newest = error[rows, seen]
    far = newest > _FARTHEST
    unit = (newest[far] / _FARTHEST)[:, None]
    error[rows[far]] /= unit
    white[rows[far]] /= unit


def _free(runs: Runs, rows: Rows, rng: np.random.Generator) -> None:
    """Returns, which have no bounds: what a run has shown up to some step becomes the middle of the scale."""
    values, sd = runs.noiseless[rows], runs.white_sd[rows]
    steps = values.shape[1]
    seen = np.arange(steps) <= rng.integers(0, steps, (len(rows), 1))
    shown = values + sd * rng.standard_normal(values.shape)
    low = np.where(seen, shown, np.inf).min(axis=1, keepdims=True)
    high = np.where(seen, shown, -np.inf).max(axis=1, keepdims=True)
    half = 0.5 * np.maximum(high - low, _SMALLEST_SHOWN)
    scaled = expit((values - 0.5 * (low + high)) / half)
    runs.noiseless[rows] = scaled
    runs.white_sd[rows] = np.minimum(sd / half, 1.0) * scaled * (1.0 - scaled)
    runs.untrained[rows] = expit((runs.untrained[rows, None] - 0.5 * (low + high)) / half)[:, 0]
    runs.kinds[rows], runs.examples[rows] = UNTOLD, 0.0


def _put_losses(runs: Runs, rows: Rows, losses: Array, sd: Array, by_first: Mask, rng: np.random.Generator) -> None:
    """Losses as multiples of the untrained one, and their white noise [curve, step], which both may be changed."""
    unit = _use_first_as_unit(losses, sd, by_first, rng)
    levels = loss_level(losses)
    runs.noiseless[rows] = levels
    runs.white_sd[rows] = sd * _slope(levels)
    runs.untrained[rows] = loss_level(1.0 / unit)


def _use_first_as_unit(losses: Array, sd: Array, chosen: Mask, rng: np.random.Generator) -> Array:
    """Divides chosen losses by their first noisy value, in place, and returns what they were divided by [curve]."""
    unit = np.ones(len(losses))
    first = losses[chosen, 0] + sd[chosen, 0] * rng.standard_normal(int(chosen.sum()))
    unit[chosen] = np.maximum(first, _SMALLEST_REFERENCE)
    losses[chosen] /= unit[chosen, None]
    sd[chosen] /= unit[chosen, None]
    losses[chosen, 0], sd[chosen, 0] = 1.0, 0.0
    return unit
