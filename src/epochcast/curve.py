"""What was seen of runs (`Curves`), with all checks of a user's values.

A batch of curves is one padded array with a length per row; a single curve is a batch of one, so every check is
written once and works on the whole batch.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.checks import choice, horizon_of, is_number, shown
from epochcast.errors import InputError
from epochcast.metric import LARGEST_PLAIN_VALUE, LARGEST_VALUE, UNIT_INTERVAL, Metric

Array = NDArray[np.float64]
Lengths = NDArray[np.int64]
Mask = NDArray[np.bool_]
Missing = Literal["error", "drop"]


@dataclass(frozen=True)
class Curves:
    """What was seen of a batch of runs: checked, sorted by step, padded on the right.

    Attributes:
        steps: The steps, [curve, value], padded with 0.
        values: The values at these steps, [curve, value], padded with 0.
        lengths: How many values each curve has.
        single: Whether they were made from one curve rather than from a batch.

    Examples:
        >>> import epochcast as ec
        >>> curves = ec.Curves.of([[0.31, 0.45, 0.52], [0.2, 0.3]])
        >>> curves.lengths.tolist(), curves.last_value.tolist()
        ([3, 2], [0.52, 0.3])
    """

    steps: Array
    values: Array
    lengths: Lengths
    single: bool = False

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: slice | NDArray[np.integer[Any]]) -> Curves:
        """Some of the curves."""
        return Curves(self.steps[index], self.values[index], self.lengths[index])

    @cached_property
    def seen(self) -> Mask:
        """Which entries are values rather than padding, [curve, value]."""
        return _seen(self.lengths, self.values.shape[1])

    @cached_property
    def last_step(self) -> Array:
        """The newest step of each curve, 0 where nothing was seen."""
        return self._newest(self.steps)

    @cached_property
    def last_value(self) -> Array:
        """The newest value of each curve, 0 where nothing was seen."""
        return self._newest(self.values)

    def _newest(self, array: Array) -> Array:
        if array.shape[1] == 0:
            return np.zeros(len(self))
        if (self.lengths == array.shape[1]).all():
            return array[:, -1].copy()
        return array[np.arange(len(self)), np.maximum(self.lengths - 1, 0)]

    def extended(self, step: float, values: Array) -> Curves:
        """The same with one more value each; all must be of one length.

        Args:
            step: Where the new values belong, after all others.
            values: One for each curve.

        Returns:
            Longer curves.

        Examples:
            >>> ec.Curves.of([0.31, 0.45]).extended(3.0, [0.52]).last_value.tolist()
            [0.52]
        """
        return Curves(
            np.column_stack([self.steps, np.full(len(self), step)]),
            np.column_stack([self.values, values]),
            self.lengths + 1,
        )

    @classmethod
    def of(
        cls,
        values: ArrayLike | Sequence[ArrayLike],
        steps: ArrayLike | Sequence[ArrayLike] | None = None,
        *,
        missing: Missing = "error",
    ) -> Curves:
        """Curves from the numbers of a user, which are copied.

        Args:
            values: A 1-D list (one run), a 2-D array (a batch) or a list of runs of different lengths. A pandas series,
                or a data frame of one column, is one run.
            steps: Where they were measured: steps 1, 2, 3, ... by default, or those of a pandas index. One list may
                serve a whole batch.
            missing: What to do with NaN, None and masked entries: `"error"`, or `"drop"` to leave them out.

        Returns:
            Curves whose steps rise.

        Raises:
            InputError: If an entry is not a finite number, or steps do not fit the values; the message names it.

        Examples:
            >>> ec.Curves.of([0.45, 0.31], steps=[2, 1]).values.tolist()
            [[0.31, 0.45]]
        """
        choice(missing, "missing", ("error", "drop"))
        values, index = unpacked(values)
        steps = index if steps is None else steps
        padded, lengths, single = _padded(values, "values")
        if steps is None:
            counted = np.where(_seen(lengths, padded.shape[1]), np.arange(1.0, padded.shape[1] + 1.0), 0.0)
            curves = cls(counted, padded, lengths, single)
        else:
            curves = cls(_padded_steps(steps, lengths, single), padded, lengths, single)
        keep = curves.seen & ~np.isnan(padded) if missing == "drop" else curves.seen
        _check_entries(curves, keep)
        if missing == "drop":
            curves = _dropped(curves, keep)
        # Counted steps rise by construction.
        return curves if steps is None else _sorted_by_step(curves)


def unpacked(data: Any) -> tuple[Any, Any]:
    """Runs as arrays, and the steps that their pandas index counts: None where there is no such index.

    pandas is never imported: what has an `iloc` is a series or a frame.
    """
    if isinstance(data, (list, tuple)) and len(data) and all(hasattr(item, "iloc") for item in data):
        runs = [unpacked(item) for item in data]
        some = any(steps is not None for _, steps in runs)
        values = [values for values, _ in runs]
        counted = [np.arange(1.0, len(run) + 1.0) if steps is None else steps for run, steps in runs]
        return values, counted if some else None
    if not hasattr(data, "iloc"):
        return data, None
    if data.ndim == 2 and data.shape[1] != 1:
        return data.to_numpy(), None
    column = data if data.ndim == 1 else data.iloc[:, 0]
    return column.to_numpy(), _index_steps(column.index)


def _index_steps(index: Any) -> Array | None:
    """The steps that an index counts, if it holds numbers; one that counts 0, 1, 2, ... says no more than its order."""
    steps = np.asarray(index)
    if steps.dtype.kind not in "fiu" or np.array_equal(steps, np.arange(len(steps))):
        return None
    return steps.astype(np.float64)


def _seen(lengths: Lengths, width: int) -> Mask:
    return np.arange(width) < lengths[:, None]


def _padded(data: Any, what: str) -> tuple[Array, Lengths, bool]:
    """Curves as one array padded with 0, their lengths, and whether there was just one curve."""
    if isinstance(data, (list, tuple)) and len(data) and _is_curve(data[0]):
        rows = [floats(row, f"{what}[{i}]") for i, row in enumerate(data)]
        return (*_padded_rows(rows, what), False)
    array = floats(data, what)
    if array.ndim not in (1, 2):
        raise InputError(f"{what} has {array.ndim} dimensions; give one curve (1-D), a 2-D batch or a list of curves")
    if array.ndim == 2 and len(array) == 0:
        raise InputError(f"{what} is a batch of no curves; give at least one")
    batch = np.atleast_2d(array)
    return batch, np.full(len(batch), batch.shape[1], dtype=np.int64), array.ndim == 1


def _padded_rows(rows: list[Array], what: str) -> tuple[Array, Lengths]:
    for i, row in enumerate(rows):
        if row.ndim != 1:
            raise InputError(f"{what}[{i}] has {row.ndim} dimensions; in a list of curves each must be 1-D")
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    padded = np.zeros((len(rows), int(lengths.max())))
    padded[_seen(lengths, padded.shape[1])] = np.concatenate(rows)
    return padded, lengths


def _is_curve(item: Any) -> bool:
    return isinstance(item, (list, tuple)) or getattr(item, "ndim", 0) > 0


def floats(data: Any, what: str) -> Array:
    """A copy as float64. Text stays an error: "0.9" among the values is a reader's mistake that should be seen."""
    if isinstance(data, np.ma.MaskedArray):
        data = np.ma.filled(data.astype(np.float64), np.nan)
    data = _off_graph(data)
    try:
        array = np.asarray(data)
        if array.dtype.kind in "fiu":
            return array.astype(np.float64)
        if array.dtype.kind == "O" and not any(isinstance(item, (str, bytes, bool)) for item in array.flat):
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        pass  # numpy does not say which item it stumbled over
    raise _not_numbers(data, what)


