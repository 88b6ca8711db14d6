"""Draws the pictures that explain, for the guide: docs/images/NAME.png.

    python research/draw_guide.py narrowing schedules context
    python research/draw_guide.py calibration --data ../shared/data --data ../shared/data/kinds

`narrowing`, `schedules` and `context` show runs that ship. `calibration` is a look at the report half, on
which no weights are chosen: it counts as one, and belongs into the log.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import reliability_docs
from halves import load_half
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import epochcast as ec
from epochcast.benchmarks.npz import digits_bench
from epochcast.cli.demo import DemoRun, demo_runs

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
SEEN = (5, 10, 20, 40)
CURVES, FEWEST = 150, 60  # runs of a collection that calibration is measured on
SCHEDULES = {
    "nothing said": None,
    "a constant rate": "constant",
    "a cosine": "cosine",
    "a drop at step 60": "drops,at=60",
}
CONTEXT_TASK, CONTEXT_COUNTS, SEEN_BESIDE = "digits", (0, 1, 4, 16), 5  # runs of the context, values seen


def panels(count: int) -> tuple[Figure, Sequence]:
    """A row of panels on common axes."""
    figure = Figure(figsize=(3.1 * count, 2.9), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, count, sharex=True, sharey=True)


def shipped(name: str) -> DemoRun:
    return next(run for run in demo_runs() if run.name == name)


def narrowing(_: argparse.Namespace) -> Figure:
    """One run, forecast again and again as its values come."""
    run = shipped("letters_rnn")
    figure, axes = panels(len(SEEN))
    for ax, seen in zip(axes, SEEN, strict=True):
        forecast = ec.forecast(run.values[:seen], len(run.values), run.metric)
        forecast.plot(ax, truth=run.values, title=f"{seen} of {len(run.values)} epochs seen", legend=ax is axes[0])
    return _labelled(figure, axes)


def schedules(_: argparse.Namespace) -> Figure:
    """The same values with different words on the learning rate."""
    run = shipped("digits_cnn_cosine")
    figure, axes = panels(len(SCHEDULES))
    for ax, (title, schedule) in zip(axes, SCHEDULES.items(), strict=True):
        forecast = ec.forecast(run.values[:20], len(run.values), run.metric, schedule=schedule)
        forecast.plot(ax, title=title, legend=ax is axes[0])
    return _labelled(figure, axes)


def calibration(given: argparse.Namespace) -> Figure:
    """How often central intervals hold what they say, a line for each collection."""
    sets = [curves.sample(CURVES).thinned() for path in given.data for curves in load_half(str(path), "report")]
    found = reliability_docs.scored([curves for curves in sets if len(curves) >= FEWEST], "default")
    figure, axes = panels(len(reliability_docs.SHARES))
    for place, (ax, share) in enumerate(zip(axes, reliability_docs.SHARES, strict=True)):
        lines = [reliability_docs.reliability(of[place].pit) for of in found.values() if len(of[place]) >= FEWEST]
        ax.plot(reliability_docs.LEVELS, np.transpose(lines), color="#8ab1db", linewidth=0.8)
        ax.plot(reliability_docs.LEVELS, np.mean(lines, axis=0), color="#2a6fbb", linewidth=2.2)
        ax.plot([0, 1], [0, 1], color="#d1495b", linewidth=1, linestyle="--")
        ax.set_title(f"{share:.0%} seen, {len(lines)} collections", loc="left", fontsize=9)
        ax.set_xlabel("the interval says")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("it holds")
    return figure


def context(given: argparse.Namespace) -> Figure:
    """One run of a task that ships, forecast alone and beside more and more other runs of the task."""
    curves = digits_bench("accuracy").of_task(CONTEXT_TASK)
    whole = [values[:length] for values, length in zip(curves.values, curves.lengths, strict=True)]
    target, earlier = whole[-1], whole[:-1]
    configs = [dict(zip(curves.config_names, row, strict=True)) for row in curves.config] if curves.config_names else []
    figure, axes = panels(len(CONTEXT_COUNTS))
    for ax, count in zip(axes, CONTEXT_COUNTS, strict=True):
        others = [ec.Run(run, config=configs[i] if configs else None) for i, run in enumerate(earlier[:count])]
        told = {"context": others, "config": configs[-1] if configs else None} if others else {}
        forecast = ec.forecast(target[:SEEN_BESIDE], len(target), curves.metrics[curves.task[0]], **told)
        for other in others:
            ax.plot(np.arange(1, len(other.values) + 1), other.values, color="0.7", linewidth=0.8, zorder=0)
        title = "alone" if not others else f"beside {count} other run{'s' * (count > 1)}"
        forecast.plot(ax, truth=target, title=title, legend=not others)
    return _labelled(figure, axes)


def _labelled(figure: Figure, axes: Sequence) -> Figure:
    for ax in axes[1:]:
        ax.set_ylabel("")
    if legend := axes[0].get_legend():
        legend.set_loc("lower right")
        for text in legend.get_texts():
            text.set_fontsize(6)
    return figure


PICTURES: dict[str, Callable[[argparse.Namespace], Figure]] = {
    "narrowing": narrowing,
    "schedules": schedules,
    "calibration": calibration,
    "context": context,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", nargs="+", choices=PICTURES)
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--out", type=Path, default=IMAGES)
    given = parser.parse_args()
    for name in given.pictures:
        PICTURES[name](given).savefig(given.out / f"{name}.png", dpi=75)


if __name__ == "__main__":
    main()
