"""Files, disks and interrupts that fail: one line and exit code 2, never a traceback."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from epochcast import interrupt
from epochcast.errors import InputError, WeightsError
from epochcast.forecaster import Forecaster
from epochcast.runtime.weights import FOLDER, find
from tests.command_line import command

NUMBERS = ("forecast", "0.5,0.6", "--metric", "accuracy", "--horizon", "9")
needs_full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


def process(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "epochcast.cli", *arguments]


# --- pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [NUMBERS, ("demo",)])
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("missing/fan.png", "missing is no folder"),
        ("fan.xyz", "of an unknown ending, .xyz; choose from"),
        ("fan", "without an ending; choose from"),
        ("", "is a folder; name a file in it"),
    ],
)
def test_plot_that_cannot_be_written_is_refused(
    tmp_path: Path, words: tuple[str, ...], target: str, message: str
) -> None:
    pytest.importorskip("matplotlib")
    assert message in command(*words, "--plot", str(tmp_path / target)).refusal


@needs_full_device
@pytest.mark.parametrize("words", [NUMBERS, ("demo",)])
def test_plot_on_a_full_disk_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "fan.png").symlink_to("/dev/full")
    result = command(*words, "--plot", str(tmp_path / "fan.png"))
    assert result.code == 2
    assert "fan.png cannot be written: No space left on device" in result.err


@pytest.mark.parametrize("words", [NUMBERS, ("demo",)])
def test_plot_without_matplotlib_names_the_extra(
    tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refusal = command(*words, "--plot", str(tmp_path / "fan.png")).refusal
    assert refusal == "epochcast: matplotlib is not installed; run: pip install 'epochcast[plot]'\n"


# --- disks ------------------------------------------------------------------------------------------------------------


@needs_full_device
@pytest.mark.parametrize("words", [(*NUMBERS, "--json"), NUMBERS, ("models",)])
def test_output_to_a_full_disk_is_one_line(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(process(*words), stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert result.returncode == 2
    assert re.fullmatch(r"epochcast: standard output: No space left on device; [^\n]+\n", result.stderr)


def test_output_whose_reader_has_left_ends_without_a_word() -> None:
    result = subprocess.run(
        f"{' '.join(process('models', '--json'))} | true", shell=True, stderr=subprocess.PIPE, timeout=120
    )
    assert result.stderr == b""


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "real", "--engines", "last-value", "--out"),
        ("evaluate", "stopping", "--data", "digits_bench", "--model", "last-value", "--out"),
        ("evaluate", "prior", "--engines", "stream", "--out"),
        ("train", "--out"),
    ],
)
def test_folder_that_cannot_be_made_is_refused_before_the_work(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be a folder: File exists; choose another --out" in command(*words, str(tmp_path / "file")).refusal


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--name", "../x"), "--name '../x' must be of letters"),
        (("--threads", "0"), "--threads"),
        (("--seed", "-1"), "--seed"),
        (("--recipe", "RECIPE"), "cannot be read as JSON"),
    ],
)
def test_train_with_a_bad_option_is_refused(tmp_path: Path, options: tuple[str, str], message: str) -> None:
    if "RECIPE" in options:
        pytest.importorskip("torch", reason="needs epochcast[train]")
    recipe = tmp_path / "deep.json"
    recipe.write_text("[" * 100_000)
    words = [str(recipe) if word == "RECIPE" else word for word in options]
    assert message in command("train", "--out", str(tmp_path / "out"), *words).refusal


# --- models -----------------------------------------------------------------------------------------------------------


def own_model(folder: Path, graph: bytes, weights: str) -> Path:
    """A model of one's own whose weights are those of a shipped one."""
    path = folder / "own.onnx"
    path.write_bytes(graph)
    shutil.copy(FOLDER / f"{weights}.safetensors", path.with_suffix(".safetensors"))
    return path


def renamed(model: str) -> bytes:
    """The graph of a shipped model, which looks for its weights in own.safetensors."""
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(FOLDER / f"{model}.onnx", load_external_data=False)
    for tensor in graph.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "own.safetensors"
    data: bytes = graph.SerializeToString()
    return data


@pytest.mark.parametrize("graph", [b"", b"\x00" * 100, bytes(range(256)) * 9, b"cut"])
def test_own_network_that_is_damaged_is_refused(tmp_path: Path, graph: bytes) -> None:
    if graph == b"cut":
        graph = (FOLDER / "stream.onnx").read_bytes()[:5000]
    with pytest.raises(WeightsError, match=r"own\.onnx cannot be read as a network: .*; export it again") as caught:
        Forecaster(own_model(tmp_path, graph, "stream"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("graph", "weights"), [("stream", "real"), ("lcpfn", "real"), ("real", "stream")])
def test_own_network_beside_the_weights_of_another_is_refused(tmp_path: Path, graph: str, weights: str) -> None:
    with pytest.raises(WeightsError, match=r"own\.onnx (is not the network|cannot be read as a network|has sha256)"):
        Forecaster(own_model(tmp_path, renamed(graph), weights))


def test_own_network_beside_its_weights_forecasts(tmp_path: Path) -> None:
    own = Forecaster(own_model(tmp_path, renamed("stream"), "stream"))
    shipped = Forecaster("stream")
    ends = [forecaster.forecast([0.5, 0.6], 9, "accuracy").final.median() for forecaster in (own, shipped)]
    assert ends[0] == ends[1]


def test_own_network_that_is_cut_is_told_in_one_line(tmp_path: Path) -> None:
    path = own_model(tmp_path, (FOLDER / "stream.onnx").read_bytes()[:5000], "stream")
    assert "cannot be read as a network" in command(*NUMBERS, "--model", str(path)).refusal


@pytest.mark.parametrize("name", ["a" * 5000, "a" * 5000 + ".onnx", "A" * 5000])
def test_model_name_of_thousands_of_characters_is_refused_in_a_short_line(name: str) -> None:
    with pytest.raises(WeightsError) as caught:
        find(name)
    assert len(str(caught.value)) < 700


def test_model_name_of_thousands_of_characters_with_a_schedule_is_refused() -> None:
    with pytest.raises((WeightsError, InputError)):
        Forecaster("a" * 5000 + "@cosine")


# --- interrupts -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("place", ["numpy", "typer", "epochcast.cli.commands", "onnxruntime"])
def test_interrupt_during_an_import_leaves_no_traceback(tmp_path: Path, place: str) -> None:
    # A module that interrupts the process as it is imported stands before the real one.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, signal, os\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # what runs in the background ignores it
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {place!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    result = subprocess.run(process(*NUMBERS), capture_output=True, text=True, timeout=120, env=environment)
    assert result.returncode in (130, -signal.SIGINT)
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("words", "is_it"),
    [
        (["python", "/usr/bin/epochcast", "demo"], True),
        (["python", "-m", "epochcast.cli", "demo"], True),
        (["python", "-m", "pytest", "epochcast"], False),
        (["python", "train.py", "epochcast"], False),
        (["python"], False),
    ],
)
def test_interrupt_is_quiet_for_the_command_line_alone(words: list[str], is_it: bool) -> None:
    assert interrupt.is_command_line(words) == is_it
