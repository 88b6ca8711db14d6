"""Options that several commands share, and the checks of their values."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from epochcast.errors import InputError


def finite(param: typer.CallbackParam, value: float | None) -> float | None:
    """Refuse NaN and infinities, which Python reads as numbers."""
    if value is not None and not math.isfinite(value):
        raise InputError(f"{param.opts[0]} {value} is not a finite number; give one, or leave the option out")
    return value


HorizonOption = Annotated[int, typer.Option("--horizon", help="the step at which the run is planned to end")]
ModelOption = Annotated[str, typer.Option("--model", help="a shipped model, or the path of an .onnx file")]
ScheduleOption = Annotated[
    str | None,
    typer.Option("--schedule", help="the learning rate: constant, cosine, linear,warmup=5, drops,at=60/80, ..."),
]
StepColumnOption = Annotated[
    str | None, typer.Option("--step-column", help="the column that counts the steps, if not found")
]
BestOption = Annotated[float | None, typer.Option("--best", callback=finite, help="a value to beat")]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]

MinimizeOption = Annotated[
    bool | None, typer.Option("--minimize/--maximize", help="a metric of your own: which way is better")
]
HardOption = Annotated[
    str | None, typer.Option("--hard", metavar="LOW,HIGH", help="bounds that the metric cannot leave, such as 0,inf")
]
SoftOption = Annotated[
    str | None, typer.Option("--soft", metavar="LOW,HIGH", help="the range in which differences matter")
]
