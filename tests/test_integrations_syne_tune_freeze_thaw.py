"""Freeze-thaw searches on Syne Tune: real trials that are paused, resumed from checkpoints and killed."""

from __future__ import annotations

import datetime
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from epochcast.errors import ConfigError, InputError
from tests import checkpointed_training as training
from tests.softmax_regression import accuracies

pytest.importorskip("syne_tune")

from syne_tune import StoppingCriterion, Tuner
from syne_tune.backend import LocalBackend
from syne_tune.backend.trial_status import Trial
from syne_tune.config_space import loguniform
from syne_tune.optimizer.scheduler import SchedulerDecision

from epochcast.integrations.syne_tune_freeze_thaw import FreezeThawScheduler

EPOCHS = 10
SPACE = {"rate": loguniform(1e-4, 1.0)}
ONE = [{"rate": 0.1}]  # a search over a single run


def scheduler(space: Any = None, **options: Any) -> FreezeThawScheduler:
    return FreezeThawScheduler(SPACE if space is None else space, "val_acc", horizon=EPOCHS, **options)


class Played:
    """A tuner's part, without processes."""

    def __init__(self, search: FreezeThawScheduler) -> None:
        self.search = search
        self.started = 0

    def start(self) -> Trial:
        suggestion = self.search.suggest()
        assert suggestion is not None
        assert suggestion.spawn_new_trial_id
        trial = Trial(self.started, suggestion.config, datetime.datetime.now(datetime.timezone.utc))
        self.started += 1
        self.search.on_trial_add(trial)
        return trial

    def report(self, trial: Trial, epoch: int, value: float) -> str:
        return self.search.on_trial_result(trial, {"epoch": epoch, "val_acc": value})


def test_scheduler_pauses_a_trial_and_resumes_it_under_its_own_number() -> None:
    played = Played(scheduler(ONE, first=1, every=3))
    trial = played.start()
    assert [played.report(trial, epoch, 0.3) for epoch in (1, 2, 3)] == [SchedulerDecision.CONTINUE] * 3  # none waits
    played = Played(scheduler(ONE, every=3, until="until"))
    trial = played.start()
    assert [played.report(trial, epoch, 0.3) for epoch in (1, 2)] == [SchedulerDecision.CONTINUE] * 2
    assert played.report(trial, 3, 0.3) == SchedulerDecision.PAUSE
    suggestion = played.search.suggest()
    assert suggestion is not None
    assert (suggestion.spawn_new_trial_id, suggestion.checkpoint_trial_id) == (False, trial.trial_id)
    assert suggestion.config == {"rate": 0.1, "until": 6}


def test_scheduler_tells_a_script_and_nobody_else_up_to_which_step_to_train() -> None:
    played = Played(scheduler(every=3, until="until"))
    assert played.start().config["until"] == 3
    assert played.search.search.runs[0].config.keys() == {"rate"}


def test_scheduler_trial_at_the_horizon_or_of_nan_is_stopped() -> None:
    played = Played(scheduler())
    assert played.report(played.start(), EPOCHS, 0.5) == SchedulerDecision.STOP
    assert played.report(played.start(), 1, float("nan")) == SchedulerDecision.STOP
    assert [run.over for run in played.search.search.runs] == [True, True]


def test_scheduler_trial_that_ends_by_itself_is_never_resumed() -> None:
    played = Played(scheduler())
    trial = played.start()
    played.report(trial, 1, 0.5)
    played.search.on_trial_complete(trial, {"epoch": 1, "val_acc": 0.5})
    assert played.search.search.runs[0].over


def test_scheduler_failed_trial_is_begun_anew_from_its_checkpoint_if_it_can_have_one() -> None:
    played = Played(scheduler(ONE))
    played.search.on_trial_error(played.start())
    without = played.search.suggest()
    assert without is not None
    assert (without.spawn_new_trial_id, without.checkpoint_trial_id) == (True, None)
    trial = played.start()
    played.report(trial, 1, 0.3)
    played.search.on_trial_error(trial)
    with_one = played.search.suggest()
    assert with_one is not None
    assert (with_one.spawn_new_trial_id, with_one.checkpoint_trial_id) == (True, trial.trial_id)


def test_scheduler_step_that_is_not_reported_raises_and_lists_names() -> None:
    played = Played(scheduler())
    with pytest.raises(InputError, match="'epoch' is not reported; these names are: iteration, val_acc"):
        played.search.on_trial_result(played.start(), {"iteration": 1, "val_acc": 0.5})


def test_scheduler_metric_of_unknown_name_must_be_given() -> None:
    with pytest.raises(ConfigError, match="'quality'"):
        FreezeThawScheduler(SPACE, "quality", horizon=EPOCHS)
    assert FreezeThawScheduler(SPACE, "quality", "loss", horizon=EPOCHS).metric_mode() == "min"


