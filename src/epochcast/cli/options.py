"""Options that several commands share, and the checks of their values."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

_LONGEST_SHOWN = 40  # characters of a value in an error message


def number(text: str) -> float:
    """A finite number: Python would read nan and inf as numbers, too."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise typer.BadParameter(f"{str(text)[:_LONGEST_SHOWN]} is not a finite number")
    return value


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{str(text)[:_LONGEST_SHOWN]} is not a whole number") from None


HorizonOption = Annotated[
    int,
    typer.Option("--horizon", parser=whole, metavar="INTEGER", help="the step at which the run is planned to end"),
]


def horizon_of_logs(otherwise: str) -> Any:
    """The option for finished runs, whose horizon may be left to their logs."""
    text = f"of logs: the step at which runs were to end; {otherwise} by default"
    return typer.Option("--horizon", parser=whole, metavar="INTEGER", help=text)


ModelOption = Annotated[str, typer.Option("--model", help="a shipped model, or the path of an .onnx file")]
ScheduleOption = Annotated[
    str | None,
    typer.Option("--schedule", help="the learning rate: constant, cosine, linear,warmup=5, drops,at=60/80, ..."),
]
StepColumnOption = Annotated[
    str | None, typer.Option("--step-column", help="the column that counts the steps, if not found")
]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]
