"""The script that trains models of kinds the prior was not developed on: its files are read by the benchmarks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from epochcast.benchmarks import load
from tests.checkout import RESEARCH, in_a_checkout

SCRIPT = RESEARCH / "make_unseen_runs.py"


@pytest.mark.slow
@in_a_checkout
def test_every_task_leaves_curves_that_the_benchmarks_read(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path), "--runs", "2"], check=True, capture_output=True)
    for family, tasks in (("boosting", 5), ("networks", 4)):
        for metric in ("log_loss", "accuracy"):
            (curves,) = load(tmp_path / f"{family}_{metric}.npz").sets
            assert (len(curves), len(curves.task_names)) == (2 * tasks, tasks)
            assert {known.minimize for known in curves.metrics} == {metric == "log_loss"}
            assert np.nanstd(curves.values) > 0.01
    rates = np.load(tmp_path / "networks_accuracy.npz")["rates"]
    planned = np.isfinite(rates).sum(axis=1)
    np.testing.assert_array_equal(planned, curves.horizons)
    assert (np.nanmax(rates, axis=1) > 0.5).all()
