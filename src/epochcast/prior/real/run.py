"""An ordinary run: schedule, falling error, what may happen to it, noise, and the metric that shows it.

Everything happens to relative errors (1 for the untrained model, 0 for a perfect one); only the last step turns them
into normalised values. The private functions below add ingredients to arrays [curve, step] in place.
"""

from __future__ import annotations

import numpy as np

from epochcast.prior.families import Array
from epochcast.prior.real import noise, setbacks, trend
from epochcast.prior.real.grid import Grid
from epochcast.prior.real.ingredient import Stage
from epochcast.prior.real.measure import Runs, measured
from epochcast.prior.real.schedule import Schedule, constant, draw_outlines, warmup
from epochcast.prior.real.source import Mask, Source, Topic
from epochcast.prior.real.table import TABLE

Ingredients = dict[str, Mask]

_SMALLEST_REACH = 1e-9
_OVERFITTING_WAITS = 2.0  # power of the share that is learned: who still learns much does not overfit much
_ACCURACY_OVERFITTING = 0.65  # of what a loss would show
_NOISE_OF_ACCURACIES = 2.0  # times that of losses: examples on the edge fall to either side, at any learning rate
_LARGEST_FACTOR = 1e3  # of noise that grows with a loss
_ASLEEP = 3e-4  # a change of relative error that no evaluation shows


def draw_schedules(grid: Grid, has: Ingredients, source: Source) -> Schedule:
    """A schedule for every curve, constant for those that have none."""
    source = source.about(Topic.SCHEDULE)
    batch = constant(grid, len(source))
    outlines = draw_outlines(grid, has, source)
    for form in TABLE.at(Stage.SCHEDULE):
        rows = np.flatnonzero(has[form.name])
        if len(rows) and form.law is not None:
            batch.put(rows, form.law(grid, outlines[rows], source[rows]))
    rows = np.flatnonzero(has["warmup"])
    batch.put(rows, warmup(grid, batch[rows], source[rows]))
    return batch


def ordinary(grid: Grid, schedule: Schedule, has: Ingredients, source: Source) -> Runs:
    """A run for each row of the masks `has`, with its schedule."""
    gap, final = _gap(schedule, has, source)
    pace = _pace(has, source)
    error = _trend(grid, schedule, gap + final, pace, has, source)
    examples = np.where(has["quantised"], noise.examples(source.about(Topic.METRIC))[:, 0], 0.0)
    # [2, curve, step]: noise that may be correlated, and that of a learning rate too high to settle, which is white.
    scales = np.stack([_noise_scale(grid, schedule, error, examples, has, source), _gap_noise(gap, has, source)])
    scales *= pace ** source.uniform(0.6, 1.2)  # small steps go astray less, too
    _silence(error, scales, has, source)
    rows = np.flatnonzero(has["wild"])
    error[rows] += setbacks.wild(schedule.felt[rows], source[rows])
    _add_events(grid, error, schedule, pace * (1.0 - final), has, source)
    _worsen(error, has, source)
    _shrink(error, scales, has, source)
    _start_far(grid, error, scales, has, source)
    _collapse(grid, error, scales, has, source)
    _explode(grid, error, scales, has, source)
    white = _add_correlated_noise(grid, error, scales, has, source)
    return measured(error, white, examples, has, source)


def _gap(schedule: Schedule, has: Ingredients, source: Source) -> tuple[Array, Array]:
    """What the learning rate keeps open [curve, step], and the error that can never be trained away [curve, 1]."""
    final = trend.final_error(has["loss"], source)
    for name, law in (("solved", trend.solved), ("tokens", trend.floor_of_tokens)):
        rows = np.flatnonzero(has[name])
        final[rows] = law(source[rows])
    gap = np.zeros_like(schedule.rate)
    rows = np.flatnonzero(has["held with noise"])
    noisy, loss = has["gap_noise"][rows], has["loss"][rows]
    gap[rows] = trend.gap(schedule.felt[rows], final[rows], noisy, loss, source[rows])
    rows = np.flatnonzero(has["gap_tokens"])
    gap[rows] = trend.quiet_gap(schedule.felt[rows], source[rows])
    return gap, final


def _pace(has: Ingredients, source: Source) -> Array:
    """The share of a decay that each run gets through, [curve, 1]; 1 where there is time for all of it."""
    pace = np.ones((len(source), 1))
    rows = np.flatnonzero(has["weak"])
    pace[rows] = trend.slow_pace(source[rows])
    return pace


