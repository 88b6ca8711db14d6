"""Metrics: each row of the table of bad input, the presets, and bounds from an untrained model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from epochcast import metric as kinds
from epochcast.errors import InputError
from epochcast.metric import Metric, as_metric, metric_names

INF, NAN = math.inf, math.nan
ACCURACY, LOSS = Metric.named("accuracy"), Metric.named("log_loss")

BAD_METRICS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "hard-reversed": (lambda: Metric("m", True, (1.0, 0.0)), ("hard bounds of metric 'm'", "(1.0, 0.0)")),
    "hard-equal": (lambda: Metric("m", True, (1.0, 1.0)), ("lower one first",)),
    "hard-nan": (lambda: Metric("m", True, (NAN, 1.0)), ("hard bounds",)),
    "hard-text": (lambda: Metric("m", True, ("0", "1")), ("hard bounds", "'0'")),  # type: ignore[arg-type]
    "hard-one-number": (lambda: Metric("m", True, 1.0), ("hard bounds", "1.0")),  # type: ignore[arg-type]
    "hard-three-numbers": (lambda: Metric("m", True, (0, 1, 2)), ("hard bounds",)),  # type: ignore[arg-type]
    "hard-both-infinite-and-equal": (lambda: Metric("m", True, (INF, INF)), ("hard bounds",)),
    "hard-too-close-to-compute": (lambda: Metric("m", True, (0.0, 1e-310)), ("1e-300 apart",)),
    "hard-too-large-to-compute": (lambda: Metric("m", True, (0.0, 1e301)), ("1e+300",)),
    "soft-reversed": (lambda: Metric("m", True, soft=(1.0, 0.0)), ("soft bounds of metric 'm'",)),
    "soft-infinite": (lambda: Metric("m", True, soft=(0.0, INF)), ("finite",)),
    "soft-outside-hard": (lambda: Metric("m", True, (0.0, 1.0), (0.0, 2.0)), ("(0.0, 2.0)", "hard=(0.0, 1.0)")),
    "direction-as-text": (lambda: Metric("m", "max"), ("minimize='max'", "True or False")),  # type: ignore[arg-type]
    "unknown-name": (lambda: Metric.named("acuracy"), ("'acuracy'", "accuracy", "make a Metric")),
    "percentage-of-a-loss": (lambda: Metric.named("log_loss%"), ("'log_loss%'", "drop the %")),
    "percentage-of-the-unit-space": (lambda: Metric.named("unit%"), ("cannot be scaled",)),
    "untrained-nan": (lambda: LOSS.with_untrained(NAN), ("untrained=nan", "finite")),
    "untrained-text": (lambda: LOSS.with_untrained("2.3"), ("untrained='2.3'",)),  # type: ignore[arg-type]
    "untrained-on-the-best-value": (lambda: LOSS.with_untrained(0.0), ("untrained=0.0", "best value")),
    "untrained-outside": (lambda: ACCURACY.with_untrained(-0.1), ("untrained=-0.1", "(0.0, 1.0)")),
    "untrained-without-a-best-value": (lambda: Metric("m", True).with_untrained(1.0), ("soft=(low, high)",)),
    "scaled-by-zero": (lambda: ACCURACY.scaled(0.0), ("factor=0.0",)),
    "scaled-by-nan": (lambda: ACCURACY.scaled(NAN), ("factor=nan",)),
    "neither-metric-nor-name": (lambda: as_metric(1.0), ("float",)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", BAD_METRICS)
def test_metric_that_cannot_be_used_raises_an_error_that_names_it(case: str) -> None:
    call, fragments = BAD_METRICS[case]
    with pytest.raises(InputError) as caught:
        call()
    for fragment in fragments:
        assert fragment in str(caught.value)


@pytest.mark.parametrize("name", metric_names())
def test_metric_of_each_preset_is_found_by_its_name(name: str) -> None:
    metric = Metric.named(f" {name.upper()} ")

    assert metric.name == name
    assert as_metric(name) == metric
    assert as_metric(metric) is metric


@pytest.mark.parametrize(("name", "minimize"), [("accuracy%", False), ("error%", True)])
def test_metric_named_with_a_percent_sign_spans_zero_to_hundred(name: str, minimize: bool) -> None:
    assert Metric.named(name) == Metric(name, minimize, (0.0, 100.0), (0.0, 100.0))


@pytest.mark.parametrize(
    ("name", "untrained", "soft"),
    [("log_loss", 2.3, (0.0, 2.3)), ("accuracy", 0.1, (0.1, 1.0)), ("perplexity", 50_000, (1.0, 50_000.0))],
)
def test_metric_with_an_untrained_value_reaches_from_it_to_the_best(
    name: str, untrained: float, soft: tuple[float, float]
) -> None:
    assert Metric.named(name, untrained=untrained).soft == soft
    assert Metric.named(name).with_untrained(untrained).soft == soft


def test_metric_made_from_lists_and_integers_equals_the_one_from_floats() -> None:
    metric = Metric("m", False, [0, 1], np.array([0, 1]))  # type: ignore[arg-type]

    assert metric == Metric("m", False, (0.0, 1.0), (0.0, 1.0))
    assert hash(metric) == hash(Metric("m", False, (0.0, 1.0), (0.0, 1.0)))


KINDS = {
    kinds.SHARE: ["accuracy", "accuracy%", "error", "auc"],
    kinds.LOSS: ["log_loss", "loss", "mse", "perplexity", "wer", "r2"],
    kinds.UNTOLD: ["unit"],
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in KINDS.items() for name in names])
def test_kind_of_a_metric_follows_from_its_bounds(kind: float, name: str) -> None:
    assert Metric.named(name).kind == kind


def test_kind_of_a_metric_without_a_best_value_is_not_told() -> None:
    assert Metric("reward", minimize=False, soft=(0.0, 10.0)).kind == kinds.UNTOLD


@pytest.mark.parametrize(
    ("name", "minimize", "hard"),
    [("reward", False, (-INF, INF)), ("nll", True, (0.0, INF)), ("bleu", False, (0.0, 1.0))],
)
def test_preset_of_rewards_likelihoods_and_translations_has_its_bounds(
    name: str, minimize: bool, hard: tuple[float, float]
) -> None:
    metric = Metric.named(name)
    assert (metric.minimize, metric.hard) == (minimize, hard)


def test_preset_bleu_with_a_percent_sign_is_that_of_sacrebleu() -> None:
    assert Metric.named("bleu%").hard == (0.0, 100.0)
