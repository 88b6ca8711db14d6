"""Docstrings: their examples are run, and those of public names tell arguments, returns and errors."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import epochcast as ec

# Modules that need torch, or run something when they are imported.
_NOT_IMPORTED = ("epochcast.integrations", "epochcast.nn", "epochcast.cli.__main__")
_INTERNAL = ("Forecaster.forecast_seen", "Forecaster.draw_paths")  # for other modules, and not on the site
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_INTEGRATIONS = sorted(
    module.name
    for module in pkgutil.iter_modules(importlib.import_module("epochcast.integrations").__path__)
    if module.name != "torch_rates"  # imports torch, for those whose framework brings it
)


def modules() -> list[str]:
    found = [module.name for module in pkgutil.walk_packages(ec.__path__, "epochcast.")]
    return ["epochcast", *(name for name in found if not name.startswith(_NOT_IMPORTED))]


def test_examples_tell_what_happens() -> None:
    failed = attempted = 0
    taken_for_granted = {"ec": ec, "f": ec.forecast([0.31, 0.45, 0.52, 0.57, 0.60], 50, "accuracy")}
    for name in modules():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue  # it needs an extra
        result = doctest.testmod(module, optionflags=_OPTIONS, extraglobs=taken_for_granted)
        failed, attempted = failed + result.failed, attempted + result.attempted
    assert failed == 0
    assert attempted > 60


@pytest.mark.parametrize("name", _INTEGRATIONS)
def test_examples_of_an_integration_tell_what_happens(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")  # the one that is installed
    module = importlib.import_module(f"epochcast.integrations.{name}")  # without its framework the test is skipped
    assert doctest.testmod(module, optionflags=_OPTIONS).failed == 0


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public classes and functions, and what a class defines or inherits from one of ours."""
    for name in ec.__all__:
        item = getattr(ec, name)
        yield name, item
        if not inspect.isclass(item) or issubclass(item, Exception):
            continue
        for method in dir(item):
            found = inspect.getattr_static(item, method)
            found = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
            if inspect.isfunction(found) and not method.startswith("_") and found.__module__.startswith("epochcast"):
                yield f"{name}.{method}", found


@pytest.mark.parametrize(
    ("name", "item"), [pytest.param(*pair, id=pair[0]) for pair in public() if pair[0] not in _INTERNAL]
)
def test_docstring_of_a_public_name_has_its_parts(name: str, item: Callable[..., Any]) -> None:
    """One style: a class tells how to make one, or what it holds; a function what goes in and what comes out."""
    text = inspect.getdoc(item) or ""
    assert missing_parts(item, text) == []


def missing_parts(item: Callable[..., Any], text: str) -> list[str]:
    """What a docstring leaves out, in Google's style."""
    if inspect.isclass(item):
        if issubclass(item, (Exception, ec.NoStopping, ec.Stream)):  # made like another, or by another
            return [] if text else ["a docstring"]
        wanted = ["Args:|Attributes:", "Examples:"]
    else:
        given = inspect.signature(item)
        names = [name for name in given.parameters if name not in ("self", "cls")]
        wanted = (["Args:"] if names else []) + [rf"    \*{{0,2}}{name}: " for name in names]
        wanted += [] if given.return_annotation in (None, "None") else ["Returns:"]
    return [part for part in wanted if not re.search(rf"^({part})", text, re.MULTILINE)]


def test_docstring_that_leaves_an_argument_out_is_found() -> None:
    def area(width: float, height: float) -> float:
        """How large it is.

        Args:
            width: From left to right.
        """
        return width * height

    assert missing_parts(area, inspect.getdoc(area) or "") == [r"    \*{0,2}height: ", "Returns:"]
