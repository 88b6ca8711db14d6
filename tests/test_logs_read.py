"""`read_runs` on directories, `read_column`, and the bounds of both."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from epochcast.errors import InputError
from epochcast.logs import Run, directory, jsonl, limits, read_column, read_runs

TABLE = "epoch,val_acc,val_loss\n1,0.5,2.0\n2,0.625,1.5\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A directory with a log of each text kind, and files that are no logs."""
    root = tmp_path / "logs"
    (root / "b" / "version_0").mkdir(parents=True)
    (root / "a").mkdir()
    (root / ".hidden").mkdir()
    (root / "b" / "version_0" / "metrics.csv").write_text(TABLE)
    (root / "a" / "log.jsonl").write_text('{"epoch": 1, "val_acc": 0.5}\n')
    (root / "c.tsv").write_text(TABLE.replace(",", "\t"))
    (root / "people.csv").write_text("name,age\nann,3\nbob,unknown\n")
    (root / "notes.txt").write_text("1\n2\n")
    (root / ".hidden" / "old.csv").write_text(TABLE)
    return root


class TestDirectories:
    def test_directory_gives_one_run_per_log_sorted_by_path(self, logs: Path) -> None:
        runs = read_runs(logs)
        assert [(run.name, run.format) for run in runs] == [
            ("a/log.jsonl", "jsonl"),
            ("b/version_0/metrics.csv", "csv"),
            ("c.tsv", "csv"),
        ]
        assert all(isinstance(run, Run) for run in runs)

    def test_file_that_cannot_be_read_as_a_log_is_left_out_and_named(self, logs: Path) -> None:
        findings = read_runs(logs)
        assert [skipped.path.name for skipped in findings.skipped] == ["people.csv"]
        assert "line 3, column age: 'unknown'" in findings.skipped[0].reason

    def test_description_tells_what_was_found_and_what_was_left_out(self, logs: Path) -> None:
        text = read_runs(logs).describe()
        assert text.splitlines()[0] == f"{logs}: 3 runs (2 csv, 1 jsonl), 1 left out"
        assert "b/version_0/metrics.csv: csv, by epoch: val_acc (2), val_loss (2)" in text
        assert f"left out {logs / 'people.csv'}: " in text

    def test_kinds_limit_what_is_read(self, logs: Path) -> None:
        assert [run.format for run in read_runs(logs, formats=["jsonl"])] == ["jsonl"]
        with pytest.raises(InputError, match=r"formats=\['neptune'\] is unknown"):
            read_runs(logs, formats=["neptune"])  # type: ignore[list-item]

    def test_directory_without_logs_gives_no_runs(self, tmp_path: Path) -> None:
        findings = read_runs(tmp_path)
        assert findings == []
        assert findings.describe() == f"{tmp_path}: 0 runs"

    def test_symbolic_links_are_not_followed(self, logs: Path, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret.csv").write_text(TABLE)
        (logs / "link.csv").symlink_to(outside / "secret.csv")
        (logs / "linked").symlink_to(outside)
        (logs / "loop").symlink_to(logs)
        findings = read_runs(logs)
        assert len(findings) == 3
        assert ("link.csv", "a symbolic link") in [(skipped.path.name, skipped.reason) for skipped in findings.skipped]

    def test_pipe_in_a_directory_is_not_opened(self, logs: Path) -> None:
        os.mkfifo(logs / "pipe.csv")
        assert len(read_runs(logs)) == 3

    def test_directories_below_the_depth_limit_are_left_out_and_named(
        self, logs: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "MAX_DEPTH", 1)
        findings = read_runs(logs)
        assert [run.name for run in findings] == ["a/log.jsonl", "c.tsv"]
        assert any(skipped.reason == "more than 1 directories deep" for skipped in findings.skipped)

    @pytest.mark.parametrize(("limit", "message"), [("MAX_RUNS", "holds 4 logs"), ("MAX_ENTRIES", "more than 2 files")])
    def test_more_files_than_a_limit_raise(
        self, logs: Path, monkeypatch: pytest.MonkeyPatch, limit: str, message: str
    ) -> None:
        monkeypatch.setattr(limits, limit, 2)
        with pytest.raises(InputError, match=message):
            read_runs(logs)

    def test_checkpoints_of_one_training_give_one_run(self, tmp_path: Path) -> None:
        history = [{"step": step, "eval_acc": step / 100} for step in (10, 20, 30)]
        for count in (1, 2, 3):
            folder = tmp_path / "out" / f"checkpoint-{10 * count}"
            folder.mkdir(parents=True)
            (folder / "trainer_state.json").write_text(json.dumps({"log_history": history[:count]}))
        (tmp_path / "out" / "trainer_state.json").write_text(json.dumps({"log_history": history[:2]}))
        findings = read_runs(tmp_path)
        assert [run.name for run in findings] == ["out/checkpoint-30/trainer_state.json"]
        assert len(findings.skipped) == 3
        assert all("an earlier state of" in skipped.reason for skipped in findings.skipped)

    def test_file_deleted_between_finding_and_reading_is_left_out(
        self, logs: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = directory.find_logs(logs)
        monkeypatch.setattr("epochcast.logs.read.find_logs", lambda root: found)
        (logs / "c.tsv").unlink()
        findings = read_runs(logs)
        assert len(findings) == 2
        assert any("does not exist" in skipped.reason for skipped in findings.skipped)

    def test_reader_that_fails_in_its_own_way_hides_no_other_log(
        self, logs: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object) -> None:
            raise ZeroDivisionError("surprise")

        before = read_runs(logs)
        monkeypatch.setattr(jsonl, "parse", broken)
        after = read_runs(logs)
        assert [run.name for run in after] == [run.name for run in before if run.format != "jsonl"]
        assert any("ZeroDivisionError: surprise" in skipped.reason for skipped in after.skipped)


class TestSingleFiles:
    def test_path_that_does_not_exist_raises(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="does not exist"):
            read_runs(tmp_path / "no.csv")

    def test_device_or_pipe_raises_and_names_the_way_out(self) -> None:
        with pytest.raises(InputError, match="not a regular file; to read a pipe give '-'"):
            read_runs("/dev/null")

    def test_file_over_the_byte_limit_raises(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "run.csv"
        path.write_text(TABLE)
        monkeypatch.setattr(limits, "MAX_BYTES", len(TABLE))
        assert len(read_runs(path)) == 1
        monkeypatch.setattr(limits, "MAX_BYTES", len(TABLE) - 1)
        with pytest.raises(InputError, match="more than 44 bytes; thin it out"):
            read_runs(path)

    @pytest.mark.parametrize("text", [TABLE, "1\n2\n3\n"])
    def test_file_over_the_row_limit_raises(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        path = tmp_path / "run.csv"
        path.write_text(text)
        monkeypatch.setattr(limits, "MAX_ROWS", 2)
        with pytest.raises(InputError, match="more than 2 lines"):
            read_runs(path)

    def test_table_over_the_field_limit_raises(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "run.csv"
        path.write_text(TABLE)
        monkeypatch.setattr(limits, "MAX_FIELDS", 2)
        with pytest.raises(InputError, match="more than 2 different columns"):
            read_runs(path)


class TestReadColumn:
    @pytest.fixture
    def table(self, tmp_path: Path) -> Path:
        path = tmp_path / "run.csv"
        path.write_text(TABLE)
        return path

    def test_column_of_a_file_gives_steps_and_values(self, table: Path) -> None:
        column = read_column(table, "val_acc")
        assert (column.name, column.steps.tolist(), column.values.tolist()) == ("val_acc", [1, 2], [0.5, 0.625])

    def test_column_that_is_missing_raises_and_lists_the_names(self, table: Path) -> None:
        with pytest.raises(InputError, match=r"run\.csv has no column val_ac; it has val_acc, val_loss"):
            read_column(table, "val_ac")

    def test_no_column_where_there_are_several_raises_and_lists_the_names(self, table: Path) -> None:
        with pytest.raises(InputError, match="has 2 columns; name one: val_acc, val_loss"):
            read_column(table)

    def test_no_column_where_there_is_one_takes_it(self) -> None:
        column = read_column(io.StringIO("step,acc\n10,0.5\n"))
        assert (column.name, column.steps.tolist()) == ("acc", [10])

    def test_text_in_other_columns_does_not_matter(self) -> None:
        text = "epoch,acc,note\n1,0.5,3\n2,0.6,stopped\n"
        assert read_column(io.StringIO(text), "acc").values.tolist() == [0.5, 0.6]
        with pytest.raises(InputError, match="column note"):
            read_column(io.StringIO(text), "note")

    def test_text_in_the_step_column_raises(self) -> None:
        with pytest.raises(InputError, match="line 3, column epoch: '2x'"):
            read_column(io.StringIO("epoch,acc\n1,0.5\n2x,0.6\n"), "acc")

    def test_text_in_a_step_column_named_by_the_caller_raises(self) -> None:
        with pytest.raises(InputError, match="line 2, column seen: 'a'"):
            read_column(io.StringIO("seen,acc\na,0.5\nb,0.6\n"), "acc", step_column="seen")

    def test_step_column_named_by_the_caller_is_taken(self) -> None:
        column = read_column(io.StringIO("epoch,seen,acc\n1,64,0.5\n"), "acc", step_column="seen")
        assert column.steps.tolist() == [64]

    def test_json_lines_in_a_stream_are_recognised(self) -> None:
        assert read_column(io.StringIO('{"step": 5, "acc": 0.5}\n{"step"'), "acc").steps.tolist() == [5]

    def test_stream_over_the_limit_raises(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "MAX_BYTES", 3)
        with pytest.raises(InputError, match="more than 3 characters"):
            read_column(io.StringIO("1\n2\n"))

    def test_stream_that_is_not_text_raises(self) -> None:
        with pytest.raises(InputError, match="is not text"):
            read_column(io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), encoding="utf-8"))

    def test_dash_reads_the_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("0.5 0.6 0.7"))
        assert read_column("-").values.tolist() == [0.5, 0.6, 0.7]

    def test_dash_without_a_standard_input_raises(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", None)
        with pytest.raises(InputError, match="there is no standard input"):
            read_column("-")

    def test_stream_of_bytes_raises(self) -> None:
        with pytest.raises(InputError, match="gives bytes, not text; open it as text"):
            read_column(io.BytesIO(b"0.5\n"))  # type: ignore[arg-type]

    def test_stream_that_is_closed_raises(self) -> None:
        stream = io.StringIO("0.5\n")
        stream.close()
        with pytest.raises(InputError, match="cannot be read: I/O operation on closed file"):
            read_column(stream)

    def test_stream_that_can_only_be_written_raises(self, tmp_path: Path) -> None:
        with (
            (tmp_path / "run.csv").open("w") as stream,
            pytest.raises(InputError, match="cannot be read: not readable"),
        ):
            read_column(stream)

    @pytest.mark.parametrize("item", [True, 3, b"x", [], {}, object()])
    @pytest.mark.parametrize("name", ["column", "step_column", "run", "source"])
    def test_argument_that_is_no_text_is_named(self, table: Path, name: str, item: object) -> None:
        given: dict[str, Any] = {"source": table, "column": "val_acc", name: item}
        with pytest.raises(InputError, match=f"{name}=.* must be"):
            read_column(**given)

    def test_directory_without_logs_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"holds no logs \(CSV, JSON lines"):
            read_column(tmp_path)

    def test_directory_with_one_run_gives_its_column(self, table: Path) -> None:
        assert read_column(table.parent, "val_acc").run.name == "run.csv"

    def test_directory_with_several_runs_raises_and_lists_them(self, logs: Path) -> None:
        with pytest.raises(InputError, match=r"holds 3 runs, not one: a/log\.jsonl, b/version_0"):
            read_column(logs, "val_acc")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"path": None}, "path=None must be the path"),
        ({"path": b"run.csv"}, "path=.* must be the path"),
        ({"path": ""}, "path='' must be the path"),
        ({"path": "x" * 5_000}, r"x{200}\.\.\. cannot be read"),
        ({"step_column": 3}, "step_column=3 must be a name"),
        ({"formats": "csv"}, "formats='csv' is unknown; give a list"),
        ({"formats": [["csv"]]}, "formats=.* is unknown; give a list"),
        ({"formats": 3}, "formats=3 is unknown; give a list"),
    ],
)
def test_argument_of_read_runs_that_cannot_be_used_is_named(logs: Path, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem) as refused:
        read_runs(**{"path": logs, **given})
    assert len(str(refused.value)) < 500


def test_import_of_the_readers_loads_no_framework() -> None:
    code = (
        "import sys, epochcast.logs; "
        "print([m for m in ('torch', 'tensorboard', 'google.protobuf', 'mlflow', 'pandas') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
