"""The command line: thin commands over the library. Bad input ends with one clear line and exit code 2."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console

from epochcast.console import floats, plain_table, progress, words
from epochcast.errors import EpochcastError, InputError
from epochcast.experiments.prior_command import evaluate_prior

if TYPE_CHECKING:
    from epochcast.forecast import Forecast

app = typer.Typer(
    name="epochcast",
    help="Where will this training run end? Calibrated forecasts of learning curves after a few epochs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
evaluate_app = typer.Typer(help="Measure how good the forecasts are.", no_args_is_help=True)
app.add_typer(evaluate_app, name="evaluate")

MetricOption = Annotated[str, typer.Option("--metric", help="accuracy, error, log_loss, ...; append % for percentages")]
HorizonOption = Annotated[int, typer.Option("--horizon", help="the step at which the run is planned to end")]
ModelOption = Annotated[str, typer.Option("--model", help="a shipped model, or the path of an .onnx file")]
ScheduleOption = Annotated[
    str | None,
    typer.Option("--schedule", help="the learning rate: constant, cosine, linear,warmup=5, drops,at=60/80, ..."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]


def main() -> None:
    """Run the command line; the user's mistakes become one line and exit code 2."""
    try:
        app()
    except EpochcastError as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(f"epochcast: {error}", markup=False)
        sys.exit(2)


@app.command()
def forecast(
    source: Annotated[str, typer.Argument(help="a CSV file or a file of plain numbers; - reads standard input")],
    horizon: HorizonOption,
    metric: MetricOption,
    column: Annotated[str | None, typer.Option(help="the column to forecast, if the file has several")] = None,
    kind: Annotated[
        str | None, typer.Option(help="as for watch: accuracy, log_loss, ..., if --metric names the column")
    ] = None,
    cutoff: Annotated[
        int | None, typer.Option(help="use only the first values; the rest is drawn as the truth")
    ] = None,
    untrained: Annotated[float | None, typer.Option(help="the metric of the untrained model, for losses")] = None,
    best: Annotated[float | None, typer.Option(help="report the probability to beat this value")] = None,
    missing: Annotated[str, typer.Option(help="what to do with NaN: error or drop")] = "error",
    schedule: ScheduleOption = None,
    model: ModelOption = "default",
    plot: Annotated[Path | None, typer.Option(help="write a fan chart to this file")] = None,
    as_json: JsonOption = False,
) -> None:
    """Forecast the rest of a run from its first values."""
    from epochcast.forecaster import Forecaster
    from epochcast.logs import read_column

    if kind is not None:
        if column is not None:
            raise InputError(f"with --kind, --metric {metric} names the column; leave --column {column} out")
        column, metric = metric, kind
    series = read_column(source, column)
    steps, values = np.asarray(series.steps), np.asarray(series.values)
    if len(values) == 0:
        raise InputError(f"{source} holds no values in column {series.name!r}")
    if cutoff is not None and not 1 <= cutoff <= len(values):
        raise InputError(f"cutoff={cutoff} must be between 1 and the {len(values)} values of {source}")
    seen = slice(None, cutoff)
    result = Forecaster(model, schedule=schedule).forecast(
        values[seen],
        horizon,
        metric,
        steps[seen],
        missing=missing,  # type: ignore[arg-type]  # checked by the library
        untrained=untrained,
    )
    for note in series.run.notes:
        typer.echo(f"note: {note}", err=True)
    truth = (steps[cutoff:], values[cutoff:]) if cutoff is not None and cutoff < len(values) else None
    if plot is not None:
        _save_plot(result, plot, values if truth else None)
    if as_json:
        extra = {} if best is None else {"prob_better": result.prob_better(best).tolist()}
        typer.echo(json.dumps(result.to_dict() | extra))
        return
    _show(result, truth, best)


@app.command()
def demo(
    plot: Annotated[Path | None, typer.Option(help="also write the fan charts of all runs to this file")] = None,
) -> None:
    """Forecast runs that ship with epochcast from their first ten epochs, and show what really came."""
    from epochcast.demo import demo_runs
    from epochcast.forecaster import Forecaster

    console = Console(highlight=False)
    forecaster = Forecaster()
    runs = demo_runs()
    for run in runs[:1]:
        result = forecaster.forecast(run.values[:10], len(run.values), run.metric)
        console.print(f"[bold]{run.name}[/bold]: {run.about}, seen for 10 of {len(run.values)} epochs\n")
        _show(result, (np.arange(11.0, len(run.values) + 1.0), run.values[10:]), None)
    table = plain_table("all runs, each seen for 10 epochs")
    for heading in ("run", "metric", "now", "median", "90 % interval", "came"):
        table.add_column(heading, justify="left" if heading in ("run", "metric") else "right", no_wrap=True)
    for run in runs:
        final = forecaster.forecast(run.values[:10], len(run.values), run.metric).final
        low, high = final.interval(0.9)
        cells = (f"{run.values[9]:.3f}", f"{final.median():.3f}", f"{low:.3f} to {high:.3f}", f"{run.values[-1]:.3f}")
        table.add_row(run.name, run.metric, *cells)
    console.print(table)
    if plot is not None:
        from epochcast.demo import draw_runs

        draw_runs(forecaster, runs, plot)
        console.print(f"wrote {plot}")


