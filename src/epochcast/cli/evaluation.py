"""What all evaluations on finished runs have in common: their options, what they read, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epochcast.benchmarks import CurveSet, load
from epochcast.benchmarks.runs import Horizon
from epochcast.cli.metric import MetricOptions, monitored
from epochcast.cli.options import JsonOption
from epochcast.console import as_json as json_text
from epochcast.console import progress
from epochcast.metric import Metric

if TYPE_CHECKING:
    from epochcast.experiments.harness import Harness

DataOption = Annotated[
    list[str] | None,
    typer.Option(help="a collection, a folder of them or of logs, or digits_bench (the default); may be repeated"),
]
SHIPPED = ("digits_bench",)


@dataclass(frozen=True)
class Evaluation:
    """How an evaluation is computed, and where its results go."""

    cache: Annotated[Path | None, typer.Option(help="file of finished results, to go on from")] = None
    jobs: Annotated[int, typer.Option(help="processes to compute with")] = 1
    out: Annotated[Path | None, typer.Option(help="folder for the tables and pictures")] = None
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="leave out and list what cannot be read")] = False
    as_json: JsonOption = False

    def read(
        self, paths: Sequence[str | Path], said: MetricOptions, horizon: Horizon
    ) -> tuple[list[CurveSet], list[str]]:
        """The collections at some paths, and what was left out of them."""
        monitor, metric = _measured(said)
        found = [load(path, monitor=monitor, metric=metric, skip_bad=self.skip_bad, horizon=horizon) for path in paths]
        sets = [curves for collection in found for curves in collection.sets]
        return sets, [f"left out {item}" for collection in found for item in collection.skipped]

    def harness(self, name: str, advance: Callable[[int, int], None]) -> Harness:
        """Where items are computed and kept; a cache that is a folder has a file of this name."""
        from epochcast.experiments.harness import Harness, Store, Workers

        cache = self.cache
        store = None if cache is None else Store(cache / f"{name}.jsonl" if cache.is_dir() else cache)
        return Harness(store, Workers(self.jobs), advance)

    def finish(
        self, notes: Iterable[str], write: Callable[[Path], Path | None], rows: Any, show: Callable[[], None]
    ) -> None:
        """Say what took part, write the tables and pictures, and print the rows as JSON or show them."""
        for note in notes:
            typer.echo(note, err=True)
        if self.out is not None:
            with progress("drawing"):
                written = write(self.out) or self.out
            typer.echo(f"wrote {written}", err=True)
        if self.as_json:
            typer.echo(json_text(rows))
        else:
            show()


PLAIN = Evaluation()


def _measured(said: MetricOptions) -> tuple[str | None, Metric | None]:
    """Which metric of the files to take, and what it measures, where the options say it."""
    name, words = monitored(said)
    if name is None:  # of collections, a preset names the metric, too
        name, words = said.metric, None
    described = words is not None or said.own
    return name, said.measured(words, name or "metric") if described else None
