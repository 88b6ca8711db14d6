"""Training: exact resume, refusal of bad losses and configurations, data-parallel equality."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs epochcast[train]")

import torch

from epochcast.errors import ConfigError, TrainingError, WeightsError
from epochcast.export import export
from epochcast.model import PAPER_SIZES, ModelConfig
from epochcast.muon import orthogonalise
from epochcast.rates import RATE_TOKEN_FEATURES
from epochcast.train import RECIPES, TrainConfig, Trainer, with_changes
from epochcast.weights import write_safetensors

TINY_SET = TrainConfig(
    model=ModelConfig("set", "bars", layers=2, width=16, heads=2, hidden=32, outputs=20),
    curves=240,
    batch=8,
    horizon=20,
    targets="exact",
)
TINY_STREAM = replace(
    TINY_SET,
    model=ModelConfig(layers=1, width=16, heads=2, hidden=32, outputs=3, decoder=16),
    targets="antithetic",
)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def _state(trainer: Trainer) -> dict[str, torch.Tensor]:
    state = {f"model.{k}": v for k, v in trainer.objective.network.state_dict().items()}
    for i, optimizer in enumerate(trainer.optimizers):
        for index, entries in optimizer.state_dict()["state"].items():
            state |= {f"{i}.{index}.{key}": value for key, value in entries.items()}
    return state


@pytest.mark.parametrize("config", [TINY_SET, TINY_STREAM], ids=["set", "stream"])
@pytest.mark.parametrize("first", [10, 15, 29])
def test_resume_after_any_step_equals_an_uninterrupted_run(config, first, tmp_path):
    whole = Trainer(config)
    whole.run(steps=30)
    before = Trainer(config)
    before.run(steps=first)
    before.save(tmp_path / "c.safetensors")
    after = Trainer.resume(tmp_path / "c.safetensors")
    after.run(steps=30 - first)
    assert after.step == whole.step == 30
    assert after.loss == whole.loss
    expected = _state(whole)
    assert all(torch.equal(value, expected[name]) for name, value in _state(after).items())
    assert _state(after).keys() == expected.keys()


@pytest.mark.parametrize(
    ("head", "targets", "optimizer"),
    [
        ("bars", "noisy", "adam"),
        ("bars", "exact", "muon"),
        ("mixture", "noisy", "adam"),
        ("mixture", "antithetic", "muon"),
    ],
)
def test_training_lowers_the_loss_for_every_recipe_of_the_set_model(head, targets, optimizer):
    config = replace(TINY_SET, model=replace(TINY_SET.model, head=head), targets=targets, optimizer=optimizer)
    trainer = Trainer(replace(config, curves=2400, adam_rate=5e-3))
    losses: list[float] = []
    trainer.run(report=lambda t: losses.append(t.loss))
    assert np.mean(losses[-50:]) < np.mean(losses[:20]) - 0.3


def test_bfloat16_products_change_the_loss_only_a_little_and_forecasts_not_at_all():
    exact, coarse = (Trainer(replace(TINY_STREAM, precision=precision)) for precision in ("float32", "bfloat16"))
    exact.run(steps=30)
    coarse.run(steps=30)
    assert 0.0 < abs(exact.loss - coarse.loss) < 0.05
    coarse.objective.network.load_state_dict(exact.objective.network.state_dict())
    assert coarse.evaluate(20) == exact.evaluate(20)


def test_start_takes_the_weights_of_a_checkpoint_and_of_a_model_file(tmp_path):
    other = Trainer(TINY_STREAM)
    other.run(steps=2)
    other.save(tmp_path / "checkpoint.safetensors")
    weights, _ = export(other, tmp_path, "model")
    for path in (tmp_path / "checkpoint.safetensors", weights):
        trainer = Trainer(replace(TINY_STREAM, seed=5))
        trainer.start_from(path)
        found, wanted = (each.objective.network.state_dict() for each in (trainer, other))
        assert all(torch.equal(found[name], value) for name, value in wanted.items())


@pytest.mark.parametrize(("layers", "message"), [(2, "nothing for blocks.2"), (4, "blocks.3.*a layer more than here")])
def test_start_from_a_network_of_another_depth_is_refused(layers, message, tmp_path):
    """A deeper one would fit name by name, and yield nonsense."""
    own, other = (replace(TINY_STREAM, model=replace(TINY_STREAM.model, layers=n)) for n in (3, layers))
    Trainer(other).save(tmp_path / "other.safetensors")
    with pytest.raises(TrainingError, match=message):
        Trainer(own).start_from(tmp_path / "other.safetensors")


def test_start_from_a_network_that_reads_no_rates_forecasts_as_it_did(tmp_path):
    before = Trainer(TINY_STREAM)
    before.run(steps=3)
    before.save(tmp_path / "before.safetensors")
    after = Trainer(replace(TINY_STREAM, model=replace(TINY_STREAM.model, rates=True)))
    after.start_from(tmp_path / "before.safetensors")
    values = np.linspace(0.1, 0.6, 30)[None]
    wanted, found = (trainer.objective.predict(values, 10).means for trainer in (before, after))
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_network_that_is_told_rates_learns_to_read_them():
    model = replace(TINY_STREAM.model, rates=True)
    trainer = Trainer(replace(TINY_STREAM, model=model, prior="real", targets="antithetic"))
    trainer.run(steps=5)
    for name in ("embed", "from_cutoff", "from_query"):
        rows = getattr(trainer.objective.network, name).weight.grad[-RATE_TOKEN_FEATURES:]
        assert (rows.abs().sum(dim=1) > 0.0).all(), name


def test_training_with_a_non_finite_loss_stops_before_the_optimiser_step(monkeypatch):
    trainer = Trainer(TINY_SET)
    trainer.run(steps=2)
    before = {name: value.clone() for name, value in _state(trainer).items()}
    monkeypatch.setattr(
        trainer.objective, "loss", lambda draw, rng: trainer.objective.network.head.weight.sum() * np.nan
    )
    with pytest.raises(TrainingError, match="nan at step 2"):
        trainer.run(steps=1)
    assert all(torch.equal(value, before[name]) for name, value in _state(trainer).items())


def test_two_processes_give_the_loss_curve_of_one_with_the_doubled_batch(tmp_path):
    config = replace(TINY_SET, batch=16, shards=2, curves=160)
    single = Trainer(config)
    losses: list[float] = []
    single.run(report=lambda t: losses.append(t.loss))
    script = tmp_path / "worker.py"
    script.write_text(
        "import json, sys, torch; torch.set_num_threads(1)\n"
        "from epochcast.train import TrainConfig, Trainer, join_processes\n"
        "rank = join_processes()\n"
        "trainer = Trainer(TrainConfig.from_json(open(sys.argv[1]).read()))\n"
        "losses = []\n"
        "trainer.run(report=lambda t: losses.append(t.loss))\n"
        "if rank == 0: open(sys.argv[2], 'w').write(json.dumps(losses))\n"
        "torch.distributed.destroy_process_group()\n"
    )
    (tmp_path / "config.json").write_text(config.to_json())
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
    arguments = [str(tmp_path / "config.json"), str(tmp_path / "losses.json")]
    subprocess.run(command + arguments, check=True, capture_output=True, timeout=300)
    parallel = json.loads((tmp_path / "losses.json").read_text())
    np.testing.assert_allclose(parallel, losses, atol=2e-4)
    other = Trainer(replace(config, seed=1))  # negative control: other curves, another loss curve
    other_losses: list[float] = []
    other.run(report=lambda t: other_losses.append(t.loss))
    assert np.abs(np.array(other_losses) - losses).max() > 2e-3


def test_orthogonalise_brings_singular_values_close_to_one():
    matrix = torch.from_numpy(np.random.default_rng(0).standard_normal((40, 24)).astype(np.float32))
    for shape in (matrix, matrix.T):
        singular = torch.linalg.svdvals(orthogonalise(shape))
        assert 0.6 < singular.min() < singular.max() < 1.3


@pytest.mark.parametrize("name", list(RECIPES))
def test_config_survives_json_for_every_recipe(name):
    assert TrainConfig.from_json(RECIPES[name].to_json()) == RECIPES[name]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "JSON object"),
        ('{"epochs": 3}', "unknown key 'epochs'"),
        ('{"model": {"depth": 3}}', "unknown key 'depth'"),
        ('{"model": 3}', "model = 3"),
        ('{"batch": "32"}', "should be of type int"),
        ('{"batch": 30, "shards": 4}', "multiple of shards"),
        ('{"warmup": 1.5}', "warmup=1.5"),
        ('{"model": {"width": 100, "heads": 3}}', "multiple of heads"),
        ('{"curves": 0}', "at least 1"),
        ('{"precision": "float16"}', "precision='float16'"),
    ],
)
def test_config_with_a_mistake_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        TrainConfig.from_json(text)


def test_keys_of_older_weights_are_passed_over():
    assert TrainConfig.from_json('{"model": {"basis": "trail", "width": 64}}').model == ModelConfig(width=64)


def test_with_changes_ignores_what_is_not_given():
    assert with_changes(TINY_SET, curves=None, batch=4).batch == 4


def test_largest_size_of_the_paper_has_the_papers_number_of_weights():
    from epochcast.model import SetModel

    with torch.device("meta"):
        count = sum(p.numel() for p in SetModel(PAPER_SIZES["P3"]).parameters())
    assert count == pytest.approx(26e6, rel=0.05)


def test_resume_from_what_is_no_checkpoint_is_refused(tmp_path):
    trainer = Trainer(TINY_STREAM)
    weights, _ = export(trainer, tmp_path, "model")
    with pytest.raises(WeightsError, match=r"model\.safetensors is no checkpoint to go on from"):
        Trainer.resume(weights)
    write_safetensors(tmp_path / "bare.safetensors", {"a": np.zeros(2)}, {})
    with pytest.raises(WeightsError, match=r"bare\.safetensors is no checkpoint to go on from: 'config'"):
        Trainer.resume(tmp_path / "bare.safetensors")


def test_resume_from_a_checkpoint_with_a_flipped_bit_is_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    trainer = Trainer(TINY_STREAM)
    trainer.run(steps=1)
    trainer.save(path)
    whole = path.read_bytes()
    for place in (-1, -len(whole) // 2, whole.index(b"batch") + 9):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(WeightsError, match="is damaged"):
            Trainer.resume(path)
