"""Pictures with matplotlib, from plain arrays, and the files that they are written to."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.curve import floats
from epochcast.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

_BLUE, _INK, _TRUTH = "#2a6fbb", "#222222", "#d1495b"
_BANDS = ("#dbe8f5", "#b3cde9", "#8ab1db")  # from the widest band to the narrowest


def fan_chart(
    steps: Array,
    median: Array,
    bands: Mapping[float, tuple[Array, Array]],
    seen: tuple[Array, Array],
    label: str,
    *,
    ax: Axes | None = None,
    truth: ArrayLike | None = None,
    title: str | None = None,
    legend: bool = True,
) -> Axes:
    """What was seen, the median of what may come and its central bands; `truth` starts at step 1."""
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise MissingExtraError("matplotlib", "plot") from None
        _, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    for color, (band, (low, high)) in zip(_BANDS, sorted(bands.items(), reverse=True), strict=True):
        ax.fill_between(steps, low, high, color=color, linewidth=0, label=f"{band:.0%} interval")
    ax.plot(steps, median, color=_BLUE, linewidth=2, label="median forecast")
    if truth is not None:
        values = floats(truth, "truth")
        ax.plot(np.arange(1, len(values) + 1), values, color=_TRUTH, linewidth=1, alpha=0.9, label="truth")
    ax.plot(*seen, color=_INK, marker=".", markersize=5, linewidth=1.2, label="seen")
    ax.set_xlabel("step")
    ax.set_ylabel(label)
    if title:
        ax.set_title(title, loc="left", fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        ax.legend(frameon=False, fontsize=8, loc="best")
    return ax


def panels(rows: int, columns: int, width: float, height: float, **settings: Any) -> tuple[Figure, Any]:
    """A figure with axes [row, column], each of a size in inches. Not pyplot's: that would need a display."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **settings)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def panel_grid(count: int, most: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with so many axes, at most `most` of them beside each other."""
    columns = min(count, most)
    figure, axes = panels(-(-count // columns), columns, width, height)
    for spare in axes.flat[count:]:
        spare.set_visible(False)
    return figure, list(axes.flat[:count])


def draw_grid(
    titles: Sequence[str],
    draw: Callable[[Axes, int], None],
    path: Path,
    *,
    most: int,
    size: tuple[float, float],
    labels: tuple[str, str],
    legend: int,
    dpi: int = 110,
) -> None:
    """A picture of one panel for each title, at most so many beside each other, with one legend of so many columns."""
    figure, axes = panel_grid(len(titles), most, size[0], size[1] + 0.4 / math.ceil(len(titles) / most))
    for number, (ax, title) in enumerate(zip(axes, titles, strict=True)):
        draw(ax, number)
        ax.set_title(title, loc="left", fontsize=8)
        ax.tick_params(labelsize=7)
    for ax in axes[-most:]:  # of the figure as a whole it would lie on the legend
        ax.set_xlabel(labels[0], fontsize=9)
    figure.supylabel(labels[1], fontsize=9)
    legend_below(figure, axes[0], legend)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dpi)


def legend_below(figure: Figure, ax: Axes, columns: int) -> None:
    """One legend for all axes, that of one of them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def check_picture(path: Path) -> None:
    """Raise unless a picture can be written to this file: to be asked before the work that it shows."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None
    endings = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it, such as {path / 'fan.png'}")
    if path.suffix.lower().lstrip(".") not in endings:
        ending = f"of an unknown ending, {path.suffix}" if path.suffix else "without an ending"
        raise InputError(f"{path} is a picture {ending}; choose from {', '.join(endings)}")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is no folder, so {path.name} cannot be written to it; make it first")


def save_picture(figure: Figure, path: Path, *, dpi: int) -> None:
    """Write a figure; it is drawn before the file is touched, so that no half picture replaces a whole one."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.lower().lstrip("."), dpi=dpi)
    try:
        path.write_bytes(drawn.getvalue())
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}; choose another place") from None