def _trend(grid: Grid, schedule: Schedule, floor: Array, pace: Array, has: Ingredients, source: Source) -> Array:
    """The falling error [curve, step] above a floor that moves with the schedule."""
    clock = np.where(has["paced"][:, None], schedule.clock, grid.steps)
    rows = np.flatnonzero(has["counted_start"])
    clock[rows] -= clock[rows, :1]
    for change in TABLE.at(Stage.CLOCK):
        rows = np.flatnonzero(has[change.name])
        if len(rows) and change.law is not None:
            clock[rows] = change.law(clock[rows], grid, source[rows])
    start = np.ones((len(clock), 1))
    rows = np.flatnonzero(has["bad_start"])
    start[rows] = trend.bad_start(source[rows])
    return floor + (start - floor) * _left(grid, clock, pace, has, source)


def _left(grid: Grid, clock: Array, pace: Array, has: Ingredients, source: Source) -> Array:
    """What is left to learn [curve, step]."""
    horizon = grid.horizon
    left = trend.decay(clock, horizon, pace, has["second_decay"], has["slow"], source)
    rows = np.flatnonzero(has["second_wind"])
    left[rows] = trend.second_wind(left[rows], clock[rows], horizon, source[rows])
    rows = np.flatnonzero(has["paper_trend"] & ~has["weak"])
    left[rows] = trend.paper_decay(clock[rows], horizon, source[rows])
    rows = np.flatnonzero(has["tokens"])
    left[rows] = trend.tokens(clock[rows], horizon, source[rows])
    rows = np.flatnonzero(has["late_bloom"])
    left[rows] = trend.late_bloom(left[rows], clock[rows], horizon, source[rows])
    rows = np.flatnonzero(has["strayed"])
    left[rows] = trend.strayed(left[rows], grid, source[rows])
    return left


def _noise_scale(
    grid: Grid, schedule: Schedule, error: Array, examples: Array, has: Ingredients, source: Source
) -> Array:
    """How large the noise is at each step, [curve, step]."""
    start = noise.base_scale(has["tame"], source)
    start[has["training accuracies"]] *= _NOISE_OF_ACCURACIES
    rows = np.flatnonzero(has["tokens"])
    start[rows] = noise.of_tokens(source[rows])
    rows = np.flatnonzero(has["quantised"])
    start[rows] = np.hypot(start[rows], noise.of_few_examples(examples[rows, None], source[rows]))
    scale = np.repeat(start, len(grid.steps), axis=1)
    rows = np.flatnonzero(has["smooth"])
    scale[rows] *= noise.smooth(source[rows])
    rows = np.flatnonzero(has["wandering"])
    scale[rows] *= noise.beside_a_walk(source[rows])
    rows = np.flatnonzero(has["noise_decays"])
    scale[rows] *= noise.decaying(grid, source[rows])
    rows = np.flatnonzero(has["restless"])
    scale[rows] *= noise.growing(grid, source[rows])
    rows = np.flatnonzero(has["noise_follows_error"])
    scale[rows] *= noise.following_error(error[rows], source[rows])
    rows = np.flatnonzero(has["noise_follows_schedule"])
    scale[rows] *= noise.following_schedule(schedule.rate[rows], source[rows])
    return np.minimum(scale, noise.LARGEST)


def _gap_noise(gap: Array, has: Ingredients, source: Source) -> Array:
    """White noise [curve, step] of a learning rate that is too high to settle: each evaluation finds it elsewhere."""
    scale = np.zeros_like(gap)
    rows = np.flatnonzero(has["gap_noise"])
    scale[rows] = noise.of_gap(gap[rows], has["loss"][rows], source[rows])
    return scale


def _silence(error: Array, scales: Array, has: Ingredients, source: Source) -> None:
    """A run that has not begun to learn makes one constant guess, exactly the same each time."""
    rows = np.flatnonzero(has["silent_delay"])
    asleep = np.abs(1.0 - error[rows]) < _ASLEEP
    error[rows] = np.where(asleep, 1.0, error[rows])
    scales[:, rows] *= noise.silent_at_first(error[rows], source[rows])