@app.command()
def watch(
    directory: Annotated[Path, typer.Argument(help="where the trainings write their logs")],
    metric: Annotated[str, typer.Option("--metric", help="the metric's name in the logs, such as val_acc")],
    kind: Annotated[str, typer.Option("--kind", help="accuracy, error, log_loss, ...; append % for percentages")],
    horizon: HorizonOption,
    confidence: Annotated[float, typer.Option(help="a run is hopeless if it loses with this probability")] = 0.95,
    best: Annotated[float | None, typer.Option(help="a value to beat from elsewhere")] = None,
    step_column: Annotated[str | None, typer.Option(help="the column that counts the steps, if not found")] = None,
    interval: Annotated[float, typer.Option(help="seconds between two looks")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="look once instead of until interrupted")] = False,
    schedule: ScheduleOption = None,
    model: ModelOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Watch all runs below a directory: where each will end, and whether it can still win."""
    from epochcast.forecaster import Forecaster
    from epochcast.watch import Watcher
    from epochcast.watch.table import show

    forecaster = Forecaster(model, schedule=schedule)
    options = {"confidence": confidence, "best": best, "step_column": step_column, "forecaster": forecaster}
    if once:
        options["most_bytes"] = 0  # nothing to remember for a second look
    watcher = Watcher(directory, metric, kind, horizon, **options)  # type: ignore[arg-type]
    show(watcher, Console(highlight=False), interval=interval, once=once, as_json=as_json)


@app.command()
def models(
    name: Annotated[str | None, typer.Argument(help="show the card of one model")] = None, as_json: JsonOption = False
) -> None:
    """List the models that ship, or show the card of one."""
    from epochcast.weights import find, registry

    if name is not None:
        card = find(name).card
        typer.echo(json.dumps(card, indent=2))
        return
    if as_json:
        typer.echo(json.dumps(registry()))
        return
    table = plain_table()
    for heading in ("model", "prior", "weights", "about"):
        table.add_column(heading, no_wrap=heading != "about", justify="right" if heading == "weights" else "left")
    for known, entry in sorted(registry()["models"].items()):
        card = entry["card"]
        title = f"{known} (default)" if known == registry()["default"] else known
        table.add_row(title, card.get("prior", ""), f"{card.get('weights', 0):,}", card.get("about", ""))
    Console().print(table)
    typer.echo("epochcast models NAME shows a model's card: its recipe, what it cost, what it scores")


evaluate_app.command("prior")(evaluate_prior)


@evaluate_app.command("real")
def evaluate_real(
    data: Annotated[
        list[str] | None,
        typer.Option(help="a collection, a folder of them, or digits_bench (the default); may be repeated"),
    ] = None,
    engines: Annotated[str, typer.Option(help="models, baselines, samplers; the first is compared with the others")] = (
        "default,last-value,power-law,empirical-gp"
    ),
    curves: Annotated[int, typer.Option(help="curves of each collection, drawn at random")] = 5_000,
    cutoffs: Annotated[str, typer.Option(help="shares of the horizon that are seen")] = "0.1,0.2,0.4,0.8",
    benchmarks: Annotated[str, typer.Option(help="only these collections, separated by commas")] = "",
    sampler_curves: Annotated[int, typer.Option(help="of these curves, how many samplers work on")] = 40,
    sampled_on: Annotated[str, typer.Option(help="collections that samplers work on; all by default")] = "",
    metric: Annotated[str | None, typer.Option(help="which metric of the files to take, by its name there")] = None,
    kind: Annotated[str | None, typer.Option(help="what a column of logs measures: accuracy, log_loss, ...")] = None,
    seed: Annotated[int, typer.Option(help="seed of the curves")] = 0,
    jobs: Annotated[int, typer.Option(help="processes to compute with")] = 1,
    cache: Annotated[Path | None, typer.Option(help="file of finished scores, to go on from")] = None,
    out: Annotated[Path | None, typer.Option(help="folder for the report and its pictures")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="leave out and list what cannot be read")] = False,
    as_json: JsonOption = False,
) -> None:
    """Score forecasts of real curves: likelihood, error, CRPS, coverage and ranks at every cutoff."""
    from epochcast.experiments.real_command import Request, report, study
    from epochcast.experiments.real_study import Plan

    plan = Plan(tuple(words(engines)), tuple(floats(cutoffs)), curves, sampler_curves, tuple(words(sampled_on)), seed)
    request = Request(tuple(data or ["digits_bench"]), plan, tuple(words(benchmarks)), metric, kind, skip_bad)
    with progress("scoring") as advance:
        findings = study(request, cache, jobs, advance)
    for line in findings.left_out:
        typer.echo(f"left out {line}", err=True)
    if out is not None:
        typer.echo(f"wrote {report(findings, out)}", err=True)
    if as_json:
        typer.echo(json.dumps([row.to_dict() for row in findings.rows]))
    else:
        Console().print(*findings.tables())


@evaluate_app.command("stopping")
def evaluate_stopping(
    data: Annotated[
        Path, typer.Option(help="a folder of learning-curve collections, one file of any known format, or digits_bench")
    ],
    model: ModelOption = "default",
    benchmarks: Annotated[
        str, typer.Option(help="collections to take from the folder")
    ] = "lcbench,taskset,nasbench201",
    tasks: Annotated[str, typer.Option(help="only these tasks, separated by commas")] = "",
    confidence: Annotated[str, typer.Option(help="confidences of the rule")] = "0.9,0.95,0.99,0.999",
    orders: Annotated[int, typer.Option(help="random orders of the runs, per task")] = 40,
    curves: Annotated[int | None, typer.Option(help="runs per task, drawn at random; all by default")] = None,
    seed: Annotated[int, typer.Option(help="seed of the orders")] = 0,
    cache: Annotated[Path | None, typer.Option(help="file of finished tasks, to go on from")] = None,
    jobs: Annotated[int, typer.Option(help="processes to compute with")] = 1,
    out: Annotated[Path | None, typer.Option(help="folder for the tables and pictures")] = None,
    as_json: JsonOption = False,
) -> None:
    """Replay model selection on finished runs: what stopping rules save, and how often they err."""
    from epochcast.experiments.harness import Store, Workers
    from epochcast.experiments.stopping import Settings
    from epochcast.experiments.stopping_report import summary_table, write
    from epochcast.experiments.stopping_study import collections_in, run, tasks_of

    settings = Settings(orders, confidences=tuple(floats(confidence)), curves=curves, seed=seed)
    found = tasks_of(collections_in(data, words(benchmarks)), settings, words(tasks))
    store = None if cache is None else Store(cache)
    with progress(f"{model} on {len(found)} tasks") as advance:
        results = run(found, model, settings, store, Workers(jobs), advance)
    if out is not None:
        write(results, out)
    if as_json:
        typer.echo(json.dumps([row.to_dict() for result in results for row in result.rows]))
    else:
        typer.echo(summary_table(results))


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="folder for the finished model")],
    recipe: Annotated[
        str, typer.Option(help="real, stream, lcpfn or paper, or a JSON file with a configuration")
    ] = "real",
    prior: Annotated[str | None, typer.Option(help="a prior of your own, as module:function")] = None,
    name: Annotated[str, typer.Option(help="name of the model")] = "model",
    curves: Annotated[int | None, typer.Option(help="curves to train on, instead of the recipe's")] = None,
    batch: Annotated[int | None, typer.Option(help="curves per step, instead of the recipe's")] = None,
    shards: Annotated[int | None, typer.Option(help="parts of a batch; torchrun spreads them over processes")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of weights and curves")] = None,
    precision: Annotated[str | None, typer.Option(help="bfloat16 is faster on processors with units for it")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="file to go on from and to save to")] = None,
    save_every: Annotated[float, typer.Option(help="minutes between checkpoints")] = 5.0,
    threads: Annotated[int | None, typer.Option(help="cores to use")] = None,
    start: Annotated[Path | None, typer.Option(help="weights to start from, instead of random ones")] = None,
) -> None:
    """Train a model from prior curves alone; stop it at any time and start it again with the same checkpoint."""
    try:
        from epochcast.training import TrainingRun
    except ImportError as error:
        from epochcast.errors import MissingExtraError

        raise MissingExtraError(error.name or "torch", "train") from None
    if prior is not None:
        sys.path.insert(0, "")  # a module in the current folder is what people mean
    changes = {"prior": prior, "curves": curves, "batch": batch, "shards": shards, "seed": seed, "precision": precision}
    TrainingRun(recipe, changes, checkpoint, save_every * 60.0, threads, start).finish(out, name)


def _show(result: Forecast, truth: tuple[Any, Any] | None, best: float | None) -> None:
    from epochcast.terminal import fan_chart

    console = Console(highlight=False)
    bands = {band: result.interval(band) for band in (0.95, 0.8, 0.5)}
    seen = (result.observed.steps[0], result.observed.values[0])
    console.print(fan_chart(result.steps, result.median(), bands, seen, truth=truth, width=min(console.width - 12, 90)))
    final = result.final
    low, high = final.interval(0.9)
    console.print(f"\n{result.metric.name} at step {result.horizon}: [bold]{final.median():.4g}[/bold]", end="")
    console.print(f"   90 % between {low:.4g} and {high:.4g}", end="")
    console.print(f"   what came: {truth[1][-1]:.4g}" if truth is not None else "")
    if best is not None:
        chance = float(np.max(result.prob_better(best)))
        console.print(f"probability to beat {best:g} at some step: at least {chance:.1%}; at the end: ", end="")
        console.print(f"{float(final.prob_better(best)):.1%}")
    for note in result.notes:
        console.print(f"note: {note}", style="yellow")
    console.print()


def _save_plot(result: Forecast, path: Path, truth: Any) -> None:
    figure = result.plot(truth=truth).get_figure(root=True)
    if figure is not None:
        figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
