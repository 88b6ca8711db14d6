"""`epochcast watch`: all runs below a directory, again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from epochcast.cli.metric import MetricOptions, monitored, takes_metric
from epochcast.cli.options import HorizonOption, JsonOption, ModelOption, ScheduleOption, StepColumnOption, number
from epochcast.errors import InputError


@takes_metric
def watch(
    directory: Annotated[Path, typer.Argument(help="where the trainings write their logs")],
    horizon: HorizonOption,
    said: MetricOptions,
    confidence: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="a run is hopeless if it loses with this probability")
    ] = 0.95,
    best: Annotated[
        float | None, typer.Option(parser=number, metavar="NUMBER", help="a value to beat from elsewhere")
    ] = None,
    step_column: StepColumnOption = None,
    interval: Annotated[float, typer.Option(parser=number, metavar="NUMBER", help="seconds between two looks")] = 2.0,
    alone: Annotated[
        bool, typer.Option("--alone", help="forecast each run by itself, whatever the others show")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="look once instead of until interrupted")] = False,
    schedule: ScheduleOption = None,
    model: ModelOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Watch all runs below a directory: where each will end, and whether it can still win."""
    from epochcast.forecaster import Forecaster
    from epochcast.watch import Watcher
    from epochcast.watch.table import show

    name, words = monitored(said)
    if name is None and said.metric is None:
        raise InputError("say which metric to watch: --monitor and the name under which it is logged, such as val_acc")
    name = name or str(said.metric)
    measured = said.words(words).metric(name)
    forecaster = Forecaster(model, schedule=schedule)
    options = {
        "confidence": confidence,
        "best": best,
        "step_column": step_column,
        "forecaster": forecaster,
        "alone": alone,
    }
    if once:
        options["most_bytes"] = 0  # nothing to remember for a second look
    watcher = Watcher(directory, name, measured, horizon, **options)  # type: ignore[arg-type]
    show(watcher, Console(highlight=False), interval=interval, once=once, as_json=as_json)
