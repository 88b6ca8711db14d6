"""A search over learning rates with XGBoost, which stops the runs that cannot win.

pip install 'epochcast[examples]' xgboost && python examples/with_xgboost.py
"""

from __future__ import annotations

import xgboost
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from epochcast import Stopper
from epochcast.integrations.xgboost import ForecastStopping

ROUNDS = 60


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    train_x, valid_x, train_y, valid_y = train_test_split(images, labels, test_size=0.3, random_state=0)
    stopper = Stopper(horizon=ROUNDS, metric="log_loss")  # carries the best value from run to run
    for rate in (0.3, 0.03, 0.003):
        stopping = ForecastStopping("validation_0-mlogloss", stopper=stopper)
        model = xgboost.XGBClassifier(
            n_estimators=ROUNDS, learning_rate=rate, max_depth=3, n_jobs=1, callbacks=[stopping]
        )
        model.fit(train_x, train_y, eval_set=[(valid_x, valid_y)], verbose=False)
        rounds = model.get_booster().num_boosted_rounds()
        print(f"learning rate {rate:g}: {rounds} of {ROUNDS} rounds; {stopping.decision}")
    print(f"best log loss: {stopper.best:.3f}")


if __name__ == "__main__":
    main()