def _off_graph(data: Any) -> Any:
    """Tensors of torch, alone or in a list, as numbers: numpy refuses those with gradients or of half precision."""
    if hasattr(data, "detach"):
        return data.detach().cpu().double().numpy()
    if isinstance(data, (list, tuple)) and any(hasattr(item, "detach") for item in data):
        return [_off_graph(item) for item in data]
    return data


def _not_numbers(data: Any, what: str) -> InputError:
    """The error that names the first item of `data` that cannot be a float."""
    try:
        items = list(np.ndenumerate(np.asarray(data, dtype=object)))
    except (ValueError, RuntimeError):  # lists inside lists without an end
        return InputError(f"{what}={shown(data)} are no numbers, nor lists of them")
    for index, item in items:
        place = what + "".join(f"[{i}]" for i in index)
        if not is_number(item) and item is not None:
            return InputError(f"{place} = {reprlib.repr(item)} is not a number")
        if item is not None and abs(item) > LARGEST_VALUE:
            return InputError(f"{place} = {reprlib.repr(item)} is larger than {LARGEST_VALUE:g}")
    return InputError(f"{what} must be numbers, not {type(data).__name__}")


def _padded_steps(steps: Any, lengths: Lengths, single: bool) -> Array:
    """Steps [curve, value] that match values of the given lengths."""
    padded, own_lengths, shared = _padded(steps, "steps")
    if shared and not single:
        padded, own_lengths = np.repeat(padded, len(lengths), axis=0), np.repeat(own_lengths, len(lengths))
    if len(own_lengths) != len(lengths):
        raise InputError(f"steps holds {len(own_lengths)} curves but values holds {len(lengths)}")
    unequal = own_lengths != lengths
    if unequal.any():
        curve = int(np.argmax(unequal))
        where = "the curve" if single else f"curve {curve}"
        raise InputError(f"{where} has {own_lengths[curve]} steps but {lengths[curve]} values")
    return padded


def _place(curves: Curves, curve: int, index: int) -> str:
    return f"values[{index}]" if curves.single else f"values[{index}] of curve {curve}"


def _first(bad: Mask) -> tuple[int, int]:
    curve, index = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return int(curve), int(index)


