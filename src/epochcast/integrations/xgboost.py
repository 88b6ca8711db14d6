"""XGBoost: a callback that stops runs which cannot win; there is no extra, the XGBoost that you have is used.

    stopping = ForecastStopping("valid-logloss", horizon=500, best=0.11)
    xgb.train(params, data, 500, evals=[(held_out, "valid")], callbacks=[stopping])

The metric's name is that of the data set and that of the metric, joined by "-": "validation_0-logloss" in the
scikit-learn interface. XGBoost averages metrics over its workers, so all of them decide the same.
"""

from __future__ import annotations

from typing import Any

from epochcast.errors import MissingExtraError
from epochcast.integrations.base import StopperCallback, newest

try:
    from xgboost.callback import TrainingCallback
except ImportError as error:
    raise MissingExtraError("xgboost", None) from error

__all__ = ["ForecastStopping"]


class ForecastStopping(StopperCallback, TrainingCallback):
    """Watches the metric `monitor` after each round.

    Arguments and errors are those of `StopperCallback`. `horizon` must be given.

    Examples:
        >>> from epochcast.integrations.xgboost import ForecastStopping
        >>> stopping = ForecastStopping("valid-logloss", horizon=500, best=0.11)
        >>> xgboost.train(params, data, 500, evals=[(held_out, "valid")], callbacks=[stopping])  # doctest: +SKIP
    """

    knows_horizon = False

    def before_training(self, model: Any) -> Any:
        self.begin(self.horizon)
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: TrainingCallback.EvalsLog) -> bool:
        logs = newest(evals_log)
        means = {name: value[0] if isinstance(value, tuple) else value for name, value in logs.items()}
        return self.check(epoch + 1, means)

    def after_training(self, model: Any) -> Any:
        self.end()
        return model
