"""Stopping runs that cannot win: the decision, the rules that a training loop asks, and a bound on wrong stops."""

from epochcast.stopping.calibration import FinishedRuns, Guarantee
from epochcast.stopping.decision import MIN_SHARE, MIN_STEPS, Decision, Reason, decide
from epochcast.stopping.patience import NoStopping, Patience
from epochcast.stopping.record import RunRecord
from epochcast.stopping.search import StepWarning, StoppingRule
from epochcast.stopping.stopper import Stopper

__all__ = [
    "MIN_SHARE",
    "MIN_STEPS",
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
