"""What will be published, tried as its users will: the wheel in empty environments, the sdist by its own tests.

    python scripts/try_package.py 3.10 3.11 3.12 3.13     # every block of the README, on each Python that is installed
    python scripts/try_package.py --sdist 3.11            # and the tests of the unpacked sdist: they pass or skip

Needs hatchling, and pip's index for what epochcast requires.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from test_versions import ROOT, python_of

TOOLS = ("hypothesis", "packaging", "pytest", "pytest-xdist")


def build(target: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder / target)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (built,) = (folder / target).iterdir()
    return built


def environment(python: str, folder: Path, *wanted: str) -> Path:
    """An empty environment with these packages."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    own = folder / "bin" / "python"
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([str(own), "-m", "pip", "install", *quiet, *wanted], check=True, stderr=subprocess.DEVNULL)
    return own


def readme_runs(python: str, wheel: Path, folder: Path) -> bool:
    own = environment(python, folder / "env", f"{wheel}[plot]")
    empty = folder / "empty"
    empty.mkdir()
    command = [str(own), str(ROOT / "scripts" / "run_readme.py"), str(ROOT / "README.md")]
    return subprocess.run(command, cwd=empty, env=_plain()).returncode == 0


def sdist_passes(python: str, sdist: Path, folder: Path) -> bool:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = (place for place in folder.iterdir() if (place / "pyproject.toml").is_file())
    own = environment(python, folder / "env", f"{unpacked}[plot,mcmc]", *TOOLS)
    command = [str(own), "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", "not slow"]
    return subprocess.run(command, cwd=unpacked, env=_plain()).returncode == 0


def _plain() -> dict[str, str]:
    """The environment of the process without what would let in another epochcast."""
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, "MPLBACKEND": "Agg"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="+", help="such as 3.10")
    parser.add_argument("--sdist", action="store_true", help="the tests of the sdist instead of the README's blocks")
    given = parser.parse_args()
    outcomes = {}
    with tempfile.TemporaryDirectory() as place:
        built = build("sdist" if given.sdist else "wheel", Path(place))
        attempt = sdist_passes if given.sdist else readme_runs
        for version in given.versions:
            python = python_of(version)
            folder = Path(place) / version
            folder.mkdir()
            passed = python is not None and attempt(python, built, folder)
            outcomes[version] = "skipped: not installed" if python is None else "passed" if passed else "FAILED"
    for version, outcome in outcomes.items():
        print(f"Python {version}: {outcome}")
    return int("FAILED" in outcomes.values() or "passed" not in outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
