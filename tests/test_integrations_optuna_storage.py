"""Optuna with a storage that several processes share: what is read of it, and what befalls it and them."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from epochcast.integrations.other_trials import OtherTrials
from tests.softmax_regression import FAST, HOPELESS, accuracies

optuna = pytest.importorskip("optuna")

from sqlalchemy import event  # noqa: E402  (Optuna's own requirement)

from epochcast.integrations.optuna import REASON, EpochcastPruner  # noqa: E402

EPOCHS = 20
FINISHED = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


@contextmanager
def storage_at(path: Path, patience: float) -> Iterator[Any]:
    """The storage of a process that waits this many seconds where it is locked."""
    found = optuna.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": patience}})
    yield found
    found.remove_session()
    found.engine.dispose()


def study_in(storage: Any, **options: Any) -> Any:
    pruner = EpochcastPruner(EPOCHS, "accuracy", **options)
    return optuna.create_study(
        study_name="s", storage=storage, direction="maximize", pruner=pruner, load_if_exists=True
    )


def finished(value: float, values: int = 3) -> Any:
    """A trial that is over, with a parameter and a few values."""
    return optuna.trial.create_trial(
        value=value,
        params={"rate": value},
        distributions={"rate": optuna.distributions.FloatDistribution(0.0, 10.0)},
        intermediate_values={step: value * (1.0 - 0.5**step) for step in range(1, values + 1)},
    )


# --- a storage that is locked --------------------------------------------------------------------------------------

LOCK = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
sys.stdin.read()
connection.execute("ROLLBACK")
connection.close()
"""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Meanwhile another process has locked the storage."""
    locker = lock(path, 0.0, subprocess.PIPE)
    yield
    assert locker.poll() is None
    locker.communicate()


def lock(path: Path, seconds: float, told: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Another process that has locked the storage, for so long, and until it is told where it can be."""
    arguments = [sys.executable, "-c", LOCK, str(path), str(seconds)]
    process = subprocess.Popen(arguments, stdin=told, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


def test_pruner_whose_storage_is_locked_judges_by_what_was_read_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with storage_at(tmp_path / "study", patience=0.05) as storage:
        study = study_in(storage)
        study.add_trial(finished(0.95))
        trial = study.ask()
        seen = list(accuracies(HOPELESS, 6))
        trial.report(seen[0], 1)
        assert not trial.should_prune()  # it has read what the others came to
        for epoch, value in enumerate(seen[1:], start=2):
            trial.report(value, epoch)
        judged = study.get_trials()[1]
        with locked(tmp_path / "study"), caplog.at_level(logging.WARNING, "epochcast"):
            assert study.pruner.prune(study, judged)
        failed = [record.message.split(" failed")[0] for record in caplog.records]
        assert failed == ["reading the other trials", "storing the decision"]
        assert trial.should_prune()


@pytest.mark.parametrize("seconds", [1.5, pytest.param(5.0, marks=pytest.mark.slow)])
def test_search_whose_storage_is_locked_for_a_while_goes_on(seconds: float, tmp_path: Path) -> None:
    lockers = []

    def objective(trial: Any) -> float:
        for epoch, value in enumerate(accuracies(trial.suggest_float("rate", 0.0, 10.0), EPOCHS), start=1):
            if (trial.number, epoch) == (1, 3):
                lockers.append(lock(tmp_path / "study", seconds))
            trial.report(value, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    with storage_at(tmp_path / "study", patience=60.0) as storage:
        study = study_in(storage)
        for rate in (FAST, HOPELESS, FAST):
            study.enqueue_trial({"rate": rate})
        study.optimize(objective, n_trials=3)
        states = [trial.state for trial in study.trials]
        assert states == [FINISHED[0], FINISHED[1], FINISHED[0]]
        assert REASON in study.trials[1].user_attrs
    lockers[0].communicate()
    assert lockers[0].returncode == 0


# --- processes that die, and trials that break down -----------------------------------------------------------------

WORKER = """
import json, os, signal, sys
from collections import Counter
import optuna
from epochcast.integrations.optuna import EpochcastPruner

path, dies = sys.argv[1], sys.argv[2] == "dies"
reads = Counter()
build = optuna.storages.RDBStorage._build_frozen_trial_from_trial_model

def counted(self, trial):
    if trial.state.is_finished():
        reads[trial.number] += 1
    return build(self, trial)

optuna.storages.RDBStorage._build_frozen_trial_from_trial_model = counted
optuna.logging.set_verbosity(optuna.logging.ERROR)
storage = optuna.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": 60}})
study = optuna.load_study(study_name="s", storage=storage, pruner=EpochcastPruner(20, "accuracy"))

def objective(trial):
    level = trial.suggest_float("rate", 0.1, 0.4)
    for step in range(1, 21):
        trial.report(level * (1 - 0.5**step), step)
        if dies and step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if trial.should_prune():
            raise optuna.TrialPruned
    return level

study.optimize(objective, n_trials=4)
print(json.dumps(reads))
"""


def work(path: Path, dies: bool = False) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WORKER, str(path), "dies" if dies else "lives"]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def test_search_with_a_killed_process_goes_on_in_the_others(tmp_path: Path) -> None:
    with storage_at(tmp_path / "study", patience=60.0) as storage:
        study = study_in(storage)
        study.add_trial(finished(0.95))
        killed = work(tmp_path / "study", dies=True)
        killed.communicate()
        assert killed.returncode == -signal.SIGKILL
        other = work(tmp_path / "study")
        other.communicate()
        assert other.returncode == 0
        left, *new = study.get_trials()[1:]
        assert (left.state, len(left.intermediate_values)) == (optuna.trial.TrialState.RUNNING, 3)
        assert [trial.state for trial in new] == [FINISHED[1]] * 4


def test_search_with_trials_of_nan_goes_on_and_nobody_has_to_beat_them() -> None:
    study = optuna.create_study(direction="maximize", pruner=EpochcastPruner(EPOCHS, "accuracy"))
    for rate in (FAST, -1.0, -2.0, HOPELESS, FAST):
        study.enqueue_trial({"rate": rate})

    def objective(trial: Any) -> float:
        rate = trial.suggest_float("rate", -2.0, 10.0)
        if rate == -2.0:
            return float("nan")  # Optuna calls it a failure
        for epoch, value in enumerate(accuracies(abs(rate), EPOCHS), start=1):
            trial.report(float("nan") if rate < 0.0 and epoch == 4 else value, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    study.optimize(objective, n_trials=5)
    complete, pruned = FINISHED
    failed = optuna.trial.TrialState.FAIL
    assert [trial.state for trial in study.trials] == [complete, pruned, failed, pruned, complete]
    assert len(study.trials[1].intermediate_values) == 4


# --- what is read ----------------------------------------------------------------------------------------------------


class Reads:
    """What a process reads of its storage, and takes over from there."""

    def __init__(self, storage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trials: Counter[tuple[int, bool]] = Counter()  # number, and whether it was over
        self.taken: Counter[str] = Counter()
        self.statements = 0
        event.listen(storage.engine, "before_cursor_execute", self._statement)
        build, replace = storage._build_frozen_trial_from_trial_model, OtherTrials.replace

        def built(model: Any) -> Any:
            self.trials[model.number, model.state.is_finished()] += 1
            return build(model)

        def replaced(others: OtherTrials, trial: str, *given: Any) -> None:
            self.taken[trial] += 1
            replace(others, trial, *given)

        monkeypatch.setattr(storage, "_build_frozen_trial_from_trial_model", built)
        monkeypatch.setattr(OtherTrials, "replace", replaced)

    def _statement(self, *_: Any) -> None:
        self.statements += 1

    def clear(self) -> None:
        self.trials.clear()
        self.taken.clear()
        self.statements = 0

    def counts(self) -> tuple[int, int, int]:
        return self.statements, self.trials.total(), self.taken.total()


def test_finished_trials_are_read_once_by_each_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with storage_at(tmp_path / "study", patience=60.0) as storage:
        study = study_in(storage)
        study.add_trial(finished(0.95))
        reads = Reads(storage, monkeypatch)
        workers = [work(tmp_path / "study") for _ in range(2)]
        trial = study.ask()
        epoch = 0
        while any(worker.poll() is None for worker in workers) or epoch < 5:
            epoch += 1
            trial.report(0.9, epoch)
            trial.should_prune()
        told = [json.loads(worker.communicate()[0]) for worker in workers]
        trial.report(0.9, epoch + 1)
        trial.should_prune()
        over = [times for (_, is_over), times in reads.trials.items() if is_over]
        assert len(over) == 9
        assert set(over) == {1}
        for process in told:
            assert set(process.values()) == {1}
            assert len(process) >= 4


def test_decision_beside_many_finished_trials_reads_as_little_as_beside_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with storage_at(tmp_path / "study", patience=60.0) as storage:
        event.listen(storage.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
        storage.engine.dispose()  # so that the file is not waited for a thousand times
        study = study_in(storage)
        reads = Reads(storage, monkeypatch)
        running, counts, epoch = [study.ask() for _ in range(3)], [], 0
        for many in (10, 1000):
            study.add_trials([finished(0.5)] * (many - len(study.trials) + len(running)))
            for is_first in (True, False, False):  # the first decision takes in what is new
                epoch += 1
                for trial in running:
                    trial.report(0.6, epoch)
                reads.clear()
                assert not running[0].should_prune()
                if not is_first:
                    counts.append(reads.counts())
        assert len(set(counts)) == 1
        _, trials, taken = counts[0]
        assert trials <= 2 * len(running)
        assert taken == len(running)
        reads.clear()
        assert len(study_in(storage).trials) == 1003  # who comes anew reads all
        assert reads.trials.total() > 1000
