"""Loaders of public formats, on small files of the same shape that the tests write."""

from __future__ import annotations

import csv
import gzip
import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.benchmarks import Collection, load
from epochcast.benchmarks import json_stream as stream_module
from epochcast.errors import InputError
from epochcast.metric import Metric

ACCURACIES = [10.0, 30.0, 50.0, 70.0]  # percentages; the first before training


def lcbench(**changes: Any) -> dict[str, Any]:
    run = {
        "config": {"batch_size": 71, "learning_rate": 0.01, "optimizer": "sgd"},
        "log": {
            "epoch": [0, 1, 2, 3],
            "Train/val_accuracy": ACCURACIES,
            "Train/val_cross_entropy": [2.0, 1.5, 1.0, 0.9],
        },
        "results": {"final_val_accuracy": 70.0},
    }
    return {"adult": {"0": run, "1": run}, "airlines": {"0": run}} | changes


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


# --- LCBench and nested JSON ------------------------------------------------------------------------------------------


def test_lcbench_json_becomes_shares_with_the_value_before_training_apart(tmp_path: Path) -> None:
    (curves,) = load(write(tmp_path / "data_2k_lw.json", lcbench())).sets
    assert curves.task_names == ("adult", "airlines")
    np.testing.assert_allclose(curves.values, [[0.3, 0.5, 0.7]] * 3)
    assert curves.untrained is not None
    np.testing.assert_allclose(curves.untrained, 0.1)
    assert curves.config_names == ("batch_size", "learning_rate")
    assert curves.metrics[0].hard == (0.0, 1.0)


def test_lcbench_json_gives_another_metric_when_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "data_2k.json", lcbench())
    (curves,) = load(path, monitor="Train/val_cross_entropy").sets
    assert curves.metrics[0].minimize
    np.testing.assert_allclose(curves.values[0], [1.5, 1.0, 0.9])


def test_lcbench_json_is_read_in_pieces_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "bench_full.json", json.dumps(lcbench(), indent=1))
    (whole,) = load(path).sets
    monkeypatch.setattr(stream_module, "_BLOCK", 7)
    (pieces,) = load(path).sets
    np.testing.assert_array_equal(whole.values, pieces.values)


def test_lcbench_json_with_infinity_ends_the_curve_there(tmp_path: Path) -> None:
    run = {"log": {"epoch": [0, 1, 2, 3], "Train/val_cross_entropy": [2.0, 1.0, math.inf, 3.0]}, "config": {}}
    path = write(tmp_path / "data.json", {"adult": {"0": run}})
    (curves,) = load(path, monitor="Train/val_cross_entropy").sets
    assert curves.lengths.tolist() == [1]
    assert curves.horizons.tolist() == [3.0]


def test_nested_json_of_architectures_is_read(tmp_path: Path) -> None:
    export = {"cifar10-valid": {"|nor_conv_3x3~0|": [40.0, 60.0], "|none~0|": {"valid_accuracy": [0.5, 0.9]}}}
    (curves,) = load(write(tmp_path / "nb201.json", export), skip_bad=True).sets
    assert curves.task_names == ("cifar10-valid",)
    assert len(curves) == 2


@pytest.mark.parametrize("cut", [1, 30, 200, 500])
def test_truncated_json_is_an_error_that_names_file_and_place(tmp_path: Path, cut: int) -> None:
    text = json.dumps(lcbench())
    path = write(tmp_path / "data_2k.json", text[: len(text) - cut])
    with pytest.raises(InputError, match=r"data_2k\.json.*(adult|airlines).*character"):
        load(path)


def test_truncated_json_with_skip_bad_keeps_what_came_before(tmp_path: Path) -> None:
    text = json.dumps(lcbench())
    found = load(write(tmp_path / "data_2k.json", text[: len(text) - 30]), skip_bad=True)
    assert len(found.sets[0]) == 2
    assert len(found.skipped) == 1
    assert "cut off" in str(found.skipped[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"empty": {}}, "empty: a task without curves"),
        ({"short": {"0": {"log": {"Train/val_accuracy": [10.0]}}}}, "short / 0: a curve of 1 value"),
        ({"text": {"0": {"log": {"Train/val_accuracy": [10.0, "x"]}}}}, "text / 0: value number 2 is 'x'"),
        ({"other": {"0": {"log": {"Train/loss": [1.0, 2.0]}}}}, "other / 0: metric 'Train/val_accuracy' is not among"),
        ({"wide": {"0": {"log": {"Train/val_accuracy": [10.0, 20.0, 170.0]}}}}, r"wide / 0: value 1\.7"),
        ({"odd": {"0": 3}}, "odd / 0: int where curves belong"),
    ],
)
def test_bad_member_is_an_error_or_is_skipped_alone(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "data_2k.json", lcbench(**changes))
    with pytest.raises(InputError, match=message):
        load(path)
    found = load(path, skip_bad=True)
    assert len(found.sets[0]) == 3
    assert len(found.skipped) == 1


