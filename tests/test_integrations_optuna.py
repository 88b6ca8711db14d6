from __future__ import annotations

import logging
import math
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import epochcast as ec
from epochcast.distributions import Distribution
from epochcast.errors import ConfigError, InputError
from epochcast.question import Engine, Question
from tests.softmax_regression import FAST, GOOD, HOPELESS, accuracies

optuna = pytest.importorskip("optuna")

from epochcast.integrations.optuna import IMPUTED_FINAL, PROBABILITY, REASON, EpochcastPruner  # noqa: E402

EPOCHS = 20


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def search(pruner: EpochcastPruner, rates: list[float], first_step: int = 0) -> list[optuna.trial.FrozenTrial]:
    """Trials of a study that trains with these learning rates, in this order."""
    study = optuna.create_study(direction="maximize", pruner=pruner)
    for rate in rates:
        study.enqueue_trial({"rate": rate})

    def objective(trial: optuna.Trial) -> float:
        best = 0.0
        for step, value in enumerate(accuracies(trial.suggest_float("rate", 0.0, 10.0), EPOCHS), start=first_step):
            trial.report(value, step)
            best = max(best, value)
            if trial.should_prune():
                raise optuna.TrialPruned
        return best

    study.optimize(objective, n_trials=len(rates))
    return study.trials


def reported(values: list[float], direction: str = "minimize", **options: object) -> list[bool]:
    """The pruner's answers to a trial that reports these values after one that ended at 0.5."""
    pruner = EpochcastPruner(len(values) + 5, "loss", **options)  # type: ignore[arg-type]
    study = optuna.create_study(direction=direction, pruner=pruner)
    study.add_trial(optuna.trial.create_trial(value=0.5))
    trial = study.ask()
    answers = []
    for step, value in enumerate(values, start=1):
        trial.report(value, step)
        answers.append(trial.should_prune())
    return answers


# --- real searches -----------------------------------------------------------------------------------------------


def test_pruner_hopeless_trial_is_pruned_early_and_explained() -> None:
    first, second = search(EpochcastPruner(EPOCHS, "accuracy"), [FAST, HOPELESS])
    assert first.state is optuna.trial.TrialState.COMPLETE
    assert not first.user_attrs
    assert second.state is optuna.trial.TrialState.PRUNED
    assert len(second.intermediate_values) < EPOCHS / 2
    assert second.user_attrs[PROBABILITY] <= 0.05
    assert second.user_attrs[IMPUTED_FINAL] == pytest.approx(0.63, abs=0.1)
    assert second.user_attrs[REASON].startswith("stop: ")
    assert "0.878" in second.user_attrs[REASON]


def test_pruner_says_once_per_pruned_trial_why_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "epochcast"):
        trials = search(EpochcastPruner(EPOCHS, "accuracy"), [FAST, HOPELESS, FAST, HOPELESS])
    pruned = [trial for trial in trials if trial.state is optuna.trial.TrialState.PRUNED]
    assert [trial.number for trial in pruned] == [1, 3]
    assert [(record.levelname, record.message.partition(": ")[2]) for record in caplog.records] == [
        ("INFO", trial.user_attrs[REASON]) for trial in pruned
    ]
    assert all(f"/{trial.number} at step" in caplog.text for trial in pruned)


def test_pruner_trial_that_wins_completes() -> None:
    trials = search(EpochcastPruner(EPOCHS, "accuracy"), [HOPELESS, GOOD, FAST])
    assert [trial.state for trial in trials] == [optuna.trial.TrialState.COMPLETE] * 3


def test_pruner_dry_run_prunes_nothing_and_keeps_what_it_would_have_done() -> None:
    trials = search(EpochcastPruner(EPOCHS, "accuracy", dry_run=True), [FAST, HOPELESS])
    assert [trial.state for trial in trials] == [optuna.trial.TrialState.COMPLETE] * 2
    assert trials[1].user_attrs[REASON].startswith("would stop (dry run): ")


def test_pruner_counts_from_zero_and_from_one_prune_at_the_same_value() -> None:
    seen = [
        search(EpochcastPruner(EPOCHS, "accuracy"), [FAST, GOOD], first_step=first)[1].intermediate_values
        for first in (0, 1)
    ]
    assert list(seen[0].values()) == list(seen[1].values())
    assert len(seen[0]) < EPOCHS


def test_pruner_min_steps_and_check_every_are_kept() -> None:
    pruner = EpochcastPruner(EPOCHS, "accuracy", min_steps=7, check_every=4, confidence=0.9)
    second = search(pruner, [FAST, HOPELESS])[1]
    assert len(second.intermediate_values) == 8


def stuck(step: int, level: float = 1.0) -> float:
    """A loss that comes to rest."""
    return level + 1.3 * 0.7**step


# --- single trials -----------------------------------------------------------------------------------------------


def test_pruner_metric_left_out_of_a_minimised_study_is_a_loss() -> None:
    pruner = EpochcastPruner(50)
    study = optuna.create_study(direction="minimize", pruner=pruner)
    study.add_trial(optuna.trial.create_trial(value=0.1))
    trial = study.ask()
    for step in range(20):
        trial.report(stuck(step), step)
    assert trial.should_prune()


def test_pruner_direction_of_the_study_contradicts_metric_raises() -> None:
    with pytest.raises(ConfigError, match="maximised by the framework"):
        reported([1.0, 0.9], direction="maximize")


