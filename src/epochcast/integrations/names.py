"""What a logged name measures: `val_acc` is an accuracy, `validation_0-logloss` a log loss."""

from __future__ import annotations

import re
from dataclasses import replace

from epochcast.errors import ConfigError
from epochcast.metric import Metric, as_metric, metric_names

_PREFIX = re.compile(r"^(train|training|learn|valid|validation|val|eval|dev|test)_+")
_PRESETS = {  # what frameworks call the metrics that have a preset under another name
    **dict.fromkeys(
        ["acc", "binary_accuracy", "categorical_accuracy", "sparse_categorical_accuracy", "top1"], "accuracy"
    ),
    **dict.fromkeys(["aucpr", "auc_mu", "average_precision", "roc_auc", "auroc", "prauc"], "auc"),
    **dict.fromkeys(["f1_score", "f1_macro", "f1_micro", "totalf1"], "f1"),
    **dict.fromkeys(["merror", "multi_error", "binary_error"], "error"),
    **dict.fromkeys(
        ["logloss", "mlogloss", "multi_logloss", "binary_logloss", "multiclass", "crossentropy", "nll"], "log_loss"
    ),
    **dict.fromkeys(["l2", "mean_squared_error"], "mse"),
    **dict.fromkeys(["l1", "mean_absolute_error"], "mae"),
    **dict.fromkeys(["root_mean_squared_error"], "rmse"),
    **dict.fromkeys(["ppl"], "perplexity"),
}


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


def metric_by_name(monitor: str) -> Metric | None:
    """The metric that a logged name stands for, if it is one of the usual names."""
    for part in reversed(re.split(r"[-/:@ ]", monitor.lower())):
        base = _PREFIX.sub("", part)
        preset = _PRESETS.get(base, base)
        if preset in metric_names():
            return as_metric(preset)
    return None


def _aim(minimize: bool) -> str:
    return "minimised" if minimize else "maximised"
