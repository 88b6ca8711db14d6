"""What is measured (`Metric`) and what was seen of a run (`Curves`). All checks of a user's input live here.

A batch of curves is one padded array with a length per row; a single curve is a batch of one, so every check is
written once and works on the whole batch.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.errors import InputError, StrongContradictionWarning

Array = NDArray[np.float64]
Bounds = tuple[float, float]
Missing = Literal["error", "drop"]

_CLIP_TOLERANCE = 1e-6  # values this far outside a hard bound are rounding, not mistakes
_LARGEST_VALUE = 1e300
_INF = math.inf


@dataclass(frozen=True)
class Metric:
    """A performance measure: its direction, the bounds it cannot leave and the range worth telling apart.

    `hard` bounds may be infinite. `soft` bounds are finite; None takes them from the value of the untrained model, or,
    where that is not known, from the first value of the curve. `transform=False` leaves values as they are.
    """

    name: str
    minimize: bool
    hard: Bounds = (-_INF, _INF)
    soft: Bounds | None = None
    transform: bool = True

    def __post_init__(self) -> None:
        low, high = self.hard
        if math.isnan(low) or math.isnan(high) or low >= high:
            raise InputError(f"hard={self.hard} of metric {self.name!r}: the lower bound must be below the upper one")
        if self.soft is None:
            return
        soft_low, soft_high = self.soft
        if not (math.isfinite(soft_low) and math.isfinite(soft_high) and soft_low < soft_high):
            raise InputError(f"soft={self.soft} of metric {self.name!r} must be two finite bounds, the lower one first")
        if soft_low < low or soft_high > high:
            raise InputError(f"soft={self.soft} of metric {self.name!r} leaves its hard bounds {self.hard}")

    @classmethod
    def unit(cls) -> Metric:
        """The prior's own space: values grow, live about [0, 1], and noise may carry them outside."""
        return cls("unit", minimize=False, transform=False)

    @classmethod
    def named(cls, name: str, *, untrained: float | None = None) -> Metric:
        """A preset by name; a trailing `%` says that values are percentages, 0 to 100.

        >>> Metric.named("accuracy%").hard
        (0.0, 100.0)
        """
        key = name.strip().lower()
        scale = 100.0 if key.endswith("%") else 1.0
        preset = _PRESETS.get(key.rstrip("%"))
        if preset is None:
            raise InputError(f"metric {name!r} is unknown; choose one of {', '.join(sorted(_PRESETS))}, or make a Metric")
        metric = preset.scaled(scale) if scale != 1.0 else preset
        return metric if untrained is None else metric.with_untrained(untrained)

    def scaled(self, factor: float) -> Metric:
        """The same metric in units that are `factor` times smaller (percentages: 100)."""
        if not (math.isfinite(factor) and factor > 0):
            raise InputError(f"factor={factor} cannot scale metric {self.name!r}; it must be positive and finite")
        soft = None if self.soft is None else (self.soft[0] * factor, self.soft[1] * factor)
        hard = (self.hard[0] * factor, self.hard[1] * factor)
        return replace(self, name=f"{self.name} (x{factor:g})", hard=hard, soft=soft)

    def with_untrained(self, value: float) -> Metric:
        """Soft bounds that reach from the value of the untrained model to the best value possible."""
        value = float(value)
        if not math.isfinite(value):
            raise InputError(f"untrained={value} of metric {self.name!r} must be finite")
        best = self.hard[0] if self.minimize else self.hard[1]
        if not math.isfinite(best):
            raise InputError(
                f"metric {self.name!r} has no finite best value, so untrained={value} cannot set its soft bounds; "
                "give soft=(low, high)"
            )
        soft = (min(best, value), max(best, value))
        if soft[0] == soft[1] or not self.hard[0] <= value <= self.hard[1]:
            raise InputError(f"untrained={value} of metric {self.name!r} must lie inside {self.hard}, off the best value")
        return replace(self, soft=soft)


_UNIT_INTERVAL = (0.0, 1.0)
_PRESETS: dict[str, Metric] = {
    **{
        name: Metric(name, False, _UNIT_INTERVAL, _UNIT_INTERVAL)
        for name in ("accuracy", "balanced_accuracy", "auc", "f1", "precision", "recall", "iou", "dice", "map", "ssim")
    },
    "error": Metric("error", True, _UNIT_INTERVAL, _UNIT_INTERVAL),
    "wer": Metric("wer", True, (0.0, _INF), _UNIT_INTERVAL),
    "r2": Metric("r2", False, (-_INF, 1.0), _UNIT_INTERVAL),
    "perplexity": Metric("perplexity", True, (1.0, _INF)),
    **{name: Metric(name, True, (0.0, _INF)) for name in ("log_loss", "loss", "mse", "rmse", "mae")},
    "unit": Metric.unit(),
}


