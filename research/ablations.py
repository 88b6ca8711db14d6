"""Ablations at the same small compute: what each ingredient of the recipe is worth.

    python research/ablations.py --minutes 3 --out ablations.md

Every variant trains for the same CPU time on one core and is scored on the same 1,000 prior curves.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console

from epochcast.nn.model import ModelConfig
from epochcast.nn.trainer import TrainConfig, Trainer

STREAM = TrainConfig(model=ModelConfig(layers=4, width=96, heads=3, hidden=384, decoder=192), queries=4)
SET = replace(STREAM, model=ModelConfig("set", "mixture", layers=4, width=96, heads=3, hidden=384, outputs=12))
BARS = replace(SET, model=replace(SET.model, head="bars", outputs=1000))

VARIANTS = {
    "causal, mixture, Muon, antithetic targets": STREAM,
    "optimiser: Adam": replace(STREAM, optimizer="adam"),
    "targets: noisy": replace(STREAM, targets="noisy"),
    "queries: 1 per cutoff instead of 4": replace(STREAM, queries=1),
    "layout: set": SET,
    "layout: set; optimiser: Adam": replace(SET, optimizer="adam"),
    "layout: set; head: 1,000 bins": BARS,
    "layout: set; head: 1,000 bins; targets: exact": replace(BARS, targets="exact"),
    "layout: set; head: 1,000 bins; targets: noisy": replace(BARS, targets="noisy"),
}


def run(config: TrainConfig, minutes: float) -> dict[str, float | list[float]]:
    """Train for a fixed CPU time with a schedule that ends just then."""
    probe = Trainer(replace(config, curves=config.batch * 1_000))
    probe.run(steps=2)
    started = time.process_time()
    probe.run(steps=6)
    per_step = (time.process_time() - started) / 6
    steps = max(int(minutes * 60 / per_step), 1)
    trainer = Trainer(replace(config, curves=config.batch * steps))
    started = time.process_time()
    trainer.run()
    spent = (time.process_time() - started) / 60
    scores = trainer.evaluate(1_000)
    return {"curves": config.batch * steps, "minutes": round(spent, 1), "scores": [round(s, 3) for s in scores]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--out", type=Path, default=Path("ablations.md"))
    parser.add_argument("--cache", type=Path, help="JSON file with finished variants, to go on after a stop")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(stderr=True)
    done = json.loads(arguments.cache.read_text()) if arguments.cache and arguments.cache.exists() else {}
    for name, config in VARIANTS.items():
        if name not in done:
            console.print(f"training: {name}")
            done[name] = run(config, arguments.minutes)
            console.print(done[name])
        if arguments.cache:
            arguments.cache.write_text(json.dumps(done, indent=2))
    today = datetime.datetime.now(datetime.timezone.utc).date()
    lines = [
        "# Ablations",
        "",
        f"{today}, `python research/ablations.py --minutes {arguments.minutes:g}`: 4 layers of width 96, batch 32.",
        "Every variant has the same CPU time on one core and is scored on the same 1,000 prior curves: mean",
        "log-likelihood with the oracle's control variate.",
        "",
        "| variant | curves | CPU minutes | 10 % | 20 % | 40 % | 80 % |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in VARIANTS:
        entry = done[name]
        scores = " | ".join(f"{score:.3f}" for score in entry["scores"])
        lines.append(f"| {name} | {entry['curves']:,} | {entry['minutes']} | {scores} |")
    arguments.out.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
