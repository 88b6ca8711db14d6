"""The page about unseen runs: its tables are the scores of the runs in the folders, and its counts can be lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.baselines import LastValue
from epochcast.benchmarks import load
from epochcast.experiments.real.scores import SHARES, CurveScores, score
from tests.checkout import in_a_checkout, research

pytestmark = in_a_checkout
RUNS = 6


@pytest.fixture
def script() -> Any:
    return research("unseen_docs")


def folder_of_runs(folder: Path, names: list[str], seed: int) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(seed)
    rise = 0.9 - 0.6 * 0.9 ** np.arange(1.0, 31.0)
    for name in names:
        curves = rise * rng.uniform(0.5, 1.0, (RUNS, 1)) + rng.normal(0.0, 0.003, (RUNS, 30))
        np.savez(
            folder / f"{name}.npz", curves=curves.astype(np.float32), task=np.zeros(RUNS, dtype=int),
            task_names=np.array(["toy"]), metric=np.array("accuracy"), minimize=np.array(False),
        )  # fmt: skip
    return folder


def test_tables_hold_the_scores_of_all_folders_together(script: Any, tmp_path: Path) -> None:
    folders = [folder_of_runs(tmp_path / str(seed), list(script.COLLECTIONS), seed) for seed in (1, 2)]
    found = script.scored({"last value": LastValue()}, folders)
    for name in script.COLLECTIONS:
        at_once = found["last value", name]
        assert [len(scores) for scores in at_once] == [2 * RUNS] * len(SHARES)
        parts = [score(LastValue(), load(folder / f"{name}.npz").sets[0], SHARES[1]) for folder in folders]
        np.testing.assert_array_equal(at_once[1].crps, CurveScores.joined(parts).crps)
    text = script.tables(found, ["last value"])
    assert f"{1000.0 * found['last value', 'boosting_accuracy'][0].crps.mean():.1f} / " in text
    assert text.count("boosted trees, accuracy") == len(script.MEASURES)


def test_wins_count_what_is_better_in_the_sense_of_each_measure(script: Any) -> None:
    good, bad = (
        CurveScores(np.arange(3), np.full(3, likelihood), error, error, np.full(3, 0.9), np.full(3, 0.5))
        for likelihood, error in ((2.0, np.full(3, 0.1)), (1.0, np.full(3, 0.2)))
    )
    found = {(who, name): [scores] for who, scores in (("a", good), ("b", bad)) for name in script.COLLECTIONS}
    counts = [
        [line.partition("good as ")[2] for line in script.wins(found, *pair)] for pair in (("a", "b"), ("b", "a"))
    ]
    assert counts[0] == 2 * ["b 4 (+1.000) (of 4)"] + 2 * ["b 4 (x0.500) (of 4)"]
    assert counts[1] == 2 * ["a 0 (-1.000) (of 4)"] + 2 * ["a 0 (x2.000) (of 4)"]
