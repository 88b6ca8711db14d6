"""The script that averages the weights of several runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from epochcast.runtime.weights import read_safetensors, write_safetensors
from tests.checkout import SCRIPTS, in_a_checkout

SCRIPT = SCRIPTS / "mean_weights.py"
pytestmark = in_a_checkout


def saved(path: Path, value: float, size: int = 2) -> str:
    tensors = {"model.head": np.full(size, value, dtype=np.float32), "optimizer.0.0.step": np.ones(1, np.float32)}
    write_safetensors(path, tensors, {"config": "{}", "step": "10", "seconds": "1.5"})
    return str(path)


def averaged(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def test_mean_counts_runs_by_their_shares_and_adds_up_their_steps(tmp_path: Path) -> None:
    first, second = saved(tmp_path / "a.safetensors", 1.0), saved(tmp_path / "b.safetensors", 5.0)
    assert averaged(str(tmp_path / "mean.safetensors"), f"{first}:3", second).returncode == 0
    arrays, header = read_safetensors(tmp_path / "mean.safetensors")
    assert {name: array.tolist() for name, array in arrays.items()} == {"model.head": [2.0, 2.0]}
    assert header == {"config": "{}", "step": "20", "seconds": "3.0"}


def test_mean_of_networks_of_other_sizes_is_refused(tmp_path: Path) -> None:
    first, second = saved(tmp_path / "a.safetensors", 1.0), saved(tmp_path / "b.safetensors", 5.0, size=3)
    refused = averaged(str(tmp_path / "mean.safetensors"), first, second)
    assert refused.returncode != 0
    assert "head is (2,) in a.safetensors and (3,) in b.safetensors" in refused.stderr
