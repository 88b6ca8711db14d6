"""MLflow's SQLite store."""

from __future__ import annotations

import math
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from epochcast.errors import InputError
from epochcast.logs import limits, mlflow, read_runs

Row = tuple[str, float, int, str, int, int]  # key, value, timestamp, run, step, is_nan


def make_store(path: Path, rows: list[Row], *, deleted: bool = False) -> Path:
    """A store with the tables and columns of MLflow 3.17 that matter, and runs a1 and b1 of the same name."""
    with closing(sqlite3.connect(path)) as store, store:
        store.executescript("""
            CREATE TABLE experiments (experiment_id INTEGER PRIMARY KEY, name VARCHAR, lifecycle_stage VARCHAR);
            CREATE TABLE runs (run_uuid VARCHAR PRIMARY KEY, name VARCHAR, status VARCHAR, start_time BIGINT,
                               lifecycle_stage VARCHAR, experiment_id INTEGER);
            CREATE TABLE metrics (key VARCHAR, value FLOAT NOT NULL, timestamp BIGINT, run_uuid VARCHAR,
                                  step BIGINT DEFAULT 0, is_nan BOOLEAN DEFAULT 0,
                                  PRIMARY KEY (key, timestamp, step, run_uuid, value, is_nan));
        """)
        store.execute("INSERT INTO experiments VALUES (1, 'digits', 'active')")
        stage = "deleted" if deleted else "active"
        store.execute("INSERT INTO runs VALUES ('a1', 'mlp', 'RUNNING', 100, 'active', 1)")
        store.execute("INSERT INTO runs VALUES ('b1', 'mlp', 'FINISHED', 50, ?, 1)", (stage,))
        store.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
    return path


def metric_rows(run: str, values: list[float]) -> list[Row]:
    return [("val_acc", value, 1000 + step, run, step, 0) for step, value in enumerate(values)]


class TestStore:
    def test_store_gives_one_run_per_run_the_oldest_first(self, tmp_path: Path) -> None:
        rows = metric_rows("a1", [0.5, 0.6]) + metric_rows("b1", [0.1])
        runs = read_runs(make_store(tmp_path / "mlflow.db", rows))
        assert [run.name for run in runs] == ["mlflow.db/digits/mlp (b1)", "mlflow.db/digits/mlp (a1)"]
        assert runs[1].metrics["val_acc"].steps.tolist() == [1, 2]
        assert runs[1].metrics["val_acc"].values.tolist() == [0.5, 0.6]

    def test_deleted_run_is_left_out_and_the_other_keeps_its_plain_name(self, tmp_path: Path) -> None:
        runs = read_runs(make_store(tmp_path / "mlflow.db", metric_rows("b1", [0.1]), deleted=True))
        assert [run.name for run in runs] == ["mlflow.db/digits/mlp"]
        assert runs[0].metrics == {}

    def test_nan_and_infinities_come_back_as_they_were_logged(self, tmp_path: Path) -> None:
        largest = sys.float_info.max
        rows: list[Row] = [
            ("loss", 0.0, 1, "a1", 1, 1),
            ("loss", largest, 2, "a1", 2, 0),
            ("loss", -largest, 3, "a1", 3, 0),
        ]
        values = read_runs(make_store(tmp_path / "mlflow.db", rows))[1].metrics["loss"].values
        assert math.isnan(values[0])
        assert values[1:].tolist() == [math.inf, -math.inf]

    def test_step_logged_again_keeps_the_value_of_the_latest_time(self, tmp_path: Path) -> None:
        rows: list[Row] = [("acc", 0.9, 20, "a1", 1, 0), ("acc", 0.1, 10, "a1", 1, 0)]
        run = read_runs(make_store(tmp_path / "mlflow.db", rows))[1]
        assert run.metrics["acc"].values.tolist() == [0.9]

    def test_step_that_goes_back_drops_the_dead_attempt(self, tmp_path: Path) -> None:
        rows = [("acc", 0.1, step, "a1", step, 0) for step in range(1, 31)]
        rows += [("acc", 0.9, 100 + step, "a1", step, 0) for step in range(1, 11)]
        run = read_runs(make_store(tmp_path / "mlflow.db", rows))[1]
        assert run.metrics["acc"].values.tolist() == [0.9] * 10
        assert run.restarted == {"acc"}

    def test_store_in_a_directory_with_odd_characters_is_opened(self, tmp_path: Path) -> None:
        folder = tmp_path / "a?mode=rw#b %41"
        folder.mkdir()
        make_store(folder / "mlflow.db", metric_rows("a1", [0.5]))
        assert len(read_runs(folder)) == 2

    def test_run_without_the_step_column_asked_for_does_not_hide_the_others(self, tmp_path: Path) -> None:
        rows = [*metric_rows("a1", [0.5]), ("epoch", 1.0, 1, "a1", 0, 0), *metric_rows("b1", [0.5])]
        findings = read_runs(make_store(tmp_path / "mlflow.db", rows), step_column="epoch")
        assert [run.name[-4:] for run in findings] == ["(a1)"]
        assert "no step column epoch" in findings.skipped[0].reason