def metric_names() -> list[str]:
    """Names that `Metric.named` knows."""
    return sorted(_PRESETS)


def as_metric(metric: Metric | str, untrained: float | None = None) -> Metric:
    """A Metric from itself or from the name of a preset."""
    if isinstance(metric, str):
        return Metric.named(metric, untrained=untrained)
    if not isinstance(metric, Metric):
        raise InputError(f"metric must be a Metric or a name, not {type(metric).__name__}")
    return metric if untrained is None else metric.with_untrained(untrained)


@dataclass(frozen=True)
class Curves:
    """What was seen of a batch of runs: checked, sorted by step, padded on the right."""

    steps: Array  # [curve, value], padded with 0
    values: Array  # [curve, value], padded with 0
    lengths: NDArray[np.int64]  # [curve]
    single: bool = False  # made from one curve rather than from a batch

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which entries are values rather than padding, [curve, value]."""
        return np.arange(self.values.shape[1]) < self.lengths[:, None]

    @property
    def last_step(self) -> Array:
        """The newest step of each curve, 0 where nothing was seen."""
        return self._newest(self.steps)

    @property
    def last_value(self) -> Array:
        """The newest value of each curve, 0 where nothing was seen."""
        return self._newest(self.values)

    def _newest(self, array: Array) -> Array:
        if array.shape[1] == 0:
            return np.zeros(len(self))
        return array[np.arange(len(self)), np.maximum(self.lengths - 1, 0)]

    @classmethod
    def of(
        cls,
        values: ArrayLike | Sequence[ArrayLike],
        steps: ArrayLike | Sequence[ArrayLike] | None = None,
        *,
        missing: Missing = "error",
    ) -> Curves:
        """Curves from a 1-D list (one run), a 2-D array (a batch) or a ragged list of lists.

        Without `steps` the values belong to steps 1, 2, 3, ...; one 1-D list of steps may serve a whole batch.
        """
        if missing not in ("error", "drop"):
            raise InputError(f"missing={missing!r} is unknown; choose 'error' or 'drop'")
        rows, single = _rows(values, "values")
        step_rows = _step_rows(steps, rows, single)
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        padded_values, padded_steps = _pad(rows, lengths), _pad(step_rows, lengths)
        curves = cls(padded_steps, padded_values, lengths, single)
        if missing == "drop":
            curves = _drop_missing(curves)
        _check_finite(curves)
        curves = _sort(curves)
        _check_steps(curves)
        return curves


def _rows(data: Any, what: str) -> tuple[Sequence[Array], bool]:
    """Rows of a batch as float arrays, and whether there was just one curve."""
    if isinstance(data, (str, bytes)):
        raise InputError(f"{what} must be numbers, not the text {data[:40]!r}")
    if not isinstance(data, np.ndarray) and len(data) and not np.isscalar(data[0]) and np.ndim(data[0]) == 1:
        return [_floats(row, f"{what}[{i}]") for i, row in enumerate(data)], False
    array = _floats(data, what)
    if array.ndim == 1:
        return [array], True
    if array.ndim == 2:
        return list(array), False
    raise InputError(f"{what} has {array.ndim} dimensions; give one curve (1-D) or a batch (2-D, or a list of curves)")


def _floats(data: Any, what: str) -> Array:
    array = np.asarray(data)
    if array.dtype.kind in "fiu":
        return array.astype(np.float64)
    try:
        if array.dtype.kind in "bc":
            raise TypeError
        # Text is not converted: "0.9" in a list of values is a reader's mistake that should be seen.
        if array.dtype.kind in "US" or any(isinstance(item, (str, bytes, bool)) for item in array.flat):
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError):
        culprit = next((i for i, item in enumerate(array.flat) if not _is_number(item)), 0)
        item = array.flat[culprit] if array.size else data
        raise InputError(f"{what}[{culprit}] = {item!r} is not a number") from None


def _is_number(item: Any) -> bool:
    return isinstance(item, (int, float, np.integer, np.floating)) and not isinstance(item, (bool, np.bool_))


def _step_rows(steps: Any, rows: Sequence[Array], single: bool) -> Sequence[Array]:
    if steps is None:
        return [np.arange(1.0, len(row) + 1.0) for row in rows]
    step_rows, one = _rows(steps, "steps")
    if one and not single:
        step_rows = [step_rows[0]] * len(rows)
    if len(step_rows) != len(rows):
        raise InputError(f"steps holds {len(step_rows)} curves, values holds {len(rows)}")
    for i, (own, row) in enumerate(zip(step_rows, rows, strict=True)):
        if len(own) != len(row):
            raise InputError(f"curve {i} has {len(own)} steps but {len(row)} values")
    return step_rows


def _pad(rows: Sequence[Array], lengths: NDArray[np.int64]) -> Array:
    padded = np.zeros((len(rows), int(lengths.max(initial=0))))
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded


def _place(curves: Curves, curve: int, index: int) -> str:
    return f"values[{index}]" if curves.single else f"values[{index}] of curve {curve}"


def _first(bad: NDArray[np.bool_]) -> tuple[int, int]:
    curve, index = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return int(curve), int(index)


def _drop_missing(curves: Curves) -> Curves:
    keep = curves.seen & ~np.isnan(curves.values)
    if keep.sum() == curves.lengths.sum():
        return curves
    lengths = keep.sum(axis=1)
    rows = range(len(curves))
    return replace(
        curves,
        values=_pad([curves.values[i, keep[i]] for i in rows], lengths),
        steps=_pad([curves.steps[i, keep[i]] for i in rows], lengths),
        lengths=lengths,
    )


def _check_finite(curves: Curves) -> None:
    bad = ~(np.abs(curves.values) <= _LARGEST_VALUE)
    if bad.any():
        curve, index = _first(bad)
        value = curves.values[curve, index]
        way_out = "pass missing='drop' to leave missing values out" if np.isnan(value) else "cut the curve before it"
        raise InputError(f"{_place(curves, curve, index)} = {value} is not a finite number; {way_out}")
    bad = ~((curves.steps >= 0.0) & (curves.steps <= _LARGEST_VALUE))
    if bad.any():
        curve, index = _first(bad)
        raise InputError(
            f"step {curves.steps[curve, index]} of {_place(curves, curve, index)} must be finite and not negative"
        )


def _sort(curves: Curves) -> Curves:
    """A copy sorted by step, or the same object when it is sorted already."""
    keys = np.where(curves.seen, curves.steps, np.inf)
    if keys.shape[1] < 2 or (keys[:, 1:] >= keys[:, :-1]).all():
        return curves
    order = np.argsort(keys, axis=1, kind="stable")
    return replace(
        curves,
        steps=np.take_along_axis(curves.steps, order, axis=1),
        values=np.take_along_axis(curves.values, order, axis=1),
    )


def _check_steps(curves: Curves) -> None:
    same = curves.seen[:, 1:] & (curves.steps[:, 1:] == curves.steps[:, :-1])
    if same.any():
        curve, index = _first(same)
        where = "" if curves.single else f" of curve {curve}"
        raise InputError(f"step {curves.steps[curve, index]:g}{where} appears twice; keep one value per step")


def check_horizon(curves: Curves, horizon: float) -> None:
    """Raise unless every curve ends before the horizon."""
    if not (isinstance(horizon, (int, float, np.integer, np.floating)) and math.isfinite(horizon) and horizon >= 2):
        raise InputError(f"horizon={horizon!r} must be a number of steps, at least 2")
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
    clipped = np.where(curves.seen, np.clip(curves.values, low, high), 0.0)
    scale = max([1.0] + [abs(bound) for bound in metric.hard if math.isfinite(bound)])
    bad = curves.seen & (np.abs(clipped - curves.values) > _CLIP_TOLERANCE * scale)
    if bad.any():
        curve, index = _first(bad)
        value = curves.values[curve, index]
        bound = low if value < low else high
        hint = "; for percentages write the metric's name with a trailing %" if metric.hard == _UNIT_INTERVAL else ""
        raise InputError(
            f"{_place(curves, curve, index)} = {value:g} is outside the hard bound {bound:g} of {metric.name}{hint}"
        )
    return replace(curves, values=clipped)


def warn_on_contradiction(curves: Curves, metric: Metric) -> None:
    """Warn when a curve moves steadily and far against the metric's direction: it was probably declared wrongly."""
    if curves.values.shape[1] < 5:
        return
    gains = np.diff(curves.values, axis=1) * (-1.0 if metric.minimize else 1.0)
    inside = curves.seen[:, 1:]
    pairs = np.maximum(inside.sum(axis=1), 1)
    losing = (inside & (gains < 0)).sum(axis=1) >= 0.8 * pairs
    spread = np.ptp(np.asarray(metric.soft)) if metric.soft else np.abs(curves.values[:, 0])
    far = np.where(inside, gains, 0.0).sum(axis=1) < -0.2 * spread
    contradicts = losing & far & (curves.lengths >= 5)
    if contradicts.any():
        curve = int(np.argmax(contradicts))
        where = "the curve" if curves.single else f"curve {curve}"
        better = "smaller" if metric.minimize else "larger"
        warnings.warn(
            f"{where} gets steadily worse for {metric.name}, where {better} is better; check the metric's direction",
            StrongContradictionWarning,
            stacklevel=3,
        )
