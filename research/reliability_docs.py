"""Fills docs/research/reliability.md: do intervals hold what they say, on each collection of one half of the runs?

    python research/reliability_docs.py ../shared/data ../shared/data/kinds --half report

Every collection gets a row of coverages and a reliability diagram: how often the truth falls inside a central interval,
against what the interval says. One random value to come counts for each run and cutoff.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from halves import load_half
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from pages import filled, table

from epochcast.benchmarks import CurveSet
from epochcast.engines import load_engine
from epochcast.experiments.real.scores import SHARES, CurveScores, score

DOCS = Path(__file__).resolve().parents[1] / "docs" / "research"
LEVELS = np.linspace(0.05, 0.95, 19)
COLUMNS = 6
FEWEST = 10  # runs, for a row
COLORS = ("#9ecae1", "#4292c6", "#08519c", "#08306b")

Scores = list[CurveScores]


def reliability(pit: np.ndarray) -> np.ndarray:
    """The share of values inside the central interval of each level."""
    away = 2.0 * np.abs(pit - 0.5)
    return np.asarray([(away <= level).mean() for level in LEVELS])


def draw(of_sets: dict[str, Scores], path: Path) -> None:
    rows = -(-len(of_sets) // COLUMNS)
    figure = Figure(figsize=(1.9 * COLUMNS, 2.0 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for place, (name, of_cutoffs) in enumerate(of_sets.items()):
        axes = figure.add_subplot(rows, COLUMNS, place + 1)
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
        for scores, share, color in zip(of_cutoffs, SHARES, COLORS, strict=True):
            if len(scores) == 0:  # no run goes on after this cutoff
                continue
            axes.plot(LEVELS, reliability(scores.pit), color=color, linewidth=1.1, label=f"{share:.0%}")
        axes.set_title(f"{name}, {len(of_cutoffs[0])}", fontsize=7)
        axes.set_xticks([0, 0.5, 0.9])
        axes.set_yticks([0, 0.5, 0.9])
        axes.tick_params(labelsize=6)
        axes.spines[["top", "right"]].set_visible(False)
        if place == 0:
            axes.legend(fontsize=5, frameon=False, title="seen", title_fontsize=5)
    figure.savefig(path, dpi=80)


def row(name: str, of_cutoffs: Scores) -> list[str]:
    def cells(means: Callable[[CurveScores], float], digits: int) -> str:
        return " / ".join(f"{means(scores):.{digits}f}" if len(scores) else "-" for scores in of_cutoffs)

    return [
        name,
        f"{len(of_cutoffs[0])}",
        cells(lambda scores: float(scores.inside90.mean()), 2),
        cells(lambda scores: float(scores.log_likelihood.mean()), 2),
        cells(lambda scores: 1000.0 * float(scores.crps.mean()), 1),
    ]


def scored(sets: list[CurveSet], model: str) -> dict[str, Scores]:
    engine = load_engine(model)
    return {curves.name: [score(engine, curves, share) for share in SHARES] for curves in sets}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--half", default="choose")
    parser.add_argument("--model", default="default")
    parser.add_argument("--curves", type=int, default=400)
    parser.add_argument("--out", type=Path, default=DOCS)
    given = parser.parse_args()
    sets = [curves.sample(given.curves).thinned() for path in given.data for curves in load_half(path, given.half)]
    of_sets = scored([curves for curves in sets if len(curves) >= FEWEST], given.model)
    draw(of_sets, given.out / "images" / "reliability.png")
    head = ["collection", "runs", "inside 90 %", "log-likelihood, mean", "CRPS x 1000"]
    text = table(head, [row(name, of_cutoffs) for name, of_cutoffs in of_sets.items()])
    page = given.out / "reliability.md"
    page.write_text(filled(page.read_text(encoding="utf-8"), "cells", text), encoding="utf-8")


if __name__ == "__main__":
    main()
