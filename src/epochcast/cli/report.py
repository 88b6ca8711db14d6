"""`epochcast report`: all runs below a directory as one page in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epochcast.cli.metric import MetricOptions, takes_metric, watched_metric
from epochcast.cli.options import HorizonOption, ModelOption, ScheduleOption, StepColumnOption, number
from epochcast.console import progress
from epochcast.errors import InputError


@takes_metric
def report(
    directory: Annotated[Path, typer.Argument(help="where the trainings wrote their logs")],
    horizon: HorizonOption,
    out: Annotated[Path, typer.Option(help="the file to write, such as report.html")],
    said: MetricOptions,
    confidence: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="a run is hopeless if it loses with this probability")
    ] = 0.95,
    best: Annotated[
        float | None, typer.Option(parser=number, metavar="NUMBER", help="a value to beat from elsewhere")
    ] = None,
    step_column: StepColumnOption = None,
    schedule: ScheduleOption = None,
    model: ModelOption = "default",
) -> None:
    """Write all runs below a directory, as they are now, into one HTML file that opens without a network."""
    from epochcast.forecaster import Forecaster
    from epochcast.watch import Watcher
    from epochcast.web.report import check_report, report_of, write_report

    check_report(out)
    name, measured = watched_metric(said)
    watcher = Watcher(
        directory,
        name,
        measured,
        horizon,
        confidence=confidence,
        best=best,
        step_column=step_column,
        forecaster=Forecaster(model, schedule=schedule),
        most_bytes=0,  # there is no second look
    )
    with progress("reading") as advance:
        snapshot = watcher.refresh(lambda _, done, total: advance(done, total))
    if snapshot.problem is not None:
        raise InputError(snapshot.problem)
    with progress("looking at each run") as advance:
        page = report_of(watcher, snapshot, advance)
    write_report(page, out)
    typer.echo(f"wrote {out}: {len(snapshot.rows)} run{'s' * (len(snapshot.rows) > 1)}, {len(page) / 1e6:.1f} MB")
