from __future__ import annotations

import json
import logging
import math
import pickle
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import epochcast as ec
from epochcast.errors import ConfigError, InputError
from tests import local_ray
from tests.softmax_regression import FAST, GOOD, HOPELESS, accuracies

pytest.importorskip("ray.tune")

from ray import tune

from epochcast.integrations.ray_tune import EpochcastScheduler, EpochcastStopper

EPOCHS = 20


def result(step: int, value: float) -> dict[str, Any]:
    return {"training_iteration": step, "val_acc": value, "time_total_s": 1.0}


def test_stopper_metric_that_is_not_reported_raises_and_lists_names() -> None:
    with pytest.raises(InputError, match=r"'val_accuracy' is not reported; these names are: .*val_acc"):
        EpochcastStopper("val_accuracy", horizon=EPOCHS)("t1", result(1, 0.5))


def test_stopper_never_stops_the_whole_search() -> None:
    assert not EpochcastStopper("val_acc", horizon=EPOCHS).stop_all()


def test_stopper_trial_of_nan_is_stopped_and_nobody_has_to_beat_it() -> None:
    stopper = EpochcastStopper("val_acc", horizon=EPOCHS)
    assert not stopper("t1", result(1, 0.9))
    assert stopper("t1", result(2, math.nan))
    assert [stopper("t2", result(step, 0.95 - 0.1 / step)) for step in range(1, 8)] == [False] * 7


def test_stopper_metric_of_unknown_name_must_be_given() -> None:
    with pytest.raises(ConfigError, match="'quality'"):
        EpochcastStopper("quality", horizon=EPOCHS)
    EpochcastStopper("quality", "accuracy", horizon=EPOCHS)


def test_scheduler_takes_metric_and_mode_from_the_search() -> None:
    scheduler = EpochcastScheduler(horizon=EPOCHS)
    assert scheduler.set_search_properties("val_acc", "max")
    assert scheduler.trials is not None
    assert not scheduler.trials.metric.minimize


def test_scheduler_mode_that_contradicts_the_metric_raises() -> None:
    with pytest.raises(ConfigError, match="minimised by the framework"):
        EpochcastScheduler(horizon=EPOCHS).set_search_properties("val_acc", "min")


@pytest.mark.parametrize("monitor", [None, "val_acc"])
def test_scheduler_schedule_that_contradicts_the_horizon_is_refused_when_it_is_made(monitor: str | None) -> None:
    with pytest.raises(InputError, match="9 rates where the run has 20 steps"):
        EpochcastScheduler(monitor, horizon=EPOCHS, schedule=[0.1] * 9)


def test_scheduler_without_any_metric_raises() -> None:
    with pytest.raises(ConfigError, match="monitor="):
        EpochcastScheduler(horizon=EPOCHS).set_search_properties(None, None)


@pytest.mark.parametrize("forecaster", [None, ec.Forecaster()])
def test_stopper_and_scheduler_survive_pickling(forecaster: ec.Forecaster | None) -> None:
    stopper = EpochcastStopper("val_acc", horizon=EPOCHS, forecaster=forecaster)
    stopper("t1", result(1, 0.9))
    restored = pickle.loads(pickle.dumps(stopper))
    assert [restored("t2", result(step, 0.1)) for step in range(1, 8)][-1]
    scheduler = EpochcastScheduler(horizon=EPOCHS, forecaster=forecaster)
    assert pickle.loads(pickle.dumps(scheduler)).set_search_properties("val_acc", "max")


# --- real searches: Ray takes a while to start ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def _local_ray() -> Iterator[None]:
    with local_ray.node(cpus=1):
        yield


BROKEN = -1.0  # a learning rate at which the fourth value is no number


def train(config: dict[str, float]) -> None:
    for epoch, value in enumerate(accuracies(abs(config["rate"]), EPOCHS), start=1):
        tune.report({"val_acc": math.nan if config["rate"] == BROKEN and epoch == 4 else value})


