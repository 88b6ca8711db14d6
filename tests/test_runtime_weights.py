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
from safetensors.numpy import save

import epochcast as ec
from epochcast.errors import WeightsError
from epochcast.runtime import networks, weights

WRITER = """
import sys
from pathlib import Path
import numpy as np
from epochcast.runtime.weights import write_safetensors
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
    for kill in range(100):
        if kill >= 20 and cut_off:  # most of the time goes into the checksum, so that few kills hit the writing
            break
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
    assert files.graph.stat().st_size + files.weights.stat().st_size < 12_000_000
    assert {
        "about",
        "version",
        "date",
        "prior",
        "recipe",
        "curves",
        "minutes",
        "weights",
        "log_likelihood",
    } <= files.card.keys()


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
    monkeypatch.setattr(networks, "TOKEN_FEATURES", 99)
    with pytest.raises(WeightsError, match="99; export it again"):
        ec.Forecaster("stream")


# --- checksums --------------------------------------------------------------------------------------------------------


def test_flipped_bit_anywhere_in_a_weight_file_is_refused(tmp_path):
    path = tmp_path / "own.safetensors"
    arrays = {"a": np.arange(3, dtype=np.float32), "b": np.array([[True, False]]), "step": np.array(7, dtype=np.int64)}
    weights.write_safetensors(path, arrays, {"config": '{"layers": 3}', "step": "12"})
    whole = path.read_bytes()
    loaded = []
    for place in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with contextlib.suppress(WeightsError):  # any other exception fails
            weights.read_safetensors(path)
            loaded.append(place)
    assert loaded == []


def test_flipped_bit_in_an_array_is_told_as_damage(tmp_path):
    path = tmp_path / "own.safetensors"
    weights.write_safetensors(path, {"a": np.arange(3.0)}, {})
    data = bytearray(path.read_bytes())
    data[-5] ^= 16
    path.write_bytes(data)
    with pytest.raises(WeightsError, match=r"own\.safetensors is damaged: what it holds has sha256"):
        weights.read_safetensors(path)


def test_header_comes_back_as_it_was_given_and_can_be_written_again(tmp_path):
    path = tmp_path / "own.safetensors"
    weights.write_safetensors(path, {"a": np.arange(3.0)}, {"step": "12"})
    arrays, header = weights.read_safetensors(path)
    assert header == {"step": "12"}
    weights.write_safetensors(path, {"a": arrays["a"] + 1.0}, header)
    assert weights.read_safetensors(path)[0]["a"][0] == 1.0


def test_weights_without_a_checksum_still_load(tmp_path):
    (tmp_path / "old.safetensors").write_bytes(save({"a": np.arange(3.0)}, metadata={"step": "12"}))
    arrays, header = weights.read_safetensors(tmp_path / "old.safetensors")
    assert header == {"step": "12"}
    np.testing.assert_array_equal(arrays["a"], np.arange(3.0))


@pytest.fixture
def own_model(tmp_path):
    """The graph of a tiny trained model, its weights beside it."""
    pytest.importorskip("torch", reason="needs epochcast[train]")
    from epochcast.nn.export import export
    from epochcast.nn.model import ModelConfig
    from epochcast.nn.trainer import TrainConfig, Trainer

    config = TrainConfig(
        ModelConfig("stream", layers=2, width=16, heads=2, hidden=32, outputs=4, decoder=8), horizon=20
    )
    return export(Trainer(config), tmp_path, "mine")[1]


def test_own_model_forecasts(own_model):
    f = ec.Forecaster(own_model).forecast([0.1, 0.4, 0.5], 20, "accuracy")
    assert np.isfinite(f.median()).all()


@pytest.mark.parametrize(
    "damaged",
    [
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: data.replace(b"MatMul:", b"MatMul;", 1),
        lambda data: weights.find("stream").graph.read_bytes(),
    ],
    ids=["cut", "empty", "bit", "other"],
)
def test_own_graph_that_was_changed_is_refused(own_model, damaged):
    own_model.write_bytes(damaged(own_model.read_bytes()))
    with pytest.raises(WeightsError, match=r"mine\.onnx has sha256 .* another model's; export both again"):
        ec.Forecaster(own_model)


def test_own_model_with_a_name_that_no_file_can_have_is_refused():
    for name in ("x" * 5_000, "x" * 5_000 + ".onnx", "a\0b.onnx"):
        with pytest.raises(WeightsError, match=r"is unknown|does not exist") as error:
            ec.Forecaster(name)
        assert len(str(error.value)) < 500


@pytest.mark.parametrize("name", ["lcpfn", "stream", "real"])
def test_copy_of_a_shipped_model_is_checked_though_its_header_has_no_checksum(tmp_path, name, caplog):
    files = weights.find(name)
    graphs = [file for file in (files.graph, *weights.context_graphs(files.graph)) if file.is_file()]
    for file in (files.weights, *graphs):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    own, copy = tmp_path / files.graph.name, tmp_path / files.weights.name
    known = [0.1, 0.4, 0.5], 20, "accuracy"
    assert ec.Forecaster(own).forecast(*known).median() == pytest.approx(ec.Forecaster(name).forecast(*known).median())
    assert caplog.messages == []
    whole, graph = copy.read_bytes(), own.read_bytes()
    copy.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
    with pytest.raises(WeightsError, match=r"is a damaged copy of the \w+ that ships|is damaged: what it holds"):
        ec.Forecaster(own)
    copy.write_bytes(whole)
    own.write_bytes(graph.replace(b"MatMul:", b"MatMul;", 1) if b"MatMul:" in graph else graph + b" ")
    with pytest.raises(WeightsError, match=rf"{name}\.onnx has sha256 .* export both again"):
        ec.Forecaster(own)


def test_own_weights_of_before_checksums_load_with_a_warning(tmp_path, caplog):
    graph = _edited(tmp_path, "stream", lambda config: config.update(seed=1))
    assert np.isfinite(ec.Forecaster(graph).forecast([0.1, 0.4, 0.5], 20, "accuracy").median()).all()
    (message,) = caplog.messages
    assert "stream.safetensors carries no checksum" in message


# --- headers and registries that were edited --------------------------------------------------------------------------


def _edited(folder, name, change):
    """A shipped model as one of one's own, with a changed configuration and, like older files, no checksum."""
    files = weights.find(name)
    arrays, header = weights.read_safetensors(files.weights)
    config = json.loads(header["config"])
    change(config)
    room = len(header["config"].replace("\n", "  "))  # a line's end takes two bytes: the graph must find its weights
    own = {**header, "config": json.dumps(config).ljust(room)}
    (folder / files.weights.name).write_bytes(save(arrays, metadata=own))
    (folder / files.graph.name).write_bytes(files.graph.read_bytes())
    return folder / files.graph.name


