"""Pictures of the ingredients of the prior of real curves, one panel each, for docs/research/real-prior.md.

    python research/draw_real_prior.py docs/research/images

A panel shows curves that have the ingredient and as little else as possible.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from epochcast.prior import real

Array = NDArray[np.float64]
Rates = dict[str, float]

HORIZON = 100
COLUMNS = 4
AMOUNTS = np.geomspace(1.0, HORIZON, 18)  # of data, where curves are drawn against these
COLORS = ("#0b5fa5", "#d1495b", "#66a182")

BARE = real.RealPriorConfig.bare()
SMOOTH: Rates = {"smooth": 1.0}
AT_HORIZON: Rates = {"ends_at_horizon": 1.0, "gap": 1.0, "gap_noise": 1.0, "noise_follows_schedule": 1.0}
COSINE: Rates = {"cosine": 1.0, "ends_at_horizon": 1.0}
LOSS: Rates = {"smooth": 1.0, "loss": 1.0}
TOKENS: Rates = {"loss": 1.0, "text_epochs": 1.0, "tame": 1.0, "ends_at_horizon": 1.0, "gap_tokens": 1.0}

# What is set beside the ingredient itself, so that it shows.
FIGURES: dict[str, dict[str, Rates]] = {
    "kinds": {
        "paper": {},
        "paper_quiet": {"paper": 1.0},
        "constant": {},
        "toggling": {},
        "loss": SMOOTH | {"bad_start": 0.5},
        "first_as_reference": SMOOTH | {"loss": 1.0},
        "amounts": {},
        "barely_moving": {"loss": 1.0},
        "barely_moving_accuracy": {},
        "quantised": {"barely_moving_accuracy": 1.0},
        "text": {"loss": 1.0, "tame": 1.0},
        "text_epochs": {"loss": 1.0, "tame": 1.0},
        "unbounded": {},
    },
    "schedules": {
        **dict.fromkeys(("cosine", "polynomial", "exponential", "drops", "restarts", "hold_decay"), AT_HORIZON),
        **dict.fromkeys(("tokens_cosine", "tokens_polynomial", "tokens_hold_decay"), TOKENS),
    },
    "effects": {
        "ends_at_horizon": {"cosine": 1.0, "gap": 1.0, "gap_noise": 1.0},
        "hold": COSINE | {"gap": 1.0, "gap_noise": 1.0},
        "rest": COSINE | {"gap": 1.0, "gap_noise": 1.0},
        "warmup": COSINE | SMOOTH | {"paced": 1.0},
        "paced": COSINE | SMOOTH,
        "gap": COSINE | SMOOTH | {"loss": 1.0},
        "gap_accuracy": COSINE | SMOOTH,
        "gap_noise": COSINE | {"gap": 1.0},
        "gap_drops": SMOOTH | {"drops": 1.0, "ends_at_horizon": 1.0},
        "gap_tokens": TOKENS | {"tokens_hold_decay": 1.0},
        "noise_follows_schedule": COSINE,
    },
    "shapes": {
        **dict.fromkeys(("second_decay", "second_wind", "slow_start", "slow_accuracy", "too_slow_accuracy"), SMOOTH),
        **dict.fromkeys(("counted_start", "delay", "late_accuracy", "stall"), SMOOTH),
        "stays": SMOOTH,
        "late_bloom": LOSS | {"paper_trend": 1.0},
        "solved": LOSS,
        **dict.fromkeys(("warped", "warped_long", "strayed"), LOSS | {"paper_trend": 1.0}),
        "warped_tokens": TOKENS,
        **dict.fromkeys(("memorising", "exploding"), LOSS),
        **dict.fromkeys(("paper_trend", "worsening", "bad_start", "far_start"), SMOOTH | {"loss": 1.0}),
        **dict.fromkeys(("too_slow", "overfitting"), SMOOTH | {"loss": 1.0}),
        "wild": COSINE | SMOOTH | {"loss": 1.0},
        "silent_delay": {"delay": 1.0},
        "overfitting_at_turn": SMOOTH | {"loss": 1.0, "overfitting": 1.0, "drops": 1.0, "ends_at_horizon": 1.0},
        **dict.fromkeys(("unstable", "collapse"), SMOOTH | {"loss": 1.0}),
        **dict.fromkeys(("wandering", "unstable_accuracy", "double_descent", "spikes", "collapse_accuracy"), SMOOTH),
    },
    "noise": {
        name: {}
        for name in (
            "tame",
            "smooth",
            "noise_decays",
            "noise_grows",
            "noise_grows_long",
            "noise_follows_error",
            "correlated",
            "heavy_tailed",
            "dips",
        )
    },
}


def drawdown(values: Array) -> Array:
    """The largest fall from the best so far."""
    return (np.maximum.accumulate(values, axis=1) - values).max(axis=1)


def final_fall(values: Array) -> Array:
    return np.asarray(values.max(axis=1) - values[:, -1])


def lateness(values: Array) -> Array:
    """The range of the curve where most of it is gained after the first tenth."""
    return np.asarray(values.max(axis=1) - values[:, : HORIZON // 10].max(axis=1))


def roughness(values: Array) -> Array:
    """The size of the noise in the first half, none where it is most of the range."""
    bends = np.median(np.abs(np.diff(values[:, : HORIZON // 2], n=2, axis=1)), axis=1)
    return np.where(bends < 0.2 * np.ptp(values, axis=1), bends, 0.0)


SHOWS: dict[str, Callable[[Array], Array]] = {
    **dict.fromkeys(("delay", "late_accuracy", "silent_delay", "stall", "slow_start", "slow_accuracy"), lateness),
    **dict.fromkeys(("too_slow", "too_slow_accuracy", "gap", "gap_accuracy", "hold", "loss", "bad_start"), lateness),
    **dict.fromkeys(("unstable", "unstable_accuracy", "wild"), drawdown),
    **dict.fromkeys(("double_descent", "spikes", "dips", "restarts"), drawdown),
    **dict.fromkeys(("overfitting", "overfitting_at_turn", "collapse", "collapse_accuracy", "worsening"), final_fall),
    "second_wind": lateness,
    **dict.fromkeys(("gap_noise", "noise_follows_schedule", "noise_decays", "noise_follows_error"), roughness),
    **dict.fromkeys(("correlated", "heavy_tailed", "cosine", "polynomial", "drops"), roughness),
}
ALONE = ("constant", "toggling", "barely_moving", "barely_moving_accuracy", "quantised")  # too small to share an axis


def curves(name: str, beside: Rates, steps: Array) -> Array:
    """Curves [curve, step] that have the ingredient; among the third that shows it most where that can be measured."""
    config = BARE.but(**{**beside, name: 1.0})
    values = real.sample(300, np.random.default_rng(len(name)), steps, HORIZON, config).noisy
    if name in ALONE:
        changes = (np.diff(values, axis=1) != 0.0).sum(axis=1)
        return values[[int(np.argsort(changes)[-30])]]
    shown = SHOWS.get(name, lambda v: np.ptp(v, axis=1))(values)
    order = np.argsort(shown)
    return values[order[[-4, -30, -70]]]


def draw(panels: dict[str, Rates], path: Path) -> None:
    rows = -(-len(panels) // COLUMNS)
    figure = Figure(figsize=(2.5 * COLUMNS, 1.7 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for place, (name, beside) in enumerate(panels.items()):
        axes = figure.add_subplot(rows, COLUMNS, place + 1)
        steps = AMOUNTS if name == "amounts" else np.arange(1.0, HORIZON + 1.0)
        for values, color in zip(curves(name, beside, steps), COLORS, strict=False):
            axes.plot(steps, values, color=color, linewidth=0.9)
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=6)
        axes.locator_params(nbins=4)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=60)


def main() -> None:
    parser = argparse.ArgumentParser(description="pictures of the ingredients of the prior of real curves")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for name, panels in FIGURES.items():
        draw(panels, folder / f"real_prior_{name}.png")


if __name__ == "__main__":
    main()
