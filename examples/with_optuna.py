"""A search with Optuna that prunes the trials which cannot win, and says what they would have come to.

pip install 'epochcast[optuna,examples]' && python examples/with_optuna.py
"""

from __future__ import annotations

import warnings

import optuna
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from epochcast.integrations.optuna import REASON, EpochcastPruner

EPOCHS = 30


def objective(trial: optuna.Trial) -> float:
    rate = trial.suggest_float("rate", 1e-6, 1e-1, log=True)
    images, labels = load_digits(return_X_y=True)
    train_x, valid_x, train_y, valid_y = train_test_split(images / 16.0, labels, test_size=0.3, random_state=0)
    model = MLPClassifier([32], learning_rate_init=rate, max_iter=1, warm_start=True, random_state=0)
    best = 0.0
    for epoch in range(EPOCHS):
        model.fit(train_x, train_y)
        accuracy = float(model.score(valid_x, valid_y))
        best = max(best, accuracy)
        trial.report(accuracy, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return best


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)  # one epoch at a time never converges
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = EpochcastPruner(horizon=EPOCHS, metric="accuracy")
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0), pruner=pruner)
    for rate in (0.01, 0.0003, 0.00001):
        study.enqueue_trial({"rate": rate})
    study.optimize(objective, n_trials=3)
    for trial in study.trials:
        epochs, why = len(trial.intermediate_values), trial.user_attrs.get(REASON, "complete")
        print(f"learning rate {trial.params['rate']:g}: {epochs} of {EPOCHS} epochs; {why}")
    print(f"best accuracy: {study.best_value:.3f}")


if __name__ == "__main__":
    main()
