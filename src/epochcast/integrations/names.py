"""What a logged name measures: `val_acc` is an accuracy, `validation_0-logloss` a log loss."""

from __future__ import annotations

from dataclasses import replace

from epochcast.errors import ConfigError
from epochcast.metric import Metric, as_metric, metric_names
from epochcast.naming import metric_by_name

__all__ = ["metric_by_name", "metric_of"]


def metric_of(monitor: str, given: Metric | str | None = None, minimize: bool | None = None) -> Metric:
    """The metric of a logged name: the one given, one known by that name, or what the framework says of it.

    `minimize` is the framework's word on the direction, None where it has none.
    """
    metric = metric_by_name(monitor) if given is None else as_metric(given)
    if metric is None and minimize:
        metric = as_metric("loss")
    if metric is None:
        raise ConfigError(
            f"what {monitor!r} measures is not known from its name; give metric=, one of {', '.join(metric_names())} "
            "or a Metric with its direction and bounds"
        )
    if minimize is not None and minimize != metric.minimize:
        raise ConfigError(
            f"{monitor!r} is {_aim(minimize)} by the framework, but metric {metric.name!r} is {_aim(metric.minimize)}; "
            "give the metric= that it is"
        )
    return replace(metric, name=monitor)


def _aim(minimize: bool) -> str:
    return "minimised" if minimize else "maximised"
