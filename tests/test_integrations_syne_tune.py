from __future__ import annotations

import datetime
import math
import pickle
from pathlib import Path
from typing import Any

import pytest

from epochcast.errors import ConfigError, InputError
from tests.softmax_regression import FAST, GOOD, HOPELESS, accuracies

pytest.importorskip("syne_tune")

from syne_tune.backend.trial_status import Trial
from syne_tune.config_space import uniform
from syne_tune.optimizer.baselines import RandomSearch
from syne_tune.optimizer.scheduler import SchedulerDecision

from epochcast.integrations.syne_tune import EpochcastScheduler

EPOCHS = 20
SPACE = {"rate": uniform(0.0, 10.0)}


def scheduler(rates: list[float] | None = None, minimize: bool = False, **options: Any) -> EpochcastScheduler:
    points = [{"rate": rate} for rate in rates or []]
    inside = RandomSearch(SPACE, ["val_acc"], do_minimize=minimize, random_seed=0, points_to_evaluate=points or None)
    return EpochcastScheduler(inside, horizon=EPOCHS, **options)


def run(search: EpochcastScheduler, number: int, rate: float, nan_at: int | None = None) -> int:
    """How many epochs a trial runs under the scheduler."""
    trial = Trial(number, {"rate": rate}, datetime.datetime.now(datetime.timezone.utc))
    search.on_trial_add(trial=trial)
    for epoch, value in enumerate(accuracies(rate, EPOCHS), start=1):
        value = math.nan if epoch == nan_at else value
        if search.on_trial_result(trial=trial, result={"epoch": epoch, "val_acc": value}) == SchedulerDecision.STOP:
            search.on_trial_remove(trial=trial)
            return epoch
    search.on_trial_complete(trial=trial, result={"epoch": EPOCHS, "val_acc": value})
    return EPOCHS


def test_scheduler_stops_the_hopeless_and_keeps_the_best() -> None:
    search = scheduler(confidence=0.9)
    assert run(search, 0, GOOD) == EPOCHS
    assert run(search, 1, HOPELESS) < EPOCHS / 2
    assert run(search, 2, FAST) == EPOCHS


def test_scheduler_trial_of_nan_is_stopped_and_the_search_goes_on() -> None:
    search = scheduler(confidence=0.9)
    assert run(search, 0, FAST, nan_at=3) == 3
    assert run(search, 1, FAST) == EPOCHS
    assert run(search, 2, HOPELESS) < EPOCHS / 2


def test_scheduler_dry_run_stops_nothing() -> None:
    search = scheduler(dry_run=True)
    assert [run(search, number, rate) for number, rate in enumerate((FAST, HOPELESS))] == [EPOCHS] * 2


def test_scheduler_suggestions_are_those_of_the_scheduler_inside() -> None:
    suggestion = scheduler(rates=[0.25]).suggest()
    assert suggestion is not None
    assert suggestion.config == {"rate": 0.25}


def test_scheduler_direction_that_contradicts_the_metric_raises() -> None:
    with pytest.raises(ConfigError, match="minimised by the framework"):
        scheduler(minimize=True)


def test_scheduler_step_that_is_not_reported_raises_and_lists_names() -> None:
    trial = Trial(0, {"rate": 1.0}, datetime.datetime.now(datetime.timezone.utc))
    with pytest.raises(InputError, match="'epoch' is not reported; these names are: iteration, val_acc"):
        scheduler().on_trial_result(trial=trial, result={"iteration": 1, "val_acc": 0.5})


def test_scheduler_survives_pickling_in_the_middle() -> None:
    search = scheduler()
    run(search, 0, FAST)
    assert run(pickle.loads(pickle.dumps(search)), 1, HOPELESS) < EPOCHS / 2


def test_scheduler_metadata_names_both() -> None:
    assert scheduler().metadata()["scheduler_name"] == "EpochcastScheduler(RandomSearch)"


BROKEN = 0.5  # a learning rate at which the fourth value is no number

TRAINING = f"""
import argparse, math, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from syne_tune import Reporter
from tests.softmax_regression import accuracies

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
report = Reporter()
rate = parser.parse_known_args()[0].rate
for epoch, value in enumerate(accuracies(rate, {EPOCHS}), start=1):
    report(epoch=epoch, val_acc=math.nan if (rate, epoch) == ({BROKEN}, 4) else value)
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Syne Tune's own
def test_scheduler_in_a_real_search_stops_the_hopeless_and_the_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from syne_tune import StoppingCriterion, Tuner
    from syne_tune.backend import LocalBackend

    monkeypatch.chdir(tmp_path)  # a folder of its own for all that Syne Tune leaves behind
    monkeypatch.setenv("SYNETUNE_FOLDER", str(tmp_path / "results"))
    script = tmp_path / "training.py"
    script.write_text(TRAINING)
    search = scheduler(rates=[BROKEN, FAST, HOPELESS])
    tuner = Tuner(
        trial_backend=LocalBackend(entry_point=str(script), rotate_gpus=False),
        scheduler=search,
        stop_criterion=StoppingCriterion(max_num_trials_finished=2),
        n_workers=1,
        sleep_time=0.2,
    )
    tuner.run()
    for process in tuner.trial_backend.trial_subprocess.values():
        process.wait()  # Syne Tune kills what it stops and leaves it at that
    assert search.trials.decisions["0"].step == 4
    assert search.trials.decisions["1"].step == EPOCHS
    assert search.trials.decisions["2"].stop
