"""Curves: each row of the table of bad input, and properties over random input."""

from __future__ import annotations

import gc
import math
import sys
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.curve import Curves, check_horizon, clip_to_hard_bounds, warn_on_contradiction
from epochcast.errors import EpochcastError, InputError, StrongContradictionWarning
from epochcast.metric import Metric

PROPERTY = settings(max_examples=200, deadline=None, derandomize=True)
INF, NAN = math.inf, math.nan
ACCURACY, LOSS = Metric.named("accuracy"), Metric.named("log_loss")

values_lists = st.lists(st.floats(-1e300, 1e300), max_size=20)
batches = st.lists(values_lists, min_size=1, max_size=6)


def same(left: Curves, right: Curves) -> bool:
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in ("steps", "values", "lengths"))


def row(curves: Curves, i: int) -> tuple[list[float], list[float]]:
    """Steps and values of one curve, without its padding."""
    length = curves.lengths[i]
    return curves.steps[i, :length].tolist(), curves.values[i, :length].tolist()


# Bad input: what must raise, and what the message must say ---------------------------------------------------------


def in_bounds(values: Any, metric: Metric = ACCURACY) -> Curves:
    return clip_to_hard_bounds(Curves.of(values), metric)


def before(horizon: Any, values: Any = (0.1, 0.2, 0.3)) -> None:
    check_horizon(Curves.of(values), horizon)


