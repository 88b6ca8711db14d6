"""The paths through the code in CONTRIBUTING.md: functions that are there, and few enough to follow."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.checkout import ROOT, in_a_checkout

PAGE = ROOT / "CONTRIBUTING.md"
NAMED = re.compile(r"`([\w.]+)` \(`([\w/]+\.py)`\)")
MOST = 8  # functions of a path
pytestmark = in_a_checkout


def paths() -> list[list[str]]:
    """The numbered lists of the page, each as its lines."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    lists = re.findall(r"(?:^\d\. .*\n)+", page, flags=re.MULTILINE)
    return [text.splitlines() for text in lists]


def names_in(file: Path) -> set[str]:
    """Functions and methods that a module defines."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


def test_three_paths_have_at_most_eight_places_each() -> None:
    found = paths()
    assert len(found) == 3
    assert all(len(path) <= MOST for path in found)
    assert all(len(NAMED.findall(line)) == 1 for path in found for line in path)


@pytest.mark.parametrize(
    ("name", "file"), [found for path in paths() for line in path for found in NAMED.findall(line)]
)
def test_function_on_a_path_is_defined_in_its_file(name: str, file: str) -> None:
    assert name in names_in(ROOT / "src" / "epochcast" / file)
