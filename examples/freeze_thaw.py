"""A search that pauses runs and comes back to them: small networks on digits, gone on with from their checkpoints.

In the middle the search is interrupted; it goes on from what it has saved, and nothing is trained twice.

pip install 'epochcast[examples]' && python examples/freeze_thaw.py
"""

from __future__ import annotations

import pickle
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import epochcast as ec
from epochcast.search import Step

EPOCHS = 20
STEPS = 40  # of the search
SPACE = {"rate": (1e-5, 0.1, "log"), "units": (8, 64, "log")}


def train(step: Step, search: ec.FreezeThaw, checkpoint: Path, data: Any) -> int:
    """Go on with a run from its checkpoint, if it has one; how many epochs that took."""
    train_x, valid_x, train_y, valid_y = data
    if checkpoint.exists():
        model = pickle.loads(checkpoint.read_bytes())
    else:
        rate, units = step.config["rate"], step.config["units"]
        model = MLPClassifier([units], learning_rate_init=rate, max_iter=1, warm_start=True, random_state=0)
    epochs = range(int(step.since) + 1, step.until + 1)
    for epoch in epochs:
        model.fit(train_x, train_y)
        search.tell(step.run, epoch, model.score(valid_x, valid_y))
    checkpoint.write_bytes(pickle.dumps(model))
    return len(epochs)


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)  # one epoch at a time never converges
    images, labels = load_digits(return_X_y=True)
    data = train_test_split(images / 16.0, labels, test_size=0.3, random_state=0)
    search = ec.FreezeThaw(SPACE, EPOCHS, "accuracy")
    trained = 0
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder, "search.json")
        for number in range(STEPS):
            if number == STEPS // 2:  # the machine was switched off, and is on again
                search = ec.FreezeThaw.from_json(saved.read_text())
            step = search.ask()
            if step is None:
                break
            trained += train(step, search, Path(folder, f"run{step.run}.pkl"), data)
            saved.write_text(search.to_json())
    lengths = Counter(int(run.newest) for run in search.runs)
    for epochs, runs in sorted(lengths.items(), reverse=True):
        print(f"{runs} run{'s' * (runs > 1)} came to epoch {epochs} of {EPOCHS}")
    assert search.best is not None
    print(f"{len(search.runs)} runs in {trained} epochs, where runs to the end are {trained / EPOCHS:.1f}")
    print(f"best accuracy: {search.best.value:.3f} with {search.best.config}")


if __name__ == "__main__":
    main()
