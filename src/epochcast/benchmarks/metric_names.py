"""Which metric a collection means by the name it uses, with the bounds of the paper's table 3."""

from __future__ import annotations

import math
from dataclasses import replace

from epochcast.errors import InputError
from epochcast.metric import Metric
from epochcast.naming import metric_by_name


def metric_from(name: str, *, minimize: bool | None = None) -> Metric:
    """The metric that a collection calls `name`; `minimize` says which way it goes where the name does not.

    >>> metric_from("Train/val_accuracy").hard
    (0.0, 1.0)
    >>> metric_from("valid log loss (nats)").hard
    (0.0, inf)
    """
    known = metric_by_name(name.rstrip("% "))  # percentages are turned into shares when they are read
    if known is None and not minimize:
        raise InputError(f"metric {name!r} is unknown; name it after a loss, an accuracy or an error rate")
    # Losses without an upper end: the soft one is the value of the untrained model.
    if known is None or (known.minimize and math.isinf(known.hard[1])):
        return Metric(name, True if minimize is None else minimize, (0.0, math.inf))
    return replace(known, name=name, minimize=known.minimize if minimize is None else minimize)
