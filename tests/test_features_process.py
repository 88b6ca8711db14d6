"""A Gaussian process over configurations."""

from __future__ import annotations

import numpy as np
import pytest

from epochcast.features.process import Process, squared_distances

RNG = np.random.default_rng(0)
COLUMNS = RNG.random((48, 5))
ENDS = (np.sin(3.0 * COLUMNS[:, 0]) + 0.5 * COLUMNS[:, 1])[:, None] + 0.02 * RNG.standard_normal((48, 1))
NUMBERS = np.zeros(5, dtype=bool)


def process(columns: np.ndarray = COLUMNS, values: np.ndarray = ENDS, categories: np.ndarray = NUMBERS) -> Process:
    return Process(columns, categories, values, np.zeros_like(values))


def error(columns: np.ndarray) -> float:
    """Root mean squared error for the last 16, relative to their standard deviation."""
    mean, _, _ = process(columns[:32], ENDS[:32]).predict(columns[32:])
    return float(np.sqrt(np.mean((mean - ENDS[32:]) ** 2)) / ENDS[32:].std())


def test_process_with_configurations_foretells_values_and_with_permuted_ones_does_not() -> None:
    assert error(COLUMNS) < 0.3
    assert error(RNG.permutation(COLUMNS)) > 0.7


def test_process_ninety_percent_of_values_lie_within_its_own_interval() -> None:
    mean, sd, _ = process(COLUMNS[:24], ENDS[:24]).predict(COLUMNS[24:])
    inside = np.abs(mean - ENDS[24:]) < 1.645 * sd
    assert 0.7 < inside.mean() <= 1.0
    assert (np.abs(mean - ENDS[24:]) < 1.645 * 0.1 * sd).mean() < 0.5


def test_process_without_configurations_answers_with_the_mean_of_all() -> None:
    mean, sd, alike = process(COLUMNS[:, :0], ENDS, NUMBERS[:0]).predict(np.empty((3, 0)))
    np.testing.assert_allclose(mean, np.broadcast_to(ENDS.mean(axis=0), (3, 1)))
    assert (sd > ENDS.std() * 0.9).all()
    assert (alike == 0.0).all()


def test_process_order_of_runs_and_of_columns_does_not_matter() -> None:
    asked = RNG.random((4, 5))
    mean, sd, alike = process().predict(asked)
    rows, columns = RNG.permutation(48), RNG.permutation(5)
    other = process(COLUMNS[rows][:, columns], ENDS[rows]).predict(asked[:, columns])
    np.testing.assert_allclose(other[0], mean, rtol=1e-6)
    np.testing.assert_allclose(other[1], sd, rtol=1e-6)
    np.testing.assert_allclose(other[2], alike[:, rows], rtol=1e-6)


def test_process_with_gaps_and_categories_is_one() -> None:
    columns = COLUMNS.copy()
    columns[:, 4] = RNG.integers(0, 3, 48)
    columns[RNG.random(columns.shape) < 0.3] = np.nan
    categories = np.array([False, False, False, False, True])
    distances = squared_distances(columns, columns, categories)
    assert (np.einsum("iij->ij", distances) == 0.0).all()
    mean, sd, _ = process(columns, ENDS, categories).predict(columns[:5])
    assert np.isfinite(mean).all()
    assert (sd > 0.0).all()


def test_process_trusts_forecasts_less_than_values() -> None:
    doubt = np.zeros_like(ENDS)
    doubt[::2] = 1.0
    off = ENDS.copy()
    off[::2] += 0.5
    sure = Process(COLUMNS, NUMBERS, off, np.zeros_like(off)).predict(COLUMNS[1::2])[0]
    unsure = Process(COLUMNS, NUMBERS, off, doubt).predict(COLUMNS[1::2])[0]
    assert np.abs(unsure - ENDS[1::2]).mean() < 0.7 * np.abs(sure - ENDS[1::2]).mean()


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_process_of_few_runs_fits_nothing(runs: int) -> None:
    mean, sd, alike = process(COLUMNS[:runs], ENDS[:runs]).predict(COLUMNS[40:])
    assert (mean == mean[0]).all()
    assert (sd > 0.0).all()
    assert (alike == 0.0).all()