def lengths(
    path: Path,
    stop: EpochcastStopper | None,
    scheduler: EpochcastScheduler | None,
    rates: tuple[float, ...] = (FAST, HOPELESS, GOOD),
) -> list[int]:
    """How long trials with these learning rates, one after the other, run."""
    tuner = tune.Tuner(
        train,
        param_space={"rate": tune.grid_search(list(rates))},
        tune_config=tune.TuneConfig(
            metric="val_acc", mode="max", scheduler=scheduler, max_concurrent_trials=1, reuse_actors=True
        ),
        run_config=tune.RunConfig(storage_path=str(path), verbose=0, stop=stop),
    )
    return [trial.metrics["training_iteration"] for trial in tuner.fit()]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.usefixtures("_local_ray")
def test_stopper_in_a_real_search_stops_the_hopeless_and_keeps_the_best(tmp_path: Path) -> None:
    fast, hopeless, good = lengths(tmp_path, EpochcastStopper("val_acc", horizon=EPOCHS), None)
    assert (fast, hopeless < EPOCHS / 2, good < EPOCHS) == (EPOCHS, True, True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.usefixtures("_local_ray")
def test_scheduler_in_a_real_search_stops_the_hopeless_and_keeps_the_best(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "epochcast"):
        fast, hopeless, good = lengths(tmp_path, None, EpochcastScheduler(horizon=EPOCHS))
    assert (fast, hopeless < EPOCHS / 2, good < EPOCHS) == (EPOCHS, True, True)
    assert not [record for record in caplog.records if record.name == "epochcast"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.usefixtures("_local_ray")
def test_scheduler_in_a_real_search_with_a_trial_of_nan_goes_on(tmp_path: Path) -> None:
    broken, hopeless, fast = lengths(tmp_path, None, EpochcastScheduler(horizon=EPOCHS), rates=(BROKEN, HOPELESS, FAST))
    assert (broken, fast) == (4, EPOCHS)
    assert 4 <= hopeless < EPOCHS  # it has the values before to beat


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.usefixtures("_local_ray")
def test_scheduler_in_a_real_dry_run_stops_nothing(tmp_path: Path) -> None:
    assert lengths(tmp_path, None, EpochcastScheduler(horizon=EPOCHS, dry_run=True)) == [EPOCHS] * 3


def train_with_checkpoints(config: dict[str, float]) -> None:
    checkpoint, start = tune.get_checkpoint(), 0
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            start = json.loads(Path(folder, "epoch.json").read_text())
    for epoch, value in enumerate(accuracies(config["rate"], EPOCHS), start=1):
        if epoch <= start:
            continue
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "epoch.json").write_text(json.dumps(epoch))
            tune.report({"val_acc": value}, checkpoint=tune.Checkpoint.from_directory(folder))


class CtrlC(tune.Callback):
    """Interrupts the search, once, in the middle of the hopeless trial and before that is judged."""

    pressed = False

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        if not CtrlC.pressed and trial.config["rate"] == HOPELESS and result["training_iteration"] == 3:
            CtrlC.pressed = True
            signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.usefixtures("_local_ray")
@pytest.mark.parametrize("kind", ["stopper", "scheduler"])
def test_restored_search_holds_trials_against_those_before_the_interruption(kind: str, tmp_path: Path) -> None:
    CtrlC.pressed = False
    tuner = tune.Tuner(
        train_with_checkpoints,
        param_space={"rate": tune.grid_search([FAST, HOPELESS])},
        tune_config=tune.TuneConfig(
            metric="val_acc",
            mode="max",
            scheduler=EpochcastScheduler(horizon=EPOCHS) if kind == "scheduler" else None,
            max_concurrent_trials=1,
        ),
        run_config=tune.RunConfig(
            name="search",
            storage_path=str(tmp_path),
            verbose=0,
            stop=EpochcastStopper("val_acc", horizon=EPOCHS) if kind == "stopper" else None,
            callbacks=[CtrlC()],
        ),
    )
    assert sorted(trial.metrics["training_iteration"] for trial in tuner.fit()) == [3, EPOCHS]
    restored = tune.Tuner.restore(str(tmp_path / "search"), train_with_checkpoints).fit()
    steps = {trial.config["rate"]: trial.metrics["training_iteration"] for trial in restored}
    assert steps[FAST] == EPOCHS
    assert 3 < steps[HOPELESS] < EPOCHS / 2  # it lost to the trial that ended before the interruption
    # It was judged on all its values, not only on those after the interruption: the fourth is enough.
    assert steps[HOPELESS] == 4