def _add_events(grid: Grid, error: Array, schedule: Schedule, reach: Array, has: Ingredients, source: Source) -> None:
    """Setbacks in proportion to what a run can gain, `reach` [curve, 1]; overfitting to what it has gained by then,
    and the less the more there is still to learn."""
    gained = np.clip(1.0 - error, 0.0, reach)
    rows = np.flatnonzero(has["wandering"])
    error[rows] += np.minimum(error, gained)[rows] * setbacks.wandering(grid, schedule.rate[rows], source[rows])
    rows = np.flatnonzero(has["overfitting"])
    anywhere = source[rows].log_uniform(0.01, 0.4) * grid.horizon
    at_turn = has["overfitting_at_turn"][rows] & np.isfinite(schedule.turn[rows])
    onset = np.where(at_turn[:, None], schedule.turn[rows, None], anywhere)
    # An overconfident mistake costs a loss without limit, an accuracy only itself.
    felt = np.where(has["loss"][rows], 1.0, _ACCURACY_OVERFITTING)[:, None]
    learned = (gained[rows] / np.maximum(reach[rows], _SMALLEST_REACH)) ** _OVERFITTING_WAITS
    error[rows] += felt * learned * gained[rows] * setbacks.overfitting(grid, onset, source[rows])
    for stage, unit in ((Stage.OF_GAINS, gained), (Stage.OF_REACH, reach)):
        for event in TABLE.at(stage):
            rows = np.flatnonzero(has[event.name])
            if len(rows) and event.law is not None:
                error[rows] += unit[rows] * event.law(grid, source[rows])


def _worsen(error: Array, has: Ingredients, source: Source) -> None:
    """Runs that lose what others gain: their whole curve mirrored at the untrained level."""
    rows = np.flatnonzero(has["worsening"])
    error[rows] = setbacks.worsening(error[rows], source[rows])


def _shrink(error: Array, scales: Array, has: Ingredients, source: Source) -> None:
    """Runs that barely move, with noise that shrinks less than they do."""
    rows = np.flatnonzero(has["small"])
    factor = source[rows].log_uniform(5e-5, 0.05)
    error[rows] = trend.miniature(error[rows], factor, source[rows])
    scales[:, rows] *= factor ** source[rows].uniform()


def _start_far(grid: Grid, error: Array, scales: Array, has: Ingredients, source: Source) -> None:
    """Runs whose untrained model is far off, so that all that comes later is small beside its loss."""
    rows = np.flatnonzero(has["far_start"])
    excess = source[rows].log_uniform(3.0, 300.0)
    trained = grid.steps - np.where(has["counted_start"][rows], grid.steps[0], 0.0)[:, None]
    error[rows] = trend.far_start(error[rows], trained, excess, grid.horizon, source[rows])
    scales[:, rows] /= excess


def _collapse(grid: Grid, error: Array, scales: Array, has: Ingredients, source: Source) -> None:
    """Runs that are lost at some step: accuracies fall to chance, losses may grow without bound."""
    rows = np.flatnonzero(has["lost"])
    lost = setbacks.collapse(grid, source[rows])
    level = np.where(has["loss"][rows, None], setbacks.lost_level(source[rows]), 1.0)
    error[rows] += lost * (level - error[rows])
    scales[:, rows] *= 1.0 - source[rows].coin(0.6) * lost


def _explode(grid: Grid, error: Array, scales: Array, has: Ingredients, source: Source) -> None:
    """Losses that grow by orders of magnitude, and their noise with them."""
    rows = np.flatnonzero(has["exploding"])
    factor = setbacks.exploding(grid, source[rows])
    error[rows] *= factor
    scales[:, rows] *= np.minimum(factor, _LARGEST_FACTOR)


def _add_correlated_noise(grid: Grid, error: Array, scales: Array, has: Ingredients, source: Source) -> Array:
    """Adds the correlated part of the noise to the error; returns the scale of the white part [curve, step]."""
    scale, unsettled = scales
    white = scale.copy()
    rows = np.flatnonzero(has["correlated"])
    share = noise.correlated_share(source[rows])
    error[rows] += np.sqrt(share) * scale[rows] * noise.correlated(grid, source[rows])
    white[rows] *= np.sqrt(1.0 - share)
    white = np.asarray(np.hypot(white, unsettled))
    rows = np.flatnonzero(has["heavy_tailed"])
    white[rows] *= noise.heavy_tails(grid, source[rows])
    return white
