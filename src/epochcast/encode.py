"""From what a user hands over to what an engine is asked: checks, scale, kind and the value before training.

Forecasts, streams, stoppers, calibration and `watch` all go this way, so that the same values mean the same everywhere.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epochcast.checks import horizon_of, shown
from epochcast.curve import (
    Array,
    Curves,
    Mask,
    Missing,
    check_horizon,
    clip_to_hard_bounds,
    floats,
    unpacked,
)
from epochcast.errors import InputError
from epochcast.metric import Bounds, Metric
from epochcast.normalize import Normalizer, task_bounds
from epochcast.question import Context, Engine, Question, check_reads
from epochcast.run import Run
from epochcast.schedule import Schedule
from epochcast.space import Space

MOST_STEPS = 1_000  # future steps answered without being asked for: more are thinned to this many

RunsLike = ArrayLike | Run | Sequence[ArrayLike | Run]


@dataclass(frozen=True)
class Seen:
    """Checked values of runs in the metric's own space, and what is known beside them."""

    curves: Curves
    untrained: Array | None = None  # [run]: the value before training, NaN where it is not known
    configs: tuple[Mapping[str, Any] | None, ...] = ()  # one per run, or none at all
    untrained_given: float | None = None  # one of them that was given as such, not measured at step 0
    horizons: tuple[int | None, ...] = ()  # one per run where any was told, or none at all


@dataclass(frozen=True, eq=False)
class Others:
    """Other runs of the same task, checked, and what is to be said of those that were left out."""

    seen: Seen
    horizons: Array  # [run]
    space: Space | None = None
    notes: tuple[str, ...] = ()
    _made: dict[tuple[Metric, Bounds], Context] = field(default_factory=dict, repr=False)  # the newest
    _bounds: dict[Metric, Bounds] = field(default_factory=dict, repr=False)  # where the runs asked about tell nothing

    def __len__(self) -> int:
        return len(self.seen.curves)

    def bounds(self, metric: Metric, untrained: Array | None) -> Bounds:
        """The soft bounds that they share with runs that have these values before training [run]."""
        if untrained is None and metric in self._bounds:
            return self._bounds[metric]
        own, of_others = (np.empty(0) if known is None else known for known in (untrained, self.seen.untrained))
        bounds = task_bounds(metric, self.seen.curves, own, of_others)
        if untrained is None:
            self._bounds[metric] = bounds
        return bounds

    def context(self, metric: Metric, bounds: Bounds) -> Context:
        """The same as an engine sees them: one object as long as the bounds stay, for an engine that remembers."""
        if (metric, bounds) not in self._made:
            curves, before = _in_the_priors_space(self.seen, Normalizer.between(metric, *bounds))
            self._made.clear()
            self._made[metric, bounds] = Context(curves, self.horizons, self.seen.configs, before, self.space)
        return self._made[metric, bounds]


@dataclass(frozen=True)
class Encoded:
    """A question, how its answer is read, and what is to be said of it."""

    question: Question
    steps: Array  # [run, step] asked for; NaN where a longer run of the batch has seen more
    normalizer: Normalizer
    notes: tuple[str, ...]


def seen_of(
    values: RunsLike,
    steps: ArrayLike | Sequence[ArrayLike] | None,
    metric: Metric,
    *,
    missing: Missing = "error",
    untrained: float | None = None,
    config: Mapping[str, Any] | None = None,
) -> Seen:
    """Runs as they are handed over, checked against their metric. A value at step 0 is the untrained model's."""
    plain, steps, runs = _taken_apart(values, steps)
    curves, before = _split_untrained(clip_to_hard_bounds(Curves.of(plain, steps, missing=missing), metric))
    configs = _configs_of(runs or [Run(())] * len(curves), config) if runs or config is not None else ()
    horizons = tuple(None if run.horizon is None else horizon_of(run.horizon) for run in runs)
    given = None
    for known in ([run.untrained for run in runs], [] if untrained is None else [untrained] * len(curves)):
        if any(value is not None for value in known):
            own = np.array([np.nan if value is None else metric.checked_untrained(value) for value in known])
            before = own if before is None else np.where(np.isnan(own), before, own)
            given = float(own[np.isfinite(own)][0])
    return Seen(curves, before, configs, given, horizons if any(horizons) else ())


