"""`Promoting`: asynchronous successive halving that pauses runs and promotes the best of them (Li et al. 2020)."""

from __future__ import annotations

import math
from collections.abc import Iterable

from epochcast.experiments.search.search import Search

FIRST_RUNG, REDUCTION = 1, 3  # the defaults of Syne Tune's ASHA


class Promoting(Search):
    """Every run is paused at each rung: after 1, 3, 9, ... steps.

    Of the runs that have come to a rung the best third go on to the next one, those of the highest rung first; where no
    run of a rung may, another run is started. From the last rung it is as far as to the horizon.

    It is written anew here: the halving of Optuna and Ray Tune stops runs, and Syne Tune's no longer promotes them.
    """

    def __init__(
        self,
        order: Iterable[int],
        horizon: int,
        *,
        minimize: bool,
        first_rung: int = FIRST_RUNG,
        reduction: int = REDUCTION,
    ) -> None:
        self._waiting, self._sign, self._reduction = iter(order), -1.0 if minimize else 1.0, reduction
        self._rungs = [first_rung]
        while self._rungs[-1] * reduction < horizon:
            self._rungs.append(self._rungs[-1] * reduction)
        self._rungs.append(horizon)
        self._reached: list[dict[int, float]] = [{} for _ in self._rungs]  # value of each run at each rung
        self._promoted: list[set[int]] = [set() for _ in self._rungs]
        self._run: int | None = None
        self._to = 0  # the rung that the run is on its way to

    def ask(self) -> int | None:
        if self._run is None:
            self._run, self._to = self._promotion() or (next(self._waiting, None), 0)
        return self._run

    def tell(self, run: int, step: int, value: float) -> bool:
        if not math.isfinite(value):
            self._run = None
        elif step == self._rungs[self._to]:
            self._reached[self._to][run] = self._sign * value
            self._run = None
        return False

    def _promotion(self) -> tuple[int, int] | None:
        """A run that may go on, and the rung that it goes on to."""
        for rung in reversed(range(len(self._rungs) - 1)):
            reached = self._reached[rung]
            best = sorted(reached, key=lambda run: -reached[run])[: len(reached) // self._reduction]
            for run in best:
                if run not in self._promoted[rung]:
                    self._promoted[rung].add(run)
                    return run, rung + 1
        return None
