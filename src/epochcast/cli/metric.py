"""The metric that the options of a command describe."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import typer

from epochcast.errors import InputError
from epochcast.metric import Bounds, Metric, metric_names
from epochcast.naming import metric_by_name


@dataclass(frozen=True)
class MetricWords:
    """What was said of a metric: the name of a preset or of one's own, a direction, bounds; or nothing at all."""

    name: str | None = None
    minimize: bool | None = None
    hard: str | None = None
    soft: str | None = None

    @property
    def given(self) -> bool:
        """Whether anything was said."""
        return any(item is not None for item in (self.name, self.minimize, self.hard, self.soft))

    def metric(self, column: str) -> Metric:
        """The metric of a column; where nothing was said, the one that the column's name tells."""
        base = self._preset(column)
        if base is None:
            if self.minimize is None:
                raise InputError(f"metric {self.name!r} is not known by name; say --minimize or --maximize, too")
            base = Metric(self.name or column, self.minimize)
        elif self.minimize is not None and self.minimize != base.minimize:
            told, known = (("minimised" if down else "maximised") for down in (self.minimize, base.minimize))
            raise InputError(f"{base.name} is {known}, not {told}; give a metric of your own another name")
        hard = base.hard if self.hard is None else _bounds(self.hard, "--hard")
        soft = _soft_inside(base, hard) if self.soft is None else _bounds(self.soft, "--soft")
        return replace(base, hard=hard, soft=soft)

    def _preset(self, column: str) -> Metric | None:
        """The preset that is named, or that the column's name tells; None for a metric of one's own."""
        if self.name is not None:
            if not _is_preset(self.name) and (
                self.minimize is not None or self.hard is not None or self.soft is not None
            ):
                return None
            return Metric.named(self.name)
        if self.minimize is not None:
            return None
        found = metric_by_name(column)
        if found is None:
            raise InputError(
                f"what {column!r} measures is not known from its name; give --metric, one of "
                f"{', '.join(metric_names())}, or --minimize or --maximize"
            )
        return found


def monitored(
    monitor: str | None, metric: str | None, kind: str | None, column: str | None = None
) -> tuple[str | None, str | None]:
    """The name in the logs and what it measures, from the options of this version and of the one before.

    A `--metric` that is no preset is a name in the logs which says itself what it measures, such as val_acc.
    """
    if column is not None:
        _deprecated("--column", f"--monitor {column}")
        monitor = column
    if kind is not None:
        _deprecated("--kind", f"--monitor {monitor or metric} --metric {kind}")
        if monitor is not None and metric is not None:
            raise InputError(f"--kind {kind} and --metric {metric} say the same; leave --kind out")
        return monitor or metric, kind
    if monitor is None and metric is not None and not _is_preset(metric):
        return metric, None
    return monitor, metric


def watched_metric(monitor: str | None, metric: str | None, kind: str | None, words: MetricWords) -> tuple[str, Metric]:
    """The name in the logs of all runs and what it measures; `words` are those said of a metric of one's own."""
    name, preset = monitored(monitor, metric, kind)
    if name is None and metric is None:
        raise InputError("say which metric to watch: --monitor and the name under which it is logged, such as val_acc")
    name = name or str(metric)
    return name, replace(words, name=preset).metric(name)


def _is_preset(name: str) -> bool:
    return name.strip().lower().removesuffix("%") in metric_names()


def _deprecated(option: str, instead: str) -> None:
    typer.echo(f"note: {option} will go; say {instead}", err=True)


def reading(column: str, metric: Metric) -> str:
    """What a column was taken for, for the user to check."""
    low, high = metric.hard
    bounds = f"{low:g} to {high:g}" if math.isfinite(high - low) else f"from {low:g}" if math.isfinite(low) else ""
    better = "smaller is better" if metric.minimize else "larger is better"
    return f"{column} is taken for {metric.name} by its name ({', '.join(filter(None, (bounds, better)))})"


def _bounds(text: str, option: str) -> Bounds:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text} must be two numbers, as in {option} 0,1 or {option}=-inf,0") from None
    return low, high


def _soft_inside(metric: Metric, hard: Bounds) -> Bounds | None:
    """The metric's own soft bounds where they still fit, else those that follow from the hard ones."""
    if metric.soft is None or (hard[0] <= metric.soft[0] and metric.soft[1] <= hard[1]):
        return metric.soft
    return hard if math.isfinite(hard[1] - hard[0]) else None