@pytest.mark.parametrize("name", ["lcpfn", "stream"])
@pytest.mark.parametrize("value", [None, "many", -1, 2.5, [], {}, True, 10**400])
@pytest.mark.parametrize("key", ["horizon", "prior", "layout", "head", "layers", "width", "heads", "model"])
def test_own_weights_with_an_edited_header_are_refused(tmp_path, name, key, value):
    if (key, value) == ("prior", "many"):
        return  # a prior of one's own may have any name

    def change(config):
        part = config if key in config else config["model"]
        part[key] = value

    with pytest.raises(WeightsError, match=rf"{name}\.safetensors (describes no network|does not say which)"):
        ec.Forecaster(_edited(tmp_path, name, change))


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"model": 3}', "[" * 5_000, f'{{"model": {"1" * 5_000}}}'])
def test_own_weights_with_a_header_that_is_no_configuration_are_refused(tmp_path, text):
    files = weights.find("stream")
    arrays, _ = weights.read_safetensors(files.weights)
    (tmp_path / "stream.safetensors").write_bytes(save(arrays, metadata={"config": text}))
    (tmp_path / "stream.onnx").write_bytes(files.graph.read_bytes())
    with pytest.raises(WeightsError, match=r"stream\.safetensors (describes no network|does not say which)"):
        ec.Forecaster(tmp_path / "stream.onnx")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("stream", {"layers": 5}),
        ("stream", {"layers": 7}),
        ("stream", {"heads": 8}),
        ("stream", {"width": 64}),
        ("stream", {"layout": "set"}),
        ("lcpfn", {"layout": "stream"}),
    ],
)
def test_own_weights_that_describe_another_network_than_the_graph_are_refused(tmp_path, name, change):
    graph = _edited(tmp_path, name, lambda config: config["model"].update(change))
    with pytest.raises(WeightsError, match=r"is not the network that .* describes"):
        ec.Forecaster(graph)


@pytest.mark.parametrize("borders", [None, np.zeros((2, 2)), np.arange(5.0), np.zeros(1001)])
def test_own_weights_without_the_borders_of_their_bins_are_refused(tmp_path, borders):
    files = weights.find("lcpfn")
    arrays, header = weights.read_safetensors(files.weights)
    others = {name: array for name, array in arrays.items() if name != "borders"}
    own = others if borders is None else {**others, "borders": borders}
    own["room"] = np.zeros(1100)  # the graph must find as many bytes as before
    (tmp_path / "lcpfn.safetensors").write_bytes(save(own, metadata=header))
    (tmp_path / "lcpfn.onnx").write_bytes(files.graph.read_bytes())
    with pytest.raises(WeightsError, match=r"lcpfn\.safetensors lacks the borders of its 1000 bins"):
        ec.Forecaster(tmp_path / "lcpfn.onnx")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    weights.registry.cache_clear()
    yield tmp_path
    weights.registry.cache_clear()


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "3",
        "{}",
        "\xff",
        "[" * 5_000,
        '{"default": "a", "models": {}}',
        '{"default": ["a"], "models": {"a": {}}}',
        '{"default": "a", "models": ["a"]}',
        '{"default": "a", "models": {"a": {"card": {}}}}',
        '{"default": "a", "models": {"a": {"card": {}, "sha256": {"a.onnx": "0"}}}}',
        '{"default": "a", "models": {"a": {"card": 3, "sha256": {"a.onnx": "0", "a.safetensors": "0"}}}}',
        '{"default": "a", "models": {"a": {"card": {}, "sha256": {"a.onnx": 0, "a.safetensors": []}}}}',
    ],
)
def test_registry_that_is_broken_is_told_as_damage(folder, text):
    if text is not None:
        (folder / "registry.json").write_bytes(text.encode("latin-1"))
    for ask in (ec.models, ec.Forecaster):
        with pytest.raises(WeightsError, match=r"registry\.json is damaged .*; install epochcast again"):
            ask()
