"""What is measured (`Metric`): its direction, its bounds, and the metrics known by name."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epochcast.checks import flag, is_number, name_of, shown
from epochcast.errors import InputError

Bounds = tuple[float, float]

# Within these limits sums, differences and ratios of values and bounds stay finite.
LARGEST_VALUE = 1e300
LARGEST_PLAIN_VALUE = 1e3  # of metrics without a transform, which reach the network as they are
SMALLEST_RANGE = 1e-300

_ROUNDING = 1e-6  # as a share of the width: how far a value may lie outside its hard bounds

UNIT_INTERVAL = (0.0, 1.0)

# Kinds of metrics, as a network is told them.
LOSS, UNTOLD, SHARE = -1.0, 0.0, 1.0

_INF = math.inf


@dataclass(frozen=True)
class Metric:
    """A performance measure: its direction, the bounds it cannot leave and the range worth telling apart.

    Args:
        name: What it is called in texts and pictures.
        minimize: Whether smaller is better.
        hard: The bounds that values cannot leave; either may be infinite.
        soft: The range in which differences matter, finite. None takes it from the value of the untrained model, or,
            where that is not known, from the first value of the run; where no value is the best possible, as for a
            reward, from the range of the values seen.
        transform: False leaves values as they are, about 0 to 1.

    Raises:
        InputError: If the bounds are not two numbers, the lower one first, or the soft ones lie outside the hard ones.

    Examples:
        >>> import epochcast as ec
        >>> bits = ec.Metric("bits_per_byte", minimize=True, hard=(0.0, float("inf")))
        >>> ec.forecast([2.1, 1.7, 1.5], horizon=50, metric=bits)
        <Forecast of bits_per_byte: ... at step 50>
    """

    name: str
    minimize: bool
    hard: Bounds = (-_INF, _INF)
    soft: Bounds | None = None
    transform: bool = True

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name):
            raise InputError(f"name={shown(self.name)} of a metric must be a text that is not empty")
        flag(self.minimize, f"metric {self.name!r}: minimize")
        flag(self.transform, f"metric {self.name!r}: transform")
        low, high = _checked_bounds(self.hard, f"hard bounds of metric {self.name!r}")
        object.__setattr__(self, "hard", (low, high))
        if self.soft is None:
            return
        soft_low, soft_high = _checked_bounds(self.soft, f"soft bounds of metric {self.name!r}")
        if soft_low < low or soft_high > high or math.isinf(soft_high - soft_low):
            raise InputError(f"soft={self.soft} of metric {self.name!r} must be finite and inside hard={self.hard}")
        object.__setattr__(self, "soft", (soft_low, soft_high))

    @classmethod
    def unit(cls) -> Metric:
        """The prior's own space: values grow, live about [0, 1], and noise may carry them outside.

        Returns:
            A metric without bounds that takes values as they are.

        Examples:
            >>> Metric.unit().transform
            False
        """
        return cls("unit", minimize=False, soft=UNIT_INTERVAL, transform=False)

    @classmethod
    def named(cls, name: str, *, untrained: float | None = None) -> Metric:
        """A preset by its name.

        Args:
            name: One of [`metric_names`][epochcast.metric_names]; a trailing `%` says that values are percentages, 0
                to 100.
            untrained: The value of the untrained model, as for `with_untrained`.

        Returns:
            The preset.

        Raises:
            InputError: If there is no preset of this name.

        Examples:
            >>> Metric.named("accuracy%").hard
            (0.0, 100.0)
        """
        key = name_of(name, "metric").strip().lower()
        base = key.removesuffix("%")
        metric = _PRESETS.get(base)
        if metric is None:
            raise InputError(
                f"metric {reprlib.repr(name)} is unknown; choose from {', '.join(sorted(_PRESETS))}, "
                "or make a Metric (on the command line --minimize or --maximize)"
            )
        if key != base:
            if metric.soft != UNIT_INTERVAL:
                raise InputError(f"metric {name!r}: {base} is not a share of one, so it has no percentages; drop the %")
            metric = replace(metric.scaled(100.0), name=key)
        return metric if untrained is None else metric.with_untrained(untrained)

    @property
    def best(self) -> float:
        """The best value possible, which may be infinite."""
        return self.hard[0] if self.minimize else self.hard[1]

    @property
    def sign(self) -> float:
        """What to multiply values with so that larger is better."""
        return -1.0 if self.minimize else 1.0

    def better(self, left: ArrayLike, right: ArrayLike) -> Any:
        """Where `left` beats `right`.

        Args:
            left: Values of the metric.
            right: Values to compare them with.

        Returns:
            True or False, or an array of them; equal values do not beat each other.

        Examples:
            >>> Metric.named("log_loss").better(0.3, 0.4)
            True
        """
        beats = np.asarray(left) < np.asarray(right) if self.minimize else np.asarray(left) > np.asarray(right)
        return bool(beats) if beats.ndim == 0 else beats

    def best_of(self, values: Iterable[float | None]) -> float | None:
        """The best of the values that are known.

        Args:
            values: Values of the metric, None where one is unknown.

        Returns:
            The best value, None where none is known.

        Examples:
            >>> Metric.named("error").best_of([0.2, None, 0.1])
            0.1
        """
        known = [value for value in values if value is not None]
        if not known:
            return None
        return min(known) if self.minimize else max(known)

    @property
    def kind(self) -> float:
        """A LOSS is best at a finite value and can get worse without limit, a SHARE (accuracy) has two finite ends."""
        if not self.transform or not math.isfinite(self.best):
            return UNTOLD
        return SHARE if math.isfinite(self.hard[1] - self.hard[0]) else LOSS

    @property
    def width(self) -> float:
        """What small differences are measured against: the width of the bounds, where they are finite."""
        for low, high in (self.hard, self.soft or self.hard):
            if math.isfinite(high - low):
                return high - low
        return max([1.0] + [abs(bound) for bound in self.hard if math.isfinite(bound)])

    def outside(self, values: ArrayLike) -> Any:
        """Which values lie outside the hard bounds by more than rounding.

        Args:
            values: Values of the metric; one that is missing (NaN) does not lie outside.

        Returns:
            True or False for each.

        Examples:
            >>> Metric.named("accuracy").outside([0.5, 1.2]).tolist()
            [False, True]
        """
        values, spare = np.asarray(values), _ROUNDING * self.width
        with np.errstate(invalid="ignore"):
            return (values < self.hard[0] - spare) | (values > self.hard[1] + spare)

    def scaled(self, factor: float) -> Metric:
        """The same metric in smaller units.

        Args:
            factor: How many times smaller they are; percentages are 100.

        Returns:
            A metric whose bounds are `factor` times as large.

        Raises:
            InputError: If the factor is not positive and finite, or the metric takes values as they are.

        Examples:
            >>> Metric.named("error").scaled(100.0).hard
            (0.0, 100.0)
        """
        if not (is_number(factor) and math.isfinite(factor) and factor > 0):
            raise InputError(f"factor={factor!r} cannot scale metric {self.name!r}; it must be positive and finite")
        if not self.transform:
            raise InputError(f"metric {self.name!r} is used as it is (transform=False) and cannot be scaled")
        soft = None if self.soft is None else (self.soft[0] * factor, self.soft[1] * factor)
        hard = (self.hard[0] * factor, self.hard[1] * factor)
        return replace(self, name=f"{self.name} (x{factor:g})", hard=hard, soft=soft)

    def with_untrained(self, value: float) -> Metric:
        """The same with soft bounds that reach from the value of the untrained model to the best value possible.

        Args:
            value: What the untrained model scores.

        Returns:
            A metric whose soft bounds no longer depend on the run.

        Raises:
            InputError: If the metric cannot have this value, or has no best one.

        Examples:
            >>> Metric.named("log_loss").with_untrained(2.303).soft
            (0.0, 2.303)
        """
        value = self.checked_untrained(value)
        if not math.isfinite(self.best):
            raise InputError(
                f"metric {self.name!r} has no finite best value, so untrained={value} cannot set its soft bounds; "
                "give soft=(low, high)"
            )
        return replace(self, soft=(min(self.best, value), max(self.best, value)))

    def checked_untrained(self, value: float) -> float:
        """A value of the untrained model, if this metric can have it.

        Args:
            value: What the untrained model scores.

        Returns:
            The same value.

        Raises:
            InputError: If it is not finite, outside the hard bounds, or the best value already.

        Examples:
            >>> Metric.named("accuracy").checked_untrained(0.1)
            0.1
        """
        if not (is_number(value) and abs(value) <= LARGEST_VALUE):  # false for NaN too
            raise InputError(f"untrained={reprlib.repr(value)} of metric {self.name!r} must be a finite number")
        if value == self.best or not self.hard[0] <= value <= self.hard[1]:
            raise InputError(f"untrained={value} of metric {self.name!r} must lie in {self.hard}, off the best value")
        if not self.transform and abs(value) > LARGEST_PLAIN_VALUE:
            raise InputError(
                f"untrained={value} of metric {self.name!r}, taken as it is, exceeds {LARGEST_PLAIN_VALUE:g}"
            )
        return float(value)


def _checked_bounds(bounds: Any, what: str) -> Bounds:
    """Two numbers, the lower one first, that arithmetic can handle; either may be infinite."""
    pair = tuple(bounds) if isinstance(bounds, (tuple, list, np.ndarray)) and np.ndim(bounds) else ()
    if len(pair) == 2 and all(is_number(bound) and _bearable(abs(bound)) for bound in pair):
        low, high = float(pair[0]), float(pair[1])
        if high - low >= SMALLEST_RANGE:  # false for NaN, of two infinities, too
            return low, high
    raise InputError(
        f"{what} must be two numbers, the lower one first, at least {SMALLEST_RANGE:g} apart "
        f"and at most {LARGEST_VALUE:g} in size, not {reprlib.repr(bounds)}"
    )


def _bearable(size: float) -> bool:
    """False for NaN, and for whole numbers that no float holds."""
    return size <= LARGEST_VALUE or size == _INF


_PRESETS: dict[str, Metric] = {
    **{
        name: Metric(name, False, UNIT_INTERVAL, UNIT_INTERVAL)
        for name in ("accuracy", "balanced_accuracy", "auc", "f1", "precision", "recall", "iou", "dice", "map", "ssim")
    },
    "bleu": Metric("bleu", False, UNIT_INTERVAL, UNIT_INTERVAL),  # sacrebleu's 0 to 100 is bleu%
    "error": Metric("error", True, UNIT_INTERVAL, UNIT_INTERVAL),
    "wer": Metric("wer", True, (0.0, _INF), UNIT_INTERVAL),
    "r2": Metric("r2", False, (-_INF, 1.0), UNIT_INTERVAL),
    "perplexity": Metric("perplexity", True, (1.0, _INF)),
    # nll is that of discrete data, which cannot be negative; a density's may be, and takes a Metric without bounds.
    **{name: Metric(name, True, (0.0, _INF)) for name in ("log_loss", "loss", "nll", "mse", "rmse", "mae")},
    "reward": Metric("reward", False),  # the return of an agent: no bounds, the scale follows the run
    "unit": Metric.unit(),
}


def metric_names() -> list[str]:
    """The names of the metrics that need no further words.

    Returns:
        Names that [`Metric.named`][epochcast.Metric.named] and every `metric=` know, in alphabetical order.

    Examples:
        >>> metric_names()[:3]
        ['accuracy', 'auc', 'balanced_accuracy']
    """
    return sorted(_PRESETS)


def is_preset(name: str) -> bool:
    """Whether `Metric.named` knows a name, perhaps with a % behind it."""
    return name.strip().lower().removesuffix("%") in _PRESETS


def as_metric(metric: Metric | str) -> Metric:
    """A Metric from itself or from the name of a preset."""
    if isinstance(metric, str):
        return Metric.named(metric)
    if not isinstance(metric, Metric):
        raise InputError(f"metric must be a Metric or a name, not {type(metric).__name__}")
    return metric
