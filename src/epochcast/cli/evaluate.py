"""`epochcast evaluate`: how good the forecasts are on finished runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from epochcast.benchmarks import CurveSet, load
from epochcast.benchmarks.runs import Horizon
from epochcast.cli.metric import NOTHING_SAID, MetricOptions, monitored
from epochcast.cli.options import JsonOption, ModelOption, horizon_of_logs, takes_groups
from epochcast.console import as_json as json_text
from epochcast.console import floats, make_folder, progress, words
from epochcast.metric import Metric

SkipBadOption = Annotated[bool, typer.Option("--skip-bad", help="leave out and list what cannot be read")]


@takes_groups
def evaluate_real(
    data: Annotated[
        list[str] | None,
        typer.Option(help="a collection, a folder of them or of logs, or digits_bench (the default); may be repeated"),
    ] = None,
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
    jobs: Annotated[int, typer.Option(help="processes to compute with")] = 1,
    cache: Annotated[Path | None, typer.Option(help="file of finished scores, to go on from")] = None,
    out: Annotated[Path | None, typer.Option(help="folder for the report and its pictures")] = None,
    skip_bad: SkipBadOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score forecasts of real curves: likelihood, error, CRPS, coverage and ranks at every cutoff."""
    from epochcast.engines import load_engine
    from epochcast.experiments.estimate import flat
    from epochcast.experiments.harness import Harness, Store, Workers
    from epochcast.experiments.real.report import tables, write
    from epochcast.experiments.real.rows import rows_of
    from epochcast.experiments.real.study import Plan, chosen, prepared, run, used

    plan = Plan(tuple(words(engines)), tuple(floats(cutoffs)), curves, sampler_curves, tuple(words(sampled_on)), seed)
    make_folder(out)
    with progress("scoring") as advance:
        sets, left_out = read_collections(
            data or ["digits_bench"], said, skip_bad, "own" if horizon is None else horizon
        )
        collections = [part for curves in chosen(sets, words(benchmarks)) for part in prepared(curves, plan)]
        store = None if cache is None else Store(cache / "real.jsonl" if cache.is_dir() else cache)
        scored = run(collections, plan, Harness(store, Workers(jobs), advance))
    rows = rows_of(scored)
    for line in (*left_out, *used(collections, scored)):
        typer.echo(line, err=True)
    if out is not None:
        command = shlex.join(["epochcast", *sys.argv[1:]])
        with progress("drawing"):
            written = write(out, collections, scored, rows, plan, load_engine(plan.engines[0]), command)
        typer.echo(f"wrote {written}", err=True)
    if as_json:
        typer.echo(json_text(list(map(flat, rows))))
    else:
        Console().print(*tables(rows))


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
    cache: Annotated[Path | None, typer.Option(help="file of finished tasks, to go on from")] = None,
    jobs: Annotated[int, typer.Option(help="processes to compute with")] = 1,
    out: Annotated[Path | None, typer.Option(help="folder for the tables and pictures")] = None,
    skip_bad: SkipBadOption = False,
    as_json: JsonOption = False,
) -> None:
    """Replay model selection on finished runs: what stopping rules save, and how often they err."""
    from epochcast.experiments.harness import Harness, Store, Workers
    from epochcast.experiments.stopping.replay import Settings
    from epochcast.experiments.stopping.report import summary_table, write
    from epochcast.experiments.stopping.study import files_in, run
    from epochcast.experiments.task_runs import tasks_of, used

    settings = Settings(orders, confidences=tuple(floats(confidence)), curves=curves, seed=seed)
    make_folder(out)
    store = None if cache is None else Store(cache)
    with progress(f"{model} on the tasks") as advance:
        files = files_in(data, None if benchmarks is None else words(benchmarks))
        sets, left_out = read_collections(files, said, skip_bad, "longest" if horizon is None else horizon)
        replayed = tasks_of(sets, words(tasks), settings.curves, settings.seed)
        results = run(replayed, model, settings, Harness(store, Workers(jobs), advance))
    for line in (*left_out, *used(replayed)):
        typer.echo(line, err=True)
    if out is not None:
        with progress("drawing"):
            write(results, out)
        typer.echo(f"wrote {out}", err=True)
    if as_json:
        typer.echo(json_text([row for result in results for row in result.rows]))
    else:
        typer.echo(summary_table(results))


def read_collections(
    paths: Sequence[str | Path], said: MetricOptions, skip_bad: bool, horizon: Horizon
) -> tuple[list[CurveSet], list[str]]:
    """The collections at some paths, and what was left out of them."""
    monitor, metric = _measured(said)
    found = [load(path, monitor=monitor, metric=metric, skip_bad=skip_bad, horizon=horizon) for path in paths]
    sets = [curves for collection in found for curves in collection.sets]
    return sets, [f"left out {item}" for collection in found for item in collection.skipped]


def _measured(said: MetricOptions) -> tuple[str | None, Metric | None]:
    """Which metric of the files to take, and what it measures, where the options say it."""
    name, words = monitored(said)
    if name is None:  # of collections, a preset names the metric, too
        name, words = said.metric, None
    described = words is not None or said.own
    return name, said.measured(words, name or "metric") if described else None
