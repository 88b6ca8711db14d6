"""Forecasts and decisions are those that were stored: what only moves code changes no answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.answers import FILE, answers, machine

TOLERANCE, ELSEWHERE = 1e-6, 1e-4  # single precision rounds differently on other processors


def differences(wanted: Any, found: Any, place: str, tolerance: float = TOLERANCE) -> list[str]:
    """Where two nested answers differ by more than the tolerance, relative to their size."""
    if isinstance(wanted, dict):
        if wanted.keys() != found.keys():
            return [f"{place}: {sorted(wanted.keys() ^ found.keys())} only on one side"]
        return [line for key in wanted for line in differences(wanted[key], found[key], f"{place}/{key}", tolerance)]
    if isinstance(wanted, list):
        if len(wanted) != len(found):
            return [f"{place}: {len(found)} entries instead of {len(wanted)}"]
        return [
            line
            for i, pair in enumerate(zip(wanted, found, strict=True))
            for line in differences(*pair, f"{place}[{i}]", tolerance)
        ]
    if isinstance(wanted, float) and isinstance(found, float):
        return [] if abs(wanted - found) <= tolerance * max(1.0, abs(wanted)) else [f"{place}: {found} was {wanted}"]
    return [] if wanted == found else [f"{place}: {found!r} was {wanted!r}"]


@pytest.fixture(scope="module")
def stored() -> Any:
    return json.loads(FILE.read_text())


def test_answers_are_those_that_were_stored(stored: Any) -> None:
    tolerance = TOLERANCE if stored["machine"] == machine() else ELSEWHERE
    found = {"machine": stored["machine"], **json.loads(json.dumps(answers()))}
    assert differences(stored, found, "", tolerance) == []


def test_an_answer_that_differs_in_the_sixth_digit_is_found(stored: Any) -> None:
    name = "real: accuracy 1 of 8"
    steps, quantiles, chances = stored[name]
    changed = [[quantiles[0][0] + 3e-6, *quantiles[0][1:]], *quantiles[1:]]
    assert len(differences(stored, {**stored, name: [steps, changed, chances]}, "")) == 1
