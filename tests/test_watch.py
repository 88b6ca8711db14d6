from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import time
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import epochcast as ec
from epochcast.errors import EpochcastError, InputError
from epochcast.stopping import decide
from epochcast.stopping.decision import MIN_SHARE, MIN_STEPS
from epochcast.watch import Row, Snapshot, Verdict, Watcher, chance, table
from epochcast.watch.table import render, show
from epochcast.watch.watcher import FORECASTING, READING
from tests.logged_runs import HORIZON, curve, write


def watcher(root: Path, **options: object) -> Watcher:
    options = {"alone": True, **options}
    return Watcher(root, "val_acc", "accuracy", HORIZON, **options)  # type: ignore[arg-type]


def rows_of(snapshot: Snapshot) -> dict[str, Row]:
    return {row.name: row for row in snapshot.rows}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """One run of every kind."""
    write(tmp_path / "done.csv", curve(0.7))
    write(tmp_path / "leader.csv", curve(0.9, 30))
    write(tmp_path / "open.csv", curve(0.95, 3))
    write(tmp_path / "lost.csv", curve(0.4, 20))
    write(tmp_path / "broken.csv", [*curve(0.6, 5), math.nan])
    write(tmp_path / "empty.csv", [])
    write(tmp_path / "percent.csv", [20.0, 30.0])
    return tmp_path


# --- verdicts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"root": None}, "root=None must be the path"),
        ({"monitor": 3}, "monitor=3 must be a name"),
        ({"min_share": "x"}, "min_share='x' is not a number"),
        ({"most_bytes": None}, "most_bytes=None must be a whole number"),
        ({"forecaster": "real"}, "forecaster='real' must be a Forecaster"),
    ],
)
def test_argument_of_a_watcher_that_cannot_be_used_is_named(tmp_path, given, problem):
    with pytest.raises(InputError, match=problem):
        Watcher(**{"root": tmp_path, "monitor": "val_acc", "metric": "accuracy", "horizon": 50, **given})


def test_refresh_runs_of_unequal_length_each_get_their_verdict(runs: Path) -> None:
    snapshot = watcher(runs).refresh()
    assert {name: row.verdict for name, row in rows_of(snapshot).items()} == {
        "done.csv": Verdict.FINISHED,
        "leader.csv": Verdict.LEADING,
        "open.csv": Verdict.RUNNING,
        "lost.csv": Verdict.HOPELESS,
        "broken.csv": Verdict.DIVERGED,
        "empty.csv": Verdict.WAITING,
        "percent.csv": Verdict.UNUSABLE,
    }
    assert snapshot.best == pytest.approx(max(curve(0.9, 30)))
    assert snapshot.rows[0].name in ("leader.csv", "open.csv")
    assert "trailing %" in snapshot.notes[0]


def test_refresh_row_agrees_with_the_decision_on_the_single_run(runs: Path) -> None:
    row = rows_of(watcher(runs).refresh())["lost.csv"]
    decision = decide(ec.forecast(curve(0.4, 20), HORIZON, "accuracy"), max(curve(0.9, 30)))
    assert decision.stop
    assert row.probability == pytest.approx(decision.probability, abs=1e-2)
    assert row.final == pytest.approx(decision.final, abs=1e-4)


@pytest.mark.parametrize("values", range(1, 7))
def test_refresh_run_of_few_values_or_far_from_its_horizon_is_not_called_hopeless(values: int, tmp_path: Path) -> None:
    write(tmp_path / "done.csv", curve(0.99))
    write(tmp_path / "young.csv", [0.1] * values)
    options = {"confidence": 0.05}  # whatever has less than 95 % is hopeless

    def verdict(**more: float) -> Verdict:
        return rows_of(watcher(tmp_path, **options, **more).refresh())["young.csv"].verdict

    assert (MIN_STEPS, MIN_SHARE * HORIZON) == (4, 5)
    assert verdict() is (Verdict.HOPELESS if values >= 5 else Verdict.RUNNING)
    assert verdict(min_share=0.0) is (Verdict.HOPELESS if values >= 4 else Verdict.RUNNING)
    assert verdict(min_steps=1, min_share=0.0) is Verdict.HOPELESS


