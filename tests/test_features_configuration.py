"""Configurations as columns: names, types, scales, gaps, and what cannot be read."""

from __future__ import annotations

import math
from collections import OrderedDict, UserDict
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import epochcast as ec
from epochcast.features.configuration import MOST_COLUMNS, columns_of


def column(entries: list[Any], scale: Any = None) -> tuple[list[float | None], bool]:
    """The column of these entries, None where it is missing, and whether it is one of categories."""
    found = columns_of([{"x": entry} for entry in entries], None if scale is None else ec.Space(x=scale))
    assert found.names == ("x",)
    values = [None if math.isnan(value) else round(value, 6) for value in found.values[:, 0]]
    return values, bool(found.categorical[0])


def dropped(entries: list[Any], scale: Any = None) -> bool:
    found = columns_of([{"x": entry} for entry in entries], None if scale is None else ec.Space(x=scale))
    return found.values.shape == (len(entries), 0) and found.categorical.shape == (0,) and found.names == ()


# --- names and rows ---------------------------------------------------------------------------------------------------


def test_order_of_names_is_irrelevant_and_rows_keep_theirs() -> None:
    one = columns_of([{"b": 1, "a": "x", "c": 5}, {"c": 9, "b": 3, "a": "y"}])
    other = columns_of([OrderedDict(a="x", c=5, b=1), UserDict(a="y", b=3, c=9)])
    assert one.names == other.names == ("a", "b", "c")
    np.testing.assert_array_equal(one.values, other.values)
    assert one.values.tolist() == [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    assert one.categorical.tolist() == [True, False, False]


def test_nested_entries_are_named_with_dots() -> None:
    nested = [
        {"model": {"depth": 2, "head": {"bias": True}}, "lr": 1},
        {"model": {"depth": 4, "head": {"bias": False}}},
    ]
    found = columns_of(nested)
    assert found.names == ("model.depth", "model.head.bias")
    assert columns_of([{"model.depth": 2}, {"model": {"depth": 4}}]).values.tolist() == [[0.0], [1.0]]


def test_names_that_are_no_text_are_read_as_text() -> None:
    assert columns_of([{3: 1, None: "a"}, {3: 2, None: "b"}]).names == ("3", "None")  # type: ignore[dict-item]


def test_mappings_nested_without_end_are_missing() -> None:
    endless: dict[str, Any] = {"lr": 1}
    endless["self"] = endless
    assert columns_of([endless, {"lr": 2}]).names[0] == "lr"


def test_configuration_that_is_not_known_is_a_row_of_gaps() -> None:
    found = columns_of([None, {"lr": 1}, {}, {"lr": 3, "wd": 0.5}, {"lr": 2, "wd": 0.1}])
    assert found.names == ("lr", "wd")
    np.testing.assert_array_equal(
        found.values, [[np.nan, np.nan], [0.0, np.nan], [np.nan, np.nan], [1.0, 1.0], [0.5, 0.0]]
    )


@pytest.mark.parametrize("configs", [[], [None], [None, None], [{}], [{"lr": 1}], [{}, None]])
def test_configurations_that_say_nothing_have_no_columns(configs: list[Any]) -> None:
    found = columns_of(configs)
    assert found.values.shape == (len(configs), 0)
    assert found.categorical.shape == (0,)


def test_columns_that_do_not_vary_are_dropped() -> None:
    assert dropped([1, 1, 1.0])
    assert dropped(["adam", "adam", None])
    assert dropped([True, True])
    assert dropped([5, None, None])
    assert dropped([0.1] * 3, "log")


def test_of_too_many_columns_those_known_for_most_rows_are_read_then_the_first_by_name() -> None:
    names = [f"n{i:02d}" for i in range(20)]
    full = dict.fromkeys(names, 1)
    rows: list[dict[str, Any]] = [full, dict.fromkeys(names, 2), dict.fromkeys(names[10:], 3)]
    found = columns_of(rows)
    assert len(found.names) == MOST_COLUMNS == 16
    assert found.names == tuple(sorted([*names[10:], *names[:6]]))
    assert columns_of([dict(reversed(row.items())) for row in rows]).names == found.names
    constant = [{**row, "a": 7, "b": 7} for row in rows]  # do not count
    assert columns_of(constant).names == found.names


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        ([0, 5, 10], [0.0, 0.5, 1.0]),
        ([-3.0, 0.0, 3.0], [0.0, 0.5, 1.0]),
        ([1, np.int64(2), np.float32(3.0)], [0.0, 0.5, 1.0]),
        ([np.array(1.0), np.array(2)], [0.0, 1.0]),
        ([1e308, -1e308, 0.0], [1.0, 0.0, 0.5]),
        ([5e-324, 0.0], [1.0, 0.0]),
        ([1.0, np.nextafter(1.0, 2.0)], [0.0, 1.0]),
    ],
)
def test_numbers_are_scaled_to_their_range(entries: list[Any], wanted: list[float]) -> None:
    assert column(entries) == (wanted, False)


