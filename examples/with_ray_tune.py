"""A search with Ray Tune that stops the trials which cannot win.

pip install 'epochcast[ray,examples]' && python examples/with_ray_tune.py
"""

from __future__ import annotations

import tempfile
import warnings
from typing import Any

import ray
from ray import tune
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from epochcast.integrations.ray_tune import EpochcastScheduler

EPOCHS = 30


def train(config: dict[str, Any]) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)  # one epoch at a time never converges
    images, labels = load_digits(return_X_y=True)
    train_x, valid_x, train_y, valid_y = train_test_split(images / 16.0, labels, test_size=0.3, random_state=0)
    model = MLPClassifier([32], learning_rate_init=config["rate"], max_iter=1, warm_start=True, random_state=0)
    for _ in range(EPOCHS):
        model.fit(train_x, train_y)
        tune.report({"val_acc": model.score(valid_x, valid_y)})


def main() -> None:
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    scheduler = EpochcastScheduler(horizon=EPOCHS)
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            train,
            param_space={"rate": tune.grid_search([0.01, 0.0003, 0.00001])},
            tune_config=tune.TuneConfig(metric="val_acc", mode="max", scheduler=scheduler, max_concurrent_trials=1),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        results = tuner.fit()
    for trial in results:
        epochs = trial.metrics["training_iteration"]
        rate, decision = trial.config["rate"], scheduler.trials.decisions[trial.metrics["trial_id"]]
        print(f"learning rate {rate:g}: {epochs} of {EPOCHS} epochs; {decision}")
    best = results.get_best_result(scope="all").metrics_dataframe["val_acc"].max()  # its `metrics` are the last
    print(f"best accuracy: {best:.3f}")
    ray.shutdown()


if __name__ == "__main__":
    main()