def encode(
    seen: Seen,
    metric: Metric,
    horizon: int,
    *,
    at: ArrayLike | None = None,
    schedule: Schedule | None = None,
    others: Others | None = None,
) -> Encoded:
    """The question about the rest of runs up to the horizon, or about certain steps of it."""
    check_horizon(seen.curves, horizon)
    for planned in seen.horizons:
        if planned not in (None, horizon):
            raise InputError(f"horizon={horizon:g} is not horizon={planned} of the Run; a call has one horizon for all")
    steps, notes = _steps_asked(seen.curves, int(horizon), at)
    asked = np.where(np.isnan(steps), float(horizon), steps)
    question, normalizer, left = normalised(seen, metric, asked, horizon, schedule, others)
    notes += _notes_of_range(seen.curves, left, bool(others))
    return Encoded(question, steps, normalizer, notes if others is None else notes + others.notes)


def check_untrained(engine: Engine, metric: Metric, value: float) -> None:
    """Raise if neither the engine nor the metric's scale makes use of a value before training."""
    if not _scale_needs_untrained(metric):
        check_reads(engine, "untrained", value)


def notes_of_untrained(engine: Engine, metric: Metric, seen: Seen) -> tuple[str, ...]:
    """What to say of values before training that nothing makes use of; given as such, they are refused."""
    if seen.untrained is None:
        return ()
    if seen.untrained_given is not None:
        check_untrained(engine, metric, seen.untrained_given)
    if "untrained" in engine.reads or _scale_needs_untrained(metric):
        return ()
    return (f"{engine.name} makes no use of the value before training: it was left out",)


def _scale_needs_untrained(metric: Metric) -> bool:
    return metric.transform and metric.soft is None


def normalised(
    seen: Seen,
    metric: Metric,
    steps: Array,
    horizon: float,
    schedule: Schedule | None = None,
    others: Others | None = None,
) -> tuple[Question, Normalizer, Mask]:
    """A question about steps [run, step] in the prior's space, the map to it, and which runs have left their range.

    Among other runs all share one map. A run that has left its range keeps a map of its own, and is asked about alone.
    """
    context = None
    if others:
        bounds = others.bounds(metric, seen.untrained)
        normalizer, left = Normalizer.between(metric, *bounds).own_where_left(seen.curves, seen.untrained)
        context = None if left.all() else others.context(metric, bounds)
    else:
        normalizer, left = Normalizer.of_runs(metric, seen.curves, seen.untrained)
    curves, untrained = _in_the_priors_space(seen, normalizer)
    question = Question(
        runs=curves,
        steps=steps,
        horizon=float(horizon),
        kinds=np.full(len(curves), metric.kind),
        untrained=untrained,
        schedule=schedule,
        configs=seen.configs,
        context=context,
        alone=left if context is not None and left.any() else None,
    )
    return question, normalizer, left


def _in_the_priors_space(seen: Seen, normalizer: Normalizer) -> tuple[Curves, Array | None]:
    """Values of runs and those before training, as a map has them."""
    curves = seen.curves
    unit = replace(curves, values=np.where(curves.seen, normalizer.forward(curves.values), 0.0))
    return unit, None if seen.untrained is None else normalizer.forward(seen.untrained[:, None])[:, 0]


def _taken_apart(values: RunsLike, steps: Any) -> tuple[Any, Any, Sequence[Run]]:
    """Values and steps of one `Run`, a list of them, or plain values, and the runs where there are any."""
    if isinstance(values, Run):
        return values.values, values.steps if steps is None else steps, [values]
    if not (isinstance(values, (list, tuple)) and any(isinstance(item, Run) for item in values)):
        return values, steps, ()
    if steps is not None:
        raise InputError("a Run has its own steps; leave steps=... out")
    runs = [item if isinstance(item, Run) else Run(item) for item in values]
    pairs = [unpacked(run.values) for run in runs]
    each = [own for own, _ in pairs]
    given = [index if run.steps is None else run.steps for run, (_, index) in zip(runs, pairs, strict=True)]
    if all(steps is None for steps in given):  # counted at once
        return each, None, runs
    counted = [
        np.arange(1.0, np.size(own) + 1.0) if steps is None else steps for own, steps in zip(each, given, strict=True)
    ]
    return each, counted, runs


