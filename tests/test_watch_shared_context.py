"""`watch` with a model that reads other runs: which are shown beside which; a second look agrees with a first."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epochcast as ec
from epochcast.logs import read_runs
from epochcast.logs.configuration import config_beside
from epochcast.others import MOST_RUNS
from epochcast.watch import Watcher
from tests.context_model import tiny_context_model
from tests.test_stopping_earlier import Alone, Recorder
from tests.test_watch import HORIZON, curve, write


def watcher(root: Path, engine: Recorder, **options: Any) -> Watcher:
    options = {"alone": False, **options}
    return Watcher(root, "val_acc", "accuracy", HORIZON, forecaster=ec.Forecaster.around(engine), **options)


def beside(engine: Recorder) -> dict[float, list[float]]:
    """The ends so far of the runs beside each run, by its own; newest question last."""
    found = {}
    for question in engine.questions:
        others = [] if question.context is None else question.context.runs.last_value.tolist()
        for own in question.runs.last_value.tolist():
            found[own] = others
    return found


def test_runs_are_each_others_context_and_never_their_own(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path / f"run{number:02}.csv", curve(0.5 + number / 50, 5 + number))
    write(tmp_path / "done.csv", curve(0.7))
    write(tmp_path / "broken.csv", [*curve(0.6, 5), float("nan")])
    for name, values in (("empty", []), ("one", [0.1]), ("percent", [20.0, 30.0])):
        write(tmp_path / f"{name}.csv", values)
    engine = Recorder()
    watcher(tmp_path, engine).refresh()
    found = beside(engine)
    assert len(found) == 21  # those that go on
    assert all(own not in others for own, others in found.items())
    assert {len(others) for others in found.values()} == {20, 21, 22}  # of 22; some are left out with another


def test_of_many_runs_the_newest_and_the_best_are_shown_and_few_contexts_are_made(tmp_path: Path) -> None:
    ends = np.random.default_rng(0).permutation(150) / 300.0 + 0.4
    for number, end in enumerate(ends):
        write(tmp_path / f"run{number:03}.csv", curve(end, 8))
    engine = Recorder()
    watcher(tmp_path, engine).refresh()
    found = beside(engine)
    assert len(found) == 150
    assert all(own not in others for own, others in found.items())
    assert {len(others) for others in found.values()} == {MOST_RUNS - 4, MOST_RUNS}
    assert len({id(question.context) for question in engine.questions}) == 17


def test_one_run_has_nobody_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "run.csv", curve(0.7, 5))
    engine = Recorder()
    watcher(tmp_path, engine).refresh()
    assert engine.contexts == [0]


@pytest.mark.parametrize(("engine", "options"), [(Recorder(), {"alone": True}), (Alone(), {})], ids=["off", "unread"])
def test_alone_each_run_is_forecast_by_itself_and_only_again_when_it_grows(
    engine: Recorder, options: dict[str, bool], tmp_path: Path
) -> None:
    write(tmp_path / "a.csv", curve(0.7, 5))
    write(tmp_path / "b.csv", curve(0.8, 5))
    watched = watcher(tmp_path, engine, **options)
    watched.refresh()
    write(tmp_path / "b.csv", curve(0.8, 6))
    watched.refresh()
    assert set(engine.contexts) == {0}
    assert watched.runs_forecast == 3


def test_run_that_grows_changes_what_is_known_beside_the_others(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", curve(0.7, 5))
    write(tmp_path / "b.csv", curve(0.8, 5))
    engine = Recorder()
    watched = watcher(tmp_path, engine)
    watched.refresh()
    watched.refresh()
    assert watched.runs_forecast == 2  # nothing has changed since
    write(tmp_path / "b.csv", curve(0.8, 6))
    engine.questions.clear()
    watched.refresh()
    assert watched.runs_forecast == 4
    lengths = {int(question.runs.lengths[0]): question.context for question in engine.questions}
    assert [context is not None and context.runs.lengths.tolist() for context in (lengths[5], lengths[6])] == [[6], [5]]


def test_alone_is_no_truth_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ec.EpochcastError, match="alone='yes' must be True or False"):
        watcher(tmp_path, Recorder(), alone="yes")


@pytest.mark.parametrize("most_bytes", [0, 1 << 29])
def test_growing_runs_are_forecast_among_others_as_at_first_sight(most_bytes: int, tmp_path: Path) -> None:
    forecaster = ec.Forecaster(tiny_context_model(tmp_path / "model"))
    options: Any = {"forecaster": forecaster, "best": 0.9}
    root = tmp_path / "runs"
    values = np.clip(ec.sample_prior(6, HORIZON, seed=5), 0.0, 1.0)
    looks = [(4, 7, 12, 3, 20, 50), (5, 7, 14, 2, 21, 50), (9, 9, 14, 6, 22, 50)]
    for number in range(6):
        (root / str(number)).mkdir(parents=True)
        (root / str(number) / "config.json").write_text(json.dumps({"lr": 10.0**-number}))
    look_again = None
    shown = []
    for lengths in looks:
        for number, length in enumerate(lengths):
            write(root / str(number) / "run.csv", values[number, :length])
        if look_again is None:
            look_again = Watcher(root, "val_acc", "accuracy", HORIZON, alone=False, most_bytes=most_bytes, **options)
        first, alone = (Watcher(root, "val_acc", "accuracy", HORIZON, alone=off, **options) for off in (False, True))
        again, expected, single = (found.refresh().rows for found in (look_again, first, alone))
        for row, other in zip(again, expected, strict=True):
            assert row.name == other.name
            assert row.final == pytest.approx(other.final, abs=1e-4)
        shown.append({row.name: row.final for row in expected} != {row.name: row.final for row in single})
    assert all(shown)  # the others do change the forecasts


# --- configurations ----------------------------------------------------------------------------------------------


def test_configurations_that_loggers_leave_are_read(tmp_path: Path) -> None:
    left = {
        "lightning/hparams.yaml": "lr: 0.1\nmodel:\n  depth: 2\n",
        "wandb/files/config.yaml": "_wandb:\n  value: 1\nlr:\n  desc: null\n  value: 0.2\n",
        "ray/params.json": '{"lr": 0.3}',
        "mlflow/params/lr": "0.4",
        "plain/config.json": '{"lr": 0.5}',
    }
    for number, (name, text) in enumerate(left.items()):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
        write(tmp_path / name.partition("/")[0] / "metrics.csv", curve(0.5 + number / 10, 5))
    engine = Recorder()
    watcher(tmp_path, engine).refresh()
    asked = [config for question in engine.questions for config in question.configs if config is not None]
    assert sorted(config["lr"] for config in asked) == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert {"lr": 0.1, "model.depth": 2} in asked
    for question in engine.questions:
        assert question.context is not None
        own = {config["lr"] for config in question.configs if config}
        assert {config["lr"] for config in question.context.configs if config} == {0.1, 0.2, 0.3, 0.4, 0.5} - own


def test_parameters_of_an_mlflow_store_are_those_of_each_run(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    store = sqlite3.connect(path)
    store.executescript("""
        CREATE TABLE experiments (experiment_id, name, lifecycle_stage);
        CREATE TABLE runs (run_uuid, name, experiment_id, lifecycle_stage, start_time);
        CREATE TABLE metrics (key, value, step, timestamp, run_uuid, is_nan);
        CREATE TABLE params (key, value, run_uuid);
        INSERT INTO experiments VALUES (1, 'digits', 'active');
    """)
    for name, lr in (("a", "0.1"), ("b", "fast")):
        store.execute("INSERT INTO runs VALUES (?, ?, 1, 'active', 0)", (name, name))
        store.executemany("INSERT INTO params VALUES (?, ?, ?)", [("lr", lr, name), ("amp", "True", name)])
        store.executemany("INSERT INTO metrics VALUES ('acc', ?, ?, 0, ?, 0)", [(0.1 * i, i, name) for i in (1, 2, 3)])
    store.commit()
    store.close()
    assert [config_beside(run) for run in read_runs(path)] == [{"amp": True, "lr": 0.1}, {"amp": True, "lr": "fast"}]
