"""Every example in examples/ that has to do with a framework runs, prints what happened, and stops a hopeless run."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDED = {  # the modules beside scikit-learn
    "plain_loop": [],
    "with_lightning": ["lightning"],
    "with_keras": ["keras", "torch"],
    "with_transformers": ["transformers", "accelerate"],
    "with_xgboost": ["xgboost"],
    "with_lightgbm": ["lightgbm"],
    "with_catboost": ["catboost"],
    "with_skorch": ["skorch"],
    "with_optuna": ["optuna"],
    "with_ray_tune": ["ray"],
    "with_syne_tune": ["syne_tune"],
}


@pytest.mark.slow
@pytest.mark.parametrize("example", NEEDED)
def test_example_finishes_its_best_run_and_stops_its_worst(example: str, tmp_path: Path) -> None:
    for module in ["sklearn", *NEEDED[example]]:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{example}.py needs {module}")
    command = [sys.executable, EXAMPLES / f"{example}.py"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, timeout=600).stdout
    runs = [(int(done), int(planned)) for done, planned in re.findall(r": (\d+) of (\d+) (?:epochs|rounds);", told)]
    assert len(runs) == 3
    assert runs[0][0] == runs[0][1]
    assert runs[2][0] < runs[2][1]
    assert "best" in told.splitlines()[-1]
    assert not list(tmp_path.iterdir())  # an example leaves nothing behind
