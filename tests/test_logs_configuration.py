from __future__ import annotations

import json
from pathlib import Path

import pytest

from epochcast.logs.configuration import configuration_of

SETTINGS = {"lr": 0.001, "layers": 3, "model.act": "relu", "model.wide": True, "schedule": None}
YAML = "lr: 1e-3 # found by hand\nlayers: 3\nmodel:\n  act: 'relu'\n  wide: true\nschedule: null\n"
JSON = json.dumps({"lr": 0.001, "layers": 3, "model": {"act": "relu", "wide": True}, "schedule": None})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hparams.yaml", YAML),
        ("config.yml", YAML),
        ("run.yaml", YAML),
        ("params.json", JSON),
        ("hparams.json", JSON),
        ("run.json", JSON),
        (".hydra/config.yaml", YAML),
    ],
)
def test_configuration_of_files_beside_a_log_is_flat(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert configuration_of(tmp_path / "run.csv") == SETTINGS


def test_configuration_of_wandb_leaves_its_own_notes_out(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    text = "_wandb:\n  value:\n    cli_version: 1\nlr:\n  desc: null\n  value: 0.1\nnet:\n  value:\n    depth: 4\n"
    (tmp_path / "files" / "config.yaml").write_text(text)
    assert configuration_of(tmp_path) == {"lr": 0.1, "net.depth": 4}


def test_configuration_of_mlflow_params(tmp_path: Path) -> None:
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "lr").write_text("0.1")
    (tmp_path / "params" / "name").write_text("wide")
    assert configuration_of(tmp_path) == {"lr": 0.1, "name": "wide"}


def test_configuration_of_a_run_of_its_own_comes_before_that_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"lr": 1}')
    (tmp_path / "run1.json").write_text('{"lr": 2}')
    assert configuration_of(tmp_path / "run1.csv") == {"lr": 2}
    assert configuration_of(tmp_path / "run2.csv") == {"lr": 1}


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[1, 2]", b"{" * 100_000, b"- a\n- b\n", b'{"a": ' * 5000])
def test_configuration_of_files_that_say_nothing_is_empty(data: bytes, tmp_path: Path) -> None:
    for name in ("config.json", "hparams.yaml"):
        (tmp_path / name).write_bytes(data)
    assert configuration_of(tmp_path / "run.csv") == {}


def test_configuration_of_a_link_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"password": 1}')
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "config.json").symlink_to(secret)
    assert configuration_of(folder / "run.csv") == {}
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(secret.read_text())  # the same file in its place is read
    assert configuration_of(folder / "run.csv") == {"password": 1}


def test_configuration_with_numbers_that_are_none_keeps_them_as_texts(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"a": NaN, "b": -Infinity, "c": 1e999, "d": 1e3}')
    assert configuration_of(tmp_path / "run.csv") == {"a": "nan", "b": "-inf", "c": "inf", "d": 1000.0}
    (tmp_path / "run.yaml").write_text("a: nan\nb: .inf\nc: 1e999\nlarge: " + "9" * 400)
    found = configuration_of(tmp_path / "run.csv")
    assert {name: found[name] for name in "abc"} == {"a": "nan", "b": ".inf", "c": "inf"}
    assert json.dumps(found)


def test_configuration_of_many_settings_is_cut(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({str(i): "x" * 1000 for i in range(1000)}))
    found = configuration_of(tmp_path / "run.csv")
    assert len(found) == 200
    assert max(len(value) for value in found.values()) == 200
