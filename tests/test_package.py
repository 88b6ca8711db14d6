"""What is published: files of the wheel and the sdist, their metadata, and what a type checker sees of the package."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.message import Message
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import epochcast as ec
from tests.checkout import ROOT, SCRIPTS, in_a_checkout

if find_spec("hatchling") is None:
    pytest.skip("needs hatchling, which builds the package", allow_module_level=True)
if not (ROOT / "pyproject.toml").is_file():
    pytest.skip("needs the sources of the package", allow_module_level=True)

MOST_BYTES = 20_000_000
WANTED = (
    "epochcast/py.typed",
    "epochcast/models/registry.json",
    "epochcast/models/real.onnx",
    "epochcast/models/real.safetensors",
    "epochcast/data/digits_bench.npz",
    "epochcast/data/LICENSE",
    "epochcast/data/runs/digits_mlp.csv",
)
CLIENT = """
import epochcast as ec

f = ec.forecast([0.31, 0.45, 0.52], horizon=50, metric="accuracy")
low, high = f.final.interval(0.9)
reveal_type(low)
reveal_type(f.prob_ever(0.8))
stopper = ec.Stopper(horizon=50, metric=ec.Metric("bleurt", minimize=False))
decision: ec.Decision = stopper.update(1, 0.31)
stop: bool = decision.stop
ec.Stopper(horizon="fifty", metric="accuracy")  # wrong
"""


def build(target: str, folder: Path) -> Path:
    """A wheel or an sdist of the sources."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    return zipfile.ZipFile(wheel).namelist()


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    archive = zipfile.ZipFile(wheel)
    (found,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    return email.message_from_bytes(archive.read(found))


def test_wheel_holds_the_package_and_nothing_else(names: list[str], wheel: Path) -> None:
    assert set(WANTED) <= set(names)
    inside = [name for name in names if not re.match(r"epochcast-[^/]*\.dist-info/", name)]
    assert [name for name in inside if not name.startswith("epochcast/")] == []
    code, data, page = {".py", ".typed"}, {".onnx", ".safetensors", ".json", ".npz", ".csv"}, {".html", ".css", ".js"}
    texts = {".md", ""}  # LICENSE has no ending
    assert {Path(name).suffix for name in inside} <= code | data | page | texts
    assert wheel.stat().st_size < MOST_BYTES


def test_wheel_brings_the_licences_of_code_and_data(names: list[str], metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0 AND CC0-1.0"
    for file in metadata.get_all("License-File", []):
        assert any(name.endswith(f".dist-info/licenses/{file}") for name in names)
    assert len(metadata.get_all("License-File", [])) == 2


def test_version_stands_in_one_place(metadata: Message) -> None:
    assert metadata["Version"] == ec.__version__
    assert "version" not in re.findall(r"^(\w+) =", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)


def test_metadata_leads_somewhere(metadata: Message) -> None:
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
    assert {"Homepage", "Documentation", "Repository", "Changelog", "Issues"} <= set(urls)
    relative = re.findall(r"\]\((?!https://)[^)]*\)", metadata.get_payload())
    assert relative == []  # an index shows the README alone


def test_no_extra_brings_xgboost(metadata: Message) -> None:
    """xgboost and xgboost-cpu are one module: either installed over the other breaks it."""
    needs = [line for line in metadata.get_all("Requires-Dist", []) if "extra == 'dev'" not in line]
    assert [line for line in needs if line.startswith("xgboost")] == []


def test_wheel_built_twice_is_the_same(wheel: Path, tmp_path: Path) -> None:
    os.utime(ROOT / "src" / "epochcast" / "py.typed")  # a fresh checkout has other times
    assert build("wheel", tmp_path).read_bytes() == wheel.read_bytes()


def test_sdist_holds_sources_tests_and_licences(tmp_path: Path) -> None:
    first, second = (build("sdist", tmp_path / name) for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as archive:
        names = archive.getnames()
    inside = {name.partition("/")[2] for name in names}
    wanted = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "src/epochcast/data/LICENSE", "PKG-INFO"}
    assert wanted | {"tests/conftest.py", "examples/plain_loop.py", "src/epochcast/py.typed"} <= inside
    assert [name for name in inside if name.startswith((".venv", "site/", "docs/", "research/"))] == []


# --- what a type checker sees -----------------------------------------------------------------------------------------


def types_seen(wheel: Path, folder: Path, *, marked: bool) -> str:
    """What mypy says of a small client, with the wheel installed in an environment that is like ours otherwise."""
    venv.create(folder / "env", with_pip=False)
    (packages,) = (folder / "env").glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    if not marked:
        (packages / "epochcast" / "py.typed").unlink()
    ours = Path(np.__file__).parent
    (packages / "numpy").symlink_to(ours)  # alone: beside it lies the epochcast that is under test
    client = folder / "client.py"
    client.write_text(CLIENT)
    python = folder / "env" / "bin" / "python"
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--cache-dir",
        str(folder / "cache"),
        "--config-file",
        os.devnull,
    ]
    command += ["--python-executable", str(python), str(client)]
    elsewhere = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=elsewhere).stdout


def test_mypy_sees_the_types_of_an_installed_package(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    told = types_seen(wheel, tmp_path, marked=True)
    assert 'Revealed type is "float"' in told or 'Revealed type is "builtins.float"' in told
    assert "ndarray" in told
    errors = [line for line in told.splitlines() if ": error:" in line]
    assert len(errors) == 1, told
    assert 'has incompatible type "str"; expected "int"' in errors[0]


def test_mypy_sees_none_without_the_marker(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    assert "py.typed marker" in types_seen(wheel, tmp_path, marked=False)


# --- the repository ---------------------------------------------------------------------------------------------------


@in_a_checkout
def test_links_of_the_readme_lead_somewhere() -> None:
    sys.path.append(str(SCRIPTS))
    from check_site import fault_of_address

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    addresses = re.findall(r"\]\((https://[^)#]*)", text)
    assert len(addresses) > 20
    assert [address for address in addresses if fault_of_address(address)] == []
    assert len(text.splitlines()) < 120


@in_a_checkout
def test_ci_runs_the_pythons_that_are_declared() -> None:
    declared = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"python: \[(.*)\]", workflow)
    assert re.findall(r'"(.*?)"', matrix) == declared
    assert ".ci/run" in workflow
