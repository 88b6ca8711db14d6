"""Stopping runs that cannot win: the decision, the rules that a training loop asks, and a bound on wrong stops."""

from epochcast.stopping.calibration import FinishedRuns, Guarantee
from epochcast.stopping.decision import Decision, Reason, decide
from epochcast.stopping.search import RunRecord, StepWarning, StoppingRule
from epochcast.stopping.stopper import NoStopping, Patience, Stopper

__all__ = [
    "Decision",
    "FinishedRuns",
    "Guarantee",
    "NoStopping",
    "Patience",
    "Reason",
    "RunRecord",
    "StepWarning",
    "Stopper",
    "StoppingRule",
    "decide",
]
