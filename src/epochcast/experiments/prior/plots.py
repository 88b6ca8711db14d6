"""Experiment 1, drawn: cost against quality, the gap to the reference, and forecasts of single curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from epochcast.experiments.estimate import Estimate
from epochcast.experiments.prior.comparison import Comparison
from epochcast.experiments.prior.gallery import Gallery
from epochcast.experiments.prior.tables import (
    PAPER,
    PAPER_CUTOFFS,
    THIRDS,
    Line,
    difference,
    lines,
    noise_thirds,
)
from epochcast.plots import legend_below, panel_grid, panels
from epochcast.prior import paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLORS = ("#2a6fbb", "#3a9d5d", "#e08e2b", "#d1495b", "#7a4fb5", "#6b7280", "#b5651d", "#159a9c")
_INK, _PALE = "#222222", "#9aa3ad"
_MOST_LABELS = 8  # contenders named in a picture; more are a cloud


def _color(label: str, labels: Sequence[str]) -> str:
    """A color per contender, or per kind of engine when there are many."""
    kinds = list(labels) if len(labels) <= _MOST_LABELS else list(dict.fromkeys(name.split()[0] for name in labels))
    kind = label if len(labels) <= _MOST_LABELS else label.split()[0]
    return _COLORS[kinds.index(kind) % len(_COLORS)]


def cost_against_quality(comparison: Comparison, reference: str) -> Figure:
    """Processor time of one curve against the mean log-likelihood, a panel per cutoff."""
    table = lines(comparison, reference)
    cutoffs = comparison.plan.cutoffs
    figure, axes = panel_grid(len(cutoffs), 2, 5.2, 3.6)
    for ax, cutoff in zip(axes, cutoffs, strict=True):
        _cost_panel(ax, [row for row in table if row.cutoff == cutoff], comparison.labels)
        ax.set_title(f"{cutoff} % seen", loc="left", fontsize=9)
    legend_below(figure, axes[0], 4)
    return figure


def _cost_panel(ax: Axes, rows: Sequence[Line], labels: Sequence[str]) -> None:
    named = len(labels) <= _MOST_LABELS
    for row in rows:
        color = _color(row.engine, labels)
        # All engines on the same curves, where there are such; the error then is the curves', not the engines'.
        paired = row.paired_curves >= 2
        score = row.paired_controlled if paired else row.controlled
        ax.errorbar(row.seconds, *score, fmt="o", color=color, markersize=5, label=row.engine if named else None)
    if rows[0].cutoff in PAPER_CUTOFFS:
        place = PAPER_CUTOFFS.index(rows[0].cutoff)
        points = np.array([(seconds, scores[place]) for scores, seconds in PAPER.values()])
        ax.plot(*points.T, "o", color=_PALE, fillstyle="none", label="paper (its processor, its curves)")
        for name, point in zip(PAPER, points, strict=True):
            ax.annotate(name.split()[-1], point, xytext=(4, -9), textcoords="offset points", fontsize=7, color=_PALE)
    ax.axhline(paper.ORACLE_LOG_LIKELIHOOD, color=_INK, linewidth=0.8, linestyle=":", label="curve and noise known")
    ax.set_xscale("log")
    ax.set_xlabel("seconds per curve, one core")
    ax.set_ylabel("log-likelihood")


def gap_to_reference(comparison: Comparison, reference: str) -> Figure:
    """Nats below the reference by cutoff: on all paired curves, then by thirds of the noise."""
    masks = [comparison.paired, *noise_thirds(comparison)]
    titles = [f"all {int(masks[0].sum())} curves", *(f"{name} third" for name in THIRDS)]
    figure, axes = panels(1, len(masks), 12.0 / len(masks), 3.4, sharey=True)
    others = [label for label in comparison.labels if label != reference]
    places = np.arange(len(comparison.plan.cutoffs))
    for ax, mask, title in zip(axes.flat, masks, titles, strict=True):
        for k, label in enumerate(others):
            scored = [comparison.at(label, cutoff) for cutoff in comparison.plan.cutoffs]
            gaps = [Estimate.of(difference(comparison, own, reference)[mask]) for own in scored]
            shift = 0.7 * ((k + 0.5) / len(others) - 0.5)
            means, errors = [gap.mean for gap in gaps], [gap.error for gap in gaps]
            color = _color(label, comparison.labels)
            ax.errorbar(places + shift, means, errors, fmt="o", color=color, markersize=4, label=label)
        ax.axhline(0.0, color=_INK, linewidth=0.8)
        ax.set_xticks(places, [f"{cutoff} %" for cutoff in comparison.plan.cutoffs])
        ax.set_title(title, loc="left", fontsize=9)
    axes.flat[0].set_ylabel(f"nats above {reference}")
    if len(others) <= _MOST_LABELS:
        legend_below(figure, axes.flat[0], 4)
    return figure


def forecasts_of_curves(gallery: Gallery) -> Figure:
    """Medians and 90 % intervals of all contenders, a row per curve and a column per cutoff."""
    count, cutoffs = len(gallery.values), gallery.cutoffs
    figure, axes = panels(count, len(cutoffs), 3.2, 1.9, sharex=True, sharey="row")
    steps = np.arange(1, gallery.values.shape[1] + 1)
    for row, values in enumerate(gallery.values):
        for column, cutoff in enumerate(cutoffs):
            ax = axes[row, column]
            ax.plot(steps[cutoff:], values[cutoff:], color=_PALE, linewidth=0.8, label="truth")
            ax.plot(steps[:cutoff], values[:cutoff], color=_INK, linewidth=1.0, label="seen")
            for label in gallery.labels:
                _draw_forecast(ax, steps[cutoff:], gallery.at(label, row, cutoff), label, gallery.labels)
            if row == 0:
                ax.set_title(f"{cutoff} % seen", loc="left", fontsize=9)
    legend_below(figure, axes[0, 0], len(cutoffs))
    return figure


def _draw_forecast(ax: Axes, steps: Any, quantiles: Any, label: str, labels: Sequence[str]) -> None:
    """A band under its median; the edges tell overlapping bands apart."""
    color = _color(label, labels)
    low, median, high = quantiles
    ax.fill_between(steps, low, high, color=color, alpha=0.15, linewidth=0)
    ax.plot(steps, low, color=color, linewidth=0.6)
    ax.plot(steps, high, color=color, linewidth=0.6)
    ax.plot(steps, median, color=color, linewidth=1.4, label=f"{label}, with 90 % interval")
