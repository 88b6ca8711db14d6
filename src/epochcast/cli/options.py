"""Options that several commands share, the checks of their values, and groups of options as dataclasses."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from typing import Annotated, Any

import typer

_LONGEST_SHOWN = 40  # characters of a value in an error message


def _number(text: str) -> float:
    """A finite number: Python would read nan and inf as numbers, too."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise typer.BadParameter(f"{str(text)[:_LONGEST_SHOWN]} is not a finite number")
    return value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{str(text)[:_LONGEST_SHOWN]} is not a whole number") from None


def number(text: str, *names: str) -> Any:
    """An option that is a finite number, with its help text."""
    return typer.Option(*names, parser=_number, metavar="NUMBER", help=text)


def whole(text: str, *names: str) -> Any:
    """An option that is a whole number, with its help text."""
    return typer.Option(*names, parser=_whole, metavar="INTEGER", help=text)


def horizon_of_logs(otherwise: str) -> Any:
    """The option for finished runs, whose horizon may be left to their logs."""
    return whole(f"of logs: the step at which runs were to end; {otherwise} by default", "--horizon")


def takes_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with each parameter that is a dataclass replaced by the options that are its fields."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {known.name: known.annotation for known in parameters if is_dataclass(known.annotation)}
    fields = {name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()}

    @wraps(command)
    def with_options(**given: Any) -> None:
        grouped = {name: group(**{field: given.pop(field) for field in fields[name]}) for name, group in groups.items()}
        command(**grouped, **given)

    listed = [option for known in parameters for option in fields.get(known.name, {known.name: known}).values()]
    by_name = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in listed]
    with_options.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]  # what typer looks at
    return with_options


HorizonOption = Annotated[int, whole("the step at which the run is planned to end", "--horizon")]
ModelOption = Annotated[str, typer.Option("--model", help="a shipped model, or the path of an .onnx file")]
ScheduleOption = Annotated[
    str | None,
    typer.Option("--schedule", help="the learning rate: constant, cosine, linear,warmup=5, drops,at=60/80, ..."),
]
StepColumnOption = Annotated[
    str | None, typer.Option("--step-column", help="the column that counts the steps, if not found")
]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]
