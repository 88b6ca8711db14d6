"""`epochcast evaluate search`: searches replayed on recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epochcast.cli.evaluate import SkipBadOption, read_collections
from epochcast.cli.metric import NOTHING_SAID, MetricOptions
from epochcast.cli.options import JsonOption, ModelOption, horizon_of_logs, takes_groups
from epochcast.console import as_json as json_text
from epochcast.console import make_folder, progress, words


@takes_groups
def evaluate_search(
    data: Annotated[
        list[str] | None,
        typer.Option(help="a collection, a folder of them or of logs, or digits_bench (the default); may be repeated"),
    ] = None,
    searches: Annotated[str, typer.Option(help="only these searches, separated by commas; all by default")] = "",
    model: ModelOption = "default",
    tasks: Annotated[str, typer.Option(help="only these tasks, separated by commas")] = "",
    said: MetricOptions = NOTHING_SAID,
    horizon: Annotated[int | None, horizon_of_logs("that of the longest")] = None,
    orders: Annotated[int, typer.Option(help="random orders of the runs, per task")] = 5,
    budget: Annotated[int, typer.Option(help="of each search, in full runs")] = 20,
    curves: Annotated[int | None, typer.Option(help="runs per task, drawn at random; all by default")] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the orders")] = 0,
    cache: Annotated[Path | None, typer.Option(help="file of finished searches, to go on from")] = None,
    jobs: Annotated[int, typer.Option(help="processes to compute with")] = 1,
    out: Annotated[Path | None, typer.Option(help="folder for the tables and pictures")] = None,
    skip_bad: SkipBadOption = False,
    as_json: JsonOption = False,
) -> None:
    """Replay searches on recorded runs: stopping rules, successive halving and freeze-thaw in the same orders."""
    from epochcast.experiments.harness import Harness, Store, Workers
    from epochcast.experiments.search.report import summary_table, write
    from epochcast.experiments.search.row import rows_of
    from epochcast.experiments.search.study import Settings, left_out, run
    from epochcast.experiments.task_runs import tasks_of, used

    settings = Settings(tuple(words(searches)), model, orders, budget, seed)
    make_folder(out)
    store = None if cache is None else Store(cache)
    with progress("replaying") as advance:
        paths = data or ["digits_bench"]
        sets, skipped = read_collections(paths, said, skip_bad, "longest" if horizon is None else horizon)
        replayed = tasks_of(sets, words(tasks), curves, seed)
        results = run(replayed, settings, Harness(store, Workers(jobs), advance))
    for line in (*skipped, *used(replayed), *left_out(replayed, settings)):
        typer.echo(line, err=True)
    if out is not None:
        with progress("drawing"):
            write(results, out)
        typer.echo(f"wrote {out}", err=True)
    typer.echo(json_text(rows_of(results)) if as_json else summary_table(results))
