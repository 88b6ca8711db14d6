"""`epochcast report`: all runs below a directory as one page in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epochcast.cli.metric import MetricOptions
from epochcast.cli.options import takes_groups
from epochcast.cli.watched_runs import WatchedRuns
from epochcast.console import progress
from epochcast.errors import InputError


@takes_groups
def report(
    directory: Annotated[Path, typer.Argument(help="where the trainings wrote their logs")],
    out: Annotated[Path, typer.Option(help="the file to write, such as report.html")],
    runs: WatchedRuns,
    said: MetricOptions,
) -> None:
    """Write all runs below a directory, as they are now, into one HTML file that opens without a network."""
    from epochcast.web.report import check_report, report_of, write_report

    check_report(out)
    watcher = runs.watcher(directory, said, most_bytes=0)  # there is no second look
    with progress("reading") as advance:
        snapshot = watcher.refresh(lambda _, done, total: advance(done, total))
    if snapshot.problem is not None:
        raise InputError(snapshot.problem)
    with progress("looking at each run") as advance:
        page = report_of(watcher, snapshot, advance)
    write_report(page, out)
    typer.echo(f"wrote {out}: {len(snapshot.rows)} run{'s' * (len(snapshot.rows) > 1)}, {len(page) / 1e6:.1f} MB")