class TestBeingWritten:
    @pytest.mark.parametrize("mode", ["DELETE", "WAL"])
    def test_rows_that_are_not_committed_are_not_seen_and_nothing_is_changed(self, tmp_path: Path, mode: str) -> None:
        path = make_store(tmp_path / "mlflow.db", metric_rows("a1", [0.5]))
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute(f"PRAGMA journal_mode = {mode}")
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("INSERT INTO metrics VALUES ('val_acc', 0.75, 2000, 'a1', 1, 0)")
            before = path.read_bytes()
            assert read_runs(path)[1].metrics["val_acc"].values.tolist() == [0.5]
            assert path.read_bytes() == before
            writer.execute("COMMIT")
            assert read_runs(path)[1].metrics["val_acc"].values.tolist() == [0.5, 0.75]

    def test_store_that_stays_locked_raises(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mlflow, "_WAIT_FOR_LOCK", 0.05)
        path = make_store(tmp_path / "mlflow.db", metric_rows("a1", [0.5]))
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN EXCLUSIVE")
            with pytest.raises(InputError, match="locked"):
                read_runs(path)

    def test_store_cut_off_anywhere_gives_all_rows_or_our_own_error(self, tmp_path: Path) -> None:
        values = [step / 400 for step in range(400)]
        whole = make_store(tmp_path / "whole.db", metric_rows("a1", values)).read_bytes()
        cut_file = tmp_path / "cut.db"
        refused = 0
        for cut in [*range(16, len(whole), 997), len(whole) - 1]:
            cut_file.write_bytes(whole[:cut])
            try:
                runs = read_runs(cut_file)
            except InputError:
                refused += 1
            else:
                assert runs[1].metrics["val_acc"].values.tolist() == values
        assert refused > 0


class TestDamage:
    def test_text_that_is_not_utf8_is_shown_with_replacement_characters(self, tmp_path: Path) -> None:
        path = make_store(tmp_path / "mlflow.db", metric_rows("a1", [0.5]))
        path.write_bytes(path.read_bytes().replace(b"digits", b"dig\xe4ts"))
        assert [run.name for run in read_runs(path)] == [
            "mlflow.db/dig\ufffdts/mlp (b1)",
            "mlflow.db/dig\ufffdts/mlp (a1)",
        ]

    def test_schema_that_is_not_utf8_raises(self, tmp_path: Path) -> None:
        path = make_store(tmp_path / "mlflow.db", metric_rows("a1", [0.5]))
        path.write_bytes(path.read_bytes().replace(b"CREATE TABLE experiments", b"CREATE T\xe4BLE experiments"))
        with pytest.raises(InputError, match="schema is damaged"):
            read_runs(path)

    def test_changed_byte_anywhere_gives_a_run_or_leaves_the_store_out(self, tmp_path: Path) -> None:
        path = make_store(tmp_path / "mlflow.db", metric_rows("a1", [0.5, 0.6]))
        (tmp_path / "good.csv").write_text("epoch,val_acc\n1,0.5\n")
        whole = path.read_bytes()
        written = [place for place, byte in enumerate(whole) if byte]
        outcomes = set()
        for place in written[::3]:
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xE4]) + whole[place + 1 :])
            findings = read_runs(tmp_path)
            assert "good.csv" in [run.name for run in findings]
            assert not any("reader failed" in skipped.reason for skipped in findings.skipped)
            outcomes.add(len(findings.skipped))
        assert {0, 1} <= outcomes


class TestOtherDatabases:
    def test_database_without_the_tables_raises_and_names_what_is_missing(self, tmp_path: Path) -> None:
        path = tmp_path / "other.db"
        with closing(sqlite3.connect(path)) as store, store:
            store.execute("CREATE TABLE metrics (key, value)")
        with pytest.raises(InputError, match="not a store of MLflow: table metrics lacks is_nan, run_uuid"):
            read_runs(path)

    def test_view_in_place_of_a_table_raises_rather_than_running_for_ever(self, tmp_path: Path) -> None:
        path = make_store(tmp_path / "mlflow.db", [])
        with closing(sqlite3.connect(path)) as store, store:
            store.execute("DROP TABLE metrics")
            store.execute("""
                CREATE VIEW metrics AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                SELECT 'acc' AS key, 1.0 AS value, i AS timestamp, 'a1' AS run_uuid, i AS step, 0 AS is_nan FROM n
            """)
        with pytest.raises(InputError, match="not a store of MLflow"):
            read_runs(path)

    def test_text_in_place_of_a_value_raises(self, tmp_path: Path) -> None:
        path = make_store(tmp_path / "mlflow.db", [("acc", "high", 1, "a1", 1, 0)])  # type: ignore[list-item]
        with pytest.raises(InputError, match="'high'"):
            read_runs(path)

    def test_more_rows_or_runs_than_the_limit_raise(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = make_store(tmp_path / "mlflow.db", metric_rows("a1", [0.5, 0.6, 0.7]))
        monkeypatch.setattr(limits, "MAX_ROWS", 3)
        assert len(read_runs(path)) == 2
        monkeypatch.setattr(limits, "MAX_ROWS", 2)
        with pytest.raises(InputError, match="more than 2 metric values"):
            read_runs(path)
        monkeypatch.setattr(limits, "MAX_RUNS", 1)
        with pytest.raises(InputError, match="more than 1 runs"):
            read_runs(path)


@pytest.mark.filterwarnings("default")
def test_store_written_by_mlflow_itself_is_read(tmp_path: Path) -> None:
    real = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    real.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    real.create_experiment("digits", artifact_location=str(tmp_path))
    real.set_experiment("digits")
    with real.start_run(run_name="mlp"):
        for epoch, value in enumerate([0.5, math.nan, math.inf]):
            real.log_metric("val_acc", value, step=epoch)
    (run,) = read_runs(tmp_path / "mlflow.db")
    assert run.name == "mlflow.db/digits/mlp"
    steps, values = run.metrics["val_acc"]
    assert steps.tolist() == [1, 2, 3]
    assert values[0] == 0.5
    assert math.isnan(values[1])
    assert values[2] == math.inf
