"""How numbers by name and row become metrics over steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from epochcast.errors import InputError
from epochcast.logs import Run, limits
from epochcast.logs.columns import STEP_NAMES, Columns, is_step_name


def run_of(table: dict[str, list[float | None]], *, step_column: str | None = None) -> Run:
    columns = Columns("x.csv")
    for name, cells in table.items():
        columns.declare(name)
        for row, cell in enumerate(cells, start=2):
            if cell is not None:
                columns.add(name, row, cell)
    return columns.run("x", Path("x.csv"), "csv", step_column)


def stepped(pairs: dict[str, list[tuple[float, float]]], step_column: str | None = None) -> Run:
    columns = Columns("events", rows_are_steps=True)
    for name, numbers in pairs.items():
        for step, value in numbers:
            columns.add(name, step, value)
    return columns.run("x", Path("events"), "tensorboard", step_column)


class TestStepColumn:
    @pytest.mark.parametrize("name", [*STEP_NAMES, "Epoch", " Global Step", "GLOBAL-STEP"])
    def test_column_with_the_name_of_a_step_is_found(self, name: str) -> None:
        run = run_of({"acc": [0.5, 0.6], name: [10, 20]})
        assert run.step_name == name
        assert list(run.metrics) == ["acc"]
        assert run.metrics["acc"].steps.tolist() == [10, 20]

    @pytest.mark.parametrize("name", ["acc", "epoch_loss", "step_time", "lr", ""])
    def test_column_with_another_name_is_a_metric(self, name: str) -> None:
        assert not is_step_name(name)

    def test_epoch_comes_before_step_and_neither_is_a_metric(self) -> None:
        run = run_of({"step": [10, 20], "epoch": [1, 2], "acc": [0.5, 0.6]})
        assert run.step_name == "epoch"
        assert list(run.metrics) == ["acc"]

    def test_step_column_without_numbers_gives_way_to_the_next(self) -> None:
        run = run_of({"epoch": [None, None], "step": [10, 20], "acc": [0.5, 0.6]})
        assert run.step_name == "step"

    def test_step_column_named_by_the_caller_is_taken(self) -> None:
        run = run_of({"epoch": [1, 2], "samples": [64, 128], "acc": [0.5, 0.6]}, step_column="samples")
        assert run.metrics["acc"].steps.tolist() == [64, 128]
        assert list(run.metrics) == ["acc"]

    def test_step_column_that_is_missing_raises_and_lists_the_names(self) -> None:
        with pytest.raises(InputError, match="no step column samples; it has acc, epoch"):
            run_of({"epoch": [1], "acc": [0.5]}, step_column="samples")

    def test_log_without_steps_counts_the_values_of_each_column(self) -> None:
        run = run_of({"acc": [0.5, None, 0.6], "loss": [None, 2.0, 1.0]})
        assert run.step_name is None
        assert run.metrics["acc"].steps.tolist() == run.metrics["loss"].steps.tolist() == [1, 2]

    def test_values_without_a_step_are_left_out_and_noted(self) -> None:
        run = run_of({"epoch": [1, None, 3], "acc": [0.5, 0.6, 0.7]})
        assert run.metrics["acc"].values.tolist() == [0.5, 0.7]
        assert "acc: left out 1 of 3 values, without epoch" in run.notes

    @pytest.mark.parametrize("step", [-1.0, float("nan"), float("inf")])
    def test_step_that_is_negative_or_not_finite_raises_with_its_line(self, step: float) -> None:
        with pytest.raises(InputError, match=r"x\.csv, line 3, column epoch"):
            run_of({"epoch": [1, step], "acc": [0.5, 0.6]})

    def test_steps_out_of_order_are_sorted(self) -> None:
        run = run_of({"epoch": [3, 1, 2], "acc": [0.7, 0.5, 0.6]})
        assert run.metrics["acc"].values.tolist() == [0.5, 0.6, 0.7]

    def test_step_repeated_at_once_keeps_the_newest_value_and_says_so(self) -> None:
        run = run_of({"epoch": [1, 2, 2, 3], "acc": [0.5, 0.6, 0.65, 0.7]})
        assert run.metrics["acc"].values.tolist() == [0.5, 0.65, 0.7]
        assert run.notes == ("acc: left out 1 of 4 values, each followed by another of the same epoch",)


class TestRestarts:
    def test_step_that_goes_back_drops_what_lies_at_or_after_it_and_says_so(self) -> None:
        run = run_of({"epoch": [1, 2, 3, 4, 2], "acc": [0.5, 0.6, 0.7, 0.8, 0.65]})
        assert run.metrics["acc"].steps.tolist() == [1, 2]
        assert run.metrics["acc"].values.tolist() == [0.5, 0.65]
        assert run.notes == ("acc: the run starts again at epoch 2: left out 3 of 5 values, of the attempt before",)

    def test_several_restarts_leave_the_last_attempt_and_are_counted(self) -> None:
        run = run_of({"epoch": [1, 2, 3, 1, 2, 3, 2, 3], "acc": [1, 2, 3, 4, 5, 6, 7, 8]})
        assert run.metrics["acc"].values.tolist() == [4, 7, 8]
        assert "starts again 2 times, at last at epoch 2: left out 5 of 8 values" in run.notes[0]

    def test_columns_that_lost_the_same_share_one_note(self) -> None:
        run = run_of({"epoch": [1, 2, 1], "acc": [0.5, 0.6, 0.7], "loss": [3, 2, 1]})
        assert len(run.notes) == 1
        assert run.notes[0].startswith("acc, loss: the run starts again")

    def test_restart_is_judged_per_column_because_counters_may_differ(self) -> None:
        batches: list[float | None] = [1, 2, 3, None] * 3
        run = run_of(
            {
                "step": [1, 2, 3, 1, 1, 2, 3, 2, 1, 2, 3, 3],  # batches of an epoch, then the epoch itself
                "train_loss": batches,
                "val_acc": [None, None, None, 0.5, None, None, None, 0.6, None, None, None, 0.7],
            }
        )
        assert run.metrics["val_acc"].steps.tolist() == [1, 2, 3]
        assert len(run.metrics["train_loss"].steps) == 3

    def test_training_and_validation_on_rows_of_one_step_lose_nothing(self) -> None:
        run = run_of({"step": [9, 9, 19, 19], "loss": [2, None, 1, None], "acc": [None, 0.5, None, 0.6]})
        assert run.metrics["loss"].steps.tolist() == run.metrics["acc"].steps.tolist() == [9, 19]
        assert run.notes == ()

    def test_value_that_arrives_late_takes_its_place_and_drops_nothing(self) -> None:
        run = stepped({"acc": [(1, 0.1), (2, 0.2), (5, 0.5), (3, 0.3), (4, 0.4), (6, 0.6)]})
        assert run.metrics["acc"].values.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
        assert run.notes == ()

    def test_restart_whose_steps_fall_between_the_old_ones_is_one(self) -> None:
        old = [(float(step), 0.1) for step in range(10, 100, 10)]
        run = stepped({"acc": [*old, (15.0, 0.2), (25.0, 0.3)]})
        assert run.metrics["acc"].steps.tolist() == [10, 15, 25]

    @pytest.mark.parametrize("steps", [[6, 5, 4, 3, 2, 1], [4, 6, 1, 5, 2, 3]], ids=["newest first", "shuffled"])
    def test_table_in_another_order_is_sorted_and_loses_nothing(self, steps: list[float]) -> None:
        run = run_of({"epoch": [*steps], "acc": [*steps]})
        assert run.metrics["acc"].values.tolist() == [1, 2, 3, 4, 5, 6]
        assert run.notes == ()

    def test_announced_restart_holds_for_columns_that_have_not_been_logged_again(self) -> None:
        columns = Columns("events", rows_are_steps=True)
        for step in range(1, 31):
            columns.add("loss", step, 1.0 / step)
        columns.add("acc", 10, 0.5)
        columns.add("acc", 30, 0.9)
        columns.mark_restart(11)
        columns.add("loss", 11, 0.2)
        run = columns.run("x", Path("events"), "tensorboard")
        assert run.metrics["loss"].steps.tolist() == [*range(1, 12)]
        assert run.metrics["acc"].steps.tolist() == [10]

    def test_more_restarts_than_the_limit_raise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "MAX_RESTARTS", 2)
        columns = Columns("events", rows_are_steps=True)
        columns.add("loss", 5, 1.0)
        columns.mark_restart(1)
        columns.mark_restart(1)
        with pytest.raises(InputError, match="more than 2 restarts"):
            columns.mark_restart(1)


class TestCountingFromZero:
    def test_epochs_from_zero_start_at_one_and_the_run_says_so(self) -> None:
        run = run_of({"epoch": [0, 1, 2], "acc": [0.5, 0.6, 0.7]})
        assert run.metrics["acc"].steps.tolist() == [1, 2, 3]
        assert any("counts from 0" in note for note in run.notes)

    def test_epochs_from_one_stay_and_nothing_is_said(self) -> None:
        run = run_of({"epoch": [1, 2, 3], "acc": [0.5, 0.6, 0.7]})
        assert run.metrics["acc"].steps.tolist() == [1, 2, 3]
        assert run.notes == ()

    def test_metric_that_starts_late_is_shifted_with_the_others(self) -> None:
        run = run_of({"epoch": [0, 1, 2], "acc": [None, 0.6, 0.7], "loss": [2, 1, 0.5]})
        assert run.metrics["acc"].steps.tolist() == [2, 3]

    def test_every_fifth_epoch_from_zero_is_shifted(self) -> None:
        assert run_of({"epoch": [0, 5, 10], "acc": [1, 2, 3]}).metrics["acc"].steps.tolist() == [1, 6, 11]

    def test_coarse_steps_from_zero_stay_because_zero_is_the_untrained_model(self) -> None:
        assert run_of({"step": [0, 500, 1000], "acc": [1, 2, 3]}).metrics["acc"].steps.tolist() == [0, 500, 1000]

    def test_fractions_of_epochs_stay(self) -> None:
        assert run_of({"epoch": [0, 0.5, 1], "acc": [1, 2, 3]}).metrics["acc"].steps.tolist() == [0, 0.5, 1]


class TestRowsThatAreSteps:
    def test_rows_are_the_steps(self) -> None:
        run = stepped({"acc": [(10, 0.5), (20, 0.6)]})
        assert run.step_name == "step"
        assert run.metrics["acc"].steps.tolist() == [10, 20]

    def test_another_metric_can_serve_as_the_step(self) -> None:
        run = stepped({"epoch": [(9, 0), (19, 1)], "acc": [(9, 0.5), (19, 0.6)], "loss": [(4, 2.0)]}, "epoch")
        assert run.metrics["acc"].steps.tolist() == [1, 2]
        assert len(run.metrics["loss"].steps) == 0

    def test_value_at_a_negative_step_is_left_out_and_noted(self) -> None:
        run = stepped({"acc": [(-1, 0.1), (1, 0.5)]})
        assert run.metrics["acc"].steps.tolist() == [1]
        assert "acc: left out 1 of 2 values, at negative steps" in run.notes


class TestLimits:
    def test_more_columns_than_the_limit_raise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "MAX_FIELDS", 2)
        run_of({"a": [1], "b": [1]})
        with pytest.raises(InputError, match="more than 2 different columns"):
            run_of({"a": [1], "b": [1], "c": [1]})

    def test_more_numbers_than_the_limit_raise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "MAX_VALUES", 3)
        run_of({"a": [1, 2, 3]})
        with pytest.raises(InputError, match="more than 3 numbers"):
            run_of({"a": [1, 2], "b": [1, 2]})


class TestDescription:
    def test_description_names_kind_steps_metrics_and_notes(self) -> None:
        text = run_of({"epoch": [0, 1], "acc": [0.5, 0.6]}).describe()
        assert text.splitlines()[0] == "x: csv, by epoch: acc (2)"
        assert "counts from 0" in text

    def test_control_characters_of_a_name_are_not_shown_raw(self) -> None:
        assert "\x1b" not in run_of({"\x1b[31macc": [0.5], "loss": [1.0]}).describe()

    def test_metric_without_a_name_where_there_are_several_raises_and_lists_them(self) -> None:
        with pytest.raises(InputError, match="has 2 columns; name one: acc, loss"):
            run_of({"loss": [1.0], "acc": [0.5]}).metric()
