"""A search with Syne Tune that stops the trials which cannot win.

pip install 'epochcast[syne-tune,examples]' && python examples/with_syne_tune.py

Syne Tune starts this file once more for each trial, with `--rate`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings

from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from syne_tune import Reporter, StoppingCriterion, Tuner
from syne_tune.backend import LocalBackend
from syne_tune.config_space import loguniform
from syne_tune.optimizer.baselines import RandomSearch

from epochcast.integrations.syne_tune import EpochcastScheduler

EPOCHS = 30
RATES = (0.01, 0.0003, 0.00001)


def train(rate: float) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)  # one epoch at a time never converges
    images, labels = load_digits(return_X_y=True)
    train_x, valid_x, train_y, valid_y = train_test_split(images / 16.0, labels, test_size=0.3, random_state=0)
    model = MLPClassifier([32], learning_rate_init=rate, max_iter=1, warm_start=True, random_state=0)
    report = Reporter()
    for epoch in range(1, EPOCHS + 1):
        model.fit(train_x, train_y)
        report(epoch=epoch, val_acc=model.score(valid_x, valid_y))


def search() -> None:
    points = [{"rate": rate} for rate in RATES]
    inside = RandomSearch(
        {"rate": loguniform(1e-6, 1e-1)}, metrics=["val_acc"], do_minimize=False, points_to_evaluate=points
    )
    scheduler = EpochcastScheduler(inside, horizon=EPOCHS)
    tuner = Tuner(
        trial_backend=LocalBackend(entry_point=__file__, rotate_gpus=False),
        scheduler=scheduler,
        stop_criterion=StoppingCriterion(max_num_trials_finished=len(RATES)),
        n_workers=1,
        sleep_time=0.5,
    )
    tuner.run()
    for number, rate in enumerate(RATES):
        decision = scheduler.trials.decisions[str(number)]
        print(f"learning rate {rate:g}: {decision.step:g} of {EPOCHS} epochs; {decision}")
    best = tuner.tuning_status.overall_metric_statistics.max_metrics["val_acc"]
    print(f"best accuracy: {best:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float)
    rate = parser.parse_known_args()[0].rate
    if rate is not None:
        train(rate)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SYNETUNE_FOLDER"] = folder
        search()


if __name__ == "__main__":
    main()
