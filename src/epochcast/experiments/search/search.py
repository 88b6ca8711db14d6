"""`Search`: what decides after every epoch of a replay which of the recorded runs is trained next."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Search(ABC):
    """Runs are told apart by their row in the table of recorded runs."""

    @abstractmethod
    def ask(self) -> int | None:
        """The run to train by one more step; None where nothing is left to train."""

    @abstractmethod
    def tell(self, run: int, step: int, value: float) -> bool:
        """Take in what that run shows at that step, NaN where it broke down.

        Returns:
            Whether the run is given up for good by this search, rather than paused, over or broken down.
        """
