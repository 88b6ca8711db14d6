"""A search over learning rates with LightGBM, which stops the runs that cannot win.

pip install 'epochcast[lightgbm,examples]' && python examples/with_lightgbm.py
"""

from __future__ import annotations

import lightgbm
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from epochcast import Stopper
from epochcast.integrations.lightgbm import ForecastStopping

ROUNDS = 60


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    train_x, valid_x, train_y, valid_y = train_test_split(images, labels, test_size=0.3, random_state=0)
    stopper = Stopper(horizon=ROUNDS, metric="log_loss")  # carries the best value from run to run
    for rate in (0.1, 0.03, 0.003):
        stopping = ForecastStopping("valid_0-multi_logloss", stopper=stopper)
        parameters = {"objective": "multiclass", "num_class": 10, "learning_rate": rate, "num_leaves": 7}
        data = lightgbm.Dataset(train_x, train_y, params={"verbose": -1})
        booster = lightgbm.train(
            {**parameters, "num_threads": 1, "verbose": -1},
            data,
            ROUNDS,
            valid_sets=[data.create_valid(valid_x, valid_y)],
            callbacks=[stopping],
        )
        rounds = booster.current_iteration()
        print(f"learning rate {rate:g}: {rounds} of {ROUNDS} rounds; {stopping.decision}")
    print(f"best log loss: {stopper.best:.3f}")


if __name__ == "__main__":
    main()
