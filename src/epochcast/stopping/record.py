"""What is kept of a run that is over."""

from __future__ import annotations

from dataclasses import dataclass

from epochcast.stopping.decision import Reason


@dataclass(frozen=True)
class RunRecord:
    """A run that is over."""

    values: int  # how many were seen
    last_step: float
    best: float | None  # the best value seen; None when no value was finite
    # The last value of a finished run; of any other run the median of its forecast at the horizon, or its newest value
    # where the rule makes no forecasts. None when the run broke down or could not be forecast, and of finished runs in
    # states of version 1.
    final: float | None
    stopped: bool
    reason: Reason  # of the last decision
    outcome: float | None = None  # what counts of the run: `final`, or with target "any" the better of it and `best`

    @property
    def finished(self) -> bool:
        """Whether the run reached its last step."""
        return self.reason is Reason.FINISHED
