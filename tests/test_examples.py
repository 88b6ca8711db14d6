"""Every example that a page shows runs, prints what happened, and stops a hopeless run; the notebook runs, too."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

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
_LONG = ("with_lightning", "with_keras", "with_transformers", "with_ray_tune", "with_syne_tune")  # mostly to import
if not EXAMPLES.is_dir():
    pytest.skip("no examples beside the tests", allow_module_level=True)


@pytest.mark.parametrize(
    "example", [pytest.param(name, marks=pytest.mark.slow) if name in _LONG else name for name in NEEDED]
)
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


@pytest.mark.parametrize(
    ("example", "needed"),
    [
        ("freeze_thaw", []),
        pytest.param("freeze_thaw_ray", ["ray"], marks=pytest.mark.slow),
        pytest.param("freeze_thaw_syne_tune", ["syne_tune"], marks=pytest.mark.slow),
    ],
)
def test_freeze_thaw_example_pauses_runs_and_tells_how_far_they_came(
    example: str, needed: list[str], tmp_path: Path
) -> None:
    for module in ["sklearn", *needed]:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{example}.py needs {module}")
    command = [sys.executable, EXAMPLES / f"{example}.py"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, timeout=600).stdout
    came = [
        (int(runs), int(epoch)) for runs, epoch in re.findall(r"(\d+) (?:run|trial)s? came to epoch (\d+) of", told)
    ]
    runs, epochs = (int(number) for number in re.findall(r"(\d+) (?:run|trial)s in (\d+) epochs", told)[0])
    assert sum(count for count, _ in came) == runs
    assert sum(count * epoch for count, epoch in came) == epochs  # nothing was trained twice
    assert max(epoch for _, epoch in came) > min(epoch for _, epoch in came)
    assert "best" in told.splitlines()[-1]
    assert not list(tmp_path.iterdir())  # an example leaves nothing behind


def texts(notebook: Any) -> str:
    """What the cells of a notebook print."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(str(output.get("text", "")) for output in outputs)


def test_notebook_runs_and_its_committed_output_is_of_a_whole_run(tmp_path: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    for needed in ("ipykernel", "sklearn", "matplotlib"):
        pytest.importorskip(needed)
    file = EXAMPLES / "tour.ipynb"
    committed, fresh = nbformat.read(file, as_version=4), nbformat.read(file, as_version=4)
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    nbclient.NotebookClient(fresh, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for notebook in (committed, fresh):
        assert all(cell.get("outputs") for cell in notebook.cells[3:] if cell.cell_type == "code")
        assert re.search(r"best 0\.\d+ after \d+ of 360 epochs", texts(notebook))
    assert file.stat().st_size < 150_000
