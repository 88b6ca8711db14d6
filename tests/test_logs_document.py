"""Files that are one JSON value, lists on one line, and one run of several by its name."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest

from epochcast.errors import InputError
from epochcast.logs import limits, read_column, read_runs

HISTORY = {"loss": [2.0, 1.0, 0.5], "val_acc": [0.5, None, 0.7], "train": {"f1": [0.1, 0.2, 0.3]}}


def write(folder: Path, text: str, name: str = "log.json") -> Path:
    path = folder / name
    path.write_text(text)
    return path


class TestLists:
    @pytest.mark.parametrize("text", ["[0.5, 0.6, 0.7]", " \n[0.5,\n0.6, 0.7]\n"])
    def test_list_of_numbers_is_a_run(self, tmp_path: Path, text: str) -> None:
        column = read_column(write(tmp_path, text))
        assert (column.steps.tolist(), column.values.tolist()) == ([1, 2, 3], [0.5, 0.6, 0.7])
        assert read_column(io.StringIO(text)).values.tolist() == [0.5, 0.6, 0.7]

    def test_missing_entry_of_a_list_keeps_its_step(self, tmp_path: Path) -> None:
        column = read_column(write(tmp_path, '[0.5, null, "NaN", 0.7]'))
        assert column.steps.tolist() == [1, 2, 3, 4]
        assert [math.isnan(value) for value in column.values] == [False, True, True, False]

    def test_download_of_tensorboard_gives_steps_and_values(self, tmp_path: Path) -> None:
        text = json.dumps([[1700000000.5 + i, 100 * i, 0.1 * i] for i in range(1, 4)])
        column = read_column(write(tmp_path, text))
        assert column.steps.tolist() == [100, 200, 300]
        assert column.values.tolist() == pytest.approx([0.1, 0.2, 0.3])
        assert any("[time, step, value]" in note for note in column.run.notes)

    def test_pairs_are_steps_and_values(self, tmp_path: Path) -> None:
        assert read_column(write(tmp_path, "[[5, 0.5], [10, 0.6]]")).steps.tolist() == [5, 10]

    def test_records_of_a_list_are_those_of_json_lines(self, tmp_path: Path) -> None:
        column = read_column(write(tmp_path, '[{"epoch": 1, "acc": 0.5}, {"epoch": 2, "acc": 0.6, "b": []}]'), "acc")
        assert (column.steps.tolist(), column.run.step_name) == ([1, 2], "epoch")

    @pytest.mark.parametrize(
        "text",
        ["[]", "[0.5, ", "[0.5, [1, 2]]", "[[1], [2]]", "[[1, 2], [3]]", "[true]", '[{"a": 1}, 2]', "[" * 100_000],
    )
    def test_list_that_is_no_run_is_refused(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(InputError, match=r"list|entry"):
            read_column(write(tmp_path, text))

    def test_word_in_a_list_of_numbers_is_noted(self, tmp_path: Path) -> None:
        assert any("1 entries, not numbers" in note for note in read_runs(write(tmp_path, '[1, "high"]'))[0].notes)

    def test_list_over_the_row_limit_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "MAX_ROWS", 2)
        for text in ("[1, 2, 3]", '{"loss": [1, 2, 3]}'):
            with pytest.raises(InputError, match="more than 2 entries"):
                read_column(write(tmp_path, text))


class TestHistory:
    @pytest.mark.parametrize("indent", [None, 2])
    def test_history_of_keras_gives_every_metric(self, tmp_path: Path, indent: int | None) -> None:
        run = read_runs(write(tmp_path, json.dumps(HISTORY, indent=indent), "history.json"))[0]
        assert set(run.metrics) == {"loss", "val_acc", "train/f1"}
        assert run.metrics["loss"].values.tolist() == [2.0, 1.0, 0.5]
        assert run.metrics["val_acc"].steps.tolist() == [1, 2, 3]

    def test_record_with_a_list_beside_numbers_stays_a_record(self, tmp_path: Path) -> None:
        run = read_runs(write(tmp_path, '{"acc": 0.5, "config": {"layers": [64, 64]}}\n', "result.json"))[0]
        assert set(run.metrics) == {"acc"}


@pytest.mark.parametrize("text", ["0.5 0.6 0.7", "0.5, 0.6,0.7", "0.5;0.6;0.7", "0.5\t0.6\t0.7\n"])
def test_list_on_one_line_is_a_run_with_and_without_a_line_end(tmp_path: Path, text: str) -> None:
    assert read_column(write(tmp_path, text, "values.txt")).values.tolist() == [0.5, 0.6, 0.7]


class TestRunByName:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for name, value in (("a", 0.1), ("b", 0.2)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "metrics.csv").write_text(f"epoch,acc\n1,{value}\n")
        return tmp_path

    @pytest.mark.parametrize("name", ["b", "b/metrics.csv"])
    def test_run_of_a_directory_is_found_by_its_name_or_folder(self, folder: Path, name: str) -> None:
        assert read_column(folder, "acc", run=name).values.tolist() == [0.2]

    @pytest.mark.parametrize(
        ("name", "message"),
        [(None, "2 runs, not one: a/metrics.csv, b/metrics.csv; name one with run="), ("c", "0 runs named c")],
    )
    def test_run_that_is_not_told_or_not_there_names_those_that_are(
        self, folder: Path, name: str | None, message: str
    ) -> None:
        with pytest.raises(InputError, match=message) as caught:
            read_column(folder, "acc", run=name)
        assert "a/metrics.csv" in str(caught.value)

    def test_run_name_that_fits_several_is_refused(self, folder: Path) -> None:
        with pytest.raises(InputError, match=r"2 runs named metrics\.csv"):
            read_column(folder, "acc", run="metrics.csv")
