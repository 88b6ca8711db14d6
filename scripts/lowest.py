"""The lowest versions that pyproject.toml allows of what it needs at the core, and of the tools that test it.

python scripts/lowest.py        # numpy==1.26 and so on, one per line, as pip takes them
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

EXTRAS = ("plot", "mcmc")
TOOLS = ("hypothesis", "packaging", "pytest", "pytest-xdist")
_FLOOR = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*>=\s*([0-9][0-9.]*)")


def floor_of(requirement: str) -> tuple[str, str]:
    """Name and lowest version of one line, such as numpy>=1.26."""
    match = _FLOOR.fullmatch(requirement.strip())
    if match is None:
        raise SystemExit(f"{requirement!r} in pyproject.toml declares no lowest version; write name>=version")
    return match[1], match[2]


def lowest(project: dict[str, object]) -> list[str]:
    """name==version of each requirement; of the tools, only those that tests of the core import."""
    extras: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    core: list[str] = project["dependencies"]  # type: ignore[assignment]
    wanted = [*core, *(line for extra in EXTRAS for line in extras[extra])]
    tools = [line for line in extras["dev"] if re.split(r"[>=\[]", line)[0] in TOOLS]
    return [f"{name}=={version}" for name, version in map(floor_of, [*wanted, *tools])]


def main() -> None:
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    print("\n".join(lowest(tomllib.loads(text)["project"])))


if __name__ == "__main__":
    main()
