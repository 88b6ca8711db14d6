"""MLflow's file store, mlruns/."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from epochcast.errors import InputError
from epochcast.logs import limits, mlruns, read_runs
from epochcast.logs.growing import GrowingLogs

# As MLflow 3.17 writes them, with fewer entries.
EXPERIMENT = "artifact_location: file:///mlruns/1\nexperiment_id: '1'\nlifecycle_stage: active\nname: digits\n"
RUN = "entry_point_name: ''\nlifecycle_stage: {stage}\nrun_id: {run}\nrun_name: {name}\nstatus: 3\ntags: []\n"


def make_run(
    store: Path, run: str, metrics: dict[str, str], *, name: str = "mlp", stage: str = "active", experiment: str = "1"
) -> Path:
    folder = store / experiment / run
    for kind in ("metrics", "params", "tags", "artifacts"):
        (folder / kind).mkdir(parents=True)
    (store / experiment / "meta.yaml").write_text(EXPERIMENT)
    (folder / "meta.yaml").write_text(RUN.format(stage=stage, run=run, name=name))
    (folder / "params" / "data.csv").write_text("0.1")
    for metric, text in metrics.items():
        path = folder / "metrics" / metric
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def lines(values: list[float], first: int = 0) -> str:
    return "".join(f"{1795014808745 + step} {value} {step}\n" for step, value in enumerate(values, start=first))


class TestStore:
    def test_store_gives_one_run_per_folder_with_the_names_of_its_metrics(self, tmp_path: Path) -> None:
        folder = make_run(tmp_path / "mlruns", "a1", {"loss": lines([2.0, 1.0]), "val/acc": lines([0.5, 0.6, 0.7])})
        findings = read_runs(tmp_path)
        (run,) = findings
        assert (run.name, run.format, run.path) == ("mlruns/digits/mlp", "mlflow", folder)
        assert run.step_name == "step"
        assert run.metrics["val/acc"].steps.tolist() == [1, 2, 3]
        assert run.metrics["loss"].values.tolist() == [2.0, 1.0]
        assert findings.skipped == []

    @pytest.mark.parametrize("inside", [".", "1", "1/a1"])
    def test_store_experiment_or_run_may_be_the_directory_given(self, tmp_path: Path, inside: str) -> None:
        make_run(tmp_path / "mlruns", "a1", {"loss": lines([2.0, 1.0])})
        assert [run.name for run in read_runs(tmp_path / "mlruns" / inside)] == ["digits/mlp"]

    def test_runs_of_one_name_are_told_apart_by_their_ids(self, tmp_path: Path) -> None:
        for run in ("aaaaaaaa11", "bbbbbbbb11"):
            make_run(tmp_path, run, {"loss": lines([1.0])})
        assert [run.name for run in read_runs(tmp_path)] == ["digits/mlp (aaaaaaaa)", "digits/mlp (bbbbbbbb)"]

    @pytest.mark.parametrize(
        ("written", "name"),
        [
            ("'a: ''b'''", "a: 'b'"),
            ('"tab\\there"', "tab\there"),
            ("null", "a1"),
            ("", "a1"),
            ("masked-shark-205", "masked-shark-205"),
        ],
    )
    def test_run_name_is_read_as_yaml_writes_it(self, tmp_path: Path, written: str, name: str) -> None:
        make_run(tmp_path, "a1", {"loss": lines([1.0])}, name=written)
        assert read_runs(tmp_path)[0].name == f"digits/{name}"

    @pytest.mark.parametrize("meta", [b"", b"\xff\xfe", b"[1, 2", b"run_name"])
    def test_run_whose_meta_cannot_be_read_goes_by_its_folder(self, tmp_path: Path, meta: bytes) -> None:
        folder = make_run(tmp_path, "a1", {"loss": lines([1.0])})
        (folder / "meta.yaml").write_bytes(meta)
        assert read_runs(tmp_path)[0].name == "digits/a1"

    def test_deleted_run_is_left_out(self, tmp_path: Path) -> None:
        make_run(tmp_path, "a1", {"loss": lines([1.0])}, stage="deleted")
        findings = read_runs(tmp_path)
        assert (list(findings), findings.skipped) == ([], [])

    def test_models_of_an_experiment_are_no_runs(self, tmp_path: Path) -> None:
        make_run(tmp_path, "a1", {"loss": lines([1.0])})
        make_run(tmp_path / "1", "m-1", {"loss": "1795014808745 0.5 0 a1\n"}, experiment="models")
        assert [run.name for run in read_runs(tmp_path)] == ["digits/mlp"]

    def test_lines_of_older_and_newer_clients_are_read(self, tmp_path: Path) -> None:
        text = "1795014808745 0.5\n1795014808746 nan 1 train abcd\n1795014808747 -inf 2\n"
        make_run(tmp_path, "a1", {"loss": text})
        values = read_runs(tmp_path)[0].metrics["loss"].values
        assert values[0] == 0.5
        assert math.isnan(values[1])
        assert values[2] == -math.inf

    def test_step_that_goes_back_drops_the_dead_attempt(self, tmp_path: Path) -> None:
        make_run(tmp_path, "a1", {"acc": lines([0.1] * 30, first=1) + lines([0.9] * 10, first=1)})
        (run,) = read_runs(tmp_path)
        assert run.metrics["acc"].values.tolist() == [0.9] * 10
        assert "starts again at step 1: left out 30 of 40 values" in run.notes[0]

    def test_step_column_may_be_another_metric(self, tmp_path: Path) -> None:
        make_run(tmp_path, "a1", {"epoch": "1 1 10\n1 2 20\n", "acc": "1 0.5 10\n1 0.6 20\n"})
        (run,) = read_runs(tmp_path, step_column="epoch")
        assert run.metrics["acc"].steps.tolist() == [1, 2]


class TestBeingWritten:
    def test_line_without_its_end_is_left_out(self, tmp_path: Path) -> None:
        make_run(tmp_path, "a1", {"loss": "1 0.5 1\n2 0.4 2\n3 0.3"})
        assert read_runs(tmp_path)[0].metrics["loss"].values.tolist() == [0.5, 0.4]

    def test_run_without_values_has_no_metrics(self, tmp_path: Path) -> None:
        make_run(tmp_path, "a1", {})
        assert read_runs(tmp_path)[0].metrics == {}

    def test_growing_run_is_read_again_and_the_others_are_not(self, tmp_path: Path) -> None:
        first = make_run(tmp_path, "a1", {"loss": lines([1.0])})
        make_run(tmp_path, "b1", {"loss": lines([1.0])}, name="other")
        logs = GrowingLogs(tmp_path)
        logs.read()
        with (first / "metrics" / "loss").open("a") as file:
            file.write("1795014808799 0.5 1\n")
        (first / "metrics" / "acc").write_text("1795014808799 0.9 1\n")
        runs = {run.name: run for run in logs.read()}
        assert logs.files_read == 3
        assert len(runs["digits/mlp"].metrics["loss"].steps) == 2
        assert "acc" in runs["digits/mlp"].metrics


class TestDamage:
    @pytest.mark.parametrize(
        "line", ["1795014808745 high 1", "1795014808745", "1 0.5 1e3", f"1 0.5 {'9' * 5000}", "\0"]
    )
    def test_line_that_is_no_value_leaves_the_run_out_and_names_file_and_line(self, tmp_path: Path, line: str) -> None:
        make_run(tmp_path, "a1", {"loss": f"1 0.5 1\n{line}\n"})
        make_run(tmp_path, "b1", {"loss": lines([1.0])}, name="other")
        findings = read_runs(tmp_path)
        assert [run.name for run in findings] == ["digits/other"]
        assert "loss, line 2" in findings.skipped[0].reason

    def test_symbolic_link_among_the_metrics_is_not_followed(self, tmp_path: Path) -> None:
        folder = make_run(tmp_path / "mlruns", "a1", {"loss": lines([1.0])})
        (tmp_path / "secret").write_text("1 0.5 1\n")
        (folder / "metrics" / "link").symlink_to(tmp_path / "secret")
        assert list(read_runs(tmp_path)[0].metrics) == ["loss"]

    def test_metric_file_over_the_row_limit_raises(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = make_run(tmp_path, "a1", {"loss": lines([1.0, 2.0, 3.0])})
        monkeypatch.setattr(limits, "MAX_ROWS", 2)
        with pytest.raises(InputError, match="more than 2 lines"):
            mlruns.parse(folder, [folder / "metrics" / "loss"])


@pytest.mark.filterwarnings("default")
def test_store_written_by_mlflow_itself_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "1")
    real.set_tracking_uri((tmp_path / "mlruns").as_uri())
    try:
        real.set_experiment("digits")
    except real.MlflowException as error:  # a release without the file store
        pytest.skip(str(error))
    with real.start_run(run_name="first: run"):
        for epoch, value in enumerate([0.5, math.nan, math.inf]):
            real.log_metrics({"val/acc": value}, step=epoch)
    (run,) = read_runs(tmp_path)
    assert run.name == "mlruns/digits/first: run"
    steps, values = run.metrics["val/acc"]
    assert steps.tolist() == [1, 2, 3]
    assert values[0] == 0.5
    assert math.isnan(values[1])
    assert values[2] == math.inf
