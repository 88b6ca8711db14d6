"""Which values of a log are those of the run that goes on: a training that starts again leaves a dead attempt behind.

A step that goes back means a restart, and what was logged at or after it belongs to the attempt before. That is judged
column by column: a log may hold counters of batches and of epochs side by side, and loggers write what they measure in
training and in validation on rows of their own. A step that is only repeated is no restart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Array

# Writers with threads of their own deliver some values late, a few places behind where they belong. Such a value has a
# step that was not logged yet; a restart nearly always logs one again, or goes back further than this many values.
MOST_PLACES_LATE = 3


class Mark(NamedTuple):
    """A restart that the log itself announces, for all columns: from here on, what lies at or after `step` is dead."""

    place: float  # in the order of the log
    step: float


@dataclass(frozen=True)
class Survivors:
    """What is left of a column."""

    alive: NDArray[np.intp]  # indices of the values that hold, in the order of the log
    restarts: int = 0  # that cost it values
    step: float = 0.0  # at which the last of them began


def survivors(steps: Array, places: Array, marks: Sequence[Mark] = ()) -> Survivors:
    """The values of one column that no restart took back. `places` grow, `marks` are in the order of the log."""
    everything = Survivors(np.arange(len(steps)))
    marks = [mark for mark in marks if len(places) and mark.place > places[0]]
    falls = int(np.count_nonzero(steps[1:] < steps[:-1]))
    if not marks and (falls == 0 or _is_unordered(steps, falls)):
        return everything
    return _replayed(steps.tolist(), places.tolist(), marks)


def _is_unordered(steps: Array, falls: int) -> bool:
    """Whether this is a table in another order, such as the newest first: it falls often and repeats no step."""
    return 3 * falls > len(steps) and len(np.unique(steps)) == len(steps)


def _replayed(steps: list[float], places: list[float], marks: Sequence[Mark]) -> Survivors:
    alive: list[int] = []
    ladder: list[float] = []  # the steps of `alive`, which are sorted at any time
    restarts, latest, waiting = 0, 0.0, 0

    def go_back_to(step: float) -> None:
        nonlocal restarts, latest
        first = bisect_left(ladder, step)
        if first < len(ladder):
            restarts, latest = restarts + 1, step
            del ladder[first:], alive[first:]

    for index, (step, place) in enumerate(zip(steps, places, strict=True)):
        while waiting < len(marks) and marks[waiting].place < place:
            go_back_to(marks[waiting].step)
            waiting += 1
        if ladder and step < ladder[-1]:
            position = bisect_left(ladder, step)
            if ladder[position] != step and len(ladder) - position <= MOST_PLACES_LATE:
                ladder.insert(position, step)
                alive.insert(position, index)
                continue
            go_back_to(step)
        ladder.append(step)
        alive.append(index)
    for mark in marks[waiting:]:
        go_back_to(mark.step)
    return Survivors(np.array(sorted(alive), dtype=np.intp), restarts, latest)
