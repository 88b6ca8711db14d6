"""Pictures of the real-curve experiment: ranks, pairwise scores, PIT and examples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.benchmarks import CurveSet
from epochcast.experiments.real.rows import Row, groups, shared_scores
from epochcast.experiments.real.scores import predict_rest
from epochcast.experiments.real.study import Scored
from epochcast.plots import legend_below, panels
from epochcast.question import Engine

_INK, _BLUE, _TRUTH, _BAND = "#222222", "#2a6fbb", "#d1495b", "#b3cde9"
_EXAMPLES = 7
_SMALLEST_ERROR = 1e-12
_DPI = 70


def _figure(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    figure, axes = panels(rows, columns, width, height)
    for ax in axes.flat:
        ax.tick_params(labelsize=7)
    return figure, axes


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=_DPI)
    return path


def ranks(rows: Sequence[Row], path: Path) -> Path:
    """Average rank over the cutoffs (the paper's figure 4): by log-likelihood above, by squared error below."""
    rows = [row for row in rows if not row.paired] or list(rows)
    benchmarks = list(dict.fromkeys(row.benchmark for row in rows))
    figure, axes = _figure(2, len(benchmarks), 2.0, 2.2)
    for column, benchmark in enumerate(benchmarks):
        for engine in dict.fromkeys(row.engine for row in rows):
            own = [row for row in rows if (row.benchmark, row.engine) == (benchmark, engine)]
            cutoffs = [row.cutoff for row in own]
            axes[0, column].plot(cutoffs, [row.rank_log_likelihood for row in own], marker=".", label=engine)
            axes[1, column].plot(cutoffs, [row.rank_squared_error for row in own], marker=".", label=engine)
        axes[0, column].set_title(benchmark, fontsize=8)
        axes[1, column].set_xlabel("share seen", fontsize=7)
    axes[0, 0].set_ylabel("rank by log-likelihood", fontsize=7)
    axes[1, 0].set_ylabel("rank by squared error", fontsize=7)
    for ax in axes.flat:
        ax.invert_yaxis()
    legend_below(figure, axes[0, 0], 6)
    return _save(figure, path)


def pairs(scored: Sequence[Scored], score: str, path: Path) -> Path | None:
    """The first engine against every other, one point per curve and cutoff (figures 11 and 12)."""
    first = scored[0].engine
    others = [engine for engine in dict.fromkeys(entry.engine for entry in scored) if engine != first]
    benchmarks = list(dict.fromkeys(entry.benchmark for entry in scored))
    if not others:
        return None
    figure, axes = _figure(len(others), len(benchmarks), 2.0, 2.0)
    for group in groups(scored):
        column = benchmarks.index(group[0].benchmark)
        own = next(entry for entry in group if entry.engine == first)
        for entry in group:
            if entry.engine != first:
                x, y = (_drawn(getattr(part, score), score) for part in shared_scores([own, entry]))
                label = f"{entry.share:.0%}"
                axes[others.index(entry.engine), column].scatter(x, y, s=3, alpha=0.4, linewidths=0, label=label)
    for row, other in enumerate(others):
        axes[row, 0].set_ylabel(other, fontsize=8)
        for column, benchmark in enumerate(benchmarks):
            _diagonal(axes[row, column])
            if row == 0:
                axes[row, column].set_title(benchmark, fontsize=8)
            if row == len(others) - 1:
                axes[row, column].set_xlabel(first, fontsize=8)
    axes[0, 0].legend(fontsize=6, frameon=False, markerscale=3)
    what = "log-likelihood (clipped at -10)" if score == "log_likelihood" else "log10 of the squared error"
    figure.suptitle(f"{what}, one point per curve and cutoff", fontsize=9)
    return _save(figure, path)


def _drawn(values: Any, score: str) -> Any:
    """Scores as they are drawn: single surprises of minus a thousand would hide all others."""
    return np.maximum(values, -10.0) if score == "log_likelihood" else np.log10(np.maximum(values, _SMALLEST_ERROR))


def _diagonal(ax: Any) -> None:
    low = min(ax.get_xlim()[0], ax.get_ylim()[0])
    high = max(ax.get_xlim()[1], ax.get_ylim()[1])
    ax.plot([low, high], [low, high], color=_INK, linewidth=0.6)


def pit(scored: Sequence[Scored], path: Path) -> Path:
    """Histograms of the cdf at one random value per curve, over all cutoffs; flat for a calibrated engine."""
    engines = list(dict.fromkeys(entry.engine for entry in scored))
    benchmarks = list(dict.fromkeys(entry.benchmark for entry in scored))
    figure, axes = _figure(len(engines), len(benchmarks), 1.6, 1.2)
    for row, engine in enumerate(engines):
        axes[row, 0].set_ylabel(engine, fontsize=7)
        for column, benchmark in enumerate(benchmarks):
            values = [e.scores.pit for e in scored if (e.benchmark, e.engine) == (benchmark, engine)]
            if values:
                axes[row, column].hist(np.concatenate(values), bins=20, range=(0, 1), density=True, color=_BLUE)
            axes[row, column].axhline(1.0, color=_INK, linewidth=0.6)
            axes[row, column].set_yticks([])
            if row == 0:
                axes[row, column].set_title(benchmark, fontsize=7)
    return _save(figure, path)


def examples(engine: Engine, curves: CurveSet, shares: Sequence[float], path: Path, seed: int = 0) -> Path | None:
    """Seven curves at every cutoff: what was seen, the median, the central 90 %, and the truth."""
    counts = [curves.seen_at(share) for share in shares]
    usable = np.flatnonzero(np.all([(count > 0) & (count < curves.lengths) for count in counts], axis=0))
    if len(usable) == 0:
        return None
    chosen = curves[usable].sample(_EXAMPLES, seed + 4)
    figure, axes = _figure(len(shares), len(chosen), 1.7, 1.4)
    for line, share in enumerate(shares):
        axes[line, 0].set_ylabel(f"{share:.0%} seen", fontsize=7)
        for column in range(len(chosen)):
            _example(axes[line, column], engine, chosen[[column]], share)
    figure.suptitle(f"{curves.name}: forecasts of {engine.name}, normalised", fontsize=9)
    return _save(figure, path)


def _example(ax: Any, engine: Engine, curve: CurveSet, share: float) -> None:
    count, length = int(curve.seen_at(share)[0]), int(curve.lengths[0])
    _, _, distribution = predict_rest(engine, curve, np.array([count]))
    steps, values = curve.step_grid[0, :length], curve.normalised[0, :length]
    low, median, high = (distribution.icdf(level)[0] for level in (0.05, 0.5, 0.95))
    ahead = steps[count:]
    ax.fill_between(ahead, low, high, color=_BAND, linewidth=0)
    ax.plot(ahead, median, color=_BLUE, linewidth=1.2)
    ax.plot(ahead, values[count:], color=_TRUTH, linewidth=0.8)
    ax.plot(steps[:count], values[:count], color=_INK, linewidth=1.0)
    spread = max(float(np.ptp(values)), 1e-3)
    ax.set_ylim(float(values.min()) - 0.4 * spread, float(values.max()) + 0.4 * spread)
    ax.set_xlim(0.0, float(curve.horizons[0]))
    ax.set_xticks([])
