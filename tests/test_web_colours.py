"""The colours of the page: apart for the colour-blind, and readable on their ground, in light and in dark."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from epochcast.web.page import STYLE, asset

LINES = ("c0", "c1", "c2", "c3", "c4")  # as many as are in the plot unless the user pins more
VERDICTS = ("leading", "running", "finished", "hopeless", "diverged", "unusable")
# What eyes that lack one kind of cone see of linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
BLINDNESS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
APART = 9.0  # in CIELAB; two colours side by side are told apart from about 2 on
READABLE, VISIBLE = 4.5, 3.0  # contrasts that WCAG 2 asks for, of text and of lines


def themes() -> dict[str, dict[str, np.ndarray]]:
    """The colours of each theme by name, as linear RGB."""
    pairs = re.findall(r"--([\w-]+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)", asset(STYLE).decode())
    return {
        "light": {name: linear(light) for name, light, _ in pairs},
        "dark": {name: linear(dark) for name, _, dark in pairs},
    }


def linear(code: str) -> np.ndarray:
    shares = np.array([int(code[i : i + 2], 16) / 255 for i in (0, 2, 4)])
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(colour: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = (to_xyz @ np.clip(colour, 0.0, 1.0)) / (to_xyz @ np.ones(3))
    fx, fy, fz = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def distance(left: np.ndarray, right: np.ndarray, blindness: str) -> float:
    matrix = np.array(BLINDNESS[blindness])
    return float(np.linalg.norm(lab(matrix @ left) - lab(matrix @ right)))


def contrast(colour: np.ndarray, ground: np.ndarray) -> float:
    bright, dim = sorted((float(c @ [0.2126, 0.7152, 0.0722]) for c in (colour, ground)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_lines_of_the_plot_are_apart_for_the_colour_blind(theme: str, blindness: str) -> None:
    colours = themes()[theme]
    for left, right in combinations(LINES, 2):
        assert distance(colours[left], colours[right], blindness) > APART, (left, right)


def test_colours_that_only_some_can_tell_apart_are_found() -> None:
    green, red = linear("4c9a2a"), linear("b5651d")
    assert distance(green, red, "tritanopia") > APART
    assert distance(green, red, "deuteranopia") < APART


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_and_lines_stand_out_from_their_ground(theme: str) -> None:
    colours = themes()[theme]
    for name in ("ink", "soft", "accent", *VERDICTS):
        assert contrast(colours[name], colours["card"]) > READABLE, name
    assert contrast(colours["warn"], colours["warn-ground"]) > READABLE
    for number in range(10):
        assert contrast(colours[f"c{number}"], colours["card"]) > VISIBLE, number
    assert contrast(colours["grid"], colours["card"]) < VISIBLE  # which is to stay behind
