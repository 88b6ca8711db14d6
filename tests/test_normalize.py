"""The map between a metric's space and the prior's: exact cases, properties, and densities that keep their mass."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit

from epochcast.curve import Curves
from epochcast.distributions import Mixture
from epochcast.errors import InputError
from epochcast.metric import Metric
from epochcast.normalize import Normalizer, task_bounds

PROPERTY = settings(max_examples=200, deadline=None, derandomize=True)
INF = math.inf
LOG_LOSS = Metric.named("log_loss", untrained=math.log(10))
METRICS = [
    Metric.named("accuracy"),
    Metric.named("error"),
    Metric.named("accuracy%"),
    Metric.named("r2"),
    Metric.named("wer"),
    LOG_LOSS,
    Metric.named("perplexity", untrained=50_000),
    Metric("negative", False, (-INF, 0.0), (-9.0, -2.0)),
    Metric("offset", True, (1e6, 1e6 + 3.0), (1e6 + 1.0, 1e6 + 2.0)),
    Metric("unbounded", False, soft=(-3.0, 5.0)),
    Metric("unbounded minimised", True, soft=(-3.0, 5.0)),
]
each_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)


def soft_range(metric: Metric) -> tuple[float, float]:
    assert metric.soft is not None
    return metric.soft


def inside_hard(metric: Metric, size: int = 101) -> np.ndarray:
    """Values from one soft range below the soft bounds to one above, as far as the hard bounds let them."""
    low, high = soft_range(metric)
    return np.unique(np.clip(np.linspace(2 * low - high, 2 * high - low, size), *metric.hard))


# A metric with soft bounds inside hard bounds, either of which may be infinite, and a value between the hard bounds.
@st.composite
def metrics_with_value(draw: st.DrawFn) -> tuple[Metric, float]:
    low, width = draw(st.floats(-1e3, 1e3)), draw(st.floats(1e-2, 1e3))
    gaps = [draw(st.one_of(st.just(INF), st.floats(0.0, 3.0))) for _ in range(2)]
    hard = (low - gaps[0] * width, low + width + gaps[1] * width)
    metric = Metric("random", draw(st.booleans()), hard, (low, low + width))
    share = draw(st.floats(0.0, 1.0))
    bottom, top = (max(hard[0], low - 3 * width), min(hard[1], low + 4 * width))
    return metric, min(max(bottom + share * (top - bottom), bottom), top)


# Exact cases -------------------------------------------------------------------------------------------------------


def test_normalizer_of_the_papers_special_case_is_the_canonical_logistic() -> None:
    x = np.linspace(-20, 20, 81)
    normalizer = Normalizer.of(Metric("logistic", False, (-INF, INF), (-1.0, 1.0)))

    np.testing.assert_allclose(normalizer.forward(x), 1 / (1 + np.exp(-x)), rtol=1e-14)
    np.testing.assert_allclose(normalizer.log_jacobian(x), np.log(expit(x) * expit(-x)), rtol=1e-13)


@each_metric
def test_normalizer_equals_the_formula_of_the_paper_with_its_sign_corrected(metric: Metric) -> None:
    (low, high), x = soft_range(metric), inside_hard(metric)
    a, b = 2 / (high - low), -(high + low) / (high - low)
    at_low, at_high = (expit(a * bound + b) for bound in metric.hard)
    c = 1 / (at_high - at_low)
    expected = c * expit(a * x + b) - c * at_low

    np.testing.assert_allclose(
        Normalizer.of(metric).forward(x), 1 - expected if metric.minimize else expected, atol=1e-9
    )


def test_normalizer_of_a_log_loss_puts_the_untrained_level_at_0_368() -> None:
    normalizer = Normalizer.of(LOG_LOSS)

    assert normalizer.forward(math.log(10)) == pytest.approx(0.368, abs=5e-4)
    assert normalizer.forward([0.0, 1e300]).tolist() == [1.0, 0.0]


@each_metric
def test_normalizer_maps_the_hard_bounds_onto_zero_and_one(metric: Metric) -> None:
    normalizer = Normalizer.of(metric)
    worst, best = reversed(metric.hard) if metric.minimize else metric.hard

    assert normalizer.forward([worst, best]).tolist() == pytest.approx([0.0, 1.0], abs=1e-15)
    assert normalizer.inverse([-0.5, 1.5]).tolist() == pytest.approx([worst, best], rel=1e-12)
    assert normalizer.image == (0.0, 1.0)


def test_normalizer_of_the_unit_metric_changes_nothing() -> None:
    normalizer, x = Normalizer.of(Metric.unit()), np.array([-1.0, 0.3, 7.0])

    assert normalizer.forward(x).tolist() == normalizer.inverse(x).tolist() == x.tolist()
    assert normalizer.log_jacobian(x).tolist() == [0.0, 0.0, 0.0]
    assert normalizer.image == (-INF, INF)


# Round trips, directions, units ------------------------------------------------------------------------------------


@each_metric
def test_normalizer_round_trip_inside_the_hard_bounds_is_exact_to_1e_9(metric: Metric) -> None:
    normalizer, x = Normalizer.of(metric), inside_hard(metric)
    low, high = soft_range(metric)

    assert np.abs(normalizer.inverse(normalizer.forward(x)) - x).max() <= 1e-9 * max(high - low, 1.0)


@PROPERTY
@given(metrics_with_value())
def test_normalizer_round_trip_of_random_metrics_is_exact_to_1e_9(case: tuple[Metric, float]) -> None:
    metric, value = case
    normalizer = Normalizer.of(metric)
    low, high = soft_range(metric)

    assert abs(normalizer.inverse(normalizer.forward(value)) - value) <= 1e-9 * (high - low)
    assert 0.0 <= normalizer.forward(value) <= 1.0 + 1e-12


@PROPERTY
@given(st.floats(0, 1), st.floats(0.001, 0.999))
def test_normalizer_of_accuracy_and_error_mirror_each_other(accuracy: float, unit: float) -> None:
    of_accuracy, of_error = Normalizer.of(Metric.named("accuracy")), Normalizer.of(Metric.named("error"))

    assert of_error.forward(1 - accuracy) == pytest.approx(float(of_accuracy.forward(accuracy)), abs=1e-14)
    assert of_error.inverse(unit) == pytest.approx(1 - float(of_accuracy.inverse(unit)), abs=1e-14)
    assert of_error.log_jacobian(1 - accuracy) == pytest.approx(float(of_accuracy.log_jacobian(accuracy)), abs=1e-12)


@PROPERTY
@given(metrics_with_value(), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_normalizer_is_equivariant_under_a_change_of_units(case: tuple[Metric, float], a: float, b: float) -> None:
    metric, value = case
    soft, hard = soft_range(metric), metric.hard
    moved = Metric("moved", metric.minimize, (a * hard[0] + b, a * hard[1] + b), (a * soft[0] + b, a * soft[1] + b))
    plain, other = Normalizer.of(metric), Normalizer.of(moved)

    assert other.forward(a * value + b) == pytest.approx(float(plain.forward(value)), abs=1e-5)
    assert other.log_jacobian(a * value + b) == pytest.approx(float(plain.log_jacobian(value)) - math.log(a), abs=1e-5)
    back, width = float(other.inverse(plain.forward(value))), a * (soft[1] - soft[0])
    assert back == pytest.approx(a * value + b, abs=1e-5 * width)


def test_normalizer_of_percentages_equals_the_one_of_shares() -> None:
    x = np.linspace(0, 1, 11)
    shares, percentages = (Normalizer.of(Metric.named(name)) for name in ("accuracy", "accuracy%"))

    np.testing.assert_allclose(percentages.forward(100 * x), shares.forward(x), atol=1e-14)


@each_metric
def test_quantiles_in_the_users_space_are_ordered_once_swapped_for_minimised_metrics(metric: Metric) -> None:
    normalizer, direction = Normalizer.of(metric), -1 if metric.minimize else 1
    unit = Mixture.of([0.0], [0.6], [-3.0]).icdf([0.1, 0.5, 0.9])

    assert (np.diff(normalizer.forward(inside_hard(metric))) * direction > 0).all()
    assert (np.diff(normalizer.inverse(unit)[::direction]) > 0).all()


# Jacobian ----------------------------------------------------------------------------------------------------------


@PROPERTY
@given(metrics_with_value())
def test_log_jacobian_is_the_numerical_derivative(case: tuple[Metric, float]) -> None:
    metric, value = case
    normalizer = Normalizer.of(metric)
    low, high = soft_range(metric)
    step = 1e-5 * (high - low)
    slope = float(np.diff(normalizer.forward([value - step, value + step]))[0]) / (2 * step)

    assert np.sign(slope) == (-1 if metric.minimize else 1)
    assert normalizer.log_jacobian(value) == pytest.approx(math.log(abs(slope)), abs=1e-4)


@each_metric
def test_density_carried_to_the_users_space_integrates_to_one_only_with_the_jacobian(metric: Metric) -> None:
    normalizer = Normalizer.of(metric)
    unit = Mixture.of([0.0, 0.5], [0.5, 0.6], [-3.0, -4.0])  # all of its mass lies inside [0, 1]
    borders = np.sort(normalizer.inverse(np.linspace(0.01, 0.99, 50)))

    def mass(jacobian: bool) -> float:
        def density(x: float) -> float:
            return float(np.exp(unit.log_prob(normalizer.forward(x)) + jacobian * normalizer.log_jacobian(x)))

        return sum(quad(density, low, high)[0] for low, high in pairwise(borders))

    assert mass(jacobian=True) == pytest.approx(1.0, abs=1e-6)
    assert mass(jacobian=False) != pytest.approx(1.0, abs=1e-2)


# Soft bounds from a reference --------------------------------------------------------------------------------------


def test_normalizer_from_references_has_one_map_per_curve() -> None:
    metric, references = Metric.named("log_loss"), np.array([[0.5], [2.0], [1e200]])
    x = np.array([[0.1, 0.4], [0.1, 0.4], [1e199, 2e200]])
    together = Normalizer.of(metric, references)

    for i, reference in enumerate(references[:, 0]):
        alone = Normalizer.of(metric.with_untrained(float(reference)))
        np.testing.assert_allclose(together.forward(x)[i], alone.forward(x[i]), atol=1e-15)
        np.testing.assert_allclose(together.inverse(together.forward(x))[i], x[i], rtol=1e-9)
        np.testing.assert_allclose(together.log_jacobian(x)[i], alone.log_jacobian(x[i]), rtol=1e-12)


def test_normalizer_with_soft_bounds_ignores_the_reference() -> None:
    metric = Metric.named("accuracy")

    assert Normalizer.of(metric, 0.7).forward(0.3) == Normalizer.of(metric).forward(0.3)


@pytest.mark.parametrize(
    "metric",
    [Metric("m", False, (0.0, 1.0)), Metric("m", True, (0.0, 1e-12)), Metric.named("loss"), Metric.named("perplexity")],
    ids=["maximised", "narrow", "loss", "perplexity"],
)
def test_normalizer_from_a_reference_on_the_best_value_is_finite(metric: Metric) -> None:
    normalizer = Normalizer.of(metric, metric.best)

    assert normalizer.forward(metric.best) == pytest.approx(1.0)
    assert normalizer.inverse(normalizer.forward(metric.best)) == pytest.approx(metric.best, abs=1e-12)
    assert np.isfinite(normalizer.log_jacobian(metric.best))


@pytest.mark.parametrize(
    ("metric", "reference", "fragment"),
    [
        (Metric.named("loss"), None, "untrained="),
        (Metric.named("loss"), [[1.0], [math.nan]], "must be finite"),
        (Metric("m", True), 1.0, "soft=(low, high)"),
    ],
    ids=["nothing-seen", "nan", "no-best-value"],
)
def test_normalizer_without_a_usable_range_raises(metric: Metric, reference: Any, fragment: str) -> None:
    with pytest.raises(InputError) as caught:
        Normalizer.of(metric, reference)
    assert metric.name in str(caught.value)
    assert fragment in str(caught.value)


# Extremes ----------------------------------------------------------------------------------------------------------

HUGE = [1e-300, 1e-200, 1.0, 1e200, 1e300]


@pytest.mark.parametrize("reference", HUGE)
@pytest.mark.parametrize("value", [0.0, *HUGE])
def test_normalizer_at_huge_and_tiny_values_is_finite(reference: float, value: float) -> None:
    normalizer = Normalizer.of(Metric.named("loss"), reference)

    assert 0.0 <= normalizer.forward(value) <= 1.0
    assert np.isfinite(normalizer.log_jacobian(value))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_normalizer_at_huge_and_tiny_scales_keeps_its_round_trip(scale: float) -> None:
    x = scale * np.linspace(0.0, 3.0, 31)
    normalizer = Normalizer.of(Metric.named("loss"), scale)

    np.testing.assert_allclose(normalizer.inverse(normalizer.forward(x)), x, atol=1e-12 * scale)


def test_normalizer_keeps_apart_losses_that_diverge_far_beyond_the_soft_bounds() -> None:
    x = np.array([10.0, 100.0, 300.0])
    normalizer = Normalizer.of(LOG_LOSS)

    np.testing.assert_allclose(normalizer.inverse(normalizer.forward(x)), x, rtol=1e-12)


@each_metric
def test_normalizer_leaves_the_callers_arrays_alone(metric: Metric) -> None:
    normalizer, x = Normalizer.of(metric), inside_hard(metric)
    x.setflags(write=False)
    unit = normalizer.forward(x)
    unit.setflags(write=False)
    normalizer.inverse(unit)
    normalizer.log_jacobian(x)


# --- one map for all runs of a task -----------------------------------------------------------------------------------

NOTHING_TOLD = np.empty(0)


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        ("accuracy", (0.0, 1.0)),
        ("wer", (0.0, 1.0)),
        ("loss", (0.0, 5.0)),
        ("perplexity", (1.0, 5.0)),
        ("reward", (1.0, 6.0)),
    ],
)
def test_bounds_of_a_task_are_those_of_the_metric_or_come_from_the_other_runs(
    metric: str, wanted: tuple[float, float]
) -> None:
    others = Curves.of([[4.0, 2.0], [5.0, 3.0], [6.0, 1.0]])
    assert task_bounds(Metric.named(metric), others, NOTHING_TOLD, NOTHING_TOLD) == wanted


def test_bounds_of_a_task_of_losses_prefer_what_was_told_of_the_untrained_model() -> None:
    others, loss = Curves.of([[4.0, 2.0], [5.0, 3.0], [6.0, 1.0]]), Metric.named("loss")
    told_of_others = np.array([7.0, np.nan, 9.0])
    assert task_bounds(loss, others, NOTHING_TOLD, told_of_others) == (0.0, 8.0)
    assert task_bounds(loss, others, np.array([np.nan]), told_of_others) == (0.0, 8.0)
    assert task_bounds(loss, others, np.array([10.0]), told_of_others) == (0.0, 10.0)
    lower = Metric("score", minimize=False, hard=(-np.inf, 10.0))
    assert task_bounds(lower, others, NOTHING_TOLD, NOTHING_TOLD) == (5.0, 10.0)


def test_bounds_of_a_task_of_losses_that_begin_at_the_best_value_are_no_point() -> None:
    low, high = task_bounds(Metric.named("loss"), Curves.of([[0.0, 0.0]]), NOTHING_TOLD, NOTHING_TOLD)
    assert low == 0.0 < high


@pytest.mark.parametrize("metric", [Metric.named("loss"), Metric.named("reward"), Metric.named("accuracy")])
def test_map_of_a_task_is_that_of_a_run_but_for_one_that_has_left(metric: Metric) -> None:
    scale = Normalizer.between(metric, 0.0, 1.0)
    curves = Curves.of([[0.2, 0.5], [0.3, 0.9], [0.4, 0.1]])
    same, left = scale.own_where_left(curves)
    assert same is scale
    assert not left.any()
    if metric.name == "accuracy":
        return  # it cannot leave
    exploded = Curves.of([[0.2, 0.5], [0.3, 900.0], []])
    mixed, left = scale.own_where_left(exploded)
    assert left.tolist() == [False, True, False]
    np.testing.assert_array_equal(mixed.at([0, 2]).center, [[float(scale.center)]] * 2)
    own, _ = Normalizer.of_runs(metric, exploded[1:2])
    np.testing.assert_allclose(mixed.at([1]).forward([[0.3, 900.0]]), own.forward([[0.3, 900.0]]))


def test_values_as_they_are_never_leave() -> None:
    scale = Normalizer.between(Metric.unit(), 0.0, 1.0)
    same, left = scale.own_where_left(Curves.of([[0.2, 900.0]]))
    assert same is scale
    assert not left.any()
