"""`scripts/lowest.py`: the lowest versions come from pyproject.toml and from nowhere else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.checkout import SCRIPTS, in_a_checkout

if SCRIPTS.is_dir():
    sys.path.append(str(SCRIPTS))
    from lowest import floor_of, lowest

pytestmark = in_a_checkout

PROJECT = {
    "dependencies": ["numpy>=1.26", "scipy>=1.11.1"],
    "optional-dependencies": {
        "plot": ["matplotlib>=3.10"],
        "mcmc": ["emcee>=3.1"],
        "dev": ["epochcast[plot]", "pandas>=2.0", "pytest>=8.2"],
    },
}


def test_lowest_versions_are_those_of_the_core_its_small_extras_and_the_test_tools():
    wanted = ["numpy==1.26", "scipy==1.11.1", "matplotlib==3.10", "emcee==3.1", "pytest==8.2"]
    assert lowest(PROJECT) == wanted


def test_requirement_without_a_lowest_version_is_named():
    with pytest.raises(SystemExit, match="'numpy' in pyproject"):
        floor_of("numpy")


def test_lowest_of_the_project_leaves_out_versions_known_to_be_broken():
    listed = subprocess.check_output([sys.executable, SCRIPTS / "lowest.py"], text=True)
    versions = dict(line.split("==") for line in listed.split())
    for name, broken in {"onnxruntime": (1, 19), "typer": (0, 20)}.items():
        assert tuple(map(int, versions[name].split("."))) > broken
