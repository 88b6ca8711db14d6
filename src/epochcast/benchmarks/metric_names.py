"""Which metric a collection means by the name it uses, with the bounds of the paper's table 3."""

from __future__ import annotations

import math
import re

from epochcast.curve import Metric
from epochcast.errors import InputError

# Shares of one: accuracy and error with soft bounds equal to the hard ones.
_SHARES = r"accuracy|acc|acc1|auc|f1|precision|recall|mean_average_precision|map|error|error_rate|error rate|ssim"
# Losses without an upper end: the soft one is the value of the untrained model.
_LOSSES = r"loss|cross[_ -]?entropy|ce_loss|perplexity|nll|mse|rmse|mae|wer"


def metric_from(name: str, *, minimize: bool | None = None, percent: bool = False) -> Metric:
    """The metric that a collection calls `name`; unknown names need `minimize` and are taken to have no bounds above.

    >>> metric_from("Train/val_accuracy").hard
    (0.0, 1.0)
    >>> metric_from("valid log loss (nats)").hard
    (0.0, inf)
    """
    words = name.strip().lower()
    if _mentions(_LOSSES, words):
        metric = Metric(name, True if minimize is None else minimize, (0.0, math.inf))
    elif _mentions(_SHARES, words):
        falls = _mentions("error|error_rate|error rate", words) if minimize is None else minimize
        metric = Metric(name, falls, (0.0, 1.0), (0.0, 1.0))
    elif minimize is True:
        metric = Metric(name, True, (0.0, math.inf))
    else:
        raise InputError(f"metric {name!r} is unknown; name it after a loss, an accuracy or an error rate")
    return metric.scaled(100.0) if percent else metric


def _mentions(pattern: str, words: str) -> bool:
    """Whether one of the words stands by itself: between separators, not inside another word."""
    return re.search(rf"(?:^|[^a-z0-9])(?:{pattern})(?:$|[^a-z0-9])", words.replace("_", " ")) is not None or (
        re.search(rf"(?:^|[^a-z0-9])(?:{pattern})(?:$|[^a-z0-9])", words) is not None
    )