def test_refresh_minimised_metric_leads_with_the_smallest(tmp_path: Path) -> None:
    for name, end in (("low", 0.2), ("high", 1.5)):
        write(tmp_path / f"{name}.csv", [end + 0.8 * 0.7**step for step in range(20)], "loss")
    rows = rows_of(Watcher(tmp_path, "loss", "log_loss", HORIZON).refresh())
    assert rows["low.csv"].verdict is Verdict.LEADING
    assert rows["high.csv"].verdict is Verdict.HOPELESS


def test_refresh_single_run_has_nothing_to_beat(tmp_path: Path) -> None:
    write(tmp_path / "only.csv", curve(0.5, 10))
    row = watcher(tmp_path).refresh().rows[0]
    assert (row.verdict, row.probability) == (Verdict.RUNNING, None)
    assert watcher(tmp_path, best=0.99).refresh().rows[0].verdict is Verdict.HOPELESS


def test_refresh_run_past_the_horizon_is_finished(tmp_path: Path) -> None:
    write(tmp_path / "long.csv", curve(0.8, HORIZON + 10))
    row = watcher(tmp_path).refresh().rows[0]
    assert (row.verdict, row.step, row.final) == (Verdict.FINISHED, HORIZON + 10, None)


def test_refresh_values_at_step_zero_in_some_runs_are_forecast_apart(tmp_path: Path) -> None:
    write(tmp_path / "plain.csv", curve(0.8, 10))
    text = "step,val_acc\n0,0.1\n" + "".join(f"{10 * i},{v}\n" for i, v in enumerate(curve(0.8, 4), start=1))
    (tmp_path / "untrained.csv").write_text(text)
    assert all(row.final is not None for row in watcher(tmp_path).refresh().rows)


