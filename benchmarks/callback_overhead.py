"""What the Lightning callback costs: its share of an epoch at horizon 100, measured inside one training on digits.

python benchmarks/callback_overhead.py

Both figures come from the same training: the time of each epoch, and the part of it spent inside the callback's hooks.
Medians over the epochs; the first epochs, which load libraries and the model, are left out.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from pathlib import Path

import lightning as L
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from with_lightning import Classifier, loaders

from epochcast.integrations.lightning import ForecastStopping

WARM_UP = 5  # epochs


class Timed(ForecastStopping):
    """The callback, with a clock of the processor around the hook that forecasts."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self.inside: list[float] = []
        self.epochs: list[float] = []

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._started = time.process_time()

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        before = time.process_time()
        super().on_train_epoch_end(trainer, pl_module)
        self.inside.append(time.process_time() - before)
        self.epochs.append(time.process_time() - self._started)


def measure(horizon: int) -> Timed:
    """A training that is judged after every epoch but never stopped."""
    L.seed_everything(0, verbose=False)
    callback = Timed("val_acc", best=0.999, dry_run=True)
    trainer = L.Trainer(
        max_epochs=horizon,
        callbacks=[callback],
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(0.001), *loaders())
    return callback


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=100)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    callback = measure(parser.parse_args().horizon)
    inside, epochs = (np.array(times[WARM_UP:-1]) for times in (callback.inside, callback.epochs))
    share = np.median(inside) / np.median(epochs - inside)
    print(f"an epoch without the callback: {1e3 * np.median(epochs - inside):.1f} ms of processor time (median)")
    print(f"the callback: {1e3 * np.median(inside):.2f} ms per epoch, {share:.2%} of an epoch")


if __name__ == "__main__":
    main()