def _configs_of(runs: Sequence[Run], config: Mapping[str, Any] | None) -> tuple[Mapping[str, Any] | None, ...]:
    """The configuration of each run: its own, or the one that was given for all."""
    found = [config if run.config is None else run.config for run in runs]
    for own in found:
        if own is not None and not isinstance(own, Mapping):
            raise InputError(f"config={shown(own)} must be a mapping of names to values, such as {{'lr': 0.001}}")
        if config is not None and own is not config and not alike(own, config):
            raise InputError(f"config={shown(config)} is not the Run's own, {shown(own)}; give one of them")
    return tuple(found)


def alike(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two configurations say the same."""
    if one is None or other is None:
        return one is other
    try:
        return dict(one) == dict(other)
    except ValueError:  # they hold arrays, which cannot be read anyway
        return False


def _split_untrained(curves: Curves) -> tuple[Curves, Array | None]:
    """Take values at step 0 out of the curves: they belong to the untrained model."""
    if curves.values.shape[1] == 0:
        return curves, None
    at_zero = (curves.steps[:, 0] == 0.0) & (curves.lengths > 0)
    if not at_zero.any():
        return curves, None
    before = np.where(at_zero, curves.values[:, 0], np.nan)
    if at_zero.all():
        steps, values = curves.steps[:, 1:], curves.values[:, 1:]
    else:
        steps, values = (
            np.where(at_zero[:, None], np.roll(array, -1, axis=1), array) for array in (curves.steps, curves.values)
        )
        steps[at_zero, -1] = values[at_zero, -1] = 0.0
    return replace(curves, steps=steps, values=values, lengths=curves.lengths - at_zero), before


def _steps_asked(curves: Curves, horizon: int, at: ArrayLike | None) -> tuple[Array, tuple[str, ...]]:
    """Future steps [run, step]: all whole ones up to the horizon, or those asked for; each run by itself."""
    last = curves.last_step[:, None]
    if at is not None:
        wanted = np.atleast_1d(floats(at, "at"))
        if wanted.ndim != 1 or len(wanted) == 0 or not np.isfinite(wanted).all():
            raise InputError(f"at={reprlib.repr(at)} must be one future step or a list of them")
        if not ((wanted > last.max()) & (wanted <= horizon)).all():
            raise InputError(f"at={reprlib.repr(at)} must lie after step {last.max():g}, not past horizon={horizon}")
        return np.broadcast_to(wanted, (len(curves), len(wanted))), ()
    first = np.floor(last) + 1.0
    count = np.minimum(horizon - first + 1.0, MOST_STEPS)  # [run, 1]
    back = np.arange(count.max(initial=1.0) - 1.0, -1.0, -1.0)  # counted from the horizon, where all runs end
    steps = np.round(horizon - back * (horizon - first) / np.maximum(count - 1.0, 1.0))
    notes: tuple[str, ...] = ()
    if (horizon - first + 1.0 > MOST_STEPS).any():
        notes = (f"answers {MOST_STEPS} of the steps up to {horizon}; ask for others with at=...",)
    return np.where(back < count, steps, np.nan), notes


def _notes_of_range(curves: Curves, left: Mask, among_others: bool) -> tuple[str, ...]:
    """What to say of runs that have left the range of their metric, or of the other runs."""
    if not left.any():
        return ()
    curve = int(np.argmax(left))
    where = "the run" if curves.single else f"curve {curve}"
    others = int(left.sum()) - 1
    more = f", and so have {others} others" if others else ""
    newest = f"{curves.last_value[curve]:.4g}"
    if among_others:
        return (
            f"{where} has left the range of the other runs: its newest value {newest} lies far outside{more}; "
            "it is forecast without them",
        )
    return (
        f"{where} has left its range: its newest value {newest} lies far outside the metric's "
        f"soft bounds, which follow it now{more}",
    )
