"""LightGBM: a callback that stops runs which cannot win; `pip install 'epochcast[lightgbm]'`.

    lgb.train(params, data, 500, valid_sets=[held_out], callbacks=[ForecastStopping("valid_0-auc", best=0.97)])

The metric's name is that of the data set and that of the metric, joined by "-".
"""

from __future__ import annotations

from epochcast.errors import MissingExtraError
from epochcast.integrations.base import StopperCallback

try:
    from lightgbm.callback import CallbackEnv, EarlyStopException
except ImportError as error:
    raise MissingExtraError("lightgbm", "lightgbm") from error

__all__ = ["ForecastStopping"]


class ForecastStopping(StopperCallback):
    """Watches the metric `monitor` after each round.

    Arguments and errors are those of `StopperCallback`.

    Examples:
        >>> from epochcast.integrations.lightgbm import ForecastStopping
        >>> stopping = ForecastStopping("valid_0-auc", best=0.97)
        >>> lightgbm.train(params, data, 500, valid_sets=[held_out], callbacks=[stopping])  # doctest: +SKIP
    """

    order = 30  # after the callbacks that record and print metrics, as LightGBM's own early stopping
    before_iteration = False

    def __call__(self, env: CallbackEnv) -> None:
        if env.iteration == env.begin_iteration:
            self.begin(env.end_iteration)
        results = env.evaluation_result_list or []
        logs = {f"{data}-{name}": value for data, name, value, *_ in results}
        smaller_is_better = {f"{data}-{name}": not larger for data, name, _, larger, *_ in results}
        step = env.iteration + 1
        stop = self.check(step, logs, smaller_is_better.get(self.monitor))
        if stop or step == env.end_iteration:
            self.end()  # LightGBM does not tell its callbacks that training is over
        if stop:
            raise EarlyStopException(env.iteration, env.evaluation_result_list)
