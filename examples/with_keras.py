"""A search over learning rates with Keras, which stops the runs that cannot win.

pip install 'epochcast[keras,examples]' torch && KERAS_BACKEND=torch python examples/with_keras.py
"""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from epochcast import Stopper
from epochcast.integrations.keras import ForecastStopping

EPOCHS = 30


def classifier(rate: float) -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = [keras.Input((64,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10)]
    model = keras.Sequential(layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    return model


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    train_x, valid_x, train_y, valid_y = train_test_split(images / 16.0, labels, test_size=0.3, random_state=0)
    stopper = Stopper(horizon=EPOCHS, metric="accuracy")  # carries the best value from run to run
    for rate in (0.01, 0.0003, 0.00001):
        stopping = ForecastStopping("val_accuracy", stopper=stopper)
        history = classifier(rate).fit(
            train_x,
            train_y,
            validation_data=(valid_x, valid_y),
            batch_size=64,
            epochs=EPOCHS,
            callbacks=[stopping],
            verbose=0,
        )
        print(f"learning rate {rate:g}: {len(history.epoch)} of {EPOCHS} epochs; {stopping.decision}")
    print(f"best accuracy: {stopper.best:.3f}")


if __name__ == "__main__":
    main()
