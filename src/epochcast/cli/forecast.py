"""`epochcast forecast`: the rest of one run."""

from __future__ import annotations

import io
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, TextIO

import numpy as np
import typer
from rich.console import Console

from epochcast.cli import options
from epochcast.cli.context import ConfigOption, ContextOption, RunInContext
from epochcast.cli.metric import MetricOptions, monitored, reading
from epochcast.cli.terminal import fan_chart
from epochcast.console import as_json as json_text
from epochcast.console import progress
from epochcast.curve import Array
from epochcast.engines import SAMPLERS
from epochcast.errors import InputError
from epochcast.forecast import Forecast
from epochcast.forecaster import Forecaster
from epochcast.logs import Column, read_column
from epochcast.logs.csv import PLAIN_COLUMN
from epochcast.logs.run import UnknownColumnError
from epochcast.metric import metric_names
from epochcast.plots import check_picture, panels, save_picture

_NARROWEST, _WIDEST, _MARGIN = 20, 90, 12  # of a chart, in characters


@options.takes_groups
def forecast(
    source: Annotated[
        str, typer.Argument(help="a log file, a file of plain numbers, the numbers themselves, or - for standard input")
    ],
    horizon: options.HorizonOption,
    said: MetricOptions,
    column: Annotated[str | None, typer.Option(hidden=True)] = None,  # the former name of --monitor
    run: Annotated[str | None, typer.Option(help="the run to forecast, if there are several")] = None,
    step_column: options.StepColumnOption = None,
    cutoff: Annotated[int | None, options.whole("use only the first values; the rest is drawn as the truth")] = None,
    untrained: Annotated[float | None, options.number("the metric of the untrained model, for losses")] = None,
    best: Annotated[float | None, options.number("report the probability to beat this")] = None,
    missing: Annotated[str, typer.Option(help="what to do with NaN: error or drop")] = "error",
    schedule: options.ScheduleOption = None,
    context: ContextOption = None,
    config: ConfigOption = None,
    model: options.ModelOption = "default",
    plot: Annotated[Path | None, typer.Option(help="write a fan chart to this file")] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Forecast the rest of a run from its first values."""
    if plot is not None:
        check_picture(plot)
    monitor, metric = said.monitor, said.metric
    if not said.own or said.kind is not None or column is not None:  # else it is one's own
        monitor, metric = monitored(said, column)
    either = metric is None and monitor == said.metric  # a name that was given as --metric may be meant so
    series = _checked(_read(source, monitor, step_column, run, either), source, cutoff)
    measured = said.measured(metric, series.name)
    slow = model in SAMPLERS
    among = RunInContext.of(series, context, config, step_column)
    with progress(f"sampling with {model}") if slow else nullcontext():
        forecaster = Forecaster(model, schedule=schedule)
        seen = {"missing": missing, "untrained": untrained, **among.known(cutoff)}
        result = forecaster.forecast(horizon=horizon, metric=measured, **seen)
    notes = [
        *_notes_on_steps(series),
        *([] if metric is not None or said.own else [reading(series.name, measured)]),
        *series.run.notes,
        *among.notes,
    ]
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    came = cutoff is not None and cutoff < len(series.values)
    truth = (series.steps[cutoff:], series.values[cutoff:]) if came else None
    if plot is not None:
        _save_plot(result, plot, series.values if truth else None)
    if as_json:
        typer.echo(json_text(_answer(result, among, notes, best)))
    else:
        show(result, truth, best)


def _read(source: str, monitor: str | None, step_column: str | None, run: str | None, either: bool) -> Column:
    """The column of that name, which may be meant for a metric's."""
    try:
        return read_column(_readable(source), monitor, step_column=step_column, run=run)
    except UnknownColumnError as error:
        if not either:
            raise
        known = ", ".join(metric_names())
        raise InputError(f"metric {monitor!r} is unknown; choose from {known}; {error}") from None


def _checked(series: Column, source: str, cutoff: int | None) -> Column:
    if len(series.values) == 0:
        notes = "".join(f"; {note}" for note in series.run.notes)
        raise InputError(f"{source} holds no values in column {series.name!r}{notes}")
    if cutoff is not None and not 1 <= cutoff <= len(series.values):
        raise InputError(f"cutoff={cutoff} must be between 1 and the {len(series.values)} values of {source}")
    return series


def _readable(source: str) -> str | TextIO:
    """The source, or a stream of the numbers that stand in its place: `epochcast forecast 0.5,0.6,0.7`."""
    if source == "-" or os.path.lexists(source):
        return source
    numbers = source.replace(",", " ").split()
    try:
        [float(word) for word in numbers]  # nan too: the library says what can be done about it
    except ValueError:
        return source
    stream = io.StringIO(" ".join(numbers) + "\n")
    stream.name = "the command line"  # as files have it, for messages
    return stream if len(numbers) > 1 else source


def _notes_on_steps(series: Column) -> list[str]:
    if series.run.step_name is not None:
        return [f"steps are counted by column {series.run.step_name!r}"]
    if series.name == PLAIN_COLUMN:
        return []
    return ["no column counts the steps, so values belong to steps 1, 2, 3, ...; --step-column names one"]


def _answer(result: Forecast, among: RunInContext, notes: list[str], best: float | None) -> dict[str, object]:
    answer, series = result.to_dict(), among.series
    return {
        **answer,
        "monitor": series.name,
        "column": series.name,  # its former name
        "step_column": series.run.step_name,
        "notes": [*notes, *answer["notes"]],
        **({} if among.others is None else {"context": others_read(result)}),
        **({} if best is None else {"prob_better": result.prob_better(best).tolist()}),
    }


def others_read(result: Forecast) -> int:
    """How many other runs a forecast was made from."""
    return 0 if result.question is None or result.question.context is None else len(result.question.context)


def show(result: Forecast, truth: tuple[Array, Array] | None, best: float | None) -> None:
    """A fan chart for the terminal, and what to expect at the horizon."""
    console = Console(highlight=False)
    width = min(max(console.width - _MARGIN, _NARROWEST), _WIDEST)
    bands = {band: result.interval(band) for band in (0.95, 0.8, 0.5)}
    seen = (result.observed.steps[0], result.observed.values[0])
    console.print(fan_chart(result.steps, result.median(), bands, seen, truth=truth, width=width))
    final = result.final
    low, high = final.interval(0.9)
    console.print(f"\n{result.metric.name} at step {result.horizon}: ", end="", markup=False)
    console.print(f"[bold]{final.median():.4g}[/bold]   90 % between {low:.4g} and {high:.4g}", end="")
    console.print(f"   truth: {truth[1][-1]:.4g}" if truth is not None else "")
    if others := others_read(result):
        console.print(f"with {others} other run{'s' * (others > 1)} as context")
    if best is not None:
        chance = float(np.max(result.prob_better(best)))
        console.print(f"probability to beat {best:g} at some step: at least {chance:.1%}; at the end: ", end="")
        console.print(f"{float(final.prob_better(best)):.1%}")
    for note in result.notes:
        console.print(f"note: {note}", style="yellow", markup=False)
    console.print()


def _save_plot(result: Forecast, path: Path, truth: Array | None) -> None:
    figure, axes = panels(1, 1, 7.5, 4.2)
    result.plot(axes[0, 0], truth=truth)
    save_picture(figure, path, dpi=150)
