"""A search over learning rates with Lightning, which stops the runs that cannot win.

pip install 'epochcast[lightning,examples]' && python examples/with_lightning.py
"""

from __future__ import annotations

import logging
import warnings

import lightning as L
import torch
from sklearn.datasets import load_digits
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

from epochcast import Stopper
from epochcast.integrations.lightning import ForecastStopping

EPOCHS = 30


class Classifier(L.LightningModule):
    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        images, labels = batch
        return F.cross_entropy(self.network(images), labels)

    def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
        images, labels = batch
        self.log("val_acc", (self.network(images).argmax(dim=1) == labels).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.rate)


def loaders() -> tuple[DataLoader, DataLoader]:
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(images / 16.0, dtype=torch.float32), torch.tensor(labels))
    train, valid = random_split(data, [0.7, 0.3], torch.Generator().manual_seed(0))
    return DataLoader(train, batch_size=32, shuffle=True), DataLoader(valid, batch_size=len(valid))


def main() -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    stopper = Stopper(horizon=EPOCHS, metric="accuracy")  # carries the best value from run to run
    for rate in (0.01, 0.0003, 0.00001):
        L.seed_everything(0, verbose=False)
        stopping = ForecastStopping("val_acc", stopper=stopper)
        trainer = L.Trainer(
            max_epochs=EPOCHS,
            callbacks=[stopping],
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(Classifier(rate), *loaders())
        print(f"learning rate {rate:g}: {trainer.current_epoch} of {EPOCHS} epochs; {stopping.decision}")
    print(f"best accuracy: {stopper.best:.3f}")


if __name__ == "__main__":
    main()
