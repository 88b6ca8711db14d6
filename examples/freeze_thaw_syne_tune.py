"""A search with Syne Tune that pauses trials and comes back to them: small networks on digits, with their checkpoints.

pip install 'epochcast[syne-tune,examples]' && python examples/freeze_thaw_syne_tune.py

Syne Tune starts this file once more whenever it starts or resumes a trial, with `--until` and the folder of the trial's
checkpoints.
"""

from __future__ import annotations

import argparse
import os
import pickle
import tempfile
import warnings
from collections import Counter
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from syne_tune import Reporter, StoppingCriterion, Tuner
from syne_tune.backend import LocalBackend
from syne_tune.config_space import lograndint, loguniform

from epochcast.integrations.syne_tune_freeze_thaw import FreezeThawScheduler

EPOCHS = 20
BUDGET = 60  # epochs in all
WORKERS = 2
SPACE = {"rate": loguniform(1e-5, 0.1), "units": lograndint(8, 64)}


def train(rate: float, units: int, until: int, folder: Path) -> None:
    """Train up to an epoch, from the newest checkpoint."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # one epoch at a time never converges
    images, labels = load_digits(return_X_y=True)
    train_x, valid_x, train_y, valid_y = train_test_split(images / 16.0, labels, test_size=0.3, random_state=0)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint, unfinished, done = folder / "model.pkl", folder / "unfinished.pkl", 0
    if checkpoint.exists():
        done, model = pickle.loads(checkpoint.read_bytes())
    else:
        model = MLPClassifier([units], learning_rate_init=rate, max_iter=1, warm_start=True, random_state=0)
    report = Reporter()
    for epoch in range(done + 1, until + 1):
        model.fit(train_x, train_y)
        unfinished.write_bytes(pickle.dumps((epoch, model)))
        unfinished.replace(checkpoint)  # whole or not at all, whenever the process is killed
        report(epoch=epoch, val_acc=model.score(valid_x, valid_y))


def search() -> None:
    scheduler = FreezeThawScheduler(SPACE, "val_acc", horizon=EPOCHS, until="until", every=5, first=4)
    tuner = Tuner(
        trial_backend=LocalBackend(entry_point=__file__, rotate_gpus=False),
        scheduler=scheduler,
        stop_criterion=StoppingCriterion(max_num_evaluations=BUDGET),
        n_workers=WORKERS,
        sleep_time=0.2,
        max_failures=10,  # processes that may die: their trials go on from the checkpoints
    )
    tuner.run()
    runs, best = scheduler.search.runs, scheduler.search.best
    lengths = Counter(int(run.newest) for run in runs)
    for epochs, trials in sorted(lengths.items(), reverse=True):
        print(f"{trials} trial{'s' * (trials > 1)} came to epoch {epochs} of {EPOCHS}")
    trained = int(sum(run.newest for run in runs))
    print(f"{len(runs)} trials in {trained} epochs, where trials to the end are {trained / EPOCHS:.1f}")
    assert best is not None
    print(f"best accuracy: {best.value:.3f} with {best.config}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float)
    parser.add_argument("--units", type=int)
    parser.add_argument("--until", type=int)
    parser.add_argument("--st_checkpoint_dir", type=Path)
    given = parser.parse_known_args()[0]
    if given.until is not None:
        train(given.rate, given.units, given.until, given.st_checkpoint_dir)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SYNETUNE_FOLDER"] = folder
        search()


if __name__ == "__main__":
    main()