def test_scheduler_metadata_can_be_written() -> None:
    written = json.loads(json.dumps(scheduler().metadata()))
    assert (written["metric_names"], written["metric_mode"]) == (["val_acc"], "max")


def test_scheduler_that_is_loaded_gives_back_what_was_being_trained() -> None:
    played = Played(scheduler(first=2))
    paused, busy = played.start(), played.start()
    played.report(paused, 2, 0.1)
    played.report(busy, 1, 0.5)
    again = pickle.loads(pickle.dumps(played.search))
    assert all(run.waits for run in again.search.runs)
    assert again._gone >= {str(busy.trial_id)}


# --- real searches -----------------------------------------------------------------------------------------------

TRAINING = f"""
import argparse, math, os, signal, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from syne_tune import Reporter
from tests import checkpointed_training as training

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--until", type=int, default={EPOCHS})
parser.add_argument("--st_checkpoint_dir", type=Path)
given = parser.parse_known_args()[0]
here = Path(__file__).parent
log, report = training.Log(here / "log"), Reporter()
for epoch, value, weights in training.train(given.rate, given.until, given.st_checkpoint_dir):
    log.add(str(given.rate), epoch)
    if epoch == 2 and training.once(here / "killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    training.save(given.st_checkpoint_dir, epoch, weights)
    report(epoch=epoch, val_acc=math.nan if epoch == 2 and training.once(here / "nan") else value)
"""


def run(folder: Path, search: FreezeThawScheduler, monkeypatch: pytest.MonkeyPatch, evaluations: int) -> Tuner:
    """A search on the processes of this machine, all of whose files are in the folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SYNETUNE_FOLDER", str(folder / "results"))
    script = folder / "training.py"
    script.write_text(TRAINING)
    tuner = Tuner(
        trial_backend=LocalBackend(entry_point=str(script), rotate_gpus=False),
        scheduler=search,
        stop_criterion=StoppingCriterion(max_num_evaluations=evaluations),
        n_workers=2,
        sleep_time=0.05,
        max_failures=2,
    )
    tuner.run()
    for process in tuner.trial_backend.trial_subprocess.values():
        process.wait()  # Syne Tune kills what it stops and leaves it at that
    return tuner


def uninterrupted(search: FreezeThawScheduler) -> list[list[float]]:
    """What runs with the same rates show that are trained at one go."""
    return [list(accuracies(run.config["rate"], int(run.newest))) for run in search.search.runs]


@pytest.mark.filterwarnings("ignore")  # Syne Tune's own
def test_search_pauses_trials_and_resumes_them_from_their_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = scheduler(first=2, every=4, until="until")
    for name in ("killed", "nan"):
        (tmp_path / name).touch()  # nothing happens
    run(tmp_path, search, monkeypatch, evaluations=16)
    log = training.Log(tmp_path / "log")
    assert set(log.epochs().values()) == {1}  # nothing was trained twice
    assert [run.values for run in search.search.runs] == uninterrupted(search)
    assert min(run.newest for run in search.search.runs if run.values) < max(run.newest for run in search.search.runs)
    assert len(search.trials.names) == len(search.search.runs)  # what is gone on with is the same trial


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Syne Tune's own
def test_search_with_a_killed_process_and_a_trial_that_reports_nan_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = scheduler(first=2, every=4, until="until")
    run(tmp_path, search, monkeypatch, evaluations=16)
    log = training.Log(tmp_path / "log")
    assert (tmp_path / "killed").exists()
    assert (tmp_path / "nan").exists()
    assert [epoch for (_, epoch), times in log.epochs().items() if times > 1] in ([], [2])  # not finished by then
    broken = [run for run in search.search.runs if run.over and run.newest < EPOCHS]
    assert [run.newest for run in broken] == [1]  # its second value is no number
    assert [run.values for run in search.search.runs] == uninterrupted(search)
    assert sum(run.newest for run in search.search.runs) >= 12


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Syne Tune's own
def test_search_that_is_loaded_goes_on_with_its_paused_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("killed", "nan"):
        (tmp_path / name).touch()  # nothing happens
    before = run(tmp_path, scheduler(first=2, every=4, until="until"), monkeypatch, evaluations=8)
    tuner = Tuner.load(str(before.tuner_path))
    tuner.stop_criterion = StoppingCriterion(max_num_evaluations=16)
    tuner.run()
    for process in tuner.trial_backend.trial_subprocess.values():
        process.wait()
    search = tuner.scheduler
    assert [run.config for run in search.search.runs][:2] == [run.config for run in before.scheduler.search.runs][:2]
    assert [run.values for run in search.search.runs] == uninterrupted(search)
    assert sum(run.newest for run in search.search.runs) >= 16
    assert max(training.Log(tmp_path / "log").epochs().values()) <= 2
