"""`epochcast forecast run.csv --context runs/`: which runs are read, with which configurations, and what is said."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.forecaster import Forecaster
from tests.command_line import command
from tests.test_logs_mlruns import make_run
from tests.test_logs_tensorboard import framed, scalar_event

LENGTH = 30
OPTIONS = ("--horizon", str(LENGTH), "--model", "empirical-gp")


def write(path: Path, values: Any, column: str = "val_acc") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"{step},{value:.5f}" for step, value in enumerate(values, start=1)]
    path.write_text("\n".join([f"epoch,{column}", *rows, ""]))
    return path


@pytest.fixture
def curves() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    ends, scales = rng.uniform(0.6, 0.9, 13), rng.uniform(3.0, 9.0, 13)
    steps = np.arange(1.0, LENGTH + 1.0)
    return [end - (end - 0.1) * np.exp(-steps / scale) for end, scale in zip(ends, scales, strict=True)]


@pytest.fixture
def folder(tmp_path: Path, curves: list[np.ndarray]) -> Path:
    """Twelve finished runs, and one under way."""
    for i, curve in enumerate(curves):
        write(tmp_path / "runs" / f"r{i:02d}" / "log.csv", curve[:6] if i == 0 else curve)
    return tmp_path / "runs"


def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What forecasts were told of the runs, in calls to come."""
    calls: list[dict[str, Any]] = []
    original = Forecaster.forecast

    def record(self: Forecaster, values: Any, **known: Any) -> Any:
        calls.append({"values": values, **known})
        return original(self, values, **known)

    monkeypatch.setattr(Forecaster, "forecast", record)
    return calls


def test_context_of_a_folder_is_every_run_in_it_but_the_one_forecast(folder: Path) -> None:
    own = str(folder / "r00" / "log.csv")
    result = command("forecast", own, *OPTIONS, "--context", str(folder))
    assert result.code == 0, result.err
    assert "with 12 other runs as context" in result.out
    alone = command("forecast", own, *OPTIONS)
    assert "as context" not in alone.out
    found = [command("forecast", own, *OPTIONS, *rest, "--json").answer for rest in (("--context", str(folder)), ())]
    assert found[0]["context"] == 12
    assert "context" not in found[1]
    widths = [answer["quantiles"]["0.950"][-1] - answer["quantiles"]["0.050"][-1] for answer in found]
    assert widths[0] < widths[1]


def test_context_of_several_files_and_folders_holds_each_run_once(folder: Path) -> None:
    paths = [folder / "r01", folder / "r01" / "log.csv", folder / "r02" / "log.csv", folder / "r00"]
    given = [word for path in paths for word in ("--context", str(path))]
    result = command("forecast", str(folder / "r00" / "log.csv"), *OPTIONS, *given)
    assert "with 2 other runs as context" in result.out
    one = command("forecast", str(folder / "r00" / "log.csv"), *OPTIONS, "--context", str(folder / "r01"))
    assert "with 1 other run as context" in one.out


