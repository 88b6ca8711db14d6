"""`epochcast demo`: runs that ship, forecast from their first epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from epochcast.cli.forecast import show
from epochcast.console import plain_table, progress
from epochcast.forecast import Forecast
from epochcast.forecaster import Forecaster
from epochcast.logs import read_column
from epochcast.plots import check_picture, panels, save_picture

FOLDER = Path(__file__).parents[1] / "data" / "runs"
SEEN = 10

# file, column, metric, what it is; made by examples/train_runs.py
_RUNS = (
    ("digits_mlp", "val_acc", "accuracy", "an MLP on handwritten digits"),
    ("digits_cnn_cosine", "val_acc", "accuracy", "a CNN with a cosine schedule"),
    ("digits_mlp_step", "val_acc", "accuracy", "an MLP whose learning rate drops twice"),
    ("letters_rnn", "val_acc", "accuracy", "a recurrent network on letter sequences"),
    ("wine_too_slow", "val_acc", "accuracy", "a learning rate far too small"),
    ("breast_cancer_logistic", "val_loss", "log_loss", "logistic regression"),
    ("digits_overfit", "val_loss", "log_loss", "a network that overfits"),
    ("digits_diverging", "val_acc", "accuracy", "a learning rate that grows until it is too large"),
)


def demo(
    plot: Annotated[Path | None, typer.Option(help="also write the fan charts of all runs to this file")] = None,
) -> None:
    """Forecast runs that ship with epochcast from their first ten epochs, and show what really came."""
    if plot is not None:
        check_picture(plot)
    console = Console(highlight=False)
    runs = demo_runs()
    with progress("forecasting") as advance:
        forecaster = Forecaster()
        forecasts: list[Forecast] = []
        for run in runs:
            advance(len(forecasts), len(runs))
            forecasts.append(forecaster.forecast(run.values[:SEEN], len(run.values), run.metric))
    first = runs[0]
    console.print(f"[bold]{first.name}[/bold]: {first.about}, seen for {SEEN} of {len(first.values)} epochs\n")
    show(forecasts[0], (np.arange(SEEN + 1.0, len(first.values) + 1.0), first.values[SEEN:]), None)
    headings = ("run", "metric", "now", "median", "90 % interval", "truth")
    table = plain_table(headings, f"all runs, each seen for {SEEN} epochs", left=("run", "metric"))
    for run, forecast in zip(runs, forecasts, strict=True):
        low, high = forecast.final.interval(0.9)
        ends = (f"{forecast.final.median():.3f}", f"{low:.3f} to {high:.3f}", f"{run.values[-1]:.3f}")
        table.add_row(run.name, run.metric, f"{run.values[SEEN - 1]:.3f}", *ends)
    console.print(table)
    if plot is not None:
        with progress("drawing") as advance:
            draw_runs(runs, forecasts, plot, advance)
        console.print(f"wrote {plot}", markup=False)


@dataclass(frozen=True)
class DemoRun:
    """A finished run: one metric per epoch, from epoch 1 on."""

    name: str
    metric: str
    about: str
    values: NDArray[np.float64]


def demo_runs() -> list[DemoRun]:
    """All runs of the demo, the plainest first."""
    return [
        DemoRun(name, metric, about, np.asarray(read_column(FOLDER / f"{name}.csv", column).values))
        for name, column, metric, about in _RUNS
    ]


def draw_runs(runs: list[DemoRun], forecasts: list[Forecast], path: Path, advance: Callable[[int, int], None]) -> None:
    """Fan charts of all runs in one picture, each with what really came."""
    columns = 3
    lines = -(-len(runs) // columns)
    figure, axes = panels(lines, columns, 4.6, 3.2)
    for done, (ax, run, forecast) in enumerate(zip(axes.flat, runs, forecasts, strict=False)):
        advance(done, len(runs))
        forecast.plot(ax, truth=run.values, title=run.about, legend=False)
    for ax in list(axes.flat)[len(runs) :]:  # the first panel left over holds the legend of all
        ax.set_axis_off()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    axes[-1, -1].legend(handles, labels, loc="center", frameon=False)
    save_picture(figure, path, dpi=130)
