"""Ablations at the same small compute: what each ingredient of the recipe is worth.

    python scripts/ablations.py --minutes 4 --out docs/ablations.md

Every variant trains for the same CPU time on one core and is scored on the same 1,000 prior curves.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from epochcast.anchor import LOG_NOISE_LEVELS, Belief
from epochcast.model import ModelConfig
from epochcast.train import TrainConfig, Trainer

STREAM = TrainConfig(model=ModelConfig(layers=4, width=96, heads=3, hidden=384, decoder=192))
SET = replace(STREAM, model=ModelConfig("set", "mixture", layers=4, width=96, heads=3, hidden=384, outputs=12))
BARS = replace(SET, model=replace(SET.model, head="bars", outputs=1000))

VARIANTS: dict[str, tuple[TrainConfig, bool]] = {
    # name: (recipe, whether the streaming network starts from the anchor)
    "streaming, anchored, Muon, antithetic": (STREAM, True),
    "optimiser: Adam": (replace(STREAM, optimizer="adam"), True),
    "targets: noisy": (replace(STREAM, targets="noisy"), True),
    "anchor: none, offsets from the last value": (replace(STREAM, model=replace(STREAM.model, outputs=12)), False),
    "layout: set transformer, mixture": (SET, True),
    "layout: set transformer, mixture, Adam": (replace(SET, optimizer="adam"), True),
    "layout: set transformer, 1,000 bins, exact targets": (replace(BARS, targets="exact"), True),
    "layout: set transformer, 1,000 bins, noisy targets": (replace(BARS, targets="noisy"), True),
}


@dataclass(frozen=True)
class LastValue:
    """In place of the anchor: components spread about the newest value, which know nothing of the prior."""

    clusters: int

    def beliefs(self, values: np.ndarray) -> Belief:
        cutoffs = values.shape[1] + 1
        last = np.concatenate([np.full((len(values), 1), 0.5), values], axis=1)
        weights = np.full((len(values), cutoffs, self.clusters), 1 / self.clusters)
        unknown = np.zeros((len(values), cutoffs, len(LOG_NOISE_LEVELS)))
        rotation = np.zeros((cutoffs, 1, 1, 1))
        return Belief(weights, last[..., None, None], rotation, spread=unknown, noise=unknown, noise_weights=unknown)

    def components(self, belief: Belief, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        last = belief.coefficients[..., 0, 0]  # [curve, cutoff]
        shape = (*last.shape, queries.shape[-1], self.clusters)
        offsets = 0.05 * np.linspace(-1.5, 1.5, self.clusters)
        log_weights = np.full(shape, -np.log(self.clusters))
        return log_weights, np.broadcast_to(last[..., None, None] + offsets, shape), np.full(shape, np.log(0.03))


def run(config: TrainConfig, anchored: bool, minutes: float) -> dict[str, float | list[float]]:
    """Train for a fixed CPU time with a schedule that ends just then."""
    probe = _trainer(replace(config, curves=config.batch * 1_000), anchored)
    probe.run(steps=2)
    started = time.process_time()
    probe.run(steps=6)
    per_step = (time.process_time() - started) / 6
    steps = max(int(minutes * 60 / per_step), 1)
    trainer = _trainer(replace(config, curves=config.batch * steps), anchored)
    started = time.process_time()
    trainer.run()
    spent = (time.process_time() - started) / 60
    scores = trainer.evaluate(1_000)
    return {"curves": config.batch * steps, "minutes": round(spent, 1), "scores": [round(s, 3) for s in scores]}


def _trainer(config: TrainConfig, anchored: bool) -> Trainer:
    trainer = Trainer(config)
    if not anchored:
        trainer.objective.anchor = LastValue(config.model.outputs)
    return trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--out", type=Path, default=Path("docs/ablations.md"))
    parser.add_argument("--cache", type=Path, help="JSON file with finished variants, to go on after a stop")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(stderr=True)
    done = json.loads(arguments.cache.read_text()) if arguments.cache and arguments.cache.exists() else {}
    anchor_alone = Trainer(replace(STREAM, curves=STREAM.batch)).evaluate(1_000) if "anchor" not in done else None
    if anchor_alone is not None:
        done["anchor"] = {"curves": 0, "minutes": 0.0, "scores": [round(s, 3) for s in anchor_alone]}
    for name, (config, anchored) in VARIANTS.items():
        if name not in done:
            console.print(f"training: {name}")
            done[name] = run(config, anchored, arguments.minutes)
            console.print(done[name])
        if arguments.cache:
            arguments.cache.write_text(json.dumps(done, indent=2))
    today = datetime.datetime.now(datetime.timezone.utc).date()
    lines = [
        "# Ablations",
        "",
        f"{today}, `python scripts/ablations.py --minutes {arguments.minutes:g}`: 4 layers of width 96, batch 32.",
        "Every variant has the same CPU time on one core and is scored on the same 1,000 prior curves: mean",
        "log-likelihood with the oracle's control variate.",
        "",
        "| variant | curves | CPU minutes | 10 % | 20 % | 40 % | 80 % |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in ("anchor", *VARIANTS):
        entry = done[name]
        title = "the anchor alone, untrained" if name == "anchor" else name
        scores = " | ".join(f"{score:.3f}" for score in entry["scores"])
        lines.append(f"| {title} | {entry['curves']:,} | {entry['minutes']} | {scores} |")
    arguments.out.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
