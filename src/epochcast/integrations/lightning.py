"""Lightning: a callback that stops runs which cannot win; `pip install 'epochcast[lightning]'`.

    trainer = L.Trainer(max_epochs=50, callbacks=[ForecastStopping("val_acc", best=0.97)])

The steps are epochs: a validation in the middle of an epoch counts as a fraction of it. What the trainer's
learning-rate scheduler is going to do is told to the forecasts. The state travels with Lightning's checkpoints. With
several processes, training stops as soon as one of them decides so.
"""

from __future__ import annotations

import math
from typing import Any

from epochcast.errors import MissingExtraError
from epochcast.integrations.base import StopperCallback, harmless

try:
    from lightning.pytorch import Callback, LightningModule, Trainer

    from epochcast.integrations.torch_rates import rates_of
except ImportError as error:
    raise MissingExtraError("lightning", "lightning") from error

__all__ = ["ForecastStopping"]


class ForecastStopping(StopperCallback, Callback):
    """Watches `trainer.callback_metrics[monitor]`.

    Arguments and errors are those of `StopperCallback`.

    Examples:
        >>> from epochcast.integrations.lightning import ForecastStopping
        >>> stopping = ForecastStopping("val_acc", "accuracy", best=0.97)
        >>> trainer = lightning.Trainer(max_epochs=50, callbacks=[stopping])  # doctest: +SKIP
    """

    @property
    def state_key(self) -> str:
        return str(self._generate_state_key(monitor=self.monitor))

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        epochs = _epochs(trainer)
        self.begin(epochs, rates=_rates(trainer, epochs))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # By now the metrics of the epoch's training and validation are both known.
        if _validates_every_epoch(trainer):
            self._check(trainer, trainer.current_epoch + 1)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn == "fit" and not trainer.sanity_checking and not _validates_every_epoch(trainer):
            done = (trainer.fit_loop.batch_idx + 1) / trainer.num_training_batches
            self._check(trainer, trainer.current_epoch + done)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.end()

    def _check(self, trainer: Trainer, step: float) -> None:
        stop = self.check(step, trainer.callback_metrics, self._minimizes(trainer))
        # Every rank must ask, whatever it decided: this waits for all of them.
        if trainer.strategy.reduce_boolean_decision(stop, all=False):
            trainer.should_stop = True

    def _minimizes(self, trainer: Trainer) -> bool | None:
        """The direction that a ModelCheckpoint or EarlyStopping of the same trainer gives the metric."""
        others: list[Any] = [*trainer.checkpoint_callbacks, *trainer.early_stopping_callbacks]
        modes = [other.mode for other in others if getattr(other, "monitor", None) == self.monitor]
        return modes[0] == "min" if modes else None


def _validates_every_epoch(trainer: Trainer) -> bool:
    return bool(trainer.val_check_interval == 1.0 and trainer.check_val_every_n_epoch == 1)


def _epochs(trainer: Trainer) -> int | None:
    """How many epochs there will be; None if there is no end."""
    limits = [trainer.max_epochs] if trainer.max_epochs not in (None, -1) else []
    if trainer.max_steps != -1 and math.isfinite(trainer.num_training_batches):
        steps_per_epoch = math.ceil(trainer.num_training_batches / trainer.accumulate_grad_batches)
        limits.append(math.ceil(trainer.max_steps / steps_per_epoch))
    return min(limits, default=None)


def _rates(trainer: Trainer, epochs: int | None) -> list[float] | None:
    """What the only learning-rate scheduler is going to do up to the last epoch."""
    if len(trainer.lr_scheduler_configs) != 1 or epochs is None:
        return None
    config = trainer.lr_scheduler_configs[0]
    with harmless("reading the learning rates"):
        total = epochs if config.interval == "epoch" else trainer.estimated_stepping_batches
        return rates_of(config.scheduler, math.ceil(total / config.frequency))
    return None
