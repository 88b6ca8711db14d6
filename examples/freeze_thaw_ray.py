"""A search on Ray Tune that pauses trials and comes back to them: small networks on digits, with their checkpoints.

pip install 'epochcast[ray,examples]' && python examples/freeze_thaw_ray.py
"""

from __future__ import annotations

import pickle
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import ray
from ray import tune
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from epochcast.integrations.ray_freeze_thaw import FreezeThawScheduler, FreezeThawSearcher

EPOCHS = 20
BUDGET = 100  # epochs in all
WORKERS = 2
SPACE = {"rate": tune.loguniform(1e-5, 0.1), "units": tune.lograndint(8, 64)}


def train(config: dict[str, Any]) -> None:
    """Train to the end, from the newest checkpoint: Tune pauses the trial where it reports."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # one epoch at a time never converges
    images, labels = load_digits(return_X_y=True)
    train_x, valid_x, train_y, valid_y = train_test_split(images / 16.0, labels, test_size=0.3, random_state=0)
    checkpoint, done = tune.get_checkpoint(), 0
    if checkpoint is None:
        rate, units = config["rate"], config["units"]
        model = MLPClassifier([units], learning_rate_init=rate, max_iter=1, warm_start=True, random_state=0)
    else:
        with checkpoint.as_directory() as folder:
            done, model = pickle.loads(Path(folder, "model.pkl").read_bytes())
    for epoch in range(done + 1, EPOCHS + 1):
        model.fit(train_x, train_y)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "model.pkl").write_bytes(pickle.dumps((epoch, model)))
            accuracy = model.score(valid_x, valid_y)
            tune.report({"val_acc": accuracy}, checkpoint=tune.Checkpoint.from_directory(folder))


def main() -> None:
    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    searcher = FreezeThawSearcher(horizon=EPOCHS, budget=BUDGET)
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            train,
            param_space=SPACE,
            tune_config=tune.TuneConfig(
                metric="val_acc",
                mode="max",
                search_alg=searcher,
                scheduler=FreezeThawScheduler(searcher),
                num_samples=-1,  # the budget ends the search
                max_concurrent_trials=WORKERS,
                reuse_actors=True,  # a trial is resumed at once, not in a new process
            ),
            run_config=tune.RunConfig(
                storage_path=folder,
                verbose=0,
                failure_config=tune.FailureConfig(max_failures=-1),  # a lost trial goes on from its checkpoint
            ),
        )
        results = tuner.fit()
    ray.shutdown()
    lengths = Counter(trial.metrics["training_iteration"] for trial in results)
    for epochs, trials in sorted(lengths.items(), reverse=True):
        print(f"{trials} trial{'s' * (trials > 1)} came to epoch {epochs} of {EPOCHS}")
    search = searcher.search
    trained = int(sum(run.newest for run in search.runs))
    print(f"{len(search.runs)} trials in {trained} epochs, where trials to the end are {trained / EPOCHS:.1f}")
    assert search.best is not None
    print(f"best accuracy: {search.best.value:.3f} with {search.best.config}")


if __name__ == "__main__":
    main()
