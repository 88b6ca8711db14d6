"""Tables with the rows of several runs, told apart by a column such as `run_id`."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import numpy as np
import pytest

from epochcast.benchmarks import load
from epochcast.errors import InputError
from epochcast.logs import limits, read_column, read_runs
from epochcast.watch import Watcher
from tests.command_line import command
from tests.logged_runs import curve

ENDS = {"a": 0.9, "b": 0.7}


def table(column: str = "run", rows: list[tuple[str, int]] | None = None) -> str:
    """Two runs, one after the other unless the rows say otherwise."""
    rows = rows or [(run, step) for run in ENDS for step in range(1, 11)]
    lines = [f"{run},{step},{curve(ENDS[run])[step - 1]:.6f}" for run, step in rows]
    return "\n".join([f"{column},epoch,val_acc", *lines]) + "\n"


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.csv"
    path.write_text(table())
    return path


class TestReading:
    @pytest.mark.parametrize("column", ["run", "Run ID", "run-name", "trial", "TRIAL_ID", "trial_number"])
    def test_table_with_a_run_column_holds_several_runs(self, tmp_path: Path, column: str) -> None:
        (tmp_path / "sweep.csv").write_text(table(column))
        found = read_runs(tmp_path / "sweep.csv")
        assert [(run.name, run.label) for run in found] == [("sweep.csv/a", "a"), ("sweep.csv/b", "b")]
        for run in found:
            assert list(run.metrics) == ["val_acc"]
            assert run.metrics["val_acc"].steps.tolist() == list(range(1, 11))
            assert run.metrics["val_acc"].values == pytest.approx(curve(ENDS[str(run.label)])[:10], abs=1e-6)
            assert run.notes == ()

    def test_another_column_of_text_parts_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "sweep.csv").write_text(table("optimizer"))
        (run,) = read_runs(tmp_path / "sweep.csv")
        assert run.label is None
        assert any("the run starts again" in note for note in run.notes)

    def test_rows_of_runs_that_take_turns_go_to_their_runs(self, tmp_path: Path) -> None:
        (tmp_path / "sweep.csv").write_text(table(rows=[(run, step) for step in range(1, 5) for run in "ba"]))
        first, second = read_runs(tmp_path / "sweep.csv")
        assert (first.label, second.label) == ("b", "a")
        assert second.metrics["val_acc"].values == pytest.approx(curve(0.9)[:4], abs=1e-6)

    def test_run_that_starts_again_loses_its_dead_attempt_and_the_other_nothing(self, tmp_path: Path) -> None:
        rows = [("a", 1), ("a", 2), ("b", 1), ("a", 1), ("b", 2)]
        (tmp_path / "sweep.csv").write_text(table(rows=rows))
        first, second = read_runs(tmp_path / "sweep.csv")
        assert (len(first.metrics["val_acc"].steps), len(second.metrics["val_acc"].steps)) == (1, 2)
        assert "the run starts again" in first.notes[0]
        assert second.notes == ()

    def test_repeated_header_before_another_run_takes_nothing_back(self, tmp_path: Path) -> None:
        (tmp_path / "sweep.csv").write_text(table(rows=[("a", 1), ("a", 2)]) + table(rows=[("b", 1), ("b", 2)]))
        assert [len(run.metrics["val_acc"].steps) for run in read_runs(tmp_path / "sweep.csv")] == [2, 2]

    def test_numbers_may_name_runs_and_are_no_metric(self, tmp_path: Path) -> None:
        (tmp_path / "sweep.csv").write_text("trial,epoch,loss\n0,1,2.0\n0,2,1.5\n1,1,2.1\n1,2,1.6\n")
        column = read_column(tmp_path / "sweep.csv", run="1")
        assert (column.name, column.values.tolist()) == ("loss", [2.1, 1.6])

    def test_names_may_be_numbers_and_words(self, tmp_path: Path) -> None:
        (tmp_path / "sweep.csv").write_text("run,epoch,loss\n1,1,2.0\nfinal,1,2.1\n")
        assert [run.label for run in read_runs(tmp_path)] == ["1", "final"]

    def test_one_run_alone_keeps_the_name_of_its_log_and_is_found_by_its_own(self, tmp_path: Path) -> None:
        (tmp_path / "sweep.csv").write_text(table(rows=[("a", 1), ("a", 2)]))
        (run,) = read_runs(tmp_path)
        assert (run.name, run.label, list(run.metrics)) == ("sweep.csv", "a", ["val_acc"])
        assert len(read_column(tmp_path / "sweep.csv", "val_acc", run="a").values) == 2

    def test_second_column_counts_where_the_first_does_not_tell_all_runs_apart(self, tmp_path: Path) -> None:
        rows = ["run_name,run_id,epoch,acc", "fox,1,1,0.5", "fox,2,1,0.6", "owl,3,1,0.7"]
        (tmp_path / "sweep.csv").write_text("\n".join(rows) + "\n")
        assert [run.label for run in read_runs(tmp_path)] == ["fox/1", "fox/2", "owl/3"]

    def test_second_column_that_says_the_same_is_not_in_the_name(self, tmp_path: Path) -> None:
        rows = ["run_id,run_name,epoch,acc", "1,fox,1,0.5", "1,fox,2,0.6", "2,owl,1,0.7"]
        (tmp_path / "sweep.csv").write_text("\n".join(rows) + "\n")
        assert [run.label for run in read_runs(tmp_path)] == ["fox", "owl"]

    def test_rows_of_no_run_are_left_out_with_a_note(self, tmp_path: Path) -> None:
        (tmp_path / "sweep.csv").write_text("run,epoch,acc\na,1,0.5\n,2,0.6\nb,1,0.7\n")
        first, second = read_runs(tmp_path)
        assert first.metrics["acc"].values.tolist() == [0.5]
        assert first.notes == second.notes == ("left out 2 values, which belong to no run",)

    def test_column_that_is_asked_for_tells_no_runs_apart(self, tmp_path: Path) -> None:
        (tmp_path / "trials.csv").write_text("trial,acc\n1,0.5\n2,0.6\n3,0.65\n")
        assert read_column(tmp_path / "trials.csv", "acc", step_column="trial").steps.tolist() == [1, 2, 3]
        assert read_column(tmp_path / "trials.csv", "trial").values.tolist() == [1, 2, 3]

    def test_run_with_a_bad_step_hides_no_other(self, tmp_path: Path) -> None:
        (tmp_path / "sweep.csv").write_text("run,epoch,acc\na,-1,0.5\nb,1,0.6\n")
        found = read_runs(tmp_path / "sweep.csv")
        assert [run.label for run in found] == ["b"]
        assert "step -1 must be finite" in found.skipped[0].reason

    def test_more_runs_than_the_limit_raise(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "MAX_RUNS", 1)
        (tmp_path / "sweep.csv").write_text(table())
        with pytest.raises(InputError, match="more than 1 runs"):
            read_runs(tmp_path / "sweep.csv")

    def test_json_lines_are_parted_too(self, tmp_path: Path) -> None:
        rows = [{"trial_id": 7 if run == "a" else run, "epoch": 1, "acc": end} for run, end in ENDS.items()]
        (tmp_path / "sweep.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        found = read_runs(tmp_path / "sweep.jsonl")
        assert {run.label: run.metrics["acc"].values.tolist() for run in found} == {"7": [0.9], "b": [0.7]}
        assert all(run.notes == () for run in found)

    def test_stream_of_several_runs_gives_the_one_that_is_named(self) -> None:
        values = read_column(io.StringIO(table()), "val_acc", run="b").values
        assert values == pytest.approx(curve(0.7)[:10], abs=1e-6)
        with pytest.raises(InputError, match="2 runs, not one"):
            read_column(io.StringIO(table()), "val_acc")


class TestUse:
    def test_forecast_of_a_named_run_is_that_of_its_values(self, sweep: Path) -> None:
        asked = ("--monitor", "val_acc", "--horizon", "50", "--json")
        answer = command("forecast", str(sweep), "--run", "b", *asked).answer
        values = ",".join(f"{value:.6f}" for value in curve(0.7)[:10])
        alone = command("forecast", values, "--metric", "accuracy", *asked[2:])
        assert answer["median"] == alone.answer["median"]
        assert math.isclose(answer["median"][-1], 0.7, abs_tol=0.03)

    @pytest.mark.parametrize(("named", "said"), [((), "name one with"), (("--run", "c"), "0 runs named c")])
    def test_forecast_of_several_runs_names_them(self, sweep: Path, named: tuple[str, ...], said: str) -> None:
        refusal = command("forecast", str(sweep), *named, "--monitor", "val_acc", "--horizon", "50").refusal
        assert said in refusal
        assert "sweep.csv/a, sweep.csv/b" in refusal

    def test_context_of_a_run_are_the_others_of_its_table(self, sweep: Path) -> None:
        asked = ("--run", "b", "--monitor", "val_acc", "--horizon", "50", "--json")
        assert command("forecast", str(sweep), *asked, "--context", str(sweep)).answer["context"] == 1

    def test_watch_shows_a_row_for_each_run(self, sweep: Path) -> None:
        watcher = Watcher(sweep.parent, "val_acc", "accuracy", 50)
        assert [row.name for row in watcher.refresh().rows] == ["sweep.csv/a", "sweep.csv/b"]
        with sweep.open("a") as file:
            file.write(f"b,11,{curve(0.7)[10]}\nc,1,0.1\n")
        rows = {row.name: row.step for row in watcher.refresh().rows}
        assert rows == {"sweep.csv/a": 10, "sweep.csv/b": 11, "sweep.csv/c": 1}

    def test_collection_has_a_curve_for_each_run_and_a_task_for_each_table(self, tmp_path: Path) -> None:
        for name in ("digits", "letters"):
            (tmp_path / f"{name}.csv").write_text(table())
        (curves,) = load(tmp_path, monitor="val_acc").sets
        assert curves.task_names == ("digits.csv", "letters.csv")
        assert len(curves) == 4
        ends = [curve(end)[9] for end in (0.7, 0.7, 0.9, 0.9)]
        np.testing.assert_allclose(np.sort(curves.values[:, -1]), ends, atol=1e-6)

    def test_collection_of_one_table_is_read_as_a_log(self, sweep: Path) -> None:
        collection = load(sweep, monitor="val_acc")
        assert (len(collection.sets[0]), collection.sets[0].task_names) == (2, ("sweep.csv",))
        assert command("evaluate", "real", "--data", str(sweep), "--monitor", "val_acc").code == 0
