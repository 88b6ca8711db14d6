"""What the Lightning callback costs: its share of an epoch at horizon 100, measured inside one training on digits.

python benchmarks/callback_overhead.py

Both figures of a row come from one training: the processor time of the epochs, and the part of it inside the callback.
Means over the epochs, since not every one is checked. The first check of a process loads onnxruntime and the model:
that is paid once, not per epoch, so it is left out of the means and told on a line of its own.
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

WARM_UP = 10  # epochs, down to the first check in either row, which loads the model


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


def measure(horizon: int, **options: object) -> tuple[float, float, float]:
    """Seconds per epoch inside the callback and outside it, and in its slowest early epoch; nothing is stopped."""
    L.seed_everything(0, verbose=False)
    callback = Timed("val_acc", best=0.999, dry_run=True, **options)
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
    inside, epochs = (float(np.mean(times[WARM_UP:])) for times in (callback.inside, callback.epochs))
    return inside, epochs - inside, max(callback.inside[:WARM_UP])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=100)
    horizon = parser.parse_args().horizon
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    first = 0.0
    for name, options in (("as it comes", {}), ("checked after every epoch", {"check_every": 1})):
        inside, outside, slowest = measure(horizon, **options)
        first = first or slowest  # only the first training of a process loads
        print(f"{name}: {1e3 * inside:.2f} ms per epoch, {inside / outside:.2%} of an epoch of {1e3 * outside:.0f} ms")
    print(f"once per process, the first check with loading: {1e3 * first:.0f} ms")


if __name__ == "__main__":
    main()