def test_cutoff_shortens_the_run_and_not_the_others_nor_lets_it_in_by_another_way(
    folder: Path, curves: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    link = folder.parent / "link.csv"
    os.symlink(folder / "r01" / "log.csv", link)
    write(folder / "copy" / "same.csv", curves[2])
    calls = asked(monkeypatch)
    for source in (str(link), str(folder / "r01"), os.path.relpath(folder / "r01" / "log.csv")):
        assert command("forecast", source, *OPTIONS, "--cutoff", "5", "--context", str(folder)).code == 0
        assert len(calls[-1]["context"]) == 13
    assert (
        command("forecast", str(folder / "r02" / "log.csv"), *OPTIONS, "--context", str(folder)).code == 2
    )  # finished
    own = str(folder / "r02" / "log.csv")
    assert command("forecast", own, *OPTIONS, "--cutoff", "5", "--context", str(folder)).code == 0
    assert len(calls[-1]["values"].values) == 5
    assert {len(run.values) for run in calls[-1]["context"]} == {6, LENGTH}
    assert len(calls[-1]["context"]) == 12  # without its copy


def test_runs_of_one_file_are_told_apart_by_their_names(folder: Path) -> None:
    result = command("forecast", str(folder), "--run", "r00", *OPTIONS, "--context", str(folder), "--json")
    assert result.answer["context"] == 12


@pytest.mark.parametrize("named", ["run", "run/events.out.tfevents.1.host"])
def test_run_that_is_a_folder_of_files_is_left_out_but_not_those_below_it(tmp_path: Path, named: str) -> None:
    for i, folder in enumerate(("run", "run/sub", "other")):
        (tmp_path / folder).mkdir()
        events = [framed(scalar_event("acc", step, 0.1 * step + 0.01 * i)) for step in range(1, 6)]
        (tmp_path / folder / "events.out.tfevents.1.host").write_bytes(b"".join(events))
    name = ("--run", "run") if named == "run" else ()
    result = command("forecast", str(tmp_path / named), *name, *OPTIONS, "--context", str(tmp_path), "--json")
    assert result.answer["context"] == 2


def test_run_of_a_store_is_left_out_though_others_share_its_name(tmp_path: Path) -> None:
    for i in range(3):
        values = "".join(f"{step} {0.1 * step + 0.01 * i} {step}\n" for step in range(1, 6))
        make_run(tmp_path / "mlruns", f"a{i}", {"acc": values})
    own = str(tmp_path / "mlruns" / "1" / "a1")
    result = command("forecast", own, *OPTIONS, "--context", str(tmp_path / "mlruns"), "--json")
    assert result.answer["context"] == 2


def test_numbers_in_place_of_a_log_have_other_runs_too(folder: Path, curves: list[np.ndarray]) -> None:
    for i, curve in enumerate(curves):
        (folder.parent / "plain").mkdir(exist_ok=True)
        (folder.parent / "plain" / f"{i}.csv").write_text("\n".join(f"{value:.4f}" for value in curve) + "\n")
    result = command(
        "forecast", "0.2,0.3,0.4", *OPTIONS, "--metric", "accuracy", "--context", str(folder.parent / "plain"), "--json"
    )
    assert result.answer["context"] == 13


def test_runs_without_the_column_are_left_out_with_a_note(folder: Path) -> None:
    write(folder / "x" / "log.csv", [0.5, 0.4], "val_loss")
    write(folder / "y" / "log.csv", [0.5])
    (folder / "z.jsonl").write_text("no JSON\n")
    result = command("forecast", str(folder / "r00" / "log.csv"), *OPTIONS, "--context", str(folder), "--json")
    assert "note: 1 run of the context left out: no val_acc" in result.err
    assert f"note: 1 file of {folder} left out, such as {folder / 'z.jsonl'}: " in result.err
    notes = " ".join(result.answer["notes"])
    assert "1 of 13 other runs was left out, 1 with fewer than 2 values" in notes
    assert result.answer["context"] == 12


def test_context_without_another_run_is_none_with_a_note(folder: Path) -> None:
    own = folder / "r00"
    result = command("forecast", str(own), *OPTIONS, "--context", str(own), "--json")
    assert f"note: {own} holds no other run with val_acc: the forecast is made without any" in result.err
    assert result.answer["context"] == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--context", "nowhere"), "nowhere does not exist"),
        (("--context", "{empty}"), "holds no logs (CSV, JSON lines, TensorBoard, MLflow, W&B)"),
        (("--context", "{folder}", "--model", "stream"), "stream makes no use of other runs"),
        (("--config", "lr"), "--config lr is not a name and a value, as in lr=0.001,units=64"),
        (("--config", "lr=,units=3"), "--config lr= is not a name and a value"),
        (("--config", "=3"), "--config =3 is not a name and a value"),
        (("--config", "lr=1", "--config", "lr=2"), "--config gives lr twice; keep one"),
        (("--config", "lr=1"), "empirical-gp makes no use of configurations; leave config={'lr': 1.0} out"),
    ],
)
def test_context_and_configuration_that_cannot_be_used_are_one_line(
    folder: Path, tmp_path: Path, given: tuple[str, ...], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    words = [word.format(folder=folder, empty=tmp_path / "empty") for word in given]
    result = command("forecast", str(folder / "r00" / "log.csv"), *OPTIONS, *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1].startswith("epochcast: ")
    assert message in result.err.splitlines()[-1]


# --- configurations ---------------------------------------------------------------------------------------------------


def test_configurations_beside_the_logs_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = asked(monkeypatch)
    (folder / "r00" / "config.json").write_text('{"lr": 0.1}')
    (folder / "r01" / "hparams.json").write_text('{"lr": 0.2, "deep": {"units": 64}}')
    (folder / "r02" / "params.json").write_text('{"lr": 0.3')
    (folder / "r03" / "config.json").write_text("[1, 2]")
    (folder / "r03" / "hparams.json").write_text('{"lr": 0.4}')
    own = str(folder / "r00" / "log.csv")
    assert command("forecast", own, *OPTIONS, "--context", str(folder)).code == 0
    assert calls[-1]["values"].config == {"lr": 0.1}
    assert calls[-1]["config"] is None
    configs = [run.config for run in calls[-1]["context"] if run.config is not None]
    assert sorted(configs, key=lambda config: config["lr"]) == [{"lr": 0.2, "deep.units": 64}, {"lr": 0.4}]


def test_configuration_of_the_command_line_goes_before_the_one_beside_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = asked(monkeypatch)
    (folder / "r00" / "config.json").write_text('{"lr": 0.1, "wd": 0}')
    given = ("--config", "lr=1e-3, units=64", "--config", "optimizer=adam,nesterov=True,clip=inf")
    command("forecast", str(folder / "r00" / "log.csv"), *OPTIONS, "--context", str(folder), *given)
    said = {"lr": 0.001, "units": 64.0, "optimizer": "adam", "nesterov": True, "clip": "inf"}
    assert calls[-1]["config"] == {"wd": 0.0, **said}
    assert calls[-1]["values"].config is None
    command("forecast", str(folder / "r00" / "log.csv"), *OPTIONS, *given)
    assert calls[-1]["config"] == said
