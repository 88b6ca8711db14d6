"""A search over learning rates that prunes the trials which cannot win."""

from __future__ import annotations

import optuna
import optunahub
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

EPOCHS = 30

EpochcastPruner = optunahub.load_module("pruners/epochcast").EpochcastPruner

images, labels = load_digits(return_X_y=True)
images = images / 16.0


def objective(trial: optuna.Trial) -> float:
    rate = trial.suggest_float("rate", 1e-5, 1.0, log=True)
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=rate, random_state=0)
    best = 0.0
    for epoch in range(EPOCHS):
        model.partial_fit(images[:1000], labels[:1000], classes=range(10))
        accuracy = float(model.score(images[1000:], labels[1000:]))
        best = max(best, accuracy)
        trial.report(accuracy, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return best


if __name__ == "__main__":
    study = optuna.create_study(direction="maximize", pruner=EpochcastPruner(EPOCHS, "accuracy"))
    study.optimize(objective, n_trials=20)
    for trial in study.get_trials(states=[optuna.trial.TrialState.PRUNED]):
        print(trial.number, trial.user_attrs["epochcast:reason"])
