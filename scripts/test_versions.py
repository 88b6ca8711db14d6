"""The tests on other Pythons, each in an environment of its own, without torch and the frameworks.

    python scripts/test_versions.py 3.10 3.12 3.13      # with the newest packages that each can have
    python scripts/test_versions.py --lowest 3.10       # with the lowest that pyproject.toml allows

A Python is looked for on the PATH and among those of pyenv. One that is not there is skipped, and said so; tests that
need an extra which is not installed are skipped too. With --lowest, the lowest Python that is there stands in.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lowest import EXTRAS, TOOLS

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = ROOT / ".venv" / "versions"
KNOWN = ("3.10", "3.11", "3.12", "3.13", "3.14")


def python_of(version: str) -> str | None:
    """An interpreter of this version that starts; a shim of pyenv may be there and not start."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [*sorted(pyenv.glob(f"{version}.*/bin/python")), shutil.which(f"python{version}"), sys.executable]
    for place in map(str, filter(None, places)):
        asked = [place, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(asked, capture_output=True, text=True)
        if answer.returncode == 0 and answer.stdout.strip() == version:
            return place
    return None


def environment(python: str, name: str, lowest: bool) -> Path:
    """A virtual environment with epochcast, its core requirements and the tools to test it; made anew each time."""
    folder = ENVIRONMENTS / name
    subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
    own = folder / "bin" / "python"
    pinned: list[str] = list(TOOLS)
    if lowest:
        script = ROOT / "scripts" / "lowest.py"
        pinned = subprocess.run([own, script], check=True, capture_output=True, text=True).stdout.split()
    target = f"{ROOT}[{','.join(EXTRAS)}]"
    subprocess.run([own, "-m", "pip", "install", "--quiet", *pinned, "--editable", target], check=True)
    return own


def tests_pass(python: Path, lowest: bool) -> bool:
    command = [str(python), "-m", "pytest", "-n", "2", "--dist", "loadfile", "-m", "not slow", "-q"]
    if lowest:  # of its time were other packages: what they say of each other's future is not ours to mend
        command += ["-W", "ignore::DeprecationWarning"]
    return subprocess.run(command, cwd=ROOT).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="the tests on other Pythons")
    parser.add_argument("versions", nargs="+", help="such as 3.10")
    parser.add_argument("--lowest", action="store_true", help="with the lowest packages that pyproject.toml allows")
    arguments = parser.parse_args()
    found = {version: python_of(version) for version in arguments.versions}
    outcomes = {version: "skipped: not installed" for version, python in found.items() if python is None}
    if arguments.lowest and not any(found.values()):
        found = next(({version: place} for version in KNOWN if (place := python_of(version))), {})
    for version, python in found.items():
        if python is not None:
            own = environment(python, f"{version}-lowest" if arguments.lowest else version, arguments.lowest)
            outcomes[version] = "passed" if tests_pass(own, arguments.lowest) else "FAILED"
    for version, outcome in outcomes.items():
        print(f"Python {version}{' with the lowest packages' if arguments.lowest else ''}: {outcome}")
    return int("FAILED" in outcomes.values() or "passed" not in outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
