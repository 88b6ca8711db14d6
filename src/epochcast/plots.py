"""Pictures with matplotlib, from plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
        values = np.asarray(truth, dtype=np.float64)
        ax.plot(np.arange(1, len(values) + 1), values, color=_TRUTH, linewidth=1, alpha=0.9, label="what came")
    ax.plot(*seen, color=_INK, marker=".", markersize=5, linewidth=1.2, label="seen")
    ax.set_xlabel("step")
    ax.set_ylabel(label)
    if title:
        ax.set_title(title, loc="left", fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        ax.legend(frameon=False, fontsize=8, loc="best")
    return ax
