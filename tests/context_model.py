"""A tiny network that reads other runs, none of whose weights are zero; for tests of what is done around networks."""

from __future__ import annotations

from pathlib import Path

import pytest


def tiny_context_model(folder: Path) -> Path:
    """The graph of an untrained network, its weights beside it."""
    torch = pytest.importorskip("torch", reason="needs epochcast[train]")
    from epochcast.nn.export import export
    from epochcast.nn.model import ModelConfig
    from epochcast.nn.trainer import TrainConfig, Trainer

    sizes = {"layers": 2, "width": 16, "heads": 2, "hidden": 32, "outputs": 4, "decoder": 8}
    trainer = Trainer(TrainConfig(ModelConfig("stream", **sizes, rates=True, context=16), prior="real"))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in trainer.objective.network.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return export(trainer, folder, "tiny")[1]