BAD_CURVES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "nan-inside": (lambda: Curves.of([0.1, NAN, 0.3]), ("values[1] = nan is not a finite number", "missing='drop'")),
    "nan-inside-a-batch": (lambda: Curves.of([[0.1], [0.2, NAN]]), ("values[1] of curve 1", "nan")),
    "none-inside": (lambda: Curves.of([0.1, None]), ("values[1] = nan", "missing='drop'")),
    "masked-inside": (lambda: Curves.of(np.ma.array([0.1, 0.2], mask=[False, True])), ("values[1] = nan",)),
    "nan-newest": (lambda: Curves.of([0.1, NAN]), ("values[1] = nan",)),
    "inf-newest": (lambda: Curves.of([0.1, INF]), ("values[1] = inf is not a finite number", "cut the curve")),
    "inf-with-drop-keeps-its-index": (lambda: Curves.of([NAN, 0.1, -INF], missing="drop"), ("values[2] = -inf",)),
    "unknown-missing": (lambda: Curves.of([0.1], missing="ignore"), ("'ignore'", "'error' or 'drop'")),  # type: ignore[arg-type]
    "at-the-horizon": (lambda: before(3), ("step 3", "horizon=3", "nothing is left", "raise the horizon")),
    "past-the-horizon": (lambda: before(2), ("step 3", "horizon=2", "past the horizon", "raise the horizon")),
    "past-the-horizon-in-a-batch": (lambda: before(3, [[0.1], [0.1] * 4]), ("curve 1", "step 4")),
    "horizon-too-short": (lambda: before(1), ("horizon=1", "at least 2")),
    "horizon-nan": (lambda: before(NAN), ("horizon=nan",)),
    "horizon-infinite": (lambda: before(INF), ("horizon=inf",)),
    "horizon-text": (lambda: before("100"), ("horizon='100'",)),
    "duplicate-step": (lambda: Curves.of([1, 2, 3], [1, 2, 2]), ("step 2", "twice")),
    "duplicate-step-apart": (lambda: Curves.of([1, 2, 3], [7, 5, 7]), ("step 7", "twice")),
    "duplicate-step-in-a-batch": (lambda: Curves.of([[1, 2], [3, 4]], [[1, 2], [3, 3]]), ("step 3 of curve 1",)),
    "negative-step": (lambda: Curves.of([1, 2], [0, -1]), ("step -1 of values[1]", "not negative")),
    "nan-step": (lambda: Curves.of([1, 2], [1, NAN]), ("step nan of values[1]", "finite")),
    "infinite-step": (lambda: Curves.of([1, 2], [1, INF]), ("step inf of values[1]", "finite")),
    "text-among-numbers": (lambda: Curves.of([0.1, "0.2"]), ("values[1] = '0.2'", "not a number")),
    "text-in-a-batch": (lambda: Curves.of([[0.1], [0.2, "x"]]), ("values[1][1] = 'x'",)),
    "text-in-an-array": (lambda: Curves.of(np.array([["1", "2"]])), ("values[0][0] = '1'",)),
    "text-alone": (lambda: Curves.of("0.9"), ("values = '0.9'",)),
    "text-among-objects": (lambda: Curves.of([None, "0.2"]), ("values[1] = '0.2'",)),
    "text-step": (lambda: Curves.of([0.1], ["1"]), ("steps[0] = '1'",)),
    "booleans": (lambda: Curves.of([True, False]), ("values[0] = True",)),
    "complex": (lambda: Curves.of([1j]), ("values[0] = 1j",)),
    "dates": (lambda: Curves.of(np.array(["2020-01-01"], dtype="datetime64[D]")), ("values[0]", "not a number")),
    "dictionary": (lambda: Curves.of({"a": 1.0}), ("values = {'a': 1.0}",)),
    "generator": (lambda: Curves.of(x for x in [0.1]), ("values = <generator", "not a number")),
    "number-alone": (lambda: Curves.of(0.5), ("0 dimensions",)),
    "nothing": (lambda: Curves.of(None), ("0 dimensions",)),
    "list-after-number": (lambda: Curves.of([0.1, [0.2]]), ("values[1] = [0.2]",)),
    "number-after-list": (lambda: Curves.of([[0.1], 0.2]), ("values[1] has 0 dimensions",)),
    "three-dimensions": (lambda: Curves.of(np.zeros((2, 2, 2))), ("3 dimensions",)),
    "three-dimensions-ragged": (lambda: Curves.of([[[1.0], [2.0, 3.0]]]), ("values[0]",)),
    "batch-of-no-curves": (lambda: Curves.of(np.zeros((0, 5))), ("no curves", "at least one")),
    "integer-beyond-floats": (lambda: Curves.of([1, 10**400]), ("values[1]", "larger than 1e+300")),
    "value-beyond-the-limit": (lambda: Curves.of([1e301]), ("values[0] = 1e+301", "larger than 1e+300")),
    "step-beyond-the-limit": (lambda: Curves.of([1.0], [1e301]), ("step 1e+301 of values[0]",)),
    "fewer-steps": (lambda: Curves.of([1, 2, 3], [1, 2]), ("2 steps but 3 values",)),
    "fewer-steps-in-a-batch": (lambda: Curves.of([[1, 2], [3]], [1, 2]), ("curve 1 has 2 steps but 1 values",)),
    "fewer-curves-in-steps": (lambda: Curves.of([[1], [2]], [[1]]), ("steps holds 1 curves but values holds 2",)),
    "above-the-hard-bound": (lambda: in_bounds([0.5, 1.5]), ("values[1] = 1.5", "upper hard bound 1", "trailing %")),
    "below-the-hard-bound": (lambda: in_bounds([2.0, -0.1], LOSS), ("values[1] = -0.1", "lower hard bound 0")),
    "outside-in-a-batch": (lambda: in_bounds([[0.5], [0.5, 2.0]]), ("values[1] of curve 1 = 2", "step 2")),
    "just-past-the-tolerance": (lambda: in_bounds([1.0 + 1.1e-6]), ("hard bound 1",)),
    "far-outside-at-huge-scale": (lambda: in_bounds([1e200]), ("values[0] = 1e+200", "hard bound 1")),
}


@pytest.mark.parametrize("case", BAD_CURVES)
def test_curve_that_cannot_be_used_raises_an_error_that_names_it(case: str) -> None:
    call, fragments = BAD_CURVES[case]
    with pytest.raises(InputError) as caught:
        call()
    for fragment in fragments:
        assert fragment in str(caught.value)


# Curves: what is accepted ------------------------------------------------------------------------------------------


