"""The commands of the command line, each from its own module."""

from __future__ import annotations

from typing import Annotated

import typer

import epochcast
from epochcast.cli.demo import demo
from epochcast.cli.evaluate import evaluate_real, evaluate_stopping
from epochcast.cli.evaluate_prior import evaluate_prior
from epochcast.cli.evaluate_search import evaluate_search
from epochcast.cli.forecast import forecast
from epochcast.cli.models import models
from epochcast.cli.report import report
from epochcast.cli.train import train
from epochcast.cli.watch import watch

app = typer.Typer(
    name="epochcast",
    help="Where will this training run end? Calibrated forecasts of learning curves after a few epochs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
evaluate_app = typer.Typer(help="Measure how good the forecasts are.", no_args_is_help=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"epochcast {epochcast.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="show the version and exit")
    ] = False,
) -> None:
    """Where will this training run end? Calibrated forecasts of learning curves after a few epochs."""


for _command in (forecast, demo, watch, report, models, train):
    app.command()(_command)
app.add_typer(evaluate_app, name="evaluate")
evaluate_app.command("prior")(evaluate_prior)
evaluate_app.command("real")(evaluate_real)
evaluate_app.command("stopping")(evaluate_stopping)
evaluate_app.command("search")(evaluate_search)