def test_refresh_wrong_direction_is_noted(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", [0.9 - 0.05 * step for step in range(12)])
    assert "getting steadily worse" in watcher(tmp_path).refresh().notes[0]


# --- noisy runs --------------------------------------------------------------------------------------------------


def noisy(level: float, rng: np.random.Generator, steps: int) -> np.ndarray:
    """A run that has long come to rest, but for its noise."""
    rise = 0.7 * np.exp(-rng.uniform(0.05, 0.3) * np.arange(1, 101))
    return np.clip(level - rise + 0.03 * rng.standard_normal(100), 0.0, 1.0)[:steps]


def test_refresh_noisy_runs_of_one_level_are_mostly_not_hopeless(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(30):
        write(tmp_path / f"equal{number:02}.csv", noisy(0.8, rng, int(rng.integers(70, 95))))
    for number in range(5):
        write(tmp_path / f"worse{number}.csv", noisy(0.6, rng, 80))
    rows = rows_of(Watcher(tmp_path, "val_acc", "accuracy", 100).refresh())
    hopeless = {name for name, row in rows.items() if row.verdict is Verdict.HOPELESS}
    assert {f"worse{number}.csv" for number in range(5)} <= hopeless
    assert len(hopeless) <= 5 + 10  # an end set against the largest of all values would lose for two in three


def test_refresh_chance_is_that_of_the_best_value_not_of_the_last(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for number in range(4):
        write(tmp_path / f"run{number}.csv", noisy(0.8, rng, 60))
    rows = Watcher(tmp_path, "val_acc", "accuracy", 100).refresh().rows
    rival = max(row.best for row in rows if row.best is not None)
    for row in rows:
        if row.best == rival:
            continue
        values = np.loadtxt(tmp_path / row.name, delimiter=",", skiprows=1, usecols=1)
        forecast = ec.forecast(values, 100, "accuracy")
        single, every = forecast.prob_better(rival).max(), 1.0 - np.prod(1.0 - forecast.prob_better(rival))
        assert row.probability is not None
        assert single < row.probability < every  # later values share their level, but not their noise


def test_chance_of_best_without_noise_is_that_of_the_best_step() -> None:
    better = np.array([[0.0, 0.2, 0.3]])
    shared = chance.shared_part(np.array([[1e-9, 1.0, 4.0]]))
    assert chance.chance_of_best(better, shared, np.ones((1, 3)))[0] == pytest.approx(0.3, abs=0.02)


def test_chance_of_best_of_pure_noise_is_that_of_independent_draws() -> None:
    better = np.full((1, 3), 0.1)
    shared = chance.shared_part(np.ones((1, 3)))
    counts = np.array([[1.0, 2.0, 3.0]])
    assert chance.chance_of_best(better, shared, counts)[0] == pytest.approx(1.0 - 0.9**6, abs=1e-6)


@pytest.mark.parametrize("horizon", [2, 10, 100, 1000, 10**9])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_asked_steps_lie_after_the_run_and_end_at_the_horizon(horizon: int, share: float) -> None:
    step = min(share * horizon, horizon - 1)
    asked = chance.asked_steps(chance.next_place(step, horizon), horizon)
    assert asked[0] > step
    assert asked[-1] == horizon
    assert len(asked) <= chance.ASKED
    assert (asked % 1 == 0).all()


def test_draws_count_the_values_that_a_run_goes_on_to_log() -> None:
    every_fifth = np.arange(5.0, 51.0, 5.0)
    assert chance.draws(every_fifth, np.array([55.0, 75.0, 100.0])).sum() == pytest.approx(10.0)
    assert chance.draws(np.array([99.0]), np.array([100.0])).tolist() == [1.0]
    assert np.isfinite(chance.draws(np.array([1.0, np.nextafter(1.0, 2.0)]), np.array([2.0, 1e9]))).all()


# --- growing files -----------------------------------------------------------------------------------------------


def test_refresh_growing_file_only_it_is_read_and_forecast_again(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path / f"run{number}" / "log.csv", curve(0.5 + 0.05 * number, 10 + number))
    watched = watcher(tmp_path)
    watched.refresh()
    assert (watched.logs.files_read, watched.runs_forecast) == (5, 5)
    with (tmp_path / "run0" / "log.csv").open("a") as file:
        file.write("11,0.9\n")
    rows = rows_of(watched.refresh())
    assert (watched.logs.files_read, watched.runs_forecast) == (6, 6)
    assert rows["run0/log.csv"].step == 11
    assert rows["run0/log.csv"].verdict is Verdict.LEADING
    watched.refresh()
    assert (watched.logs.files_read, watched.runs_forecast) == (6, 6)


def test_refresh_new_leader_changes_the_chance_of_runs_that_stood_still(tmp_path: Path) -> None:
    write(tmp_path / "old.csv", curve(0.6, 15))
    write(tmp_path / "rival.csv", curve(0.5, 15))
    watched = watcher(tmp_path)
    before = rows_of(watched.refresh())["old.csv"]
    write(tmp_path / "rival.csv", curve(0.95, 25))
    after = rows_of(watched.refresh())["old.csv"]
    assert (before.verdict, after.verdict) == (Verdict.LEADING, Verdict.HOPELESS)
    assert watched.runs_forecast == 3


def test_refresh_line_that_is_half_written_waits_for_its_end(tmp_path: Path) -> None:
    path = write(tmp_path / "run.csv", curve(0.6, 10))
    with path.open("a") as file:
        file.write("11,0.5")
    watched = watcher(tmp_path)
    assert watched.refresh().rows[0].step == 10
    with path.open("a") as file:
        file.write("9\n")
    assert (watched.refresh().rows[0].step, watched.refresh().rows[0].value) == (11, 0.59)


def test_refresh_file_cut_and_file_deleted_are_followed(tmp_path: Path) -> None:
    write(tmp_path / "gone.csv", curve(0.9, 10))
    path = write(tmp_path / "again.csv", curve(0.6, 20))
    watched = watcher(tmp_path)
    assert len(watched.refresh().rows) == 2
    (tmp_path / "gone.csv").unlink()
    write(path, curve(0.6, 4))
    rows = watched.refresh().rows
    assert [(row.name, row.step) for row in rows] == [("again.csv", 4)]


def test_refresh_500_runs_costs_by_what_changed(tmp_path: Path) -> None:
    values = np.clip(ec.sample_prior(500, HORIZON, seed=1), 0.0, 1.0)
    lengths = np.random.default_rng(0).integers(2, 20, 500)
    for number in range(500):
        write(tmp_path / f"run{number:03}.csv", values[number, : lengths[number]])
    network = Counting()
    watched = watcher(tmp_path, forecaster=network.forecaster)
    assert len(watched.refresh().rows) == 500
    everything = int((1 + lengths).sum())
    assert everything <= network.tokens < 1.2 * everything  # little padding
    assert network.calls <= len(set(lengths))  # runs at one step in one batch, not one by one
    for number in range(0, 500, 100):
        write(tmp_path / f"run{number:03}.csv", values[number, : lengths[number] + 1])
    watched.refresh()
    assert network.tokens_of_the_last(watched.runs_forecast - 500) == [1] * 5


class Counting:
    """The session of a default network of its own, which notes the tokens that it is given."""

    def __init__(self) -> None:
        self.forecaster = ec.Forecaster()
        self.sizes: list[tuple[int, int]] = []  # (runs, tokens each) of every call
        self._session = self.forecaster.engine.session  # type: ignore[attr-defined]
        self.forecaster.engine.session = self  # type: ignore[attr-defined]

    def run(self, names: list[str], feed: dict[str, np.ndarray]) -> object:
        self.sizes.append(feed["tokens"].shape[:2])
        return self._session.run(names, feed)

    @property
    def calls(self) -> int:
        return len(self.sizes)

    @property
    def tokens(self) -> int:
        return sum(runs * each for runs, each in self.sizes)

    def tokens_of_the_last(self, runs: int) -> list[int]:
        """New tokens of each of the runs forecast last."""
        return [each for count, each in self.sizes for _ in range(count)][-runs:]


# --- the same answers as without a memory ------------------------------------------------------------------------


def test_refresh_growing_runs_are_hopeless_only_where_a_stopper_stops(tmp_path: Path) -> None:
    best = 0.62
    values = np.clip(ec.sample_prior(8, HORIZON, seed=3), 0.0, 0.6)
    lengths = np.random.default_rng(1).integers(2, 25, len(values))
    watched = watcher(tmp_path, best=best)
    verdicts = set()
    for growth in (0, 1, 3):
        lengths = lengths + growth
        for number, length in enumerate(lengths):
            write(tmp_path / f"run{number}.csv", values[number, :length])
        rows = rows_of(watched.refresh())
        for number, length in enumerate(lengths):
            stopper = ec.Stopper(HORIZON, "accuracy", best=best, check_every=int(length), min_steps=1, min_share=0.0)
            for step in range(1, length + 1):
                decision = stopper.update(step, values[number, step - 1])
            row = rows[f"run{number}.csv"]
            assert row.final == pytest.approx(decision.final, abs=1e-4)
            assert row.probability is not None
            assert decision.probability is not None
            assert row.probability > decision.probability - 0.02  # which is that of a single step
            assert row.verdict is not Verdict.HOPELESS or decision.reason.stops
            verdicts.add(row.verdict)
    assert verdicts == {Verdict.HOPELESS, Verdict.RUNNING}


@pytest.mark.parametrize("model", ["default", "stream"])
@pytest.mark.parametrize("most_bytes", [0, 100_000, 1 << 29])
def test_refresh_cut_restarted_and_growing_runs_are_forecast_as_at_first_sight(
    model: str, most_bytes: int, tmp_path: Path
) -> None:
    horizon = 150  # past the grid of `stream`, which thins such runs to every other step
    forecaster = ec.Forecaster(model)
    options = {"forecaster": forecaster, "best": 0.9}
    look_again = Watcher(tmp_path, "val_acc", "accuracy", horizon, most_bytes=most_bytes, **options)
    values = np.clip(ec.sample_prior(4, 100, seed=5), 0.0, 1.0)
    others = np.clip(ec.sample_prior(4, 100, seed=6), 0.0, 1.0)
    looks = [
        [values[0, :30], values[1, :7], values[2, :12], values[3, :12]],
        [values[0, :31], values[1, :9], values[2, :5], others[3, :12]],  # two grow, one is cut, one starts again
        [values[0, :40], np.r_[values[1, :4], others[1, 4:9]], values[2, :6], others[3, :90]],
    ]
    for look in looks:
        for number, seen in enumerate(look):
            write(tmp_path / f"run{number}.csv", seen)
        first_sight = Watcher(tmp_path, "val_acc", "accuracy", horizon, **options).refresh()
        for row, expected in zip(look_again.refresh().rows, first_sight.rows, strict=True):
            assert row.name == expected.name
            assert row.final == pytest.approx(expected.final, abs=1e-4)
            assert row.probability == pytest.approx(expected.probability, abs=1e-5)


def test_refresh_memory_stays_within_its_bound_and_ends_with_the_run(tmp_path: Path) -> None:
    network = Counting()
    for name in ("a", "b"):
        write(tmp_path / f"{name}.csv", curve(0.6, 20))
    layers, two, _, heads, _, size = network.forecaster.engine.empty_memory(1).shape  # type: ignore[attr-defined]
    room = 30 * 4 * layers * two * heads * size  # for 30 tokens of four bytes per number
    watched = watcher(tmp_path, forecaster=network.forecaster, most_bytes=room)
    watched.refresh()
    for name in ("a", "b"):
        write(tmp_path / f"{name}.csv", curve(0.6, 21))
    watched.refresh()
    assert sorted(network.tokens_of_the_last(2)) == [1, 22]  # there was room for one of them
    write(tmp_path / "a.csv", curve(0.6))
    write(tmp_path / "b.csv", curve(0.6))
    watched.refresh()
    write(tmp_path / "c.csv", curve(0.6, 20))
    watched.refresh()
    write(tmp_path / "c.csv", curve(0.6, 21))
    watched.refresh()
    assert network.tokens_of_the_last(1) == [1]


def test_refresh_growing_runs_take_the_memory_of_those_that_stand_still(tmp_path: Path) -> None:
    network = Counting()
    write(tmp_path / "a_stands_still.csv", curve(0.6, 20))
    write(tmp_path / "b_grows.csv", curve(0.6, 20))
    layers, two, _, heads, _, size = network.forecaster.engine.empty_memory(1).shape  # type: ignore[attr-defined]
    room = 40 * 4 * layers * two * heads * size  # for one of them
    watched = watcher(tmp_path, forecaster=network.forecaster, most_bytes=room)
    watched.refresh()
    read = []
    for steps in range(21, 26):
        write(tmp_path / "b_grows.csv", curve(0.6, steps))
        watched.refresh()
        read += network.tokens_of_the_last(1)
    assert read[:3] == [22, 23, 1]  # until the other has not been asked about for two looks
    assert read[3:] == [1, 1]


def test_refresh_long_run_beside_a_short_one_does_not_thin_it(tmp_path: Path) -> None:
    horizon = 500
    short = write(tmp_path / "short.csv", curve(0.6, 150))
    alone = Watcher(tmp_path, "val_acc", "accuracy", horizon).refresh().rows[0]
    write(tmp_path / "long.csv", curve(0.6, 250))
    rows = rows_of(Watcher(tmp_path, "val_acc", "accuracy", horizon).refresh())
    assert rows[short.name].final == pytest.approx(alone.final, abs=1e-5)


# --- restarts, and files that cannot be read ---------------------------------------------------------------------


def test_refresh_run_that_starts_again_is_judged_by_its_living_attempt(tmp_path: Path) -> None:
    path = write(tmp_path / "run.csv", curve(0.9, 30))
    watched = watcher(tmp_path)
    assert watched.refresh().rows[0].step == 30
    with path.open("a") as file:
        file.writelines(f"{step},0.3\n" for step in range(1, 11))
    row = watched.refresh().rows[0]
    assert (row.step, row.value, row.best) == (10, 0.3, 0.3)
    assert "1 run started again, such as run.csv" in watched.refresh().notes[0]
    assert "starts again at epoch 1: left out 30 of 40 values" in row.to_dict()["log_notes"][0]


def test_refresh_damaged_files_end_nothing_and_are_all_named(tmp_path: Path) -> None:
    write(tmp_path / "good.csv", curve(0.6, 10))
    bad = {
        "a.csv": b"epoch,val_acc\n1,high\n2,0.5\n",
        "b.jsonl": b"{\n",
        "c.db": b"SQLite format 3\x00" + b"\xff" * 2000,
        "events.out.tfevents.1": b"\x00" * 50,
        "trainer_state.json": b"[",
        "run-1.wandb": b"\x00" * 50,
    }
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
    snapshot = watcher(tmp_path).refresh()
    assert [row.name for row in snapshot.rows] == ["good.csv"]
    left_out = snapshot.to_dict()["left_out"]
    assert len(left_out) == len(bad)
    assert all(entry["reason"] and set(entry) == {"path", "reason"} for entry in left_out)
    assert {Path(entry["path"]).name for entry in left_out} >= {"a.csv", "b.jsonl", "c.db", "trainer_state.json"}
    assert "6 files left out" in snapshot.notes[0]


def test_refresh_run_of_absurd_values_ends_nothing_and_gives_valid_json(tmp_path: Path) -> None:
    write(tmp_path / "good.csv", [0.5, 0.6, 0.7])
    for number, value in enumerate((1e39, 1e150, 1e300, 1.7e308)):
        write(tmp_path / f"absurd{number}.csv", [0.5, value, 0.6, value, 0.7])
    snapshot = Watcher(tmp_path, "val_acc", "unit", HORIZON).refresh()
    assert len(snapshot.rows) == 5
    json.dumps(snapshot.to_dict(), allow_nan=False)


# --- mistakes ----------------------------------------------------------------------------------------------------


def test_refresh_unknown_metric_names_those_present(tmp_path: Path) -> None:
    write(tmp_path / "run.csv", curve(0.5, 5), "accuracy_top1")
    assert "accuracy_top1" in str(watcher(tmp_path).refresh().problem)


def test_refresh_without_runs_says_what_was_looked_for(tmp_path: Path) -> None:
    assert "TensorBoard" in str(watcher(tmp_path).refresh().problem)


def test_refresh_all_runs_of_another_kind_says_why(tmp_path: Path) -> None:
    write(tmp_path / "run.csv", [20.0, 40.0])
    assert "percentages" in str(watcher(tmp_path).refresh().problem)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"metric": "acuracy"}, "acuracy"),
        ({"horizon": 1}, "horizon=1"),
        ({"confidence": 1.5}, "confidence=1.5"),
        ({"best": math.nan}, "best=nan"),
        ({"min_steps": 0}, "min_steps=0"),
        ({"min_share": 1.0}, "min_share=1"),
    ],
)
def test_watcher_unusable_option_raises(changes: dict[str, object], named: str, tmp_path: Path) -> None:
    options = {"monitor": "val_acc", "metric": "accuracy", "horizon": 10, **changes}
    with pytest.raises(EpochcastError, match=named):
        Watcher(tmp_path, **options)  # type: ignore[arg-type]


