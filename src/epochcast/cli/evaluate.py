"""`epochcast evaluate`: how good the forecasts are on finished runs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from epochcast.cli.evaluation import PLAIN, SHIPPED, DataOption, Evaluation
from epochcast.cli.metric import NOTHING_SAID, MetricOptions
from epochcast.cli.options import ModelOption, horizon_of_logs, takes_groups
from epochcast.console import floats, make_folder, progress, words


@takes_groups
def evaluate_real(
    data: DataOption = None,
    engines: Annotated[str, typer.Option(help="models, baselines, samplers; the first is compared with the others")] = (
        "default,last-value,power-law,empirical-gp"
    ),
    curves: Annotated[int, typer.Option(help="curves of each collection, drawn at random")] = 5_000,
    cutoffs: Annotated[str, typer.Option(help="shares of the horizon that are seen")] = "0.1,0.2,0.4,0.8",
    benchmarks: Annotated[str, typer.Option(help="only these collections, separated by commas")] = "",
    sampler_curves: Annotated[int, typer.Option(help="of these curves, how many samplers work on")] = 40,
    sampled_on: Annotated[str, typer.Option(help="collections that samplers work on; all by default")] = "",
    said: MetricOptions = NOTHING_SAID,
    horizon: Annotated[int | None, horizon_of_logs("each one's own last")] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the curves")] = 0,
    evaluation: Evaluation = PLAIN,
) -> None:
    """Score forecasts of real curves: likelihood, error, CRPS, coverage and ranks at every cutoff."""
    from epochcast.engines import load_engine
    from epochcast.experiments.estimate import flat
    from epochcast.experiments.real.report import tables, write
    from epochcast.experiments.real.rows import rows_of
    from epochcast.experiments.real.study import Plan, chosen, prepared, run, used

    plan = Plan(tuple(words(engines)), tuple(floats(cutoffs)), curves, sampler_curves, tuple(words(sampled_on)), seed)
    make_folder(evaluation.out)
    with progress("scoring") as advance:
        sets, left_out = evaluation.read(data or SHIPPED, said, "own" if horizon is None else horizon)
        collections = [part for curves in chosen(sets, words(benchmarks)) for part in prepared(curves, plan)]
        scored = run(collections, plan, evaluation.harness("real", advance))
    rows = rows_of(scored)
    command = shlex.join(["epochcast", *sys.argv[1:]])
    evaluation.finish(
        [*left_out, *used(collections, scored)],
        lambda out: write(out, collections, scored, rows, plan, load_engine(plan.engines[0]), command),
        list(map(flat, rows)),
        lambda: Console().print(*tables(rows)),
    )


@takes_groups
def evaluate_stopping(
    data: Annotated[
        Path, typer.Option(help="a folder of collections or of logs, one file of any known format, or digits_bench")
    ],
    model: ModelOption = "default",
    benchmarks: Annotated[
        str | None, typer.Option(help="collections of the folder; lcbench, taskset and nasbench201 where it has them")
    ] = None,
    tasks: Annotated[str, typer.Option(help="only these tasks, separated by commas")] = "",
    said: MetricOptions = NOTHING_SAID,
    horizon: Annotated[int | None, horizon_of_logs("that of the longest")] = None,
    confidence: Annotated[str, typer.Option(help="confidences of the rule")] = "0.9,0.95,0.99,0.999",
    orders: Annotated[int, typer.Option(help="random orders of the runs, per task")] = 40,
    curves: Annotated[int | None, typer.Option(help="runs per task, drawn at random; all by default")] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the orders")] = 0,
    evaluation: Evaluation = PLAIN,
) -> None:
    """Replay model selection on finished runs: what stopping rules save, and how often they err."""
    from epochcast.experiments.stopping.replay import Settings
    from epochcast.experiments.stopping.report import summary_table, write
    from epochcast.experiments.stopping.study import files_in, run
    from epochcast.experiments.task_runs import tasks_of, used

    settings = Settings(orders, confidences=tuple(floats(confidence)), curves=curves, seed=seed)
    make_folder(evaluation.out)
    with progress(f"{model} on the tasks") as advance:
        files = files_in(data, None if benchmarks is None else words(benchmarks))
        sets, left_out = evaluation.read(files, said, "longest" if horizon is None else horizon)
        replayed = tasks_of(sets, words(tasks), settings.curves, settings.seed)
        results = run(replayed, model, settings, evaluation.harness("stopping", advance))
    evaluation.finish(
        [*left_out, *used(replayed)],
        lambda out: write(results, out),
        [row for result in results for row in result.rows],
        lambda: typer.echo(summary_table(results)),
    )
