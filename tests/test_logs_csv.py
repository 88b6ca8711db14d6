"""Tables and plain lists of numbers."""

from __future__ import annotations

import csv as stdlib_csv
import io
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.errors import EpochcastError, InputError
from epochcast.logs import Series, escape_cell, read_column, read_runs
from epochcast.logs.csv import parse

# Written by Lightning 2.6 with LearningRateMonitor and log_every_n_steps=2.
LIGHTNING = """\
epoch,lr-SGD,step,train_loss,val_acc
,0.1,0,,
0,,1,0.8161470890045166,
0,,3,0.7817615866661072,
0,,3,,0.46875
,0.1,4,,
1,,5,0.8047140836715698,
1,,7,0.7335097193717957,
1,,7,,0.421875
"""
# The layout of Keras 3.15's CSVLogger; NA where an epoch had no validation.
KERAS = "epoch,loss,val_loss\r\n0,0.97,0.96\r\n1,0.95,NA\r\n2,0.93,0.92\r\n"


def write(folder: Path, text: str | bytes, name: str = "run.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def metrics(folder: Path, text: str | bytes, name: str = "run.csv") -> dict[str, Series]:
    return read_runs(write(folder, text, name))[0].metrics


def as_lists(series: Series) -> tuple[list[float], list[float]]:
    return series.steps.tolist(), series.values.tolist()


class TestTables:
    def test_table_with_epochs_gives_one_series_per_metric(self, tmp_path: Path) -> None:
        found = metrics(tmp_path, "epoch,acc,loss\n1,0.5,2\n2,0.6,1.5\n")
        assert {name: as_lists(series) for name, series in found.items()} == {
            "acc": ([1, 2], [0.5, 0.6]),
            "loss": ([1, 2], [2, 1.5]),
        }
        assert found["acc"].steps.dtype == found["acc"].values.dtype == np.float64

    def test_lightning_table_with_interleaved_rows_drops_blank_cells_per_column(self, tmp_path: Path) -> None:
        run = read_runs(write(tmp_path, LIGHTNING, "metrics.csv"))[0]
        assert as_lists(run.metrics["val_acc"]) == ([1, 2], [0.46875, 0.421875])
        assert as_lists(run.metrics["train_loss"]) == ([1, 2], [0.7817615866661072, 0.7335097193717957])
        assert run.step_name == "epoch"
        assert any("epoch counts from 0" in note for note in run.notes)
        assert "lr-SGD: left out 2 of 2 values, without epoch" in run.notes

    def test_lightning_table_by_step_keeps_every_value(self, tmp_path: Path) -> None:
        run = read_runs(write(tmp_path, LIGHTNING), step_column="step")[0]
        assert as_lists(run.metrics["train_loss"])[0] == [2, 4, 6, 8]  # the log numbers the first step 0
        assert as_lists(run.metrics["lr-SGD"])[0] == [1, 5]

    def test_keras_table_counts_epochs_from_one_and_takes_na_as_absent(self, tmp_path: Path) -> None:
        found = metrics(tmp_path, KERAS)
        assert as_lists(found["loss"]) == ([1, 2, 3], [0.97, 0.95, 0.93])
        assert as_lists(found["val_loss"]) == ([1, 3], [0.96, 0.92])

    @pytest.mark.parametrize("delimiter", [",", "\t", ";", ", "])
    def test_table_with_other_delimiters_reads_the_same(self, tmp_path: Path, delimiter: str) -> None:
        rows = (("epoch", "val acc"), ("1", "0.5"), ("2", "0.25"))
        found = metrics(tmp_path, "".join(delimiter.join(row) + "\n" for row in rows), "run.tsv")
        assert as_lists(found["val acc"]) == ([1, 2], [0.5, 0.25])

    def test_non_finite_cells_are_kept_and_blank_cells_are_absent(self, tmp_path: Path) -> None:
        steps, values = metrics(tmp_path, "epoch,acc\n1,nan\n2,inf\n3,\n4,-inf\n")["acc"]
        assert steps.tolist() == [1, 2, 4]
        assert math.isnan(values[0])
        assert values[1:].tolist() == [math.inf, -math.inf]

    @pytest.mark.parametrize(("line", "text"), [(2, "oops,1\n2,2\n"), (3, "1,1\n85%,2\n"), (3, "1,1\n1_000,2\n")])
    def test_cell_that_is_no_number_raises_with_file_line_and_column(
        self, tmp_path: Path, line: int, text: str
    ) -> None:
        path = write(tmp_path, "acc,loss\n" + text)
        with pytest.raises(InputError, match=rf"run\.csv, line {line}, column acc: '.*' is not a number"):
            read_runs(path)

    def test_column_that_is_all_text_is_left_out_and_named(self, tmp_path: Path) -> None:
        run = read_runs(write(tmp_path, "epoch,when,acc\n1,2024-01-01,0.5\n2,2024-01-02,0.6\n"))[0]
        assert list(run.metrics) == ["acc"]
        assert "columns of text were left out: when" in run.notes

    def test_quoted_cells_with_commas_and_line_breaks_keep_line_numbers_right(self, tmp_path: Path) -> None:
        path = write(tmp_path, 'epoch,note,acc\n1,"a, b\nc",0.5\n2,d,x\n')
        with pytest.raises(InputError, match="line 4, column acc"):
            read_runs(path)

    def test_row_of_another_width_raises_with_its_line(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="line 3 has 3 cells, the header has 2"):
            read_runs(write(tmp_path, "epoch,acc\n1,0.5\n2,0.6,7\n"))

    def test_two_columns_of_one_name_raise(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="two columns are named acc"):
            read_runs(write(tmp_path, "epoch,acc,acc\n1,0.5,0.5\n"))

    def test_table_whose_epochs_start_again_shows_the_living_attempt(self, tmp_path: Path) -> None:
        lines = [f"{epoch},{epoch / 100}" for epoch in range(1, 31)]
        lines += [f"{epoch},{0.5 + epoch / 100}" for epoch in range(1, 11)]
        (run,) = read_runs(write(tmp_path, "epoch,acc\n" + "\n".join(lines) + "\n"))
        assert run.metrics["acc"].steps.tolist() == [*range(1, 11)]
        assert run.metrics["acc"].values[0] == 0.51
        assert run.notes == ("acc: the run starts again at epoch 1: left out 30 of 40 values, of the attempt before",)

    def test_header_written_again_by_a_restart_drops_the_dead_attempt_in_every_column(self, tmp_path: Path) -> None:
        dead = "".join(f"{epoch},0.{epoch},{'0.5' if epoch == 3 else ''}\n" for epoch in (1, 2, 3))
        series = metrics(tmp_path, f"epoch,loss,acc\n{dead}epoch,loss,acc\n1,0.9,\n")
        assert as_lists(series["loss"]) == ([1], [0.9])
        assert as_lists(series["acc"]) == ([], [])

    def test_header_written_again_by_a_run_that_goes_on_drops_nothing(self, tmp_path: Path) -> None:
        series = metrics(tmp_path, "epoch,acc\n1,0.1\n2,0.2\nepoch,acc\n3,0.3\n")
        assert as_lists(series["acc"]) == ([1, 2, 3], [0.1, 0.2, 0.3])

    def test_header_written_again_in_a_table_without_steps_counts_anew(self, tmp_path: Path) -> None:
        (run,) = read_runs(write(tmp_path, "acc\n0.1\n0.2\nacc\n0.3\n"))
        assert as_lists(run.metrics["acc"]) == ([1], [0.3])
        assert "left out 2 of 3 values" in run.notes[0]

    def test_header_alone_gives_empty_series(self, tmp_path: Path) -> None:
        assert as_lists(metrics(tmp_path, "epoch,acc\n")["acc"]) == ([], [])

    def test_unnamed_first_column_of_pandas_is_the_step(self, tmp_path: Path) -> None:
        assert as_lists(metrics(tmp_path, ",acc\n0,0.5\n1,0.6\n")["acc"]) == ([1, 2], [0.5, 0.6])

    def test_byte_order_mark_and_padded_names_are_stripped(self, tmp_path: Path) -> None:
        found = metrics(tmp_path, b"\xef\xbb\xbf   epoch,    val/acc \n 1 ,  0.5 \n")
        assert as_lists(found["val/acc"]) == ([1], [0.5])

    def test_text_that_is_not_utf8_raises(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="not UTF-8"):
            read_runs(write(tmp_path, "epoch,acc\n1,0.5\n".encode("utf-16")))


class TestPlainLists:
    @pytest.mark.parametrize("text", ["0.5\n0.6\n0.7\n", "0.5,0.6,0.7\n", "0.5 0.6  0.7\n", "\n0.5\n\n0.6\n0.7\n"])
    def test_numbers_without_a_header_are_one_column(self, tmp_path: Path, text: str) -> None:
        found = metrics(tmp_path, text, "run.txt")
        assert {name: as_lists(series) for name, series in found.items()} == {"value": ([1, 2, 3], [0.5, 0.6, 0.7])}

    def test_table_without_a_header_raises_instead_of_mixing_its_columns(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="line 1: a table needs a first line that names its columns"):
            read_runs(write(tmp_path, "1,0.5\n2,0.6\n"))

    def test_word_among_numbers_raises_with_its_line(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="line 2, column value: 'epoch'"):
            read_runs(write(tmp_path, "0.5\nepoch\n"))


class TestUnfinishedFiles:
    @pytest.mark.parametrize(
        "text", [LIGHTNING, KERAS, "0.25\n0.50\n0.75\n", 'epoch,acc,note\n1,0.5,x\n2,0.6,"y\n z"\n']
    )
    def test_file_cut_inside_its_last_record_gives_the_records_before_it(self, tmp_path: Path, text: str) -> None:
        data = text.encode()
        last = data.rstrip(b"\r\n").rfind(b"\n") + 1
        if text.endswith('"\n'):
            last = data.index(b"2,0.6")
        before = metrics(tmp_path, data[:last])
        for cut in range(last, len(data)):
            after = metrics(tmp_path, data[:cut])
            assert {k: as_lists(v) for k, v in after.items()} == {k: as_lists(v) for k, v in before.items()}, cut
        whole = metrics(tmp_path, data)
        assert sum(len(series.steps) for series in whole.values()) > sum(len(s.steps) for s in before.values())

    def test_unfinished_last_line_is_noted(self, tmp_path: Path) -> None:
        run = read_runs(write(tmp_path, "epoch,acc\n1,0.5\n2,0.6"))[0]
        assert as_lists(run.metrics["acc"]) == ([1], [0.5])
        assert any("no line end" in note for note in run.notes)

    @pytest.mark.parametrize("text", ["", "epoch,ac", "0.5"])
    def test_file_without_a_whole_line_raises(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(InputError, match="no whole line"):
            read_runs(write(tmp_path, text))

    def test_stream_that_has_ended_keeps_its_last_line(self) -> None:
        assert read_column(io.StringIO("0.5\n0.6")).values.tolist() == [0.5, 0.6]

    def test_broken_quote_before_the_end_raises_with_its_line(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="line 2"):
            read_runs(write(tmp_path, 'epoch,acc\n1,"0.5"x\n2,0.6\n'))


class TestExport:
    @pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
    def test_escape_cell_with_a_formula_quotes_it(self, text: str) -> None:
        assert escape_cell(text) == f"'{text}"

    @pytest.mark.parametrize("text", ["", "val_acc", "a=b", "'=x"])
    def test_escape_cell_with_plain_text_leaves_it(self, text: str) -> None:
        assert escape_cell(text) == text


names = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters=";"), min_size=1, max_size=8
).map(lambda text: f"m{text}".strip())
cells = st.one_of(st.none(), st.floats(width=64), st.integers(-(10**6), 10**6).map(float))


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[float | None]]]:
    header = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    row = st.lists(cells, min_size=len(header), max_size=len(header))
    return header, draw(st.lists(row, max_size=12))