def test_curve_of_a_list_counts_its_steps_from_one() -> None:
    curves = Curves.of([0.1, 0.2, 0.3])

    assert curves.single
    assert len(curves) == 1
    assert row(curves, 0) == ([1.0, 2.0, 3.0], [0.1, 0.2, 0.3])
    assert (curves.last_step.item(), curves.last_value.item()) == (3.0, 0.3)


@pytest.mark.parametrize(
    "values",
    [
        (1, 2),
        np.array([1, 2], dtype=np.int8),
        np.float32([1, 2]),
        deque([1, 2]),
        range(1, 3),
        [np.array(1), np.array(2)],
    ],
    ids=["tuple", "int8", "float32", "deque", "range", "zero-dimensional-arrays"],
)
def test_curve_of_any_sequence_of_numbers_is_the_same(values: Any) -> None:
    assert same(Curves.of(values), Curves.of([1.0, 2.0]))


def test_curve_of_length_zero_is_empty_with_zeros_as_newest() -> None:
    curves = Curves.of([])

    assert curves.single
    assert curves.values.shape == (1, 0)
    assert (curves.lengths.item(), curves.last_step.item(), curves.last_value.item()) == (0, 0.0, 0.0)
    check_horizon(curves, 100)
    assert clip_to_hard_bounds(curves, ACCURACY) is curves
    warn_on_contradiction(curves, ACCURACY)


def test_curve_of_length_one_is_valid() -> None:
    assert row(Curves.of([0.5]), 0) == ([1.0], [0.5])


def test_curve_of_equal_values_is_valid_and_warns_of_nothing() -> None:
    curves = in_bounds([0.5] * 30)
    warn_on_contradiction(curves, ACCURACY)

    assert row(curves, 0)[1] == [0.5] * 30


@pytest.mark.parametrize("scale", [1e200, -1e200, 1e-200, 1e300])
def test_curve_of_huge_or_tiny_values_is_kept_as_it_is(scale: float) -> None:
    assert row(Curves.of([scale, scale / 2]), 0)[1] == [scale, scale / 2]


def test_curve_with_missing_values_dropped_keeps_the_steps_of_the_rest() -> None:
    curves = Curves.of([NAN, 0.2, None, 0.4], missing="drop")

    assert row(curves, 0) == ([2.0, 4.0], [0.2, 0.4])


def test_curve_of_missing_values_alone_is_empty_when_dropped() -> None:
    assert Curves.of([NAN, NAN], missing="drop").values.shape == (1, 0)


def test_curve_with_a_missing_value_at_a_bad_step_is_valid_when_dropped() -> None:
    assert row(Curves.of([0.1, NAN], [1, -5], missing="drop"), 0) == ([1.0], [0.1])


def test_curve_with_unsorted_steps_is_sorted_and_the_callers_data_stay() -> None:
    values, steps = np.array([[0.3, 0.1, 0.2]]), np.array([[3.0, 1.0, 2.0]])
    curves = Curves.of(values, steps)

    assert row(curves, 0) == ([1.0, 2.0, 3.0], [0.1, 0.2, 0.3])
    assert values.tolist() == [[0.3, 0.1, 0.2]]
    assert steps.tolist() == [[3.0, 1.0, 2.0]]


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_curve_shares_no_memory_with_the_callers_arrays(missing: Any) -> None:
    values, steps = np.array([0.1, 0.2]), np.array([1.0, 2.0])
    curves = Curves.of(values, steps, missing=missing)
    clip_to_hard_bounds(curves, ACCURACY)

    assert not np.shares_memory(values, curves.values)
    assert not np.shares_memory(steps, curves.steps)


def test_curve_seen_at_step_zero_and_between_steps_is_valid() -> None:
    assert row(Curves.of([1, 2, 3], [0, 0.5, 1]), 0)[0] == [0.0, 0.5, 1.0]


def test_batch_given_as_an_array_equals_the_list_of_its_rows() -> None:
    array = np.random.default_rng(1).random((5, 7))

    assert same(Curves.of(array), Curves.of(list(array)))
    assert same(Curves.of(array), Curves.of(array.tolist()))
    assert not Curves.of(array[:1]).single