def test_json_of_the_wrong_shape_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.json"):
        load(write(tmp_path / "x.json", "3"))
    with pytest.raises(InputError, match=r"y\.json"):
        load(write(tmp_path / "y.json", {"a": 3}))


# --- PD1 --------------------------------------------------------------------------------------------------------------


def pd1_line(losses: list[Any], dataset: str = "lm1b") -> dict[str, Any]:
    return {
        "dataset": dataset,
        "model": "transformer",
        "hps.batch_size": 2048,
        "hps.lr_hparams.initial_value": 0.1,
        "status": "done",
        "global_step": [100 * (i + 1) for i in range(len(losses))],
        "valid/ce_loss": losses,
        "valid/error_rate": [0.5] * len(losses),
    }


def test_pd1_lines_become_tasks_with_steps_and_soft_bounds(tmp_path: Path) -> None:
    lines = [pd1_line([8.0, 5.0, 4.0]), pd1_line([7.0, 3.5, None]), pd1_line([3.0, 2.8], "uniref50")]
    path = tmp_path / "pd1_matched_phase0_results.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("\n".join(json.dumps(line) for line in lines))
    (curves,) = load(path).sets
    assert curves.task_names == ("lm1b_transformer_2048", "uniref50_transformer_2048")
    assert curves.metrics[0].soft == (3.5, 7.5)  # the best loss of the task, the median of its first losses
    assert curves.lengths.tolist() == [3, 2, 2]
    assert curves.horizons.tolist() == [300.0, 300.0, 200.0]


def test_pd1_csv_with_lists_in_cells_equals_its_lines(tmp_path: Path) -> None:
    lines = [pd1_line([8.0, 5.0, 4.0]), pd1_line([7.0, 3.5, 3.0])]
    path = tmp_path / "pd1.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows([{key: str(value) for key, value in line.items()} for line in lines])
    (from_csv,) = load(path).sets
    (from_lines,) = load(write(tmp_path / "pd1.jsonl", "\n".join(json.dumps(line) for line in lines))).sets
    np.testing.assert_array_equal(from_csv.values, from_lines.values)
    assert from_csv.task_names == from_lines.task_names


def test_pd1_broken_line_is_named_or_skipped(tmp_path: Path) -> None:
    text = json.dumps(pd1_line([8.0, 5.0])) + "\n{broken\n" + json.dumps({"dataset": "x"}) + "\n"
    path = write(tmp_path / "pd1.jsonl", text)
    with pytest.raises(InputError, match=r"pd1\.jsonl: line 2: not JSON"):
        load(path)
    found = load(path, skip_bad=True)
    assert [item.place for item in found.skipped] == ["line 2", "line 3"]
    assert len(found.sets[0]) == 1


# --- TaskSet ----------------------------------------------------------------------------------------------------------


def write_taskset(folder: Path, task: str) -> Path:
    rng = np.random.default_rng(0)
    path = folder / task / "adam8p_wide_grid_1k_10000_replica5.npz"
    path.parent.mkdir(parents=True)
    ys = rng.random((4, 2, 6, 4)).astype(np.float32)
    ys[0, 0, 3:] = np.nan
    np.savez(path, optimizers=np.array([f"adam8p_seed{i}" for i in range(4)]), xs=np.arange(6) * 200, ys=ys)
    return path


def test_taskset_npz_has_a_curve_per_configuration_and_seed(tmp_path: Path) -> None:
    path = write_taskset(tmp_path, "FixedTextRNNClassification_imdb")
    (curves,) = load(path).sets
    assert len(curves) == 8
    assert curves.task_names == ("FixedTextRNNClassification_imdb",)
    assert curves.steps.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert curves.lengths[0] == 2  # diverged, kept
    with np.load(path) as stored:
        np.testing.assert_allclose(curves.values[1], stored["ys"][0, 1, 1:, 1])
        assert curves.untrained is not None
        np.testing.assert_allclose(curves.untrained[1], stored["ys"][0, 1, 0, 1])


