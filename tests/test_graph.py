"""The written-out graph of every kind of network against torch, the earlier tokens of a stream in its memory or not."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

pytest.importorskip("torch", reason="needs epochcast[train]")

import torch

from epochcast.export import places_in
from epochcast.graph import graph_of
from epochcast.model import HIDDEN, ModelConfig, SetModel, StreamModel
from epochcast.trail import QUERY_FEATURES, TOKEN_FEATURES
from epochcast.weights import write_safetensors

SMALL = {"width": 16, "hidden": 24, "outputs": 5, "decoder": 12}
SETS = {
    "bins": ModelConfig("set", "bars", layers=2, heads=1, **SMALL),
    "mixture": ModelConfig("set", "mixture", layers=3, heads=4, **SMALL),
    "one layer": ModelConfig("set", "bars", layers=1, heads=2, **SMALL),
}
STREAMS = {
    "two layers": ModelConfig("stream", layers=2, heads=4, **SMALL),
    "three layers": ModelConfig("stream", layers=3, heads=2, **SMALL),
    "one layer": ModelConfig("stream", layers=1, heads=2, **SMALL),
}


def _random(network):
    """A network whose every weight matters: those that start at zero are drawn as well."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in network.parameters():
            weight += 0.2 * torch.randn(weight.shape, generator=generator)
    return network.eval()


def _session(network, folder):
    weights = folder / "own.safetensors"
    write_safetensors(weights, {name: value.numpy() for name, value in network.state_dict().items()}, {})
    (folder / "own.onnx").write_bytes(graph_of(network.config, places_in(weights), weights.name))
    return onnxruntime.InferenceSession(folder / "own.onnx", providers=["CPUExecutionProvider"])


def _numpy(inputs):
    return {name: value.numpy() for name, value in inputs.items()}


@pytest.mark.parametrize("kind", SETS)
def test_set_graph_agrees_with_torch_on_contexts_of_different_lengths(kind, tmp_path):
    network = _random(SetModel(SETS[kind]))
    observed = torch.arange(6) < torch.tensor([6, 2, 5])[:, None]
    inputs = {"steps": torch.rand(3, 6), "values": torch.rand(3, 6), "observed": observed, "queries": torch.rand(3, 4)}
    visible = torch.cat([observed, torch.zeros(3, 4, dtype=torch.bool)], dim=1)[:, None] | torch.eye(10).bool()
    hidden = torch.where(visible, 0.0, HIDDEN)[:, None]
    with torch.no_grad():
        expected = network(*inputs.values()).numpy()
    session = _session(network, tmp_path)

    raw = session.run(["raw"], _numpy(inputs) | {"hidden": hidden.numpy()})[0]
    np.testing.assert_allclose(raw, expected, atol=1e-4)
    everything_seen = session.run(["raw"], _numpy(inputs) | {"hidden": np.zeros_like(hidden.numpy())})[0]
    assert np.abs(everything_seen - expected).max() > 1e-2


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("kind", STREAMS)
def test_stream_graph_agrees_with_torch_on_answers_and_memory(kind, before, tmp_path):
    config = STREAMS[kind]
    network = _random(StreamModel(config))
    size = config.width // config.heads
    positions = torch.tensor([[1, 4], [0, 2], [3, 3]])
    past = torch.randn(config.layers, 2, 3, config.heads, before, size)
    features = torch.rand(3, 2, TOKEN_FEATURES), torch.rand(3, 2, 4, QUERY_FEATURES)
    tokens = torch.rand(3, 5, TOKEN_FEATURES)
    with torch.no_grad():
        expected, memory = network(tokens, past, positions, *features)
    feed = _numpy(
        {"tokens": tokens, "positions": positions, "cutoff_features": features[0], "query_features": features[1]}
    )
    later = np.arange(before + 5) > before + positions.numpy()[..., None]
    feed["hidden"] = np.where(later, np.float32(HIDDEN), np.float32(0.0))[:, None]
    last = config.layers - 1
    feed |= {f"past.{layer}": past[layer].numpy() for layer in range(last)}
    feed |= {f"past.{last}.{part}": _side_by_side(past[last, i]) for i, part in enumerate(("key", "value"))}
    session = _session(network, tmp_path)

    answers = dict(zip([output.name for output in session.get_outputs()], session.run(None, feed), strict=True))
    np.testing.assert_allclose(answers["raw"], expected.numpy(), atol=1e-4)
    for layer in range(last):
        np.testing.assert_allclose(answers[f"memory.{layer}"], memory[layer].numpy(), atol=1e-4)
    for i, part in enumerate(("key", "value")):
        np.testing.assert_allclose(answers[f"memory.{last}.{part}"], _side_by_side(memory[last, i]), atol=1e-4)
    elsewhere = session.run(["raw"], feed | {"positions": np.zeros_like(feed["positions"])})[0]
    assert np.abs(elsewhere - answers["raw"]).max() > 1e-2


def _side_by_side(heads):
    """[batch, head, token, size] -> [batch, token, width]"""
    return heads.transpose(1, 2).flatten(2).numpy()
