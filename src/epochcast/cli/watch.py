"""`epochcast watch`: all runs below a directory, again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from epochcast.cli.metric import MetricWords
from epochcast.cli.options import (
    HardOption,
    HorizonOption,
    JsonOption,
    MinimizeOption,
    ModelOption,
    ScheduleOption,
    SoftOption,
    StepColumnOption,
    number,
)


def watch(
    directory: Annotated[Path, typer.Argument(help="where the trainings write their logs")],
    metric: Annotated[str, typer.Option("--metric", help="the metric's name in the logs, such as val_acc")],
    horizon: HorizonOption,
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="accuracy, error, log_loss, ...; append % for percentages; by default by its name"),
    ] = None,
    minimize: MinimizeOption = None,
    hard: HardOption = None,
    soft: SoftOption = None,
    confidence: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="a run is hopeless if it loses with this probability")
    ] = 0.95,
    best: Annotated[
        float | None, typer.Option(parser=number, metavar="NUMBER", help="a value to beat from elsewhere")
    ] = None,
    step_column: StepColumnOption = None,
    interval: Annotated[float, typer.Option(parser=number, metavar="NUMBER", help="seconds between two looks")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="look once instead of until interrupted")] = False,
    schedule: ScheduleOption = None,
    model: ModelOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Watch all runs below a directory: where each will end, and whether it can still win."""
    from epochcast.forecaster import Forecaster
    from epochcast.watch import Watcher
    from epochcast.watch.table import show

    measured = MetricWords(kind, minimize, hard, soft).metric(metric, "--kind")
    forecaster = Forecaster(model, schedule=schedule)
    options = {"confidence": confidence, "best": best, "step_column": step_column, "forecaster": forecaster}
    if once:
        options["most_bytes"] = 0  # nothing to remember for a second look
    watcher = Watcher(directory, metric, measured, horizon, **options)  # type: ignore[arg-type]
    show(watcher, Console(highlight=False), interval=interval, once=once, as_json=as_json)
