"""A search over learning rates in a plain training loop, which leaves the runs that cannot win.

pip install 'epochcast[examples]' && python examples/plain_loop.py
"""

from __future__ import annotations

import warnings

from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import epochcast as ec

EPOCHS = 30


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)  # one epoch at a time never converges
    images, labels = load_digits(return_X_y=True)
    train_x, valid_x, train_y, valid_y = train_test_split(images / 16.0, labels, test_size=0.3, random_state=0)
    stopper = ec.Stopper(horizon=EPOCHS, metric="accuracy", confidence=0.95)
    for rate in (0.01, 0.0003, 0.00001):
        model = MLPClassifier([32], learning_rate_init=rate, max_iter=1, warm_start=True, random_state=0)
        for epoch in range(1, EPOCHS + 1):
            model.fit(train_x, train_y)
            decision = stopper.update(epoch, model.score(valid_x, valid_y))
            if decision.stop:
                break
        print(f"learning rate {rate:g}: {epoch} of {EPOCHS} epochs; {decision}")
        stopper.next_run()
    print(f"best accuracy: {stopper.best:.3f}")


if __name__ == "__main__":
    main()
