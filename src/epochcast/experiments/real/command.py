"""What `epochcast evaluate real` does: load collections, score engines on them, show and report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from epochcast.benchmarks import CurveSet, load
from epochcast.engines import load_engine
from epochcast.errors import InputError
from epochcast.experiments import harness
from epochcast.experiments.real import report as real_report
from epochcast.experiments.real.rows import Row, rows_of
from epochcast.experiments.real.study import Plan, Scored, prepared, run
from epochcast.metric import Metric


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    data: tuple[str, ...]  # paths, or digits_bench
    plan: Plan
    benchmarks: tuple[str, ...] = ()  # only these collections
    metric: str | None = None
    kind: Metric | str | None = None
    skip_bad: bool = False
    horizon: int | None = None  # of logs; None: each run was planned to go as far as it went

    @property
    def command(self) -> str:
        """The command line that asks for it."""
        plan = self.plan
        shares = ",".join(f"{share:g}" for share in plan.shares)
        options = {
            "--engines": ",".join(plan.engines),
            "--curves": str(plan.curves),
            "--cutoffs": "" if shares == "0.1,0.2,0.4,0.8" else shares,
            "--benchmarks": ",".join(self.benchmarks),
            "--sampled-on": ",".join(plan.sampled_on),
            "--monitor": self.metric or "",
            **_described(self.kind),
            "--horizon": "" if self.horizon is None else str(self.horizon),
        }
        given = [f"--data {path}" for path in self.data]
        given += [f"{name} {value}" for name, value in options.items() if value]
        return " ".join(["epochcast evaluate real", *given, "--out docs/research"])


@dataclass(frozen=True)
class Findings:
    """What came of it."""

    request: Request
    collections: tuple[CurveSet, ...]  # as they were scored
    scored: tuple[Scored, ...]
    rows: tuple[Row, ...]
    left_out: tuple[str, ...]

    def used(self) -> Iterator[str]:
        """How many curves of each collection were scored, in words."""
        for curves in self.collections:
            own = [entry.scores.rows for entry in self.scored if entry.benchmark == curves.name]
            scored = len(np.unique(np.concatenate(own))) if own else 0
            rest = "" if scored == len(curves) else "; the others have no value on both sides of any cutoff"
            yield f"{curves.name}: {scored:,} of {len(curves):,} curves used{rest}"

    def tables(self) -> Iterator[Table]:
        """The rows for a terminal, one table per collection."""
        for (benchmark, paired), rows in groupby(self.rows, key=lambda row: (row.benchmark, row.paired)):
            table = Table(title=benchmark + ", curves of the samplers" * paired, title_justify="left", box=SIMPLE)
            table.pad_edge, table.collapse_padding = False, True  # fits a terminal of 80 columns
            table.add_column("engine", no_wrap=True)
            for heading in ("seen", "n", "LL mean", "median", "error", "CRPS", "in 90 %", "rank"):
                table.add_column(heading, justify="right", no_wrap=True)
            for row in rows:
                table.add_row(
                    row.engine,
                    f"{row.cutoff:.0%}",
                    f"{row.n}",
                    f"{row.log_likelihood:.2f}",
                    f"{row.log_likelihood_median:.2f}",
                    f"{row.squared_error_median:.2g}",
                    f"{row.crps:.2g}",
                    f"{row.coverage90:.2f}",
                    f"{row.rank_log_likelihood:.2f}",
                )
            yield table


def study(
    request: Request, cache: Path | None = None, jobs: int = 1, progress: harness.Progress | None = None
) -> Findings:
    """Load, prepare and score."""
    sets, left_out = _loaded(request)
    collections = [part for curves in sets for part in prepared(curves, request.plan)]
    store = None if cache is None else harness.Store(cache / "real.jsonl" if cache.is_dir() else cache)
    scored = run(collections, request.plan, store, harness.Workers(jobs), progress)
    return Findings(request, tuple(collections), tuple(scored), tuple(rows_of(scored)), tuple(left_out))


def report(findings: Findings, out: Path) -> Path:
    """Write the Markdown report with its pictures into a folder."""
    request = findings.request
    engine = load_engine(request.plan.engines[0])
    return real_report.write(
        out, findings.collections, findings.scored, findings.rows, request.plan, engine, request.command
    )


def _loaded(request: Request) -> tuple[list[CurveSet], list[str]]:
    sets: list[CurveSet] = []
    left_out: list[str] = []
    for path in request.data:
        found = load(
            path,
            metric=request.metric,
            kind=request.kind,
            skip_bad=request.skip_bad,
            horizon="own" if request.horizon is None else request.horizon,
        )
        sets += found.sets
        left_out += [str(item) for item in found.skipped]
    return _chosen(sets, request.benchmarks), left_out


def _described(kind: Metric | str | None) -> dict[str, str]:
    """A metric as options of the command line; those that have no value are left empty."""
    if not isinstance(kind, Metric):
        return {"--metric": kind or ""}
    if kind == _known(kind.name):
        return {"--metric": kind.name}
    bounds = {"--hard": kind.hard, "--soft": kind.soft}
    direction = "--minimize" if kind.minimize else "--maximize"
    told = {name: f"{pair[0]:g},{pair[1]:g}" for name, pair in bounds.items() if pair is not None}
    return {f"{direction} --metric": kind.name, **told}


def _known(name: str) -> Metric | None:
    try:
        return Metric.named(name)
    except InputError:
        return None


def _chosen(sets: list[CurveSet], names: Sequence[str]) -> list[CurveSet]:
    known = [curves.name for curves in sets]
    for name in names:
        if name not in known:
            raise InputError(f"collection {name!r} is not among those found: {', '.join(known)}")
    return [curves for curves in sets if not names or curves.name in names]
