"""`epochcast watch`: all runs below a directory, again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from epochcast.cli.metric import MetricOptions
from epochcast.cli.options import JsonOption, number, takes_groups, whole
from epochcast.cli.watched_runs import WatchedRuns
from epochcast.errors import InputError, MissingExtraError


@takes_groups
def watch(
    directory: Annotated[Path, typer.Argument(help="where the trainings write their logs")],
    runs: WatchedRuns,
    said: MetricOptions,
    interval: Annotated[float, number("seconds between two looks")] = 2.0,
    together: Annotated[
        bool, typer.Option("--together/--alone", help="forecast each run beside all others, or by itself")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="look once instead of until interrupted")] = False,
    as_json: JsonOption = False,
    web: Annotated[bool, typer.Option("--web", help="show a page in the browser that stays live")] = False,
    port: Annotated[int | None, whole("of the page; by default 8421, or the next free")] = None,
    host: Annotated[str, typer.Option(help="of the page; another than 127.0.0.1 asks for a token")] = "127.0.0.1",
    token: Annotated[bool, typer.Option("--token", help="ask for a token on 127.0.0.1, too")] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="do not open a browser")] = False,
) -> None:
    """Watch all runs below a directory: where each will end, and whether it can still win."""
    from epochcast.runtime.kv_cache import MOST_BYTES
    from epochcast.watch.table import show

    if web and (once or as_json):
        raise InputError("--web shows a page that stays live; leave --once and --json out")
    # Of a single look there is nothing to remember.
    watcher = runs.watcher(directory, said, alone=not together, most_bytes=0 if once else MOST_BYTES)
    console = Console(highlight=False)
    if web:
        try:
            from epochcast.web.serve import serve
        except ImportError as error:
            raise MissingExtraError(error.name or "starlette", "web") from None
        serve(watcher, console, interval=interval, host=host, port=port, ask_token=token, open_browser=not no_open)
    else:
        show(watcher, console, interval=interval, once=once, as_json=as_json)