def test_taskset_folder_joins_its_tasks(tmp_path: Path) -> None:
    write_taskset(tmp_path, "task_a")
    write_taskset(tmp_path, "task_b")
    (curves,) = load(tmp_path).sets
    assert curves.name == "taskset"
    assert curves.task_names == ("task_a", "task_b")


def test_taskset_json_of_one_task_is_read(tmp_path: Path) -> None:
    entry = {"hp": {"learning_rate": 0.1}, "train": {"loss": [1.0, 0.5]}, "valid": {"loss": [1.0, 0.6, 0.5]}}
    found = load(write(tmp_path / "imdb.json", [entry, {"hp": {}}]), skip_bad=True)
    np.testing.assert_allclose(found.sets[0].values, [[0.6, 0.5]])
    assert [item.place for item in found.skipped] == ["entry 1"]


def test_taskset_npz_of_the_wrong_shape_is_an_error_with_the_shapes(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", xs=np.arange(5), ys=np.zeros((3, 5)))
    with pytest.raises(InputError, match=r"t\.npz.*ys.*\[3, 5\]"):
        load(tmp_path / "t.npz")


# --- LCDB and long tables ---------------------------------------------------------------------------------------------

LCDB_HEADER = "openmlid,learner,size_train,size_test,outer_seed,inner_seed,traintime,score_train,score_valid,score_test"


def test_lcdb_csv_averages_over_seeds_by_training_size(tmp_path: Path) -> None:
    rows = [
        f"3,SVC_linear,{size},100,0,{seed},0.1,1.0,{score + 0.1 * seed},0.5"
        for size, score in ((16, 0.4), (23, 0.5), (32, 0.6))
        for seed in (0, 1)
    ]
    (curves,) = load(write(tmp_path / "database-accuracy.csv", "\n".join([LCDB_HEADER, *rows]))).sets
    assert curves.task_names == ("3",)
    assert curves.steps.tolist() == [16.0, 23.0, 32.0]
    np.testing.assert_allclose(curves.values, [[0.45, 0.55, 0.65]])
    assert not curves.metrics[0].minimize


def test_long_csv_of_architectures_has_a_curve_per_seed(tmp_path: Path) -> None:
    rows = [
        f"cifar100,{arch},{seed},{epoch},{epoch * 10 + seed}"
        for arch in (0, 1)
        for seed in (0, 1)
        for epoch in (1, 2, 3)
    ]
    text = "\n".join(["dataset,arch_index,seed,epoch,valid_accuracy", *rows])
    (curves,) = load(write(tmp_path / "nats.csv", text)).sets
    assert len(curves) == 4
    np.testing.assert_allclose(curves.values[1], [0.11, 0.21, 0.31])


def test_long_csv_with_bad_lines_names_or_skips_them(tmp_path: Path) -> None:
    text = "dataset,arch,epoch,valid_accuracy\na,0,1,0.1\na,0,2,x\na,0,3,0.3\na,0\n"
    path = write(tmp_path / "t.csv", text)
    with pytest.raises(InputError, match=r"t\.csv: line 3"):
        load(path)
    assert [item.place for item in load(path, skip_bad=True).skipped] == ["line 3", "line 5"]


# --- npz, folders, refusals -------------------------------------------------------------------------------------------


def write_npz(path: Path, **changes: Any) -> Path:
    arrays: dict[str, Any] = {
        "curves": np.array([[1.0, 0.5, 0.4], [1.0, 0.6, np.nan]], dtype=np.float32),
        "task": np.array([0, 1]),
        "task_names": np.array(["a", "b"]),
        "metric": np.array("valid loss"),
        "minimize": np.array(True),
        "y0": np.array([1.0, 1.0], dtype=np.float32),
    }
    np.savez(path, **{name: value for name, value in (arrays | changes).items() if value is not None})
    return path


def test_npz_takes_the_column_before_training_out(tmp_path: Path) -> None:
    (curves,) = load(write_npz(tmp_path / "mine.npz")).sets
    assert curves.lengths.tolist() == [2, 1]
    assert curves.steps.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"curves": None}, "no array 'curves'"),
        ({"curves": np.zeros(3)}, r"shape \[3\]"),
        ({"metric": np.array("flux"), "minimize": np.array(False)}, "'flux' is unknown"),
        ({"minimize": None}, "'minimize' are missing"),
        ({"task": np.array([0, 9])}, "task numbers"),
        ({"curves": np.array([[1.0, 0.5, -3.0], [1.0, 0.6, 0.5]])}, "outside"),
    ],
)
def test_npz_of_wrong_arrays_is_an_error(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(write_npz(tmp_path / "mine.npz", **changes))


def test_npz_with_bad_curves_and_skip_bad_keeps_the_others(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "mine.npz", curves=np.array([[1.0, 0.5, -3.0], [1.0, 0.6, 0.5]]))
    found = load(path, skip_bad=True)
    assert len(found.sets[0]) == 1
    assert [item.place for item in found.skipped] == ["curve 0"]


def test_npz_with_pickled_objects_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", curves=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match=r"bad\.npz"):
        load(tmp_path / "bad.npz")


def test_npz_that_unpacks_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epochcast.benchmarks.npz.MAX_BYTES", 100)
    with pytest.raises(InputError, match="more than 100"):
        load(write_npz(tmp_path / "mine.npz"))


@pytest.mark.parametrize("name", ["NAS-Bench-201-v1_1-096897.pth", "NATS-tss-v1_0-3ffb9.pickle.pbz2", "x.pkl"])
def test_pickles_are_never_opened(tmp_path: Path, name: str) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
            return (Path.touch, (tmp_path / "sprung",))

    (tmp_path / name).write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError, match=r"pickle.*JSON"):
        load(tmp_path / name)
    with pytest.raises(InputError, match="pickle"):
        load(tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_folder_of_logs_becomes_one_set_with_a_task_per_folder(tmp_path: Path) -> None:
    for task in ("digits", "wine"):
        (tmp_path / task).mkdir()
        for run in range(2):
            lines = ["epoch,loss,val_acc", *(f"{i},{1 / (i + 1)},{0.1 * i}" for i in range(1, 6))]
            write(tmp_path / task / f"run{run}.csv", "\n".join(lines))
    found = load(tmp_path, monitor="val_acc", metric="accuracy")
    (curves,) = found.sets
    assert curves.task_names == ("digits", "wine")
    assert len(curves) == 4
    with pytest.raises(InputError, match="val_f1"):
        load(tmp_path, monitor="val_f1", metric="accuracy")


def test_former_names_of_the_arguments_are_taken_with_a_warning(tmp_path: Path) -> None:
    write(tmp_path / "run.csv", "epoch,loss,val_acc\n1,0.9,0.2\n2,0.8,0.3\n")
    now = load(tmp_path, monitor="val_acc", metric="accuracy")
    with pytest.warns(DeprecationWarning, match="monitor="):
        former = load(tmp_path, metric="val_acc", kind="accuracy")
    assert (former.sets[0].metrics, former.format) == (now.sets[0].metrics, now.format)
    with pytest.warns(DeprecationWarning, match="monitor='val_acc'"):
        assert load(tmp_path, metric="val_acc").format == now.format
    with pytest.raises(InputError, match="'accuracy' is not among"):  # a preset alone names the column too
        load(tmp_path, metric="accuracy")
    (column,) = load(tmp_path, metric=Metric.named("log_loss")).sets  # a Metric does not
    assert [metric.name for metric in column.metrics] == ["log_loss"]


def test_folder_of_collections_skips_the_broken_one(tmp_path: Path) -> None:
    write_npz(tmp_path / "good.npz")
    (tmp_path / "broken.npz").write_bytes(b"PK not a zip")
    (tmp_path / "README.md").write_text("notes", encoding="utf-8")
    with pytest.raises(InputError, match=r"broken\.npz"):
        load(tmp_path)
    found = load(tmp_path, skip_bad=True)
    assert [curves.name for curves in found.sets] == ["good"]
    assert len(found.skipped) == 1


def test_path_of_nothing_or_of_an_unknown_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no format that is known"):
        load(write(tmp_path / "x.xyz", "1"))


def test_shipped_collection_loads_by_name() -> None:
    found: Collection = load("digits_bench")
    assert [curves.name for curves in found.sets] == ["digits_bench_accuracy", "digits_bench_log_loss"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"path": None}, "path=None must be the path"),
        ({"monitor": 3}, "monitor=3 must be a name"),
        ({"horizon": None}, "horizon=None is not a number"),
        ({"horizon": 10**400}, "horizon=.* is too large"),
        ({"skip_bad": "yes"}, "skip_bad='yes' must be True or False"),
    ],
)
def test_argument_of_load_that_cannot_be_used_is_named(tmp_path: Path, given: dict[str, Any], problem: str) -> None:
    (tmp_path / "run.csv").write_text("epoch,val_acc\n1,0.5\n2,0.6\n")
    with pytest.raises(InputError, match=problem):
        load(**{"path": tmp_path, "monitor": "val_acc", **given})
