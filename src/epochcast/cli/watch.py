"""`epochcast watch`: all runs below a directory, again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from epochcast.cli.metric import MetricOptions, takes_metric, watched_metric
from epochcast.cli.options import (
    HorizonOption,
    JsonOption,
    ModelOption,
    ScheduleOption,
    StepColumnOption,
    number,
    whole,
)
from epochcast.errors import InputError, MissingExtraError


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
    together: Annotated[
        bool, typer.Option("--together/--alone", help="forecast each run beside all others, or by itself")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="look once instead of until interrupted")] = False,
    schedule: ScheduleOption = None,
    model: ModelOption = "default",
    as_json: JsonOption = False,
    web: Annotated[bool, typer.Option("--web", help="show a page in the browser that stays live")] = False,
    port: Annotated[
        int | None, typer.Option(parser=whole, metavar="INTEGER", help="of the page; by default 8421, or the next free")
    ] = None,
    host: Annotated[str, typer.Option(help="of the page; another than 127.0.0.1 asks for a token")] = "127.0.0.1",
    token: Annotated[bool, typer.Option("--token", help="ask for a token on 127.0.0.1, too")] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="do not open a browser")] = False,
) -> None:
    """Watch all runs below a directory: where each will end, and whether it can still win."""
    from epochcast.forecaster import Forecaster
    from epochcast.watch import Watcher
    from epochcast.watch.table import show

    if web and (once or as_json):
        raise InputError("--web shows a page that stays live; leave --once and --json out")
    name, measured = watched_metric(said)
    forecaster = Forecaster(model, schedule=schedule)
    options = {
        "confidence": confidence,
        "best": best,
        "step_column": step_column,
        "forecaster": forecaster,
        "alone": not together,
    }
    if once:
        options["most_bytes"] = 0  # nothing to remember for a second look
    watcher = Watcher(directory, name, measured, horizon, **options)  # type: ignore[arg-type]
    console = Console(highlight=False)
    if web:
        try:
            from epochcast.web.serve import serve
        except ImportError as error:
            raise MissingExtraError(error.name or "starlette", "web") from None
        serve(watcher, console, interval=interval, host=host, port=port, ask_token=token, open_browser=not no_open)
    else:
        show(watcher, console, interval=interval, once=once, as_json=as_json)
