"""Freeze-thaw searches on Ray Tune: real trials that are paused, resumed from checkpoints, killed and interrupted."""

from __future__ import annotations

import gc
import logging
import math
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from epochcast.errors import ConfigError, InputError
from tests import checkpointed_training as training
from tests import local_ray
from tests.softmax_regression import accuracies

pytest.importorskip("ray.tune")

import ray
from ray import tune

from epochcast.integrations.ray_freeze_thaw import FreezeThawScheduler, FreezeThawSearcher

EPOCHS = 10
EVERY, PAUSE = 3, 0.5  # on the cluster: the epochs of a step, and seconds that an epoch takes at least
SPACE = {"rate": tune.loguniform(1e-4, 1.0)}


def searcher(space: dict[str, Any] | None = None, mode: str | None = "max", **options: Any) -> FreezeThawSearcher:
    found = FreezeThawSearcher(horizon=EPOCHS, **options)
    found.set_search_properties("val_acc", mode, SPACE if space is None else space, num_samples=100)
    return found


def result(step: int, value: float) -> dict[str, Any]:
    return {"training_iteration": step, "val_acc": value, "time_total_s": 1.0}


# --- without a cluster -------------------------------------------------------------------------------------------


def test_searcher_draws_from_the_domains_and_leaves_the_rest_alone() -> None:
    space = {
        "net": {"depth": tune.randint(1, 4), "act": tune.grid_search(["relu", "gelu"]), "size": [3, 4]},
        "rate": tune.loguniform(1e-4, 1.0),
        "data": "digits",
    }
    config = searcher(space).suggest("t1")
    assert isinstance(config, dict)
    assert config.keys() == {"net", "rate"}
    assert config["net"].keys() == {"depth", "act"}
    assert config["net"]["depth"] in (1, 2, 3)
    assert config["net"]["act"] in ("relu", "gelu")


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"rate": [tune.uniform(0.0, 1.0), 2]}, "rate.0 of param_space is drawn inside a list"),
        ({"rate": tune.randn(0.0, 1.0)}, "rate: .* is no domain that is known"),
        ({"rate": 0.1}, "the space has no entries"),
    ],
)
def test_searcher_space_that_cannot_be_searched_is_refused(space: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, InputError), match=message):
        searcher(space)


def test_searcher_without_a_space_raises() -> None:
    with pytest.raises(ConfigError, match="param_space="):
        FreezeThawSearcher("val_acc", horizon=EPOCHS).suggest("t1")


def test_searcher_takes_metric_and_mode_from_the_search() -> None:
    assert not searcher().search.metric.minimize
    with pytest.raises(ConfigError, match="minimised by the framework"):
        searcher(mode="min")
    with pytest.raises(ConfigError, match="monitor="):
        FreezeThawSearcher(horizon=EPOCHS).set_search_properties(None, None, SPACE)