@pytest.mark.parametrize(
    "options",
    [
        {"horizon": 1},
        {"horizon": 9, "confidence": 2.0},
        {"horizon": 9, "min_steps": 0},
        {"horizon": 9, "schedule": [0.1, 0.2]},
    ],
)
def test_pruner_unusable_option_raises_when_it_is_made(options: dict[str, float]) -> None:
    with pytest.raises(InputError):
        EpochcastPruner(metric="accuracy", **options)  # type: ignore[arg-type]


def test_pruner_nan_prunes_and_nan_ignored_goes_on() -> None:
    assert reported([1.0, 0.8, math.nan]) == [False, False, True]
    assert reported([1.0, 0.8, math.nan, 0.6], non_finite="ignore") == [False] * 4


def test_pruner_asked_seldom_still_counts_the_checks_between() -> None:
    study = optuna.create_study(pruner=EpochcastPruner(50, "loss", check_every=4))
    study.add_trial(optuna.trial.create_trial(value=0.1))
    trial = study.ask()
    for step in range(1, 20):  # a check fell on 16, none on 19
        trial.report(stuck(step), step)
    assert trial.should_prune()


def test_pruner_asked_twice_answers_the_same() -> None:
    pruner = EpochcastPruner(50, "loss")
    study = optuna.create_study(pruner=pruner)
    study.add_trial(optuna.trial.create_trial(value=0.1))
    trial = study.ask()
    for step in range(1, 20):
        trial.report(stuck(step), step)
    assert [trial.should_prune(), trial.should_prune()] == [True, True]


def test_pruner_without_a_completed_trial_prunes_nothing() -> None:
    study = optuna.create_study(pruner=EpochcastPruner(20, "loss"))
    running = study.ask()
    running.report(0.01, 1)  # better than all that comes, but not complete
    trial = study.ask()
    for step in range(1, 19):
        trial.report(5.0, step)
        assert not trial.should_prune()


def test_pruner_two_studies_with_one_pruner_are_kept_apart() -> None:
    pruner = EpochcastPruner(50, "loss")
    answers = []
    for level in (1.0, 0.1):  # the trial of the second study has the same number and another past
        study = optuna.create_study(pruner=pruner)
        study.add_trial(optuna.trial.create_trial(value=0.5))
        trial = study.ask()
        for step in range(1, 20):
            trial.report(stuck(step, level), step)
        answers.append(trial.should_prune())
    assert answers == [True, False]


class BrokenEngine(Engine):
    name = "broken"

    def predict(self, question: Question) -> Distribution:
        raise RuntimeError("no forecast today")


def test_pruner_failing_forecast_is_logged_and_the_search_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    forecaster = ec.Forecaster.around(BrokenEngine())
    with caplog.at_level(logging.WARNING, "epochcast"):
        trials = search(EpochcastPruner(EPOCHS, "accuracy", forecaster=forecaster), [FAST, HOPELESS])
    assert [trial.state for trial in trials] == [optuna.trial.TrialState.COMPLETE] * 2
    assert "no forecast today" in caplog.text


def test_pruner_pickled_in_the_middle_goes_on() -> None:
    pruner = EpochcastPruner(50, "loss", forecaster=ec.Forecaster())
    study = optuna.create_study(pruner=pruner)
    study.add_trial(optuna.trial.create_trial(value=0.1))
    trial = study.ask()
    for step in range(1, 20):
        trial.report(stuck(step), step)
    assert trial.should_prune()
    study.pruner = pickle.loads(pickle.dumps(pruner))
    trial.report(stuck(20), 20)
    assert trial.should_prune()


# --- several processes -------------------------------------------------------------------------------------------

WORKER = """
import os, sys
import optuna
from epochcast.integrations.optuna import EpochcastPruner

kind, path = sys.argv[1:]
if kind == "sqlite":
    storage = optuna.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": 60}})
else:
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(path))
study = optuna.load_study(study_name="s", storage=storage, pruner=EpochcastPruner(30, "accuracy"))

def objective(trial):
    trial.set_user_attr("process", os.getpid())
    level = trial.suggest_float("level", 0.1, 0.4)
    for step in range(30):
        trial.report(level * (1 - 0.5 ** (step + 1)), step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return level

study.optimize(objective, n_trials=3)
"""


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_pruner_two_processes_share_the_best_through_the_storage(kind: str, tmp_path: Path) -> None:
    path = str(tmp_path / "study")
    storage = (
        optuna.storages.RDBStorage(f"sqlite:///{path}")
        if kind == "sqlite"
        else optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(path))
    )
    study = optuna.create_study(study_name="s", storage=storage, direction="maximize")
    study.add_trial(optuna.trial.create_trial(value=0.95))  # the workers can know of it from the storage alone
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, kind, path]) for _ in range(2)]
    assert [worker.wait(timeout=300) for worker in workers] == [0, 0]
    trials = study.get_trials()[1:]
    assert {trial.user_attrs["process"] for trial in trials} == {worker.pid for worker in workers}
    assert [trial.state for trial in trials] == [optuna.trial.TrialState.PRUNED] * 6
    assert all("0.95" in trial.user_attrs[REASON] for trial in trials)
    if kind == "sqlite":
        storage.remove_session()
        storage.engine.dispose()
