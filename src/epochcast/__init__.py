"""epochcast: where will this training run end? Calibrated learning-curve forecasts in about a millisecond.

>>> import epochcast as ec
>>> f = ec.forecast([0.31, 0.45, 0.52, 0.57, 0.60], horizon=50, metric="accuracy")
>>> low, high = f.final.interval(0.9)
"""

from __future__ import annotations

from epochcast import interrupt  # noqa: F401  # before all that takes time to import

# isort: split

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epochcast.checks import generator
from epochcast.curve import Curves
from epochcast.errors import EpochcastError
from epochcast.forecast import Forecast
from epochcast.forecaster import Forecaster, Stream, forecast
from epochcast.metric import Metric, metric_names
from epochcast.run import Run
from epochcast.runtime.weights import models
from epochcast.space import Space
from epochcast.stopping import Decision, NoStopping, Patience, Reason, Stopper

if TYPE_CHECKING:
    from epochcast.search import FreezeThaw

__version__ = "0.2.0"
__all__ = [
    "Curves",
    "Decision",
    "EpochcastError",
    "Forecast",
    "Forecaster",
    "FreezeThaw",
    "Metric",
    "NoStopping",
    "Patience",
    "Reason",
    "Run",
    "Space",
    "Stopper",
    "Stream",
    "forecast",
    "metric_names",
    "models",
    "sample_prior",
]


def sample_prior(n: int, horizon: int = 100, seed: int = 0) -> NDArray[np.float64]:
    """Learning curves drawn from the prior of the paper, with their noise.

    Args:
        n: How many.
        horizon: Of how many steps.
        seed: Of the random numbers.

    Returns:
        One curve per row, [n, horizon], growing and about 0 to 1.

    Examples:
        >>> import epochcast as ec
        >>> ec.sample_prior(5, horizon=20).shape
        (5, 20)
    """
    from epochcast.prior import paper

    return paper.sample(n, generator(seed), horizon).noisy


def __getattr__(name: str) -> Any:
    """The search is imported when it is first asked for, as most want a forecast or a stopper."""
    if name != "FreezeThaw":
        raise AttributeError(f"module 'epochcast' has no attribute {name!r}")
    from epochcast.search import FreezeThaw

    return FreezeThaw


def __dir__() -> list[str]:
    """The public names alone, for `dir` and for completion in a shell."""
    return sorted([*__all__, "__version__"])
