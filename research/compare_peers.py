"""Our models beside other forecasting libraries on the same real curves; fills the tables of docs/research/peers.md.

    python research/compare_peers.py --data ../shared/data --data digits_bench

Scores of peers depend on their version and the curves alone: once they are in the cache, the same command recomputes
ours only, where weights have changed, and no peer needs to be installed. A peer that is neither cached nor installed
(docs/research/peers.md says how) is left out, and a page that has results of it is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pages import filled, part_of
from peers import report, study
from peers.registry import PEERS, Peer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from epochcast.benchmarks import CurveSet, load
from epochcast.experiments import harness
from epochcast.experiments.real import study as real_study
from epochcast.experiments.real.scores import SHARES
from epochcast.experiments.real.study import Plan, prepared

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "research" / "peers.md"
OURS = ("default", "stream", "lcpfn", "last-value", "power-law")


def collections_in(paths: Sequence[str], plan: Plan) -> list[CurveSet]:
    return [part for path in paths for curves in load(path).sets for part in prepared(curves, plan)]


def scores_of_peers(
    peers: Sequence[Peer], collections: Sequence[CurveSet], store: harness.Store, console: Console
) -> list[study.PeerScores]:
    """Scores of those peers that are cached or run here."""
    scored: list[study.PeerScores] = []
    for who in peers:
        entries = study.entries(who, collections, SHARES)
        missing = study.missing(entries, store)
        if missing and not who.runs_here:
            console.print(
                f"{who.name}: left out, for {missing} of its results are not cached, and {who.package} {who.version} "
                f"with all it needs is not installed ({who.installed or 'no version'} is)"
            )
            continue
        scored += _with_bar(who.name, entries, store, console)
    return scored


def _with_bar(
    name: str, entries: Sequence[study.Entry], store: harness.Store, console: Console
) -> list[study.PeerScores]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        line = bar.add_task(name, total=None)
        return study.run(entries, store, lambda done, total: bar.update(line, completed=done, total=total))


def lost_from(page: str, engines: Sequence[str]) -> list[str]:
    """Peers with a row of their own in the tables of the page which are not among the engines."""
    rows = set(re.findall(r"^\| (\S+) ", part_of(page, "tables"), flags=re.MULTILINE))
    return [who.name for who in PEERS if who.name in rows and who.name not in engines]


def main(
    data: Annotated[list[str], typer.Option(help="a file or folder of curves, or digits_bench")],
    cache: Annotated[Path, typer.Option(help="scores are kept here")] = ROOT / "cache" / "peers.jsonl",
    curves: Annotated[int, typer.Option(help="of each collection")] = 120,
    peers: Annotated[str, typer.Option(help="names, separated by commas; all by default")] = "",
    engines: Annotated[str, typer.Option(help="of ours, the one to hold others against first")] = ",".join(OURS),
    out: Annotated[Path, typer.Option(help="the page to fill")] = PAGE,
    seed: int = 0,
) -> None:
    """Score and fill the page."""
    console = Console(stderr=True)
    plan = Plan(engines=tuple(engines.split(",")), curves=curves, seed=seed)
    chosen = [who for who in PEERS if not peers or who.name in peers.split(",")]
    collections, store = collections_in(data, plan), harness.Store(cache)
    theirs = scores_of_peers(chosen, collections, store, console)
    ours = [study.PeerScores.of(entry) for entry in real_study.run(collections, plan, harness.Harness(store))]
    page = out.read_text(encoding="utf-8")
    lost = lost_from(page, [entry.engine for entry in theirs])
    if lost:
        console.print(f"{out} is left as it is, for it has results of {', '.join(lost)}")
        return
    out.write_text(filled(page, "tables", report.tables([*ours, *theirs])), encoding="utf-8")
    console.print(f"filled {out}")


if __name__ == "__main__":
    typer.run(main)
