"""`epochcast train`: a model from prior curves."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from epochcast.cli.options import number
from epochcast.console import make_folder
from epochcast.errors import InputError, MissingExtraError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def train(
    out: Annotated[Path, typer.Option(help="folder for the finished model")],
    recipe: Annotated[
        str, typer.Option(help="real, context, stream, lcpfn or paper, or a JSON file with a configuration")
    ] = "real",
    prior: Annotated[str | None, typer.Option(help="a prior of your own, as module:function")] = None,
    name: Annotated[str, typer.Option(help="name of the model")] = "model",
    curves: Annotated[int | None, typer.Option(help="curves to train on, instead of the recipe's")] = None,
    batch: Annotated[int | None, typer.Option(help="curves per step, instead of the recipe's")] = None,
    shards: Annotated[int | None, typer.Option(help="parts of a batch; torchrun spreads them over processes")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="seed of weights and curves")] = None,
    precision: Annotated[str | None, typer.Option(help="bfloat16 is faster on processors with units for it")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="file to go on from and to save to")] = None,
    save_every: Annotated[float, number("minutes between checkpoints")] = 5.0,
    threads: Annotated[int | None, typer.Option(min=1, help="cores to use")] = None,
    start: Annotated[Path | None, typer.Option(help="weights to start from, instead of random ones")] = None,
) -> None:
    """Train a model from prior curves alone; stop it at any time and start it again with the same checkpoint."""
    if not _NAME.fullmatch(name):
        raise InputError(f"--name {name[:40]!r} must be of letters, digits, dots, dashes and underscores, at most 100")
    if checkpoint is not None and checkpoint.is_dir():
        raise InputError(f"--checkpoint {checkpoint} is a folder; name a file in it")
    make_folder(out)
    try:
        from epochcast.nn.training_run import TrainingRun
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "train") from None
    if prior is not None:
        sys.path.insert(0, "")  # a module in the current folder is what people mean
    changes = {"prior": prior, "curves": curves, "batch": batch, "shards": shards, "seed": seed, "precision": precision}
    TrainingRun(recipe, changes, checkpoint, save_every * 60.0, threads, start).finish(out, name)