def test_batch_with_one_list_of_steps_shares_it() -> None:
    curves = Curves.of([[1, 2], [3, 4]], [20, 10])

    assert row(curves, 0) == ([10.0, 20.0], [2.0, 1.0])
    assert row(curves, 1) == ([10.0, 20.0], [4.0, 3.0])


def test_batch_of_ragged_curves_is_padded_with_zeros_and_masked() -> None:
    curves = Curves.of([[1, 2, 3], [], [4]])

    assert curves.values.tolist() == [[1, 2, 3], [0, 0, 0], [4, 0, 0]]
    assert curves.steps.tolist() == [[1, 2, 3], [0, 0, 0], [1, 0, 0]]
    assert curves.seen.tolist() == [[True] * 3, [False] * 3, [True, False, False]]
    assert curves.last_step.tolist() == [3, 0, 1]
    assert curves.last_value.tolist() == [3, 0, 4]


def python_calls(action: Callable[[], Any]) -> int:
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.disable()  # what the collector calls would be counted, too
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


@pytest.mark.parametrize("steps", [None, np.arange(50.0)], ids=["counted-steps", "given-steps"])
def test_batch_given_as_an_array_takes_no_python_work_per_curve(steps: Any) -> None:
    batch = np.random.default_rng(2).random((1000, 50))
    few, many = (python_calls(lambda rows=rows: Curves.of(rows, steps)) for rows in (batch[:2], batch))

    assert few == many
    # The negative control: a list of rows is read row by row.
    assert python_calls(lambda: Curves.of(list(batch))) > many + 1000


# Curves: properties ------------------------------------------------------------------------------------------------


@PROPERTY
@given(batches)
def test_batch_of_random_ragged_curves_equals_its_single_curves(batch: list[list[float]]) -> None:
    together = Curves.of(batch)
    for i, values in enumerate(batch):
        assert row(together, i) == row(Curves.of(values), 0)
    assert not together.values[~together.seen].any()
    assert not together.steps[~together.seen].any()


@PROPERTY
@given(st.dictionaries(st.floats(0, 1e300), st.floats(-1e300, 1e300), max_size=20), st.randoms(use_true_random=False))
def test_curve_of_random_order_equals_the_sorted_one(points: dict[float, float], random: Any) -> None:
    shuffled = list(points.items())
    random.shuffle(shuffled)
    curves = Curves.of([value for _, value in shuffled], [step for step, _ in shuffled])

    assert list(zip(*row(curves, 0), strict=True)) == sorted(points.items())


@PROPERTY
@given(st.lists(st.lists(st.one_of(st.just(NAN), st.floats(-1e300, 1e300)), max_size=12), min_size=1, max_size=4))
def test_curves_with_random_missing_values_dropped_equal_the_filtered_ones(batch: list[list[float]]) -> None:
    curves = Curves.of(batch, missing="drop")
    for i, values in enumerate(batch):
        kept = [(float(step), value) for step, value in enumerate(values, start=1) if not math.isnan(value)]
        assert list(zip(*row(curves, i), strict=True)) == kept
    assert curves.values.shape[1] == curves.lengths.max()
    assert not curves.values[~curves.seen].any()
    assert not curves.steps[~curves.seen].any()


junk = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=3),
        st.binary(max_size=3),
        st.complex_numbers(),
    ),
    lambda items: st.one_of(st.lists(items, max_size=4), st.dictionaries(st.text(max_size=2), items, max_size=2)),
    max_leaves=12,
)


@PROPERTY
@given(junk, st.one_of(st.none(), junk), st.sampled_from(["error", "drop"]))
def test_curve_of_arbitrary_objects_is_valid_or_an_epochcast_error(values: Any, steps: Any, missing: Any) -> None:
    try:
        curves = Curves.of(values, steps, missing=missing)
    except EpochcastError:
        return
    assert curves.values.shape == curves.steps.shape == (len(curves), curves.lengths.max())
    assert np.isfinite(curves.values).all()
    assert (np.diff(curves.steps, axis=1)[curves.seen[:, 1:]] > 0).all()


