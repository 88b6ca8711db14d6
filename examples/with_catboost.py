"""A search over learning rates with CatBoost, which stops the runs that cannot win.

pip install 'epochcast[catboost,examples]' && python examples/with_catboost.py
"""

from __future__ import annotations

from catboost import CatBoostClassifier
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from epochcast import Stopper
from epochcast.integrations.catboost import ForecastStopping

ROUNDS = 60


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    train_x, valid_x, train_y, valid_y = train_test_split(images, labels, test_size=0.3, random_state=0)
    stopper = Stopper(horizon=ROUNDS, metric="log_loss")  # carries the best value from run to run
    for rate in (0.3, 0.03, 0.003):
        stopping = ForecastStopping("validation-MultiClass", stopper=stopper)
        model = CatBoostClassifier(
            iterations=ROUNDS,
            learning_rate=rate,
            depth=4,
            thread_count=1,
            random_seed=0,
            verbose=False,
            allow_writing_files=False,
            use_best_model=False,
        )
        model.fit(train_x, train_y, eval_set=(valid_x, valid_y), callbacks=[stopping])
        print(f"learning rate {rate:g}: {model.tree_count_} of {ROUNDS} rounds; {stopping.decision}")
    print(f"best log loss: {stopper.best:.3f}")


if __name__ == "__main__":
    main()
