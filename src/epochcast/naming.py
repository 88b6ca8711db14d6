"""What a logged name measures: `val_acc` is an accuracy, `validation_0-logloss` a log loss."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace

from epochcast.checks import name_of
from epochcast.errors import InputError
from epochcast.metric import UNIT_INTERVAL, Metric, metric_names

# What tools call the metrics that have a preset under another name.
_ALIASES = {
    **dict.fromkeys(
        ["acc", "acc1", "acc5", "top1", "top5", "top1_acc", "top5_acc", "top1_accuracy", "top5_accuracy"], "accuracy"
    ),
    **dict.fromkeys(["binary_accuracy", "categorical_accuracy", "sparse_categorical_accuracy"], "accuracy"),
    **dict.fromkeys(["acc_norm"], "accuracy"),
    **dict.fromkeys(["balanced_acc", "bal_acc"], "balanced_accuracy"),
    **dict.fromkeys(["aucpr", "auc_mu", "average_precision", "roc_auc", "auroc", "auprc", "pr_auc", "prauc"], "auc"),
    **dict.fromkeys(["f1_score", "f1score", "totalf1"], "f1"),
    **dict.fromkeys(["merror", "multi_error", "binary_error", "error_rate", "err"], "error"),
    **dict.fromkeys(["word_error_rate", "cer", "character_error_rate", "char_error_rate"], "wer"),
    **dict.fromkeys(["logloss", "mlogloss", "multi_logloss", "binary_logloss", "multiclass"], "log_loss"),
    **dict.fromkeys(["crossentropy", "cross_entropy", "crossentropyloss", "cross_entropy_loss"], "log_loss"),
    **dict.fromkeys(["ce", "ce_loss", "bce", "bce_loss", "xent", "log_perplexity"], "log_loss"),
    **dict.fromkeys(["nll_loss", "negative_log_likelihood", "bpb", "bpc", "bpd"], "nll"),
    **dict.fromkeys(["bits_per_byte", "bits_per_character", "bits_per_dim"], "nll"),
    **dict.fromkeys(["l2", "mean_squared_error", "mse_loss"], "mse"),
    **dict.fromkeys(["l1", "mean_absolute_error", "mae_loss"], "mae"),
    **dict.fromkeys(["root_mean_squared_error"], "rmse"),
    **dict.fromkeys(["ppl"], "perplexity"),
    **dict.fromkeys(["mean_average_precision"], "map"),
    **dict.fromkeys(["mean_iou", "miou", "jaccard"], "iou"),
    **dict.fromkeys(["r2_score"], "r2"),
    **dict.fromkeys(["bleu_score", "sacrebleu"], "bleu"),
    **dict.fromkeys(["return", "returns", "ep_rew", "ep_reward", "ep_return", "episode_reward"], "reward"),
    **dict.fromkeys(["episode_return", "episodic_return", "episodic_reward"], "reward"),
}
# Words that say where or how a metric was taken, not what it is.
_BEFORE = {
    *("train", "training", "learn", "valid", "validation", "val", "eval", "evaluation", "dev", "test", "holdout"),
    *("epoch", "mean", "avg", "average", "total", "ema"),
}
_AFTER = {
    *("epoch", "step", "mean", "avg", "average", "macro", "micro", "weighted", "class", "at"),
    *("nats", "bits", "word", "token", "sample", "total"),
}
_PARTS = re.compile(r"[-/:@\s]+")
_WORDS = re.compile(r"[a-z0-9]+")


def metric_by_name(logged: str) -> Metric | None:
    """The metric that a logged name stands for, if it is one of the usual names; None where it takes a guess.

    >>> metric_by_name("Train/val_accuracy").name
    'accuracy'
    >>> metric_by_name("val_acc%").hard
    (0.0, 100.0)
    """
    name = name_of(logged, "monitor").strip().lower()
    known = metric_names()
    for part in (name, *reversed(_PARTS.split(name))):
        for inner in _without_surroundings(_WORDS.findall(part)):
            preset = _ALIASES.get(inner, inner)
            if preset in known:
                metric = Metric.named(preset)
                return Metric.named(f"{preset}%") if name.endswith("%") and metric.soft == UNIT_INTERVAL else metric
    return None


def metric_from(name: str, *, minimize: bool | None = None) -> Metric:
    """The metric that a collection calls `name`, with the bounds of the paper's table 3.

    `minimize` says which way it goes where the name does not.

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


def _without_surroundings(words: list[str]) -> Iterator[str]:
    """The words joined, then with more and more of those left out that say nothing of what is measured."""
    first = next((i for i, word in enumerate(words) if not _says_nothing(word, _BEFORE)), len(words))
    last = next((i for i in range(len(words), 0, -1) if not _says_nothing(words[i - 1], _AFTER)), 0)
    for start in range(first + 1):
        for end in range(len(words), max(last, start + 1) - 1, -1):
            yield "_".join(words[start:end])


def _says_nothing(word: str, known: set[str]) -> bool:
    return word in known or word.isdigit()
