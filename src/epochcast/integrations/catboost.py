"""CatBoost: a callback that stops runs which cannot win; `pip install 'epochcast[catboost]'`.

    stopping = ForecastStopping("validation-Logloss", horizon=500, best=0.11)
    CatBoostClassifier(iterations=500).fit(x, y, eval_set=held_out, callbacks=[stopping])

The metric's name is that of the data set and that of the metric, joined by "-". Training that goes on from a snapshot
finds its earlier values in the snapshot. CatBoost wraps an error about a missing metric into a CatBoostError.
"""

from __future__ import annotations

from typing import Any

from epochcast.errors import MissingExtraError
from epochcast.integrations.base import StopperCallback, newest

try:
    import catboost  # noqa: F401  (its callbacks have no base class)
except ImportError as error:
    raise MissingExtraError("catboost", "catboost") from error

__all__ = ["ForecastStopping"]


class ForecastStopping(StopperCallback):
    """Watches the metric `monitor` after each iteration.

    Arguments and errors are those of `StopperCallback`. `horizon` must be given.

    Examples:
        >>> from epochcast.integrations.catboost import ForecastStopping
        >>> stopping = ForecastStopping("validation-Logloss", horizon=500, best=0.11)
        >>> model.fit(x, y, eval_set=held_out, callbacks=[stopping])  # doctest: +SKIP
    """

    knows_horizon = False
    _iteration = 0  # of the newest values
    _known = 0  # how many values of the metric there were

    def after_iteration(self, info: Any) -> bool:
        """Whether training goes on after iteration `info.iteration`, counted from 1."""
        values = self._values(info)
        if not self._iteration or info.iteration <= self._iteration:
            before = values[:-1] if len(values) == info.iteration else []
            self.begin(self.horizon, enumerate(before, start=1))
        elif len(values) == self._known:
            return True  # with `metric_period` most iterations bring no value
        self._iteration, self._known = info.iteration, len(values)
        stop = self.check(info.iteration, newest(info.metrics))
        if stop or info.iteration == self._end:
            self.end()  # CatBoost does not tell its callbacks that training is over
        return not stop

    def _values(self, info: Any) -> list[float]:
        data, _, name = self.monitor.partition("-")
        return list(info.metrics.get(data, {}).get(name, []))
