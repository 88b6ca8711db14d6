"""What is kept of a run that is over."""

from __future__ import annotations

from dataclasses import dataclass

from epochcast.stopping.decision import Reason


@dataclass(frozen=True)
class RunRecord:
    """A run that is over.

    Attributes:
        values: How many values were seen.
        last_step: The step of the newest.
        best: The best value seen; None when no value was finite.
        final: The last value of a finished run; of any other run the median of its forecast at the horizon, or its
            newest value where the rule makes no forecasts. None when the run broke down or could not be forecast, and
            of finished runs in states of version 1.
        stopped: Whether the rule stopped it.
        reason: That of the last decision.
        outcome: What counts of the run: `final`, or with target "any" the better of it and `best`.
    """

    values: int
    last_step: float
    best: float | None
    final: float | None
    stopped: bool
    reason: Reason
    outcome: float | None = None

    @property
    def finished(self) -> bool:
        """Whether the run reached its last step."""
        return self.reason is Reason.FINISHED
