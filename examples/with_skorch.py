"""A search over learning rates with skorch, which stops the runs that cannot win.

pip install 'epochcast[skorch,examples]' && python examples/with_skorch.py
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from skorch import NeuralNetClassifier

from epochcast import Stopper
from epochcast.integrations.skorch import ForecastStopping

EPOCHS = 30


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    stopper = Stopper(horizon=EPOCHS, metric="accuracy")  # carries the best value from run to run
    for rate in (0.01, 0.0003, 0.00001):
        torch.manual_seed(0)
        stopping = ForecastStopping("valid_acc", stopper=stopper)
        net = NeuralNetClassifier(
            Classifier,
            criterion=torch.nn.CrossEntropyLoss,
            optimizer=torch.optim.Adam,
            lr=rate,
            max_epochs=EPOCHS,
            callbacks=[stopping],
            verbose=0,
        )
        net.fit((images / 16.0).astype(np.float32), labels)
        print(f"learning rate {rate:g}: {len(net.history)} of {EPOCHS} epochs; {stopping.decision}")
    print(f"best accuracy: {stopper.best:.3f}")


if __name__ == "__main__":
    main()