def _check_entries(curves: Curves, keep: Mask) -> None:
    """Raise unless all values and steps to keep are finite, and no step is negative."""
    bad = keep & ~(np.abs(curves.values) <= LARGEST_VALUE)
    if bad.any():
        curve, index = _first(bad)
        value = curves.values[curve, index]
        problem = f"is larger than {LARGEST_VALUE:g}" if math.isfinite(value) else "is not a finite number"
        drop = "pass missing='drop' (--missing drop) to leave missing values out"
        way_out = drop if np.isnan(value) else "cut the curve before it"
        raise InputError(f"{_place(curves, curve, index)} = {value} {problem}; {way_out}")
    bad = keep & ~((curves.steps >= 0.0) & (curves.steps <= LARGEST_VALUE))
    if bad.any():
        curve, index = _first(bad)
        raise InputError(
            f"step {curves.steps[curve, index]:g} of {_place(curves, curve, index)} must be finite and not negative"
        )


def _reordered(curves: Curves, order: NDArray[np.intp], lengths: Lengths) -> Curves:
    """Entries of each curve in the given order, of which the first `lengths` are kept."""
    width = int(lengths.max())
    seen = _seen(lengths, width)
    steps, values = (
        np.where(seen, np.take_along_axis(array, order[:, :width], axis=1), 0.0)
        for array in (curves.steps, curves.values)
    )
    return replace(curves, steps=steps, values=values, lengths=lengths)


def _dropped(curves: Curves, keep: Mask) -> Curves:
    """Curves without the entries not to keep, closed up."""
    lengths = keep.sum(axis=1)
    if (lengths == curves.lengths).all():
        return curves
    return _reordered(curves, np.argsort(~keep, axis=1, kind="stable"), lengths)


def _sorted_by_step(curves: Curves) -> Curves:
    """Curves whose steps rise; a step that appears twice is an error."""
    later = curves.seen[:, 1:]
    if not (later & (np.diff(curves.steps, axis=1) <= 0.0)).any():
        return curves
    keys = np.where(curves.seen, curves.steps, math.inf)
    curves = _reordered(curves, np.argsort(keys, axis=1, kind="stable"), curves.lengths)
    same = later & (np.diff(curves.steps, axis=1) == 0.0)
    if same.any():
        curve, index = _first(same)
        where = "" if curves.single else f" of curve {curve}"
        raise InputError(f"step {curves.steps[curve, index]:g}{where} appears twice; keep one value per step")
    return curves


def thinned(curves: Curves, most: int) -> Curves:
    """At most `most` values of each curve, evenly spread and always with the newest one."""
    # Of each curve by itself: a batch answers as its members.
    every = np.maximum(-(-curves.lengths // most), 1)[:, None]
    if (every == 1).all():
        return curves
    lengths = -(-curves.lengths // every[:, 0])
    before_newest = np.maximum(lengths[:, None] - 1 - np.arange(int(lengths.max())), 0)
    return _reordered(curves, np.maximum(curves.lengths[:, None] - 1 - every * before_newest, 0), lengths)


def check_horizon(curves: Curves, horizon: float) -> None:
    """Raise unless the horizon is a number of steps and every curve ends before it."""
    horizon = horizon_of(horizon)
    late = curves.last_step >= horizon
    if late.any():
        curve = int(np.argmax(late))
        last = curves.last_step[curve]
        where = "the curve" if curves.single else f"curve {curve}"
        problem = "nothing is left to forecast" if last == horizon else "it lies past the horizon"
        raise InputError(f"{where} was seen up to step {last:g} and horizon={horizon:g}: {problem}; raise the horizon")


def clip_to_hard_bounds(curves: Curves, metric: Metric) -> Curves:
    """Curves inside the metric's hard bounds; what lies further outside than rounding is an error."""
    low, high = metric.hard
    outside = curves.seen & ((curves.values < low) | (curves.values > high))
    if not metric.transform:
        _check_plain(curves, metric)
    if not outside.any():
        return curves
    clipped = np.where(outside, np.clip(curves.values, low, high), curves.values)
    bad = outside & metric.outside(curves.values)
    if bad.any():
        curve, index = _first(bad)
        value, step = curves.values[curve, index], curves.steps[curve, index]
        side, bound = ("below the lower", low) if value < low else ("above the upper", high)
        hint = "; for other bounds make a Metric of your own (--minimize or --maximize, --hard LOW,HIGH)"
        if metric.hard == UNIT_INTERVAL and value > high:
            hint = "; for percentages write the metric's name with a trailing %"
        raise InputError(
            f"{_place(curves, curve, index)} = {value:g} (step {step:g}) is {side} hard bound {bound:g} "
            f"of {metric.name}{hint}"
        )
    return replace(curves, values=clipped)


def _check_plain(curves: Curves, metric: Metric) -> None:
    """Values that nothing squeezes reach the network as they are, which knows them about [0, 1]."""
    bad = curves.seen & (np.abs(curves.values) > LARGEST_PLAIN_VALUE)
    if bad.any():
        curve, index = _first(bad)
        raise InputError(
            f"{_place(curves, curve, index)} = {curves.values[curve, index]:g} is larger than {LARGEST_PLAIN_VALUE:g}: "
            f"metric {metric.name!r} takes values as they are, about 0 to 1; give a Metric with bounds of its own"
        )
