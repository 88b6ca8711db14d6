"""The house rules that a reader relies on: small modules, short functions, types that are checked everywhere."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import epochcast

SOURCES = sorted(Path(epochcast.__file__).parent.rglob("*.py"))
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
LONGEST_MODULE, LONGEST_FUNCTION = 400, 60


def functions_of(source: str) -> list[tuple[str, int]]:
    """Names and lengths of all functions."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [(node.name, (node.end_lineno or 0) - node.lineno + 1) for node in found]


def test_function_that_is_too_long_is_found() -> None:
    body = "\n".join(["    x = 1"] * LONGEST_FUNCTION)
    assert functions_of(f"def long():\n{body}\n") == [("long", LONGEST_FUNCTION + 1)]


def test_modules_and_functions_are_short() -> None:
    assert len(SOURCES) > 100
    texts = {source.name: source.read_text(encoding="utf-8") for source in SOURCES}
    assert {name: n for name, text in texts.items() if (n := len(text.splitlines())) > LONGEST_MODULE} == {}
    assert [(name, *f) for name, text in texts.items() for f in functions_of(text) if f[1] > LONGEST_FUNCTION] == []


@pytest.mark.skipif(sys.version_info < (3, 11) or not PYPROJECT.is_file(), reason="needs tomllib and a checkout")
def test_type_checker_is_strict_but_where_others_leave_it_no_choice() -> None:
    import tomllib

    settings = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["tool"]["mypy"]
    assert settings["strict"] is True
    named = [override["module"] for override in settings["overrides"]]
    ours = {module for modules in named for module in modules if module.startswith("epochcast")}
    assert ours == {"epochcast.integrations.*", "epochcast.nn.*"}  # they derive from classes without types
