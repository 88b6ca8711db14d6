"""The package that is handed in to OptunaHub, as its users get it: through the loader of `optunahub`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.checkout import ROOT, in_a_checkout
from tests.softmax_regression import FAST, HOPELESS, accuracies

optuna = pytest.importorskip("optuna")
optunahub = pytest.importorskip("optunahub", exc_type=ImportError)  # it asks for git when it is imported

PACKAGE, EPOCHS = "pruners/epochcast", 20
REGISTRY = ROOT / "optunahub" / "package"
FOLDER = REGISTRY / PACKAGE
pytestmark = in_a_checkout


@pytest.fixture(scope="module")
def package() -> ModuleType:
    return optunahub.load_local_module(PACKAGE, registry_root=str(REGISTRY))


def test_package_in_a_real_study_prunes_the_hopeless_and_keeps_the_best(package: ModuleType) -> None:
    study = optuna.create_study(direction="maximize", pruner=package.EpochcastPruner(EPOCHS, "accuracy"))
    for rate in (HOPELESS, FAST, HOPELESS):
        study.enqueue_trial({"rate": rate})

    def objective(trial: optuna.Trial) -> float:
        value = 0.0
        for step, value in enumerate(accuracies(trial.suggest_float("rate", 0.0, 10.0), EPOCHS)):
            trial.report(value, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    study.optimize(objective, n_trials=3)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE", "PRUNED"]
    assert study.trials[2].user_attrs["epochcast:reason"].startswith("stop: ")


def test_package_readme_names_what_it_offers_and_the_versions_it_runs_with(package: ModuleType) -> None:
    _, head, text = (FOLDER / "README.md").read_text().split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert fields.keys() == {"author", "title", "description", "tags", "optuna_versions", "license"}
    assert optuna.__version__ in fields["optuna_versions"]
    listed = text.split("## Class or Function Names")[1].split("##")[0]
    assert set(re.findall(r"- (\w+)", listed)) == set(package.__all__)


@pytest.mark.slow
def test_package_example_loads_it_from_the_registry_and_prunes(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    # What the loader has fetched before it does not fetch again: the example runs as it is, without a network.
    fetched = tmp_path / "github.com" / "optuna" / "optunahub-registry" / "main" / "package" / PACKAGE
    shutil.copytree(FOLDER, fetched)
    told = subprocess.run(
        [sys.executable, FOLDER / "example.py"],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "OPTUNAHUB_CACHE_HOME": str(tmp_path)},
    )
    assert re.search(r"^\d+ stop: .* chance to beat", told.stdout, re.MULTILINE)