def test_watcher_path_that_is_no_directory_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a directory"):
        watcher(tmp_path / "nowhere")


# --- what is shown -----------------------------------------------------------------------------------------------


def shown(snapshot: Snapshot, width: int, **options: int) -> list[str]:
    console = Console(width=width, file=StringIO())
    console.print(render(snapshot, width, **options))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 140])
def test_table_fits_its_width_and_cuts_no_number(runs: Path, width: int) -> None:
    write(runs / ("a_very_long_name_of_a_run_that_needs_" * 2 + "seed_17.csv"), curve(0.8, 10))
    lines = shown(watcher(runs).refresh(), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    leader = next(line for line in lines if "leader" in line)
    assert "leading" in leader
    assert f"{curve(0.9, 30)[-1]:.4f}" in leader
    assert "seed_17.csv" in text or "…" in text
    assert re.search(r"8 runs: 1 leading, \d running, 1 finished", text)  # who is hopeless is the model's to say


def test_table_name_with_control_characters_is_made_harmless(tmp_path: Path) -> None:
    write(tmp_path / "\x1b[31mred.csv", curve(0.5, 5))
    assert "\x1b" not in "\n".join(shown(watcher(tmp_path).refresh(), 100))


def test_table_says_what_its_chance_is_and_json_too(runs: Path) -> None:
    snapshot = watcher(runs).refresh()
    sentence = f"its best value by step {HORIZON} beats the best of the other runs so far"
    assert f"chance: that {sentence}" in shown(snapshot, 120)
    assert snapshot.to_dict()["probability_of"] == sentence


def test_table_note_that_quotes_control_characters_is_made_harmless(tmp_path: Path) -> None:
    write(tmp_path / "run.csv", curve(0.5, 5))
    (tmp_path / "\x1b[31m\udcff.csv").write_text("epoch,val_acc\n1,high\n2,0.5\n")
    text = "\n".join(shown(watcher(tmp_path).refresh(), 200))
    assert "1 file left out" in text
    assert "\x1b" not in text
    text.encode()


def test_refresh_tells_how_far_it_has_got_and_shows_what_it_has(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path / f"run{number}.csv", curve(0.5 + 0.05 * number, 5 + number))
    watched = watcher(tmp_path)
    told: list[tuple[str, int, int]] = []
    known: list[int] = []

    def tell(what: str, done: int, total: int) -> None:
        told.append((what, done, total))
        if what == FORECASTING:
            known.append(sum(row.final is not None for row in watched.snapshot().rows))

    last = watched.refresh(tell)
    assert told[:6] == [(READING, done, 6) for done in range(1, 7)]
    assert [done for what, done, _ in told if what == FORECASTING] == known == [0, 1, 2, 3, 4, 5, 6]
    assert all(row.final is not None for row in last.rows)
    told.clear()
    watched.refresh(tell)
    assert {what for what, _, _ in told} == {READING}


def test_show_first_look_in_a_terminal_draws_a_bar_and_a_table_that_fills(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_BETWEEN_BARS", 0.0)
    monkeypatch.setattr(table, "_BETWEEN_TABLES", 0.0)
    console = Console(file=StringIO(), force_terminal=True, width=120, height=40)
    show(watcher(runs), console, interval=1.0, once=True, as_json=False)
    assert isinstance(console.file, StringIO)
    drawn = console.file.getvalue()
    assert "reading logs" in drawn
    assert "7 of 7" in drawn
    assert "forecasting runs" in drawn
    assert drawn.count("leader.csv") >= 3  # while it fills, and in the end
    assert drawn.rindex("forecasting runs") < drawn.rindex("leader.csv")


@pytest.mark.parametrize(("terminal", "as_json"), [(False, False), (False, True), (True, True)])
def test_show_elsewhere_than_in_a_terminal_or_as_json_has_no_control_codes(
    runs: Path, terminal: bool, as_json: bool
) -> None:
    console = Console(file=StringIO(), force_terminal=terminal, width=120)
    show(watcher(runs), console, interval=1.0, once=True, as_json=as_json)
    assert isinstance(console.file, StringIO)
    written = console.file.getvalue()
    assert "\x1b" not in written
    assert "reading logs" not in written


def test_table_with_too_many_rows_counts_those_left_out(runs: Path) -> None:
    lines = shown(watcher(runs).refresh(), 100, most_rows=3)
    assert "4 not shown" in "\n".join(lines)
    assert sum(line.startswith(" ") and ".csv" in line for line in lines) == 3


def test_show_once_with_a_problem_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no training logs"):
        show(watcher(tmp_path), Console(file=StringIO()), interval=1.0, once=True, as_json=False)


def test_show_once_as_json_with_a_problem_names_the_files_left_out_and_raises(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("epoch,val_acc\n1,high\n2,0.5\n")
    console = Console(file=StringIO())
    with pytest.raises(InputError, match="no training logs"):
        show(watcher(tmp_path), console, interval=1.0, once=True, as_json=True)
    assert isinstance(console.file, StringIO)
    answer = json.loads(console.file.getvalue())
    assert [Path(entry["path"]).name for entry in answer["left_out"]] == ["a.csv", "b.csv"]


def test_show_interval_not_positive_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="interval=0"):
        show(watcher(tmp_path), Console(file=StringIO()), interval=0.0, once=True, as_json=False)


def command(root: Path, *options: str) -> list[str]:
    arguments = [
        "watch",
        str(root),
        "--monitor",
        "val_acc",
        "--metric",
        "accuracy",
        "--horizon",
        str(HORIZON),
        *options,
    ]
    return [sys.executable, "-m", "epochcast.cli", *arguments]


def test_cli_tells_the_schedule(runs: Path) -> None:
    untold, told = (
        json.loads(subprocess.run(command(runs, "--once", "--json", *words), capture_output=True, check=True).stdout)
        for words in ((), ("--schedule", "cosine"))
    )
    assert told != untold


def test_cli_once_json_is_one_document(runs: Path) -> None:
    done = subprocess.run(command(runs, "--once", "--json"), capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["horizon"] == HORIZON
    by_name = {run["run"]: run for run in answer["runs"]}
    assert by_name["broken.csv"]["value"] is None
    assert by_name["lost.csv"]["verdict"] == "hopeless"
    low, median, high = (by_name["lost.csv"]["forecast"][key] for key in ("low", "median", "high"))
    assert low < median < high


def test_cli_live_follows_a_growing_file_until_interrupted(tmp_path: Path) -> None:
    path = write(tmp_path / "run.csv", curve(0.6, 5))
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs do not hear it
    process = subprocess.Popen(
        command(tmp_path, "--json", "--interval", "0.05"), stdout=subprocess.PIPE, text=True, preexec_fn=listening
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["runs"][0]["step"] == 5
        with path.open("a") as file:
            file.write("6,0.7\n")
        deadline = time.monotonic() + 60
        while json.loads(process.stdout.readline())["runs"][0]["step"] != 6:
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
