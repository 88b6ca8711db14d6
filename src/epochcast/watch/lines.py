"""`Line`: values at steps, to be drawn, with no more points than a screen can show."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from epochcast.curve import Array
from epochcast.logs import Series


class Line(NamedTuple):
    """Finite values at rising steps."""

    steps: Array
    values: Array

    @classmethod
    def of(cls, series: Series | None) -> Line:
        """The finite values of a log."""
        if series is None:
            return cls(np.empty(0), np.empty(0))
        finite = np.isfinite(series.values)
        return cls(series.steps[finite], series.values[finite])

    def until(self, step: float) -> Line:
        """The values at steps up to and including this one."""
        count = int(np.searchsorted(self.steps, step, side="right"))
        return Line(self.steps[:count], self.values[:count])

    def thinned(self, most: int) -> Line:
        """At most so many values: the first, the last, and the extremes in between, so that no spike is lost."""
        if len(self.steps) <= most:
            return self
        borders = np.linspace(1, len(self.steps) - 1, most // 2).astype(int)  # of the parts between the two ends
        kept = {0, len(self.steps) - 1}
        for start, end in pairwise(borders):
            part = self.values[start:end]
            kept |= {start + int(part.argmin()), start + int(part.argmax())}
        index = sorted(kept)
        return Line(self.steps[index], self.values[index])
