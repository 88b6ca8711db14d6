"""Trains in two processes of which only the second has a best to beat; each writes down where it stopped, and why."""

from __future__ import annotations

import sys
from pathlib import Path

from epochcast.integrations.lightning import ForecastStopping
from tests.callback_contract import STEPS
from tests.test_integrations_lightning import L, fit


class Unequal(ForecastStopping):
    """A callback that has something to beat on one rank only."""

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.options = {"best": 0.001 if trainer.global_rank == 1 else None}
        super().on_train_start(trainer, pl_module)


def main(folder: Path) -> None:
    callback = Unequal("val_loss")
    trainer = fit([callback], 1e-5, devices=2, strategy="ddp", max_epochs=STEPS)
    assert callback.decision is not None
    (folder / f"rank{trainer.global_rank}").write_text(f"{trainer.current_epoch} {callback.decision.reason.value}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