def written(header: list[str], rows: list[list[float | None]], delimiter: str, end: str) -> bytes:
    buffer = io.StringIO(newline="")
    writer = stdlib_csv.writer(buffer, delimiter=delimiter, lineterminator=end)
    writer.writerow(["epoch", *header])
    for epoch, row in enumerate(rows, start=1):
        writer.writerow([epoch, *("" if cell is None else repr(cell) for cell in row)])
    return buffer.getvalue().encode()


class TestProperties:
    @settings(max_examples=200, derandomize=True, deadline=None)
    @given(table=tables(), end=st.sampled_from(["\n", "\r\n"]))
    def test_written_table_reads_back_the_same(
        self, table: tuple[list[str], list[list[float | None]]], end: str
    ) -> None:
        header, rows = table
        run = parse(written(header, rows, ",", end), "x.csv").run("x", Path("x.csv"), "csv")
        assert set(run.metrics) == set(header)
        for place, name in enumerate(header):
            present = [(epoch, row[place]) for epoch, row in enumerate(rows, start=1) if row[place] is not None]
            steps, values = run.metrics[name]
            np.testing.assert_array_equal(steps, [epoch for epoch, _ in present])
            np.testing.assert_array_equal(values, np.array([value for _, value in present], dtype=float))

    @settings(max_examples=200, derandomize=True, deadline=None)
    @given(table=tables(), data=st.data())
    def test_table_cut_anywhere_gives_a_prefix_of_its_rows(
        self, table: tuple[list[str], list[list[float | None]]], data: st.DataObject
    ) -> None:
        header, rows = table
        whole = written(header, rows, ",", "\n")
        first_row = whole.index(b"\n") + 1
        cut = data.draw(st.integers(first_row, len(whole)))
        kept = whole[:cut].count(b"\n") - 1
        shorter = parse(whole[:cut], "x.csv").run("x", Path("x.csv"), "csv")
        expected = parse(written(header, rows[:kept], ",", "\n"), "x.csv").run("x", Path("x.csv"), "csv")
        for name in header:
            np.testing.assert_array_equal(shorter.metrics[name].steps, expected.metrics[name].steps)
            np.testing.assert_array_equal(shorter.metrics[name].values, expected.metrics[name].values)

    @settings(max_examples=200, derandomize=True, deadline=None)
    @given(
        data=st.one_of(st.binary(max_size=200), st.text('0123456789.,;\t\n\r"-e xnaif', max_size=200).map(str.encode))
    )
    def test_any_bytes_give_a_run_or_our_own_error(self, data: bytes) -> None:
        try:
            run = parse(data, "x.csv", finished=True).run("x", Path("x.csv"), "csv")
        except EpochcastError:
            return
        for steps, values in run.metrics.values():
            assert len(steps) == len(values)
            assert (np.diff(steps) > 0).all()
            assert np.isfinite(steps).all()
