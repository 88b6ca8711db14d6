from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import epochcast as ec
from epochcast.errors import InputError
from epochcast.logs import Series
from epochcast.metric import Metric
from epochcast.stopping.decision import Reason
from epochcast.watch import Row, RunDetails, Snapshot, Verdict, Watcher
from epochcast.watch.lines import Line
from epochcast.watch.past_forecasts import past_forecasts
from epochcast.watch.run_details import first_reach
from tests.logged_runs import HORIZON, curve, write

ACCURACY = Metric.named("accuracy")


@pytest.fixture(scope="module")
def forecaster() -> ec.Forecaster:
    return ec.Forecaster()


@pytest.fixture
def seen(tmp_path: Path, forecaster: ec.Forecaster) -> Snapshot:
    write(tmp_path / "leader.csv", curve(0.9, 30))
    write(tmp_path / "lost.csv", curve(0.4, 20))
    write(tmp_path / "young.csv", curve(0.4, 3))
    write(tmp_path / "done.csv", curve(0.7))
    write(tmp_path / "broken.csv", [*curve(0.6, 5), math.nan])
    write(tmp_path / "empty.csv", [])
    write(tmp_path / "percent.csv", [20.0, 30.0])
    return Watcher(tmp_path, "val_acc", "accuracy", HORIZON, forecaster=forecaster).refresh()


def row_of(snapshot: Snapshot, name: str) -> Row:
    return next(row for row in snapshot.rows if row.name == f"{name}.csv")


# --- lines -------------------------------------------------------------------------------------------------------


def test_line_thinned_keeps_ends_and_spikes() -> None:
    values = np.zeros(10_000)
    values[[1234, 8765]] = 5.0, -7.0
    line = Line(np.arange(10_000.0), values).thinned(100)
    assert len(line.steps) <= 100
    assert (line.steps[0], line.steps[-1]) == (0.0, 9999.0)
    assert (line.values.max(), line.values.min()) == (5.0, -7.0)
    assert (np.diff(line.steps) > 0).all()


def test_line_of_a_log_leaves_out_what_is_not_finite() -> None:
    line = Line.of(Series(np.array([1.0, 2.0, 3.0]), np.array([0.5, math.nan, 0.7])))
    assert (line.steps.tolist(), line.values.tolist()) == ([1.0, 3.0], [0.5, 0.7])
    assert len(line.until(2.0).steps) == 1
    assert len(Line.of(None).steps) == 0


# --- decisions and savings ---------------------------------------------------------------------------------------


def test_decision_of_each_row_says_what_its_verdict_says(seen: Snapshot) -> None:
    told = {row.name: row.decision(HORIZON) for row in seen.rows}
    reasons = {name: None if decision is None else decision.reason for name, decision in told.items()}
    assert reasons == {
        "leader.csv": Reason.LEADING,
        "lost.csv": Reason.UNLIKELY,
        "young.csv": Reason.WARM_UP,
        "done.csv": Reason.FINISHED,
        "broken.csv": Reason.NON_FINITE,
        "empty.csv": None,
        "percent.csv": None,
    }
    assert str(told["lost.csv"]).startswith("stop: ")
    assert f"{max(curve(0.9, 30)):.4g} by step {HORIZON}" in str(told["lost.csv"])
    assert {row.name for row in seen.rows if (told[row.name] or SimpleNamespace(stop=False)).stop} == {
        "lost.csv",
        "broken.csv",
    }


def test_steps_saved_are_those_that_hopeless_runs_have_left(seen: Snapshot) -> None:
    assert [row.name for row in seen.rows if row.verdict is Verdict.HOPELESS] == ["lost.csv"]
    assert seen.steps_saved == HORIZON - 20


def test_rival_is_the_best_of_the_others(seen: Snapshot) -> None:
    assert row_of(seen, "leader").rival == pytest.approx(max(curve(0.7)))
    assert row_of(seen, "lost").rival == pytest.approx(max(curve(0.9, 30)))


# --- a closer look -----------------------------------------------------------------------------------------------


def test_details_agree_with_the_table_and_with_a_single_forecast(seen: Snapshot, forecaster: ec.Forecaster) -> None:
    row = row_of(seen, "lost")
    details = RunDetails.of(row, seen, forecaster)
    assert details.fan is not None
    single = forecaster.forecast(curve(0.4, 20), HORIZON, "accuracy")
    np.testing.assert_allclose(details.fan.median, single.median(), atol=1e-5)
    np.testing.assert_allclose(details.fan.bands[0.8], single.interval(0.8), atol=1e-5)
    assert row.final is not None
    assert details.fan.median[-1] == pytest.approx(row.final[0], abs=1e-4)
    assert details.sentence == str(row.decision(HORIZON))
    assert details.alone is None  # this model reads nothing else


@pytest.mark.parametrize("name", ["leader", "done", "broken", "empty", "percent", "young"])
def test_details_of_any_run_are_plain_json(name: str, seen: Snapshot, forecaster: ec.Forecaster) -> None:
    told = RunDetails.of(row_of(seen, name), seen, forecaster).to_dict()
    json.dumps(told, allow_nan=False)
    assert (told["fan"] is not None) == (name in ("leader", "young"))


def test_details_of_a_long_horizon_ask_for_a_bounded_number_of_steps(tmp_path: Path, forecaster: ec.Forecaster) -> None:
    write(tmp_path / "run.csv", curve(0.8, 2000))
    snapshot = Watcher(tmp_path, "val_acc", "accuracy", 10**6, forecaster=forecaster).refresh()
    details = RunDetails.of(snapshot.rows[0], snapshot, forecaster)
    assert details.fan is not None
    assert len(details.fan.steps) <= 100
    assert details.fan.steps[-1] == 10**6
    assert len(details.seen.steps) <= 600


