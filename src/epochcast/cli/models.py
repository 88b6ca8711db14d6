"""`epochcast models`: what ships."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from epochcast.cli.options import JsonOption
from epochcast.console import as_json as json_text
from epochcast.console import plain_table
from epochcast.runtime.weights import find, registry


def models(
    name: Annotated[str | None, typer.Argument(help="show the card of one model")] = None, as_json: JsonOption = False
) -> None:
    """List the models that ship, or show the card of one."""
    if name is not None:
        typer.echo(json_text(find(name).card, indent=2))
        return
    if as_json:
        typer.echo(json_text(registry()))
        return
    table = plain_table(("model", "version", "prior", "weights"), left=("model", "version", "prior"))
    table.add_column("about")
    for known, entry in sorted(registry()["models"].items()):
        card = entry["card"]
        title = f"{known} (default)" if known == registry()["default"] else known
        version = f"{card.get('version', '')} ({card.get('date', '')})"
        table.add_row(title, version, card.get("prior", ""), f"{card.get('weights', 0):,}", card.get("about", ""))
    Console().print(table)
    typer.echo("epochcast models NAME shows a model's card: its recipe, what it cost, what it scores")
