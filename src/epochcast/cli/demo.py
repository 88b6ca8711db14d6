"""`epochcast demo`: runs that ship, forecast from their first epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from epochcast.cli.demo_runs import SEEN, demo_runs, draw_runs
from epochcast.cli.forecast import show
from epochcast.console import plain_table, progress
from epochcast.forecast import Forecast
from epochcast.forecaster import Forecaster
from epochcast.plots import check_picture


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
    table = plain_table(f"all runs, each seen for {SEEN} epochs")
    for heading in ("run", "metric", "now", "median", "90 % interval", "truth"):
        table.add_column(heading, justify="left" if heading in ("run", "metric") else "right", no_wrap=True)
    for run, forecast in zip(runs, forecasts, strict=True):
        low, high = forecast.final.interval(0.9)
        ends = (f"{forecast.final.median():.3f}", f"{low:.3f} to {high:.3f}", f"{run.values[-1]:.3f}")
        table.add_row(run.name, run.metric, f"{run.values[SEEN - 1]:.3f}", *ends)
    console.print(table)
    if plot is not None:
        with progress("drawing") as advance:
            draw_runs(runs, forecasts, plot, advance)
        console.print(f"wrote {plot}", markup=False)
