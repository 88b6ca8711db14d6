"""What a weight file says of its network: the format's version, what it reads, and files of other versions."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import epochcast as ec
from epochcast.curve import Curves
from epochcast.errors import InputError, WeightsError
from epochcast.metric import SHARE
from epochcast.runtime.format import FORMAT, migrated
from epochcast.runtime.networks import load_network
from epochcast.runtime.weights import find, read_safetensors, write_safetensors

pytest.importorskip("torch", reason="needs epochcast[train]")

import torch

from epochcast.features.run import KIND_FEATURE
from epochcast.nn.batch import sampler_of
from epochcast.nn.export import export
from epochcast.nn.model import ModelConfig
from epochcast.nn.trainer import TrainConfig, Trainer
from epochcast.question import NOTHING, Question, answer
from epochcast.schedule import Schedule

OWN = """
import numpy as np

def sampler(size, rng, steps, horizon):
    rate = rng.uniform(1.0, 5.0, (size, 1))
    return 1.0 - np.exp(-rate * steps / horizon) + 0.01 * rng.standard_normal((size, len(steps)))
"""
PRIOR = "own_prior_of_a_format:sampler"
SIZES = {"layers": 2, "width": 16, "heads": 2, "hidden": 32, "outputs": 3, "decoder": 16}
RISING = [0.2, 0.4, 0.5, 0.55]
ALL = frozenset({"untrained", "kind", "schedule"})


def trained(prior: str, **model) -> Trainer:
    trainer = Trainer(TrainConfig(ModelConfig(**{**SIZES, **model}), prior=prior, curves=12, batch=4, horizon=20))
    trainer.run()
    return trainer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with `own.onnx`, trained on a prior of one's own, with inputs for learning rates."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_prior_of_a_format.py").write_text(OWN)
    sys.path.insert(0, str(folder))
    torch.set_num_threads(1)
    trainer = trained(PRIOR, rates=True)
    trainer.save(folder / "own.ckpt")
    export(trainer, folder, "own")
    yield folder
    sys.path.remove(str(folder))
    sys.modules.pop("own_prior_of_a_format", None)


@pytest.fixture
def own(folder) -> ec.Forecaster:
    return ec.Forecaster(folder / "own.onnx")


def rewritten(source, target, **header):
    """A model file with other entries in its header; an entry of None is left out."""
    arrays, old = read_safetensors(source.with_suffix(".safetensors"))
    new = {key: value for key, value in {**old, **header}.items() if value is not None}
    write_safetensors(target.with_suffix(".safetensors"), arrays, new)
    target.write_bytes(source.read_bytes())
    return target


# --- what networks read -------------------------------------------------------------------------------------------


def supplies(batch):
    """What a network can learn from beside the values of a run."""
    given = {"untrained": batch.steps[0] == 0.0, "kind": batch.kinds is not None, "schedule": batch.rates is not None}
    return {name for name, here in given.items() if here}


def test_samplers_read_just_what_their_batches_supply(folder):
    for prior in ("paper", "real", PRIOR):
        sampler = sampler_of(prior)
        batches = [sampler(2, np.random.default_rng(seed)) for seed in range(20)]
        assert set().union(*(supplies(batch) for batch in batches)) == sampler.reads, prior


def test_header_of_an_own_prior_holds_the_format_and_that_it_reads_nothing(folder):
    _, header = read_safetensors(folder / "own.safetensors")
    assert (header["format"], header["reads"]) == (str(FORMAT), "[]")
    assert TrainConfig.from_json(header["config"]).prior == PRIOR  # the recipe is as it was given


@pytest.mark.parametrize(
    ("prior", "model", "reads"),
    [
        ("real", {"rates": True}, ALL),
        ("real", {}, ALL - {"schedule"}),
        ("paper", {}, NOTHING),
        ("paper", {"layout": "set", "head": "bars"}, NOTHING),
    ],
)
def test_exported_model_reads_what_it_was_trained_on(tmp_path, prior, model, reads):
    _, graph = export(trained(prior, **model), tmp_path, "model")
    assert load_network(graph).reads == reads


def test_own_prior_refuses_a_schedule_with_one_error(folder, own):
    assert own.engine.reads == frozenset()
    with pytest.raises(InputError, match=r"^own makes no use of learning rates; leave schedule='cosine' out or take"):
        ec.Forecaster(folder / "own.onnx", schedule="cosine")
    question = Question.of(Curves.of([RISING]), np.array([[20.0]]), 20, schedule=Schedule.of("cosine"))
    with pytest.raises(InputError, match=r"^own makes no use of learning rates; leave schedule=\.\.\. out or take"):
        answer(own.engine, question)


@pytest.mark.parametrize(
    "ask",
    [
        lambda own: own.forecast(RISING, 20, "accuracy", untrained=0.1),
        lambda own: own.forecast(ec.Run(RISING, untrained=0.1), 20, "accuracy"),
        lambda own: own.forecast([RISING, ec.Run(RISING, untrained=0.1)], 20, "accuracy"),
        lambda own: own.stream(20, "accuracy", untrained=0.1),
    ],
    ids=["argument", "run", "batch", "stream"],
)
def test_own_prior_refuses_an_untrained_value_that_nothing_would_use(own, ask):
    with pytest.raises(InputError, match=r"own makes no use of the value before training; leave untrained=0\.1 out"):
        ask(own)


def test_own_prior_takes_an_untrained_value_that_the_scale_of_a_loss_needs(own):
    assert own.forecast([2.0, 1.5], 20, "loss", untrained=2.3).notes == ()
    assert own.stream(20, "loss", untrained=2.3).update(2.0).notes == ()


def test_own_prior_leaves_a_value_at_step_0_out_and_says_so(own):
    before = own.forecast([0.1, *RISING], 20, "accuracy", range(5))
    assert before.notes == ("own makes no use of the value before training: it was left out",)
    without = own.forecast(RISING, 20, "accuracy")
    assert without.notes == ()
    np.testing.assert_array_equal(before.median(), without.median())


def test_real_model_reads_a_value_at_step_0_without_a_note():
    assert ec.forecast([0.1, *RISING], 20, "accuracy", range(5)).notes == ()


def test_own_prior_is_never_fed_a_kind(own):
    question = Question.of(
        ec.forecast(RISING, 20, "accuracy").observed, np.array([[20.0]]), 20, kinds=np.full(1, SHARE)
    )
    codec = own.engine.codec
    tokens, _ = codec.newest(question, codec.runs(question))
    assert not tokens[..., KIND_FEATURE].any()


# --- versions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version", "reads"),
    [("real", "2", ALL | {"context", "config"}), ("stream", None, {"kind"}), ("lcpfn", None, set())],
)
def test_shipped_models_read_what_they_were_trained_on(name, version, reads):
    _, header = read_safetensors(find(name).weights)
    assert header.get("format") == version
    assert load_network(name).reads == reads


def test_own_prior_of_format_0_reads_nothing(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("epochcast.nn.trainer.header_of", lambda config, reads: {"config": config})
    weights, graph = export(Trainer.resume(folder / "own.ckpt"), tmp_path, "old")
    assert read_safetensors(weights)[1].keys() == {"config", "step", "seconds", "graph_sha256"}
    assert load_network(graph).reads == frozenset()
    assert np.isfinite(ec.Forecaster(graph).forecast(RISING, 20, "accuracy").median()).all()


def test_migrated_drops_sizes_that_have_no_meaning_any_more():
    old = {"prior": "real", "model": {"layout": "stream", "basis": "trail", "clusters": 3, "functions": 2}}
    assert migrated(old)["model"] == {"layout": "stream", "rates": False}
    assert "basis" in old["model"]  # what was handed over stays as it is


def test_model_of_a_newer_format_is_refused_with_the_way_out(folder, tmp_path):
    graph = rewritten(folder / "own.onnx", tmp_path / "new.onnx", format=str(FORMAT + 1))
    with pytest.raises(WeightsError, match=r"new\.safetensors has format \d+, .* reads up to \d+; upgrade it"):
        ec.Forecaster(graph)


@pytest.mark.parametrize("reads", [None, "", "3", '["colour"]', '["context"]', "[[]]", '{"kind": 1}', '"kind"'])
def test_model_of_format_1_with_edited_reads_is_refused(folder, tmp_path, reads):
    graph = rewritten(folder / "own.onnx", tmp_path / "edited.onnx", reads=reads)
    with pytest.raises(WeightsError, match=r"edited\.safetensors (describes no network|does not say which)"):
        ec.Forecaster(graph)


@pytest.mark.parametrize("version", ["-1", "true", "1.0", "one", ""])
def test_model_of_a_format_that_is_no_version_is_refused(folder, tmp_path, version):
    graph = rewritten(folder / "own.onnx", tmp_path / "edited.onnx", format=version)
    with pytest.raises(WeightsError, match=r"edited\.safetensors does not say which network"):
        ec.Forecaster(graph)


def test_network_without_inputs_for_what_it_claims_to_read_is_refused(tmp_path):
    for layout, reads in (({}, '["schedule"]'), ({"layout": "set", "head": "bars"}, '["kind"]')):
        _, graph = export(trained("paper", **layout), tmp_path, "plain")
        with pytest.raises(WeightsError, match=r"describes no network: reads="):
            ec.Forecaster(rewritten(graph, tmp_path / "claims.onnx", reads=reads))


def test_checkpoint_without_a_version_and_with_retired_sizes_resumes(folder, tmp_path):
    arrays, header = read_safetensors(folder / "own.ckpt")
    config = json.loads(header["config"])
    config["model"]["basis"] = "trail"
    old = {"config": json.dumps(config), "step": header["step"], "seconds": header["seconds"]}
    write_safetensors(tmp_path / "old.ckpt", arrays, old)
    new, resumed = (Trainer.resume(path) for path in (folder / "own.ckpt", tmp_path / "old.ckpt"))
    assert resumed.config == new.config
    assert resumed.step == new.step == 3


def test_checkpoint_of_a_newer_format_is_refused_with_the_way_out(folder, tmp_path):
    arrays, header = read_safetensors(folder / "own.ckpt")
    write_safetensors(tmp_path / "new.ckpt", arrays, {**header, "format": str(FORMAT + 1)})
    with pytest.raises(WeightsError, match=r"new\.ckpt has format \d+, .*pip install --upgrade epochcast$"):
        Trainer.resume(tmp_path / "new.ckpt")