@pytest.mark.parametrize("options", [{"horizon": 1}, {"horizon": 9, "every": 0}, {"horizon": 9, "budget": 0}])
def test_searcher_unusable_option_is_refused_when_it_is_made(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        FreezeThawSearcher("val_acc", **options)


def test_searcher_metric_that_is_not_reported_raises_and_lists_names() -> None:
    found = searcher()
    found.suggest("t1")
    with pytest.raises(InputError, match=r"'val_acc' is not reported; these names are: .*loss"):
        found.tell("t1", {"training_iteration": 1, "loss": 0.5})


def test_searcher_with_another_scheduler_raises() -> None:
    found = searcher()
    found.suggest("t1")
    with pytest.raises(ConfigError, match="scheduler=FreezeThawScheduler"):
        found.on_trial_result("t1", result(1, 0.5))


def test_searcher_and_scheduler_stay_together_when_tune_saves_them() -> None:
    found = searcher()
    found.suggest("t1")
    again, scheduler = pickle.loads(pickle.dumps((found, FreezeThawScheduler(found))))
    again.tell("t1", result(1, 0.5))
    assert scheduler.debug_string() == "epochcast: 1 trials, 0 of them paused, 1 steps."


def test_trial_that_tune_itself_ends_is_never_resumed() -> None:
    found = searcher(first=1)
    found.suggest("t1")
    found.on_trial_complete("t1", result(1, 0.5))
    assert found.search.runs[0].over
    assert found.search.runs[0].values == [0.5]


# --- real searches -----------------------------------------------------------------------------------------------


def train(config: dict[str, Any]) -> None:
    """Train from the trial's checkpoint, with what is to befall it in between."""
    log, name = training.Log(Path(config["log"])), tune.get_context().get_trial_id()
    checkpoint = tune.get_checkpoint()
    with tempfile.TemporaryDirectory() as begun:
        folder = None if checkpoint is None else Path(checkpoint.to_directory(begun))
        for epoch, value, weights in training.train(config["rate"], EPOCHS, folder):
            log.add(name, epoch)
            time.sleep(config.get("pause", 0.0))
            if epoch == 2 and befalls("killed", log.path, config):
                os.kill(os.getpid(), signal.SIGKILL)
            reported = math.nan if epoch == 2 and befalls("nan", log.path, config) else value
            shown = {"val_acc": reported, "node": ray.get_runtime_context().get_node_id()}
            if "no checkpoints" in config.get("faults", ()):
                tune.report(shown)
                continue
            with tempfile.TemporaryDirectory() as written:
                training.save(Path(written), epoch, weights)
                tune.report(shown, checkpoint=tune.Checkpoint.from_directory(written))


def befalls(what: str, log: Path, config: dict[str, Any]) -> bool:
    """Whether this happens now: to one trial of a search that has it among its faults."""
    return what in config.get("faults", ()) and training.once(log.with_name(what))


def tuner(
    path: Path,
    search: FreezeThawSearcher,
    callbacks: list[tune.Callback] | None = None,
    samples: int = -1,
    workers: int | None = 2,
    **entries: Any,
) -> tune.Tuner:
    return tune.Tuner(
        train,
        param_space={**SPACE, "log": str(path / "log"), **entries},
        tune_config=tune.TuneConfig(
            metric="val_acc",
            mode="max",
            search_alg=search,
            scheduler=FreezeThawScheduler(search),
            num_samples=samples,
            max_concurrent_trials=workers,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            name="search",
            storage_path=str(path),
            verbose=0,
            callbacks=callbacks,
            failure_config=tune.FailureConfig(max_failures=-1),
        ),
    )


def uninterrupted(search: FreezeThawSearcher) -> list[list[float]]:
    """What runs with the same rates show that are trained at one go."""
    return [list(accuracies(run.config["rate"], int(run.newest))) for run in search.search.runs]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with local_ray.cluster(nodes=2) as found:
        yield found


@pytest.fixture(autouse=True)
def _logs_of_tune(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No logs but ours; files that interrupted searches leave open are closed here, where warnings are ignored."""
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.usefixtures("cluster")
def test_search_pauses_trials_and_resumes_them_from_their_checkpoints(tmp_path: Path) -> None:
    search = FreezeThawSearcher(horizon=EPOCHS, budget=40, first=4)
    results = tuner(tmp_path, search).fit()
    log = training.Log(tmp_path / "log")
    assert set(log.epochs().values()) == {1}  # nothing was trained twice
    assert 40 <= log.epochs().total() <= 41
    assert len(log.order()) > len(set(log.order()))  # some trial was gone on with after others
    assert [run.values for run in search.search.runs] == uninterrupted(search)
    lengths = [trial.metrics["training_iteration"] for trial in results]
    assert sorted(lengths) == sorted(run.newest for run in search.search.runs)
    assert min(lengths) < max(lengths)
    assert not results.errors


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.usefixtures("cluster")
def test_search_with_a_killed_worker_and_a_trial_that_reports_nan_goes_on(tmp_path: Path) -> None:
    search = FreezeThawSearcher(horizon=EPOCHS, budget=30, first=4)
    tuner(tmp_path, search, faults=["killed", "nan"]).fit()
    log = training.Log(tmp_path / "log")
    assert (tmp_path / "killed").exists()
    assert (tmp_path / "nan").exists()
    twice = [key for key, times in log.epochs().items() if times > 1]
    assert [epoch for _, epoch in twice] == [2]  # the epoch that was not finished when the worker died
    broken = [run for run in search.search.runs if run.over and run.newest < EPOCHS]
    assert [run.newest for run in broken] == [1]  # its second value is no number
    assert [run.values for run in search.search.runs] == uninterrupted(search)
    assert sum(run.newest for run in search.search.runs) >= 28


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.usefixtures("cluster")
def test_search_without_budget_workers_or_checkpoints_ends_when_all_its_trials_are_at_the_horizon(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    search = FreezeThawSearcher(horizon=EPOCHS, every=5, first=2)
    with caplog.at_level(logging.WARNING, "epochcast"):
        results = tuner(tmp_path, search, samples=3, workers=None, faults=["no checkpoints"]).fit()
    assert [trial.metrics["training_iteration"] for trial in results] == [EPOCHS] * 3
    assert [run.values for run in search.search.runs] == uninterrupted(search)
    log = training.Log(tmp_path / "log")
    again = [record.message for record in caplog.records if "has no checkpoint and begins anew" in record.message]
    assert len(again) == sum(log.epochs()[name, 1] - 1 for name in search.trials.names) >= 1


class CtrlC(tune.Callback):
    """Interrupts the search, once, at the result of this number."""

    def __init__(self, at: int) -> None:
        self.left = at

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.usefixtures("cluster")
def test_restored_search_goes_on_with_its_paused_trials(tmp_path: Path) -> None:
    before = FreezeThawSearcher(horizon=EPOCHS, budget=30, first=4)
    tuner(tmp_path, before, callbacks=[CtrlC(at=18)]).fit()
    log = training.Log(tmp_path / "log")
    assert log.epochs().total() < 24
    started = {name for name, _ in log.epochs()}
    again = tune.Tuner.restore(str(tmp_path / "search"), train)
    results = again.fit()
    twice = [key for key, times in log.epochs().items() if times > 1]
    assert len(twice) <= 2  # what the two workers had not finished
    assert 30 <= log.epochs().total() - len(twice) <= 33
    assert not results.errors
    lengths = {trial.metrics["trial_id"]: trial.metrics["training_iteration"] for trial in results}
    assert started <= lengths.keys()
    assert sum(lengths.values()) == log.epochs().total() - len(twice)


class KillNode(tune.Callback):
    """Kills a node in the middle of an epoch that a trial trains there."""

    def __init__(self, cluster: Any, node: Any, log: training.Log) -> None:
        self.cluster, self.node, self.log = cluster, node, log
        self.results = 0
        self.unfinished: tuple[str, int] | None = None  # the trial and its epoch

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        self.results += 1
        goes_on = result["training_iteration"] % EVERY != 0
        if self.unfinished is None and self.results > 6 and goes_on and result["node"] == self.node.node_id:
            self.unfinished = trial.trial_id, result["training_iteration"] + 1
            Thread(target=self._kill, args=[self.unfinished, result["pid"]]).start()

    def _kill(self, unfinished: tuple[str, int], process: int) -> None:
        while unfinished not in self.log.epochs():
            time.sleep(0.01)
        os.kill(process, signal.SIGKILL)  # Ray would leave it a moment
        self.cluster.remove_node(self.node, allow_graceful=False)

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune saves its callbacks, and a cluster cannot be saved


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_search_on_a_cluster_that_loses_a_node_loses_only_an_unfinished_epoch(cluster: Any, tmp_path: Path) -> None:
    search = FreezeThawSearcher(horizon=EPOCHS, budget=24, first=4, every=EVERY)
    log = training.Log(tmp_path / "log")
    kill = KillNode(cluster, next(iter(cluster.worker_nodes)), log)
    try:
        results = tuner(tmp_path, search, callbacks=[kill], pause=PAUSE).fit()
    finally:
        local_ray.add_node(cluster)  # for the tests that come after
    assert kill.unfinished is not None
    assert [key for key, times in log.epochs().items() if times > 1] == [kill.unfinished]
    assert [run.values for run in search.search.runs] == uninterrupted(search)
    assert 24 <= sum(run.newest for run in search.search.runs) <= 26
    assert not results.errors
