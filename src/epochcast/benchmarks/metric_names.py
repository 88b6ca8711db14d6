"""Which metric a collection means by the name it uses, with the bounds of the paper's table 3."""

from __future__ import annotations

import math
import re

from epochcast.errors import InputError
from epochcast.metric import Metric

# Losses without an upper end: the soft one is the value of the untrained model.
_LOSSES = re.compile(r"\b(loss|logloss|cross entropy|ce|nll|perplexity|mse|rmse|mae|wer)\b")
# Shares of one: soft bounds equal to the hard ones.
_SHARES = re.compile(r"\b(accuracy|acc|acc1|auc|f1|precision|recall|map|ssim|error|error rate)\b")
_ERRORS = re.compile(r"\b(error|error rate)\b")


def metric_from(name: str, *, minimize: bool | None = None) -> Metric:
    """The metric that a collection calls `name`; `minimize` says which way it goes where the name does not.

    >>> metric_from("Train/val_accuracy").hard
    (0.0, 1.0)
    >>> metric_from("valid log loss (nats)").hard
    (0.0, inf)
    """
    words = re.sub(r"[^a-z0-9]+", " ", name.lower())
    if _LOSSES.search(words):
        return Metric(name, True if minimize is None else minimize, (0.0, math.inf))
    if _SHARES.search(words):
        falls = bool(_ERRORS.search(words)) if minimize is None else minimize
        return Metric(name, falls, (0.0, 1.0), (0.0, 1.0))
    if minimize:
        return Metric(name, True, (0.0, math.inf))
    raise InputError(f"metric {name!r} is unknown; name it after a loss, an accuracy or an error rate")
