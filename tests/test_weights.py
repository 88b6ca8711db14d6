"""Weight files and the registry: crash safety, checksums, names, and files that are not what they claim."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import epochcast as ec
from epochcast import runtime, weights
from epochcast.errors import WeightsError

WRITER = """
import sys
from pathlib import Path
import numpy as np
from epochcast.weights import write_safetensors
array = np.arange(1_000_000, dtype=np.float32)
version = int(sys.argv[2])
while True:
    version += 1
    write_safetensors(Path(sys.argv[1]), {"a": array + version}, {"version": str(version)})
    print("written", flush=True)
"""


def test_write_safetensors_killed_twenty_times_always_leaves_a_whole_file(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    rng = np.random.default_rng(0)
    version = 0
    cut_off = 0
    for _ in range(20):
        command = [sys.executable, "-c", WRITER, str(path), str(version)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.05 * rng.random())
            process.send_signal(signal.SIGKILL)
        arrays, header = weights.read_safetensors(path)
        assert int(header["version"]) > version
        version = int(header["version"])
        np.testing.assert_array_equal(arrays["a"][:3], np.arange(3) + np.float32(version))
        cut_off += any(file.suffix == ".tmp" for file in tmp_path.iterdir())
    assert cut_off > 0  # at least once it was killed in the middle of writing


def test_safetensors_of_scalars_keep_their_shape(tmp_path):
    weights.write_safetensors(tmp_path / "a.safetensors", {"step": np.float32(3).reshape(())}, {})
    arrays, _ = weights.read_safetensors(tmp_path / "a.safetensors")
    assert arrays["step"].shape == ()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.binary(max_size=200))
def test_read_safetensors_of_any_bytes_gives_a_weights_error_or_arrays(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("w") / "x.safetensors"
    path.write_bytes(data)
    with contextlib.suppress(WeightsError):  # any other exception fails
        weights.read_safetensors(path)


@pytest.mark.parametrize("name", ["../secret", "UPPER", "", "a/b", "-x", "model name"])
def test_model_name_that_could_be_a_path_is_refused(name):
    with pytest.raises(WeightsError, match="must match"):
        weights.find(name)


def test_unknown_model_lists_what_ships():
    with pytest.raises(WeightsError, match=r"'gpt' is unknown; shipped are .*lcpfn"):
        ec.Forecaster("gpt")


def test_own_model_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(WeightsError, match=r"mine\.onnx does not exist"):
        ec.Forecaster(str(tmp_path / "mine.onnx"))


def test_registry_holds_the_checksum_of_every_shipped_file():
    files = {p.name for p in weights.FOLDER.iterdir() if p.suffix in (".onnx", ".safetensors")}
    listed = {}
    for entry in weights.registry()["models"].values():
        listed |= entry["sha256"]
    assert files == set(listed)
    for name, digest in listed.items():
        assert hashlib.sha256((weights.FOLDER / name).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("name", ec.models())
def test_shipped_model_is_small_and_has_a_card(name):
    files = weights.find(name)
    assert files.graph.stat().st_size + files.weights.stat().st_size < 8_000_000
    assert {"about", "prior", "recipe", "curves", "minutes", "weights", "log_likelihood"} <= files.card.keys()


def test_shipped_file_that_was_changed_is_refused(tmp_path, monkeypatch):
    name = weights.models()[0]
    for file in weights.FOLDER.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    graph = tmp_path / f"{name}.onnx"
    graph.write_bytes(graph.read_bytes() + b"!")
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    with pytest.raises(WeightsError, match="sha256"):
        weights.find(name)


def test_registry_is_plain_json():
    assert json.loads((weights.FOLDER / "registry.json").read_text())["default"] in ec.models()


def test_network_of_another_version_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(runtime, "TOKEN_FEATURES", 99)
    with pytest.raises(WeightsError, match="99; export it again"):
        ec.Forecaster("stream")
