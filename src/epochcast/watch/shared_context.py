"""`SharedContext`: the runs of a folder as context of each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import is_
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.curve import Curves, thinned
from epochcast.encode import Others
from epochcast.logs.configuration import config_beside
from epochcast.metric import Metric
from epochcast.others import FEWEST_VALUES, newest_and_largest, others_of
from epochcast.run import Run
from epochcast.watch.watched import Watched

# A run is not shown itself. One context for each run would cost the most; members are left out by parts, so that
# up to so many of them each have all others, and of 64 each has 60.
_PARTS = 16

Key = tuple[Path, str]


class SharedContext:
    """The newest and the best runs of a folder, which are the context of all: those of few runs are all of them.

    Runs count in the order of their paths, so that what is made of a folder depends on nothing but what it holds.
    """

    def __init__(self, metric: Metric, horizon: int, most_values: int | None = None) -> None:
        self._metric, self._horizon, self._most_values = metric, horizon, most_values
        self._members: list[Watched] = []
        self._place: dict[Key, int] = {}  # of each member among them
        self._configs: dict[Key, Mapping[str, Any]] = {}
        self._made: dict[int, Others] = {}  # by the part that is left out

    def gather(self, runs: Iterable[Watched]) -> bool:
        """Take note of how all runs stand now; whether that changes what is known beside any of them."""
        there = [run for run in runs if run.error is None and int((run.steps > 0.0).sum()) >= FEWEST_VALUES]
        best = np.array([(self._metric.sign * run.values).max() for run in there])
        members = [there[row] for row in newest_and_largest(best)]
        if len(members) == len(self._members) and all(map(is_, members, self._members)):
            return False
        self._members, self._made = members, {}
        self._place = {run.key: place for place, run in enumerate(members)}
        return True

    def parts(self, runs: Iterable[Watched]) -> Iterator[tuple[list[Watched], Others | None]]:
        """Runs with one context, and that context."""
        by_part: dict[int, list[Watched]] = {}
        for run in runs:
            by_part.setdefault(self._part(run), []).append(run)
        for part, some in sorted(by_part.items()):
            yield some, self._without(part)

    def config_of(self, run: Watched) -> Mapping[str, Any] | None:
        """The configuration that lies beside a run, or that its log tells; it is looked for until it is found."""
        if run.key not in self._configs:
            found = config_beside(run.run)
            if found is None:
                return None
            self._configs[run.key] = found
        return self._configs[run.key]

    def forget_all_but(self, runs: Iterable[Key]) -> None:
        """Free what is kept of other runs."""
        for key in self._configs.keys() - set(runs):
            del self._configs[key]

    def _part(self, run: Watched) -> int:
        """The part of the members to which a run belongs; -1 for one that is no member."""
        place = self._place.get(run.key)
        return -1 if place is None else place % _PARTS

    def _without(self, part: int) -> Others | None:
        """The members but those of a part; None where there are none."""
        rest = [run for run in self._members if self._part(run) != part]
        if not rest:
            return None
        if part not in self._made:
            self._made[part] = others_of([self._as_run(run) for run in rest], self._metric, self._horizon)
        return self._made[part]

    def _as_run(self, run: Watched) -> Run:
        curve = Curves.of(run.values, run.steps)
        few = curve if self._most_values is None else thinned(curve, self._most_values)
        return Run(few.values[0], few.steps[0], self.config_of(run))
