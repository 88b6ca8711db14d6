"""The options that say which metric a command is about, the same for all commands, and the metric they describe."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from epochcast.checks import cut
from epochcast.errors import InputError
from epochcast.metric import Bounds, Metric, is_preset, metric_names
from epochcast.naming import metric_by_name

_ABOUT = "what it measures: accuracy, error, log_loss, ...; append % for percentages; by default by its name"


@dataclass(frozen=True)
class MetricOptions:
    """What a command was told of a metric, option by option."""

    monitor: Annotated[
        str | None, typer.Option("--monitor", help="the name under which the metric is logged, such as val_acc")
    ] = None
    metric: Annotated[str | None, typer.Option("--metric", help=_ABOUT)] = None
    kind: Annotated[str | None, typer.Option("--kind", hidden=True)] = None  # the former name of --metric
    minimize: Annotated[
        bool | None, typer.Option("--minimize/--maximize", help="a metric of your own: which way is better")
    ] = None
    hard: Annotated[
        str | None, typer.Option("--hard", metavar="LOW,HIGH", help="bounds that it cannot leave, such as 0,inf")
    ] = None
    soft: Annotated[
        str | None, typer.Option("--soft", metavar="LOW,HIGH", help="the range in which differences matter")
    ] = None

    @property
    def own(self) -> bool:
        """Whether a direction or bounds were said."""
        return (self.minimize, self.hard, self.soft) != (None, None, None)

    def measured(self, name: str | None, column: str) -> Metric:
        """The metric of a column by its name, that of a preset or of one's own; without one, by the column's."""
        base = self._preset(name, column)
        if base is None:
            if self.minimize is None:
                raise InputError(f"metric {name!r} is not known by name; say --minimize or --maximize, too")
            base = Metric(name or column, self.minimize)
        elif self.minimize is not None and self.minimize != base.minimize:
            told, known = (("minimised" if down else "maximised") for down in (self.minimize, base.minimize))
            raise InputError(f"{base.name} is {known}, not {told}; give a metric of your own another name")
        hard = base.hard if self.hard is None else _bounds(self.hard, "--hard")
        soft = _soft_inside(base, hard) if self.soft is None else _bounds(self.soft, "--soft")
        return replace(base, hard=hard, soft=soft)

    def _preset(self, name: str | None, column: str) -> Metric | None:
        """The preset that is named, or that the column's name tells; None for a metric of one's own."""
        if name is not None:
            return None if self.own and not is_preset(name) else Metric.named(name)
        if self.minimize is not None:
            return None
        found = metric_by_name(column)
        if found is None:
            raise InputError(
                f"what {cut(column)!r} measures is not known from its name; give --metric, one of "
                f"{', '.join(metric_names())}, or --minimize or --maximize"
            )
        return found


NOTHING_SAID = MetricOptions()


def monitored(said: MetricOptions, column: str | None = None) -> tuple[str | None, str | None]:
    """The name in the logs and what it measures, from the options of this version and of the one before.

    A `--metric` that is no preset is a name in the logs which says itself what it measures, such as val_acc.
    """
    monitor, metric, kind = said.monitor, said.metric, said.kind
    if column is not None:
        _deprecated("--column", f"--monitor {column}")
        monitor = column
    if kind is not None:
        _deprecated("--kind", f"--monitor {monitor or metric} --metric {kind}")
        if monitor is not None and metric is not None:
            raise InputError(f"--kind {kind} and --metric {metric} say the same; leave --kind out")
        return monitor or metric, kind
    if monitor is None and metric is not None and not is_preset(metric):
        return metric, None
    return monitor, metric


def watched_metric(said: MetricOptions) -> tuple[str, Metric]:
    """The name in the logs of all runs, and what it measures."""
    name, words = monitored(said)
    if name is None and said.metric is None:
        raise InputError("say which metric to watch: --monitor and the name under which it is logged, such as val_acc")
    name = name or str(said.metric)
    return name, said.measured(words, name)


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
