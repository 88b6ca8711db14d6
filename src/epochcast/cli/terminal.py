"""Fan charts and tables for the terminal, from plain arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

Array = NDArray[np.float64]

_HEIGHT, _MARGIN = 16, 9
_SHADES = {0.95: ("░", "blue"), 0.8: ("▒", "blue"), 0.5: ("▓", "blue")}
_MEDIAN, _SEEN, _TRUTH = ("━", "bold cyan"), ("●", "bold"), ("+", "bold red")


def fan_chart(
    steps: Array,
    median: Array,
    bands: Mapping[float, tuple[Array, Array]],
    seen: tuple[Array, Array],
    *,
    width: int = 72,
    truth: tuple[Array, Array] | None = None,
) -> Text:
    """What was seen, the median and the central bands of what may come, and the truth if it is known."""
    extra = truth[1] if truth is not None else np.empty(0)
    everything = np.concatenate([seen[1], extra, *bands[0.95]])
    low, high = float(np.nanmin(everything)), float(np.nanmax(everything))
    canvas = _Canvas(width, float(steps[-1]), low, high)
    for band in sorted(bands, reverse=True):
        canvas.fill(steps, *bands[band], *_SHADES[band])
    canvas.draw(steps, median, *_MEDIAN)
    if truth is not None:
        canvas.draw(*truth, *_TRUTH)
    canvas.draw(*seen, *_SEEN)
    return canvas.text()


class _Canvas:
    """A grid of characters over steps 0..last and values low..high."""

    def __init__(self, width: int, last: float, low: float, high: float) -> None:
        self.width, self.last = width, last
        pad = max(high - low, 1e-9 * max(abs(high), 1.0)) * 0.03
        self.low, self.high = low - pad, high + pad
        self.cells: list[list[tuple[str, str]]] = [[(" ", "")] * width for _ in range(_HEIGHT)]

    def _columns(self, steps: Array) -> NDArray[np.intp]:
        return np.clip((steps / self.last * (self.width - 1)).round(), 0, self.width - 1).astype(np.intp)

    def _rows(self, values: Array) -> NDArray[np.intp]:
        share = (self.high - values) / (self.high - self.low)
        return np.clip((share * (_HEIGHT - 1)).round(), 0, _HEIGHT - 1).astype(np.intp)

    def fill(self, steps: Array, lower: Array, upper: Array, mark: str, style: str) -> None:
        # Interpolated per column, so that no column between two steps stays empty.
        columns = np.arange(self._columns(steps)[0], self.width)
        at = columns / (self.width - 1) * self.last
        tops, bottoms = self._rows(np.interp(at, steps, upper)), self._rows(np.interp(at, steps, lower))
        for column, top, bottom in zip(columns, tops, bottoms, strict=True):
            for line in range(top, bottom + 1):
                self.cells[line][column] = (mark, style)

    def draw(self, steps: Array, values: Array, mark: str, style: str) -> None:
        for column, line in zip(self._columns(steps), self._rows(values), strict=True):
            self.cells[line][column] = (mark, style)

    def text(self) -> Text:
        chart = Text()
        for number, line in enumerate(self.cells):
            value = self.high - (self.high - self.low) * number / (_HEIGHT - 1)
            chart.append(f"{value:>{_MARGIN - 1}.4g} " if number % 5 == 0 else " " * _MARGIN, style="dim")
            chart.append("│", style="dim")
            for mark, style in line:
                chart.append(mark, style=style)
            chart.append("\n")
        chart.append(" " * _MARGIN + "└" + "─" * self.width + "\n", style="dim")
        end = f"step {self.last:g}"
        chart.append(" " * (_MARGIN + 1) + "0" + end.rjust(self.width - 1) + "\n", style="dim")
        legend = (
            (_SEEN[0], _SEEN[1], "seen"),
            (_MEDIAN[0], _MEDIAN[1], "median"),
            *((mark, style, f"{band:.0%}") for band, (mark, style) in sorted(_SHADES.items())),
            (_TRUTH[0], _TRUTH[1], "truth"),
        )
        chart.append(" " * (_MARGIN + 1))
        for mark, style, name in legend:
            chart.append(mark, style=style)
            chart.append(f" {name}   ")
        return chart