def test_details_tell_the_configuration(tmp_path: Path, forecaster: ec.Forecaster) -> None:
    write(tmp_path / "a" / "log.csv", curve(0.8, 10))
    (tmp_path / "a" / "config.json").write_text('{"lr": 0.1}')
    snapshot = Watcher(tmp_path, "val_acc", "accuracy", HORIZON, forecaster=forecaster).refresh()
    assert RunDetails.of(snapshot.rows[0], snapshot, forecaster).to_dict()["config"] == {"lr": 0.1}


# --- earlier forecasts -------------------------------------------------------------------------------------------


def test_earlier_forecasts_are_those_of_what_was_known_then(forecaster: ec.Forecaster) -> None:
    values = np.array(curve(0.8, 40))
    earlier = past_forecasts(Line(np.arange(1.0, 41.0), values), HORIZON, ACCURACY, forecaster)
    assert [then.step for then in earlier] == [6.0, 12.0, 18.0, 25.0, 31.0, 37.0]  # each eighth of 50 steps
    for then in earlier:
        own = forecaster.forecast(values[: int(then.step)], HORIZON, "accuracy")
        assert then.final[0] == pytest.approx(float(own.final.median()), abs=1e-5)
        low, high = (side[: 40 - int(then.step)] for side in own.interval(0.9))
        later = values[int(then.step) :]
        assert (then.inside, then.checked) == (int(((low <= later) & (later <= high)).sum()), len(later))


def test_earlier_forecasts_hold_what_was_drawn_from_their_belief_and_not_what_was_not(
    forecaster: ec.Forecaster,
) -> None:
    inside = np.zeros(2)
    checked = 0
    for values in np.clip(ec.sample_prior(12, HORIZON, seed=4), 0.0, 1.0):
        for i, shift in enumerate((0.0, -0.3)):  # the second: a run that is worse from the middle on
            moved = np.where(np.arange(HORIZON) < 25, values, np.clip(values + shift, 0.0, 1.0))
            for then in past_forecasts(Line(np.arange(1.0, 51.0), moved), HORIZON, ACCURACY, forecaster)[:4]:
                inside[i] += then.inside
                checked += then.checked if i == 0 else 0
    assert inside[0] / checked > 0.75
    assert inside[1] / checked < 0.6


def test_earlier_forecasts_of_a_run_of_one_value_are_none(forecaster: ec.Forecaster) -> None:
    assert past_forecasts(Line(np.ones(1), np.ones(1)), HORIZON, ACCURACY, forecaster) == ()


# --- the other runs ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve finished runs that rise late, and one that has not risen yet, which nothing but the others can tell."""
    rng = np.random.default_rng(0)
    for number in range(12):
        late = 0.3 + 0.5 / (1.0 + np.exp(-(np.arange(HORIZON) - 25.0) / 3.0)) + 0.01 * rng.standard_normal(HORIZON)
        write(tmp_path / f"done{number:02}.csv", late[: 10 if number == 11 else HORIZON])
        (tmp_path / f"done{number:02}.json").write_text(f'{{"seed": {number}}}')
    return tmp_path


def test_details_of_a_model_that_reads_other_runs_agree_with_the_table_and_tell_what_they_add(folder: Path) -> None:
    model = ec.Forecaster("empirical-gp")
    snapshot = Watcher(folder, "val_acc", "accuracy", HORIZON, forecaster=model, alone=False).refresh()
    row = row_of(snapshot, "done11")
    assert row.others is not None
    assert len(row.others) == 11
    details = RunDetails.of(row, snapshot, model)
    assert details.fan is not None
    assert details.alone is not None
    assert row.final is not None
    assert details.fan.median[-1] == pytest.approx(row.final[0], abs=1e-6)
    assert details.fan.median[-1] == pytest.approx(0.8, abs=0.05)
    assert details.alone.final[0] < 0.6
    told = details.to_dict()
    assert (told["others"], told["config"]) == (11, {"seed": 11})
    assert told["alone"]["final"]["low"] < told["alone"]["final"]["median"]
    json.dumps(told, allow_nan=False)


def test_details_of_runs_that_are_judged_alone_have_one_forecast(folder: Path) -> None:
    model = ec.Forecaster("empirical-gp")
    snapshot = Watcher(folder, "val_acc", "accuracy", HORIZON, forecaster=model, alone=True).refresh()
    details = RunDetails.of(row_of(snapshot, "done11"), snapshot, model)
    assert details.fan is not None
    assert details.fan.median[-1] < 0.6
    assert details.alone is None
    assert details.to_dict()["others"] == 0


# --- when a value is reached -------------------------------------------------------------------------------------


def test_first_reach_is_sooner_for_what_is_nearer_and_never_for_what_is_out_of_reach(
    seen: Snapshot, forecaster: ec.Forecaster
) -> None:
    row = row_of(seen, "leader")
    near, far = (first_reach(row, seen, forecaster, value) for value in (0.9, 0.999))
    assert near["never"] is not None
    assert far["never"] is not None
    assert near["never"] < far["never"]
    assert far["even"] is None
    assert near["even"] is None or near["even"] > 30
    reached = first_reach(row, seen, forecaster, 0.5)
    assert (reached["even"], reached["never"]) == (2.0, 0.0)


def test_first_reach_of_a_run_with_nothing_ahead_says_so(seen: Snapshot, forecaster: ec.Forecaster) -> None:
    with pytest.raises(InputError, match="finished: there is nothing ahead"):
        first_reach(row_of(seen, "done"), seen, forecaster, 0.9)