@pytest.mark.parametrize(
    "entries",
    [
        [1e-4, 1e-3, 1e-2],
        [16, 32, 64, 128, 256],
        [1e-5, 3e-4, 2e-3, 0.1, 0.1, None],
        [1, 10, 100],
        [1e-300, 1.0, 1e300],
    ],
)
def test_scale_of_numbers_over_magnitudes_is_logarithmic(entries: list[Any]) -> None:
    values, _ = column(entries)
    known = np.array([entry for entry in entries if entry is not None])
    logs = np.log(known)
    wanted = (logs - logs.min()) / (logs.max() - logs.min())
    np.testing.assert_allclose([value for value in values if value is not None], wanted, atol=1e-6)


@pytest.mark.parametrize(
    "entries",
    [
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],  # evenly spread as they are
        [16, 32, 64, 128],  # less than ten times the smallest
        [0.0, 1e-4, 1e-3, 1e-2],  # zero
        [-1.0, 10.0, 100.0],
        [0.05, 0.3, 0.5, 0.75, 0.95],
    ],
)
def test_scale_of_other_numbers_is_linear(entries: list[Any]) -> None:
    values, _ = column(entries)
    numbers = np.array(entries, dtype=float)
    np.testing.assert_allclose(values, (numbers - numbers.min()) / np.ptp(numbers), atol=1e-6)  # type: ignore[arg-type]


def test_drawn_learning_rates_and_dropouts_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        rates, dropouts = 10 ** rng.uniform(-4, -1, 60), rng.uniform(0.01, 0.5, 60)
        found = columns_of([{"lr": lr, "dropout": dropout} for lr, dropout in zip(rates, dropouts, strict=True)])
        logs = np.log(rates)
        np.testing.assert_allclose(found.values[:, 1], (logs - logs.min()) / np.ptp(logs), atol=1e-9)
        np.testing.assert_allclose(found.values[:, 0], (dropouts - dropouts.min()) / np.ptp(dropouts), atol=1e-9)


def test_scale_is_that_of_the_space_where_it_tells_one() -> None:
    assert column([1, 2, 4], "log") == ([0.0, 0.5, 1.0], False)
    assert column([1e-4, 1e-3, 1e-2], "linear")[0] == [0.0, pytest.approx(0.0909, abs=1e-3), 1.0]
    assert column([64, 128, 64], "category") == ([1.0, 0.0, 1.0], True)
    assert column([0, 1e-3, 1e-2, -5.0], "log") == ([0.0, 0.5, 1.0, 0.0], False)
    assert column([-2, -1, 0], "log") == ([0.0, 0.5, 1.0], False)  # nothing positive: as it is
    assert column([1, "auto", 3], "linear") == ([0.0, None, 1.0], False)
    assert column([1, True, 100, 10], "log") == ([0.0, None, 1.0, 0.5], False)
    assert dropped(["a", "b"], "log")


# --- categories and gaps ----------------------------------------------------------------------------------------------


def test_text_and_truth_values_are_categories_coded_by_name() -> None:
    assert column(["sgd", "adam", None, "lion", "adam"]) == ([2.0, 0.0, None, 1.0, 0.0], True)
    assert column([True, False, np.True_]) == ([1.0, 0.0, 1.0], True)
    assert column(["", "é" * 1000]) == ([0.0, 1.0], True)


def test_column_of_numbers_and_text_is_one_of_categories() -> None:
    assert column([1, "auto", 1.0, np.int32(2)]) == ([0.0, 2.0, 0.0, 1.0], True)
    assert column([True, 0.5]) == ([1.0, 0.0], True)
    assert column(["1", 1]) == ([0.0, 1.0], True)


class Kind(Enum):
    A = 1


@pytest.mark.parametrize(
    "entry",
    [None, math.nan, math.inf, -math.inf, 10**400, -(10**400), 1j, [1, 2], (), {1}, object(), b"x", Kind.A,
     Fraction(1, 2), np.array([1.0]), np.array("x", dtype=object)[None], len],
)  # fmt: skip
def test_what_cannot_be_read_is_missing(entry: Any) -> None:
    assert column([1, entry, 3]) == ([0.0, None, 1.0], False)
    assert column(["a", entry, "b"]) == ([0.0, None, 1.0], True)


def test_columns_are_finite_or_missing_whatever_they_are_made_from() -> None:
    pool = [0, 1, -1, 10**30, 10**400, 1e308, -1e308, 5e-324, 1e-308, math.nan, math.inf, True, "a", None, [], {}]
    rng = np.random.default_rng(0)
    for _ in range(300):
        names = "abcdef"[: rng.integers(1, 7)]
        configs = [
            {name: pool[rng.integers(len(pool))] for name in names} if rng.random() < 0.9 else None
            for _ in range(rng.integers(1, 9))
        ]
        scales = {name: ["linear", "log", "category"][rng.integers(3)] for name in names if rng.random() < 0.5}
        found = columns_of(configs, ec.Space(scales))  # type: ignore[arg-type]
        assert not np.isinf(found.values).any()
        numeric = found.values[:, ~found.categorical]
        assert ((numeric >= 0.0) & (numeric <= 1.0) | np.isnan(numeric)).all()
        assert found.values.shape == (len(configs), len(found.names))