# Hard bounds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[0.0, 1.0], [0.5]], ids=["on-the-bounds", "inside"])
def test_curve_inside_the_hard_bounds_is_returned_as_it_is(values: list[float]) -> None:
    curves = Curves.of(values)

    assert clip_to_hard_bounds(curves, ACCURACY) is curves


@pytest.mark.parametrize(
    ("metric", "value", "clipped"),
    [
        (ACCURACY, 1.0 + 9e-7, 1.0),
        (ACCURACY, -9e-7, 0.0),
        (Metric.named("accuracy%"), 100.0 + 9e-5, 100.0),
        (LOSS, -9e-7, 0.0),
        (Metric.named("r2"), 1.0 + 9e-7, 1.0),
    ],
)
def test_curve_outside_by_rounding_is_clipped_in_a_copy(metric: Metric, value: float, clipped: float) -> None:
    curves = Curves.of([[0.5, value], [0.5]])
    before_values = curves.values.copy()

    assert clip_to_hard_bounds(curves, metric).last_value.tolist() == [clipped, 0.5]
    assert np.array_equal(curves.values, before_values)


def test_curve_of_a_metric_bounded_away_from_zero_keeps_its_padding() -> None:
    curves = clip_to_hard_bounds(Curves.of([[5.0, 2.0], [3.0]]), Metric.named("perplexity"))

    assert curves.values.tolist() == [[5.0, 2.0], [3.0, 0.0]]


@PROPERTY
@given(st.lists(st.floats(-2, 3), min_size=1, max_size=10))
def test_curve_clipped_at_random_lies_inside_or_is_an_error(values: list[float]) -> None:
    worst = max(max(-value, value - 1.0) for value in values)
    try:
        clipped = in_bounds(values).values
    except InputError:
        assert worst > 0.9e-6
        return
    assert worst < 1.1e-6
    assert ((clipped >= 0.0) & (clipped <= 1.0)).all()
    assert np.abs(clipped - values).max() < 1.1e-6


# Direction ---------------------------------------------------------------------------------------------------------

FALLING, RISING = np.linspace(0.9, 0.1, 10), np.linspace(0.1, 0.9, 10)


@pytest.mark.parametrize(
    ("values", "metric", "better"),
    [
        (FALLING, ACCURACY, "larger"),
        (RISING, Metric.named("error"), "smaller"),
        (RISING + 1, LOSS, "smaller"),
        (FALLING, Metric.unit(), "larger"),
        (100 * FALLING, Metric.named("accuracy%"), "larger"),
    ],
    ids=["accuracy-falls", "error-rises", "loss-rises", "unit-falls", "percentage-falls"],
)
def test_curve_against_its_direction_warns(values: np.ndarray, metric: Metric, better: str) -> None:
    with pytest.warns(StrongContradictionWarning, match=f"{better} is better; check the metric's direction"):
        warn_on_contradiction(Curves.of(values), metric)


def test_batch_with_one_curve_against_its_direction_names_it() -> None:
    with pytest.warns(StrongContradictionWarning, match="curve 1 gets steadily worse"):
        warn_on_contradiction(Curves.of([RISING, FALLING, [0.5]]), ACCURACY)


@pytest.mark.parametrize(
    ("values", "metric"),
    [
        (RISING, ACCURACY),
        (FALLING, LOSS),
        (FALLING[:4], ACCURACY),
        (FALLING / 10, ACCURACY),
        (0.5 + 0.1 * np.random.default_rng(3).standard_normal(50), ACCURACY),
        (np.concatenate([FALLING, RISING]), LOSS),
        ([0.9, *[0.1] * 9], ACCURACY),
        ([0.9, 0.6, 0.7, 0.4, 0.5, 0.2, 0.3], ACCURACY),
    ],
    ids=["right", "right-minimised", "too-short", "too-little", "noise", "overfitting", "one-drop", "zigzag"],
)
def test_curve_without_strong_contradiction_is_silent(values: np.ndarray, metric: Metric) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_on_contradiction(Curves.of(values), metric)


# Horizon -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [4, 5.0, np.int64(100), np.float32(10), 10**15])
def test_curve_that_ends_before_the_horizon_passes(horizon: Any) -> None:
    before(horizon)
