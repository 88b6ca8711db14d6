"""`epochcast evaluate search`: searches replayed on recorded runs."""

from __future__ import annotations

from typing import Annotated

import typer

from epochcast.cli.evaluation import PLAIN, SHIPPED, DataOption, Evaluation
from epochcast.cli.metric import NOTHING_SAID, MetricOptions
from epochcast.cli.options import ModelOption, horizon_of_logs, takes_groups
from epochcast.console import make_folder, progress, words


@takes_groups
def evaluate_search(
    data: DataOption = None,
    searches: Annotated[str, typer.Option(help="only these searches, separated by commas; all by default")] = "",
    model: ModelOption = "default",
    tasks: Annotated[str, typer.Option(help="only these tasks, separated by commas")] = "",
    said: MetricOptions = NOTHING_SAID,
    horizon: Annotated[int | None, horizon_of_logs("that of the longest")] = None,
    orders: Annotated[int, typer.Option(help="random orders of the runs, per task")] = 5,
    budget: Annotated[int, typer.Option(help="of each search, in full runs")] = 20,
    curves: Annotated[int | None, typer.Option(help="runs per task, drawn at random; all by default")] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the orders")] = 0,
    evaluation: Evaluation = PLAIN,
) -> None:
    """Replay searches on recorded runs: stopping rules, successive halving and freeze-thaw in the same orders."""
    from epochcast.experiments.search.report import summary_table, write
    from epochcast.experiments.search.row import rows_of
    from epochcast.experiments.search.study import Settings, left_out, run
    from epochcast.experiments.task_runs import tasks_of, used

    settings = Settings(tuple(words(searches)), model, orders, budget, seed)
    make_folder(evaluation.out)
    with progress("replaying") as advance:
        sets, skipped = evaluation.read(data or SHIPPED, said, "longest" if horizon is None else horizon)
        replayed = tasks_of(sets, words(tasks), curves, seed)
        results = run(replayed, settings, evaluation.harness("search", advance))
    evaluation.finish(
        [*skipped, *used(replayed), *left_out(replayed, settings)],
        lambda out: write(results, out),
        rows_of(results),
        lambda: typer.echo(summary_table(results)),
    )
