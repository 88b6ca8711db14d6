"""What logged names measure: one answer for callbacks, collections and the command line."""

from __future__ import annotations

import math

import pytest

from epochcast.integrations import base
from epochcast.metric import Metric
from epochcast.naming import metric_by_name, metric_from

KNOWN = {
    "accuracy": ["accuracy", "val_acc", "Val Accuracy", "Train/val_accuracy", "top-1 accuracy", "train_acc_epoch"],
    "loss": ["loss", "val_loss", "train_loss_step", "eval/loss", "validation loss (nats/word)"],
    "log_loss": ["validation_0-logloss", "val_cross_entropy (class weighted)", "valid/ce_loss", "log perplexity"],
    "mse": ["mean_squared_error", "val_mse", "valid_0-l2"],
    "error": ["test error_rate", "valid-error"],
    "map": ["mAP (50-95)", "test-map@10", "validation/mean_average_precision"],
    "auc": ["validation-AUC:hints=skip_train~false", "roc_auc"],
    "f1": ["f1_macro", "val_f1_score"],
    "nll": ["nll", "val_nll_loss", "train/bpb"],
    "reward": ["reward", "rollout/ep_rew_mean", "charts/episodic_return", "eval/mean_reward"],
    "bleu": ["bleu", "val_bleu_score"],
}


@pytest.mark.parametrize(("preset", "logged"), [(preset, name) for preset, some in KNOWN.items() for name in some])
def test_name_in_use_stands_for_its_preset(preset: str, logged: str) -> None:
    assert metric_by_name(logged) == Metric.named(preset)


@pytest.mark.parametrize("logged", ["", "%", "value", "learning_rate", "loss_scale", "inverse_accuracy", "l2_norm"])
def test_name_that_tells_nothing_is_not_guessed(logged: str) -> None:
    assert metric_by_name(logged) is None


def test_name_with_a_percent_sign_measures_percentages() -> None:
    assert metric_by_name("val_acc%") == Metric.named("accuracy%")
    assert metric_by_name("loss %") == Metric.named("loss")


def test_name_has_one_answer_for_callbacks_and_collections() -> None:
    assert base.metric_by_name is metric_by_name
    mean_squared = metric_from("mean_squared_error")
    assert (mean_squared.minimize, mean_squared.hard) == (True, (0.0, math.inf))
