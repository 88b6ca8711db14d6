"""`Rule`: what may end runs that are trained one after another, and `InOrder`, the search that does so."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum, auto

from epochcast.experiments.search.search import Search


class Ending(Enum):
    """How a run has ended."""

    STOPPED = auto()  # by the rule
    BROKEN = auto()  # its newest value is not finite
    FINISHED = auto()  # at the horizon


class Rule(ABC):
    """Hears of one run after another."""

    @abstractmethod
    def begin(self, run: int) -> None:
        """A run begins."""

    @abstractmethod
    def stops(self, step: int, value: float) -> bool:
        """Whether to stop the run after its newest value."""

    @abstractmethod
    def end(self, ending: Ending) -> None:
        """The run has ended."""


class Never(Rule):
    """Stops no run."""

    def begin(self, run: int) -> None: ...

    def stops(self, step: int, value: float) -> bool:
        return False

    def end(self, ending: Ending) -> None: ...


class InOrder(Search):
    """Trains runs in a given order, each until it ends; none is ever come back to."""

    def __init__(self, order: Iterable[int], horizon: int, rule: Rule) -> None:
        self._waiting, self._horizon, self._rule = iter(order), horizon, rule
        self._run: int | None = None

    def ask(self) -> int | None:
        if self._run is None:
            self._run = next(self._waiting, None)
            if self._run is not None:
                self._rule.begin(self._run)
        return self._run

    def tell(self, run: int, step: int, value: float) -> bool:
        if not math.isfinite(value):
            ending = Ending.BROKEN
        elif self._rule.stops(step, value):
            ending = Ending.STOPPED
        elif step == self._horizon:
            ending = Ending.FINISHED
        else:
            return False
        self._rule.end(ending)
        self._run = None
        return ending is Ending.STOPPED
