"""The collection of our own curves: what ships, and the script that makes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import epochcast
from tests.checkout import RESEARCH, research

FILE = Path(epochcast.__file__).parent / "data" / "digits_bench.npz"


@pytest.fixture(scope="module")
def bench():
    with np.load(FILE, allow_pickle=False) as stored:
        return dict(stored)


def first_missing(curves):
    """How many values come before the first NaN, [curve]."""
    return np.where(np.isnan(curves).any(axis=1), np.isnan(curves).argmax(axis=1), curves.shape[1])


def off_grid(accuracies, n_val):
    """How far accuracies lie from the nearest multiple of 1 / n_val, in examples; the largest."""
    correct = accuracies.astype(np.float64) * n_val
    return np.nanmax(np.abs(correct - np.round(correct)))


def test_shipped_file_is_small_and_loads_without_pickle(bench):
    assert FILE.stat().st_size < 3_000_000
    assert not any(array.dtype.hasobject for array in bench.values())


def test_shipped_file_has_a_row_per_network_in_every_array(bench):
    n, length = bench["curves_accuracy"].shape
    assert n >= 1000
    assert length == 100
    assert bench["curves_log_loss"].shape == (n, length)
    assert bench["config"].shape == (n, len(bench["config_names"]))
    for name in ("y0_accuracy", "y0_log_loss", "epochs", "task", "family"):
        assert bench[name].shape == (n,), name


def test_shipped_file_covers_every_task_and_family(bench):
    tasks, families = len(bench["task_names"]), len(bench["family_names"])
    assert tasks >= 6
    assert {"mlp", "cnn", "rnn", "transformer"} == set(bench["family_names"])
    assert (np.bincount(bench["task"], minlength=tasks) >= 20).all()
    assert (np.bincount(bench["family"], minlength=families) >= 50).all()


def test_shipped_config_holds_finite_numbers_within_their_names(bench):
    config = dict(zip(bench["config_names"], bench["config"].T, strict=True))
    assert np.isfinite(bench["config"]).all()
    for name in ("schedule", "optimizer", "activation"):
        assert set(config[name]) == set(range(len(bench[f"{name}_names"]))), name
    assert config["learning_rate"].max() / config["learning_rate"].min() > 1e4


def test_shipped_curves_are_whole_or_end_where_they_diverged(bench):
    for metric in ("accuracy", "log_loss"):
        curves = bench[f"curves_{metric}"]
        lengths = first_missing(curves)
        assert (np.isnan(curves).sum(axis=1) == curves.shape[1] - lengths).all()  # no value follows a missing one
        assert (lengths <= bench["epochs"]).all()
        assert np.isfinite(curves[~np.isnan(curves)]).all()
        assert np.isfinite(bench[f"y0_{metric}"]).all()
    assert (first_missing(bench["curves_accuracy"]) == first_missing(bench["curves_log_loss"])).all()


def test_shipped_accuracies_are_multiples_of_one_validation_example(bench):
    for i, name in enumerate(bench["task_names"]):
        accuracies = bench["curves_accuracy"][bench["task"] == i]
        assert off_grid(accuracies, bench["n_val"][i]) < 1e-3, name
        assert np.nanmax(accuracies) <= 1
        assert off_grid(accuracies, bench["n_val"][i] + 1) > 1e-3, name  # another size of the split does not fit


def test_shipped_log_losses_carry_twelve_binary_digits(bench):
    mantissa, _ = np.frexp(bench["curves_log_loss"].astype(np.float64))
    digits = mantissa[~np.isnan(mantissa)] * 2**12
    assert (digits == np.round(digits)).all()
    assert (digits % 2 == 1).any()  # and not fewer


def test_shipped_curves_contain_rising_flat_falling_and_diverging_runs(bench):
    accuracy, log_loss, start = bench["curves_accuracy"], bench["curves_log_loss"], bench["y0_accuracy"][:, None]
    diverged = first_missing(accuracy) < bench["epochs"]
    best_loss, last_loss = np.nanmin(log_loss, axis=1, initial=np.inf), log_loss[:, 49]
    shares = {
        "rising": np.mean(np.nanmax(accuracy, axis=1, initial=0) > start[:, 0] + 0.3),
        "flat": np.mean(~diverged & (np.nanmax(np.abs(accuracy - start), axis=1, initial=0) < 0.05)),
        "overfitting": np.mean(~diverged & (last_loss > 1.5 * best_loss)),
        "diverging": np.mean(diverged),
    }
    assert shares["rising"] > 0.3, shares
    assert all(share > 0.01 for share in shares.values()), shares


@pytest.fixture
def script():
    if not RESEARCH.is_dir():
        pytest.skip("needs a checkout of the repository")
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    return research("make_digits_bench")


def make(script, folder, *, seed=0):
    """A collection of one network per family, three epochs each."""
    script.main(folder / "bench.npz", folder / "cache", networks=4, per_chunk=1, epochs=3, seed=seed)
    return folder / "bench.npz"


def test_script_run_twice_writes_equal_files_and_another_seed_others(script, tmp_path):
    files = [make(script, tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))]
    first, second, other = (file.read_bytes() for file in files)
    assert first == second
    assert first != other
    with np.load(files[0], allow_pickle=False) as stored:
        assert stored["curves_accuracy"].shape == (4, 3)
        assert sorted(stored["family"]) == [0, 1, 2, 3]


def test_script_interrupted_trains_only_what_is_missing(script, tmp_path):
    whole = make(script, tmp_path).read_bytes()
    cached = sorted((tmp_path / "cache").iterdir())
    kept = {file: file.stat().st_mtime_ns for file in cached[1:]}
    cached[0].unlink()
    assert make(script, tmp_path).read_bytes() == whole
    assert {file: file.stat().st_mtime_ns for file in cached[1:]} == kept
    assert cached[0].exists()


@pytest.mark.parametrize("family", ["mlp", "cnn", "rnn", "transformer"])
def test_chunk_with_a_diverged_network_leaves_its_neighbours_alone(script, family):
    import torch

    training = research("digits_bench.training")
    chunk = training.Chunk("digits", family, 4, 2, "gelu", "adam", 64, 3, 1, (0, 0))
    values = []
    for poison in (1.0, float("nan")):
        trainer = training.ChunkTrainer(chunk, training.load_task("digits", 0))
        trainer.parameters[0] *= poison
        before = trainer.evaluate()[1]
        trainer.run_epoch()
        values.append(trainer.evaluate()[1])
        assert (trainer.evaluate()[1][1:] != before[1:]).all()  # the neighbours did train
    assert torch.equal(values[0][1:], values[1][1:])
    assert torch.isfinite(values[0]).all()
    assert torch.isnan(values[1][0])


def test_schedules_start_and_end_as_named(script):
    factors = research("digits_bench.training").schedule_factors
    assert set(factors("constant", 100)) == {1.0}
    assert factors("cosine", 100)[[0, 50]] == pytest.approx([1.0, 0.5])
    assert factors("step", 100)[[0, 49, 50, 79, 80, 99]] == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    assert factors("warmup", 100)[[0, 10, 20, 60]] == pytest.approx([0.0, 0.5, 1.0, 0.5])
    with pytest.raises(ValueError, match="'steps' is unknown"):
        factors("steps", 100)
