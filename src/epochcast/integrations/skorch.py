"""skorch: a callback that stops runs which cannot win; `pip install 'epochcast[skorch]'`.

    net = NeuralNetClassifier(module, max_epochs=50, callbacks=[ForecastStopping("valid_acc", best=0.97)])

What an `LRScheduler` that is stepped every epoch is going to do is told to the forecasts.
A run that goes on (`partial_fit`, `LoadInitState`) finds its earlier epochs in the net's history. A stop ends the
epoch at once, as skorch's own early stopping does: callbacks further down the list do not see its end.
"""

from __future__ import annotations

from typing import Any

from epochcast.errors import MissingExtraError
from epochcast.integrations.base import StopperCallback, harmless

try:
    from skorch import NeuralNet
    from skorch.callbacks import Callback, LRScheduler

    from epochcast.integrations.torch_rates import rates_of
except ImportError as error:
    raise MissingExtraError("skorch", "skorch") from error

__all__ = ["ForecastStopping"]


class ForecastStopping(StopperCallback, Callback):
    """Watches `net.history[-1, monitor]` at the end of each epoch.

    Arguments and errors are those of `StopperCallback`.

    Examples:
        >>> from epochcast.integrations.skorch import ForecastStopping
        >>> stopping = ForecastStopping("valid_acc", best=0.97)
        >>> net = NeuralNetClassifier(module, max_epochs=50, callbacks=[stopping])  # doctest: +SKIP
    """

    def on_train_begin(self, net: NeuralNet, X: Any = None, y: Any = None, **kwargs: Any) -> None:  # noqa: N803
        self.running = False  # an earlier fit may have been interrupted

    def on_epoch_begin(self, net: NeuralNet, *args: Any, **kwargs: Any) -> None:
        if self.running:
            return
        before = net.history[:-1]  # known only here: another callback may load it when training begins
        seen = [(row["epoch"], row[self.monitor]) for row in before if self.monitor in row]
        self.begin(len(before) + net.max_epochs, seen, None if before else _rates(net))

    def on_epoch_end(self, net: NeuralNet, *args: Any, **kwargs: Any) -> None:
        logs = {name: value for name, value in net.history[-1].items() if name != "batches"}
        if self.check(logs["epoch"], logs, self._minimizes(net)):
            raise KeyboardInterrupt  # how a callback ends a fit in skorch

    def on_train_end(self, net: NeuralNet, X: Any = None, y: Any = None, **kwargs: Any) -> None:  # noqa: N803
        self.end()

    def _minimizes(self, net: NeuralNet) -> bool | None:
        """The direction of the scoring callback that logs the metric."""
        for _, callback in net.callbacks_:
            if getattr(callback, "name_", getattr(callback, "name", None)) == self.monitor:
                lower: bool | None = getattr(callback, "lower_is_better", None)
                return lower
        return None

    def _get_param_names(self) -> list[str]:
        return ["monitor", "metric", "horizon", "stopper"]


def _rates(net: NeuralNet) -> list[float] | None:
    """What the only learning-rate scheduler is going to do up to the last epoch of a run that begins."""
    callbacks = [callback for _, callback in net.callbacks_ if isinstance(callback, LRScheduler)]
    if len(callbacks) != 1 or callbacks[0].step_every != "epoch":
        return None
    with harmless("reading the learning rates"):
        return rates_of(callbacks[0].lr_scheduler_, net.max_epochs)
    return None
