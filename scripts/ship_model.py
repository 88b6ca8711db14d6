"""Turn a checkpoint into a model that ships: export it, score it, and write its card and checksums into the registry.

python scripts/ship_model.py NAME CHECKPOINT --about "one sentence"
"""

from __future__ import annotations

import argparse
import hashlib
import json
from datetime import date
from pathlib import Path

import numpy as np

from epochcast.experiments.prior.scores import evaluate, row
from epochcast.nn.export import export
from epochcast.nn.trainer import Trainer
from epochcast.runtime.networks import load_network
from epochcast.runtime.weights import FOLDER, context_graphs, read_safetensors


def context_of(trainer: Trainer) -> dict[str, object]:
    """What a card says of the part that reads other runs."""
    config, named = trainer.config, trainer.objective.network.named_parameters()
    return {
        "weights": sum(p.numel() for name, p in named if name.startswith("context.")),
        "recipe": f"width {config.model.context}, {config.model.context_layers} layers over other runs, "
        f"{config.optimizer}, batch {config.batch}",
        "lessons": trainer.step * config.batch,
        "minutes": round(trainer.seconds / 60),
    }


def check_alone(trainer: Trainer, name: str) -> None:
    """Raise if a model that learned nothing but to read other runs would not answer as before without them."""
    before, _ = read_safetensors(FOLDER / f"{name}.safetensors")
    for key, weight in trainer.objective.network.state_dict().items():
        if not key.startswith("context.") and not np.array_equal(before[key], weight.numpy()):
            raise SystemExit(f"{key} is not that of the {name} that ships; train it from those weights")


def card_of(trainer: Trainer, graph: Path, about: str, curves: int, version: int) -> dict[str, object]:
    """What a user should know of a model: where it comes from, what it cost, what it scores."""
    rows = [row(graph.stem, scores) for scores in evaluate(load_network(graph), curves)]
    config = trainer.config
    return {
        "about": about,
        "version": version,
        "date": date.today().isoformat(),
        "prior": config.prior,
        "recipe": f"{config.model.layers}x{config.model.width} {config.model.layout}, {config.optimizer}, "
        f"{config.targets} targets, batch {config.batch}",
        "curves": trainer.step * (config.alone or config.batch),
        "minutes": round(trainer.seconds / 60),
        "weights": sum(p.numel() for p in trainer.objective.network.parameters()),
        "scored_on": curves,
        "log_likelihood": [round(r.controlled.mean, 4) for r in rows],
        "log_likelihood_error": [round(r.controlled.error, 4) for r in rows],
        "pit_ks": [round(r.pit_ks, 4) for r in rows],
        "coverage90": [round(r.coverage90, 4) for r in rows],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--about", required=True)
    parser.add_argument("--curves", type=int, default=10_000)
    arguments = parser.parse_args()
    trainer = Trainer.resume(arguments.checkpoint)
    reads_context = trainer.config.model.context > 0
    same_alone = reads_context and not trainer.config.alone
    if same_alone:
        check_alone(trainer, arguments.name)
    weights, graph = export(trainer, FOLDER, arguments.name)
    files = [weights, graph, *(context_graphs(graph) if reads_context else ())]
    path = FOLDER / "registry.json"
    registry = json.loads(path.read_text()) if path.exists() else {"default": arguments.name, "models": {}}
    shipped = registry["models"].get(arguments.name, {"card": {}})["card"]
    version = shipped.get("version", 0) + 1
    if same_alone:
        weights_of_all = sum(p.numel() for p in trainer.objective.network.parameters())
        card = {**shipped, "about": arguments.about, "version": version, "date": date.today().isoformat()}
        card["weights"] = weights_of_all
    else:
        card = card_of(trainer, graph, arguments.about, arguments.curves, version)
    if reads_context:
        card["context"] = context_of(trainer)
    entry = {"sha256": {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}, "card": card}
    registry["models"][arguments.name] = entry
    path.write_text(json.dumps(registry, indent=2) + "\n")
    print(json.dumps(entry["card"], indent=2))


if __name__ == "__main__":
    main()
