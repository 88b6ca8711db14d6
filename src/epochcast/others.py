"""Other runs of the task, from what a user hands over as `context` to the `Others` that are usable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.checks import shown
from epochcast.curve import Array, Curves, Missing, clip_to_hard_bounds, floats, unpacked
from epochcast.encode import Others, Seen, alike, seen_of
from epochcast.errors import InputError
from epochcast.metric import Metric
from epochcast.run import Run
from epochcast.space import Scale, Space, as_space

MOST_RUNS = 64  # that a model reads: of more, the newest half of as many and the best of the others
FEWEST_VALUES = 2  # of a run that tells anything

ContextLike = Sequence[ArrayLike | Run] | NDArray[Any]
SpaceLike = Space | Mapping[str, Scale]


def others_of(
    context: ContextLike,
    metric: Metric,
    horizon: int,
    *,
    missing: Missing = "error",
    space: SpaceLike | None = None,
) -> Others:
    """Other runs as they are handed over, oldest first, without those that cannot be used; notes name these."""
    seen, notes = _usable(_runs_in(context), metric, missing)
    chosen = newest_and_best(metric, seen.curves)
    if len(chosen) < len(seen.curves):
        notes = (*notes, f"{len(seen.curves)} other runs are more than the {MOST_RUNS} that are read: {_RULE}")
        seen = _some(seen, chosen)
    last, planned = seen.curves.last_step, np.array([horizon or np.nan for horizon in seen.horizons])
    horizons = np.maximum(horizon, last)
    if len(planned):
        _check_horizons(last, planned)
        horizons = np.where(np.isnan(planned), horizons, planned)
    return Others(seen, horizons, as_space(space), notes)


def same_others(one: Others, other: Others) -> bool:
    """Whether two say the same, so that what is known of the one serves for the other."""
    pairs = [
        (one.seen.curves.lengths, other.seen.curves.lengths),
        (one.seen.curves.values, other.seen.curves.values),
        (one.seen.curves.steps, other.seen.curves.steps),
        (one.horizons, other.horizons),
    ]
    configs = one.seen.configs, other.seen.configs
    before, after = (np.empty(0) if seen.untrained is None else seen.untrained for seen in (one.seen, other.seen))
    return (
        one.space == other.space
        and one.notes == other.notes
        and all(np.array_equal(left, right) for left, right in pairs)
        and np.array_equal(before, after, equal_nan=True)
        and len(configs[0]) == len(configs[1])
        and all(map(alike, *configs))
    )


_RULE = f"the {MOST_RUNS // 2} newest, and of the others the {MOST_RUNS // 2} with the best values"


def newest_and_best(metric: Metric, runs: Curves) -> NDArray[np.intp]:
    """Which runs are read where there are too many, in their own order."""
    if len(runs) <= MOST_RUNS:
        return np.arange(len(runs))
    return newest_and_largest(np.where(runs.seen, metric.sign * runs.values, -np.inf).max(axis=1))


def newest_and_largest(values: Array) -> NDArray[np.intp]:
    """The same by the best value of each run, where larger is better."""
    if len(values) <= MOST_RUNS:
        return np.arange(len(values))
    newest = np.arange(len(values) - MOST_RUNS // 2, len(values))
    largest = np.argsort(-values[: newest[0]], kind="stable")[: MOST_RUNS // 2]
    return np.sort(np.concatenate([largest, newest]))


def _runs_in(context: Any) -> list[Run]:
    """The runs of a list or a 2-D array."""
    if hasattr(context, "iloc") or hasattr(context, "detach"):  # of pandas or torch
        context = floats(unpacked(context)[0], "context")
    if isinstance(context, np.ndarray) and context.ndim in (1, 2):
        context = list(context)
    if not isinstance(context, (list, tuple)):
        raise InputError(f"context={shown(context)} must be a list of runs or a 2-D array, one run per row")
    for i, item in enumerate(context):
        if not isinstance(item, Run) and not hasattr(item, "__len__") and np.ndim(item) == 0:
            raise InputError(f"context[{i}]={shown(item)} is not a run; one run alone is context=[run]")
    return [item if isinstance(item, Run) else Run(item) for item in context]


def _usable(runs: list[Run], metric: Metric, missing: Missing) -> tuple[Seen, tuple[str, ...]]:
    """Those of the runs that can be used, and what to say of the others."""
    if not runs:
        return _nothing(), ()
    try:  # all at once, as most often nothing is wrong
        seen = seen_of(runs, None, metric, missing=missing)
        if (seen.curves.lengths >= FEWEST_VALUES).all():
            return seen, ()
    except InputError:
        pass  # which of them it was is found out below
    faults = [_fault(run, f"context[{i}]", metric, missing) for i, run in enumerate(runs)]
    good = [run for run, fault in zip(runs, faults, strict=True) if fault is None]
    counts = Counter(fault for fault in faults if fault is not None)
    reasons = ", ".join(f"{count} with {reason}" for reason, count in sorted(counts.items()))
    rest = "" if good else "; the forecast is made without any"
    left = len(runs) - len(good)
    note = f"{left} of {len(runs)} other runs {'was' if left == 1 else 'were'} left out, {reasons}{rest}"
    return seen_of(good, None, metric, missing=missing) if good else _nothing(), (note,)


_TOO_FEW = f"fewer than {FEWEST_VALUES} values"
_NOT_FINITE = "values that are missing or not finite"


def _fault(run: Run, place: str, metric: Metric, missing: Missing) -> str | None:
    """Why a run of another kind than those asked about is of no use, None if it is; a mistake is an error."""
    values = floats(unpacked(run.values)[0], f"values of {place}")
    if values.ndim != 1:
        raise InputError(f"values of {place} have {values.ndim} dimensions; each run of a context must be 1-D")
    known = values[~np.isnan(values)] if missing == "drop" else values
    if not np.isfinite(known).all():
        return _NOT_FINITE
    try:
        clip_to_hard_bounds(Curves.of(known), metric)
    except InputError:
        return f"values that {metric.name} cannot have"
    try:
        seen = seen_of([run], None, metric, missing=missing)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    return None if seen.curves.lengths[0] >= FEWEST_VALUES else _TOO_FEW


def _check_horizons(last: NDArray[np.float64], planned: NDArray[np.float64]) -> None:
    late = last > planned
    if late.any():
        run = int(np.argmax(late))
        raise InputError(f"a run of the context was seen up to step {last[run]:g}, past its horizon={planned[run]:g}")


def _nothing() -> Seen:
    return Seen(Curves(np.empty((0, 0)), np.empty((0, 0)), np.empty(0, dtype=np.int64)))


def _some(seen: Seen, rows: NDArray[np.intp]) -> Seen:
    """Some of the runs."""
    curves = seen.curves[rows]
    width = int(curves.lengths.max())
    return replace(
        seen,
        curves=replace(curves, steps=curves.steps[:, :width], values=curves.values[:, :width]),
        untrained=None if seen.untrained is None else seen.untrained[rows],
        configs=tuple(seen.configs[row] for row in rows) if seen.configs else (),
        horizons=tuple(seen.horizons[row] for row in rows) if seen.horizons else (),
    )
