"""What `epochcast evaluate real` does: load collections, score engines on them, show and report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich.box import SIMPLE
from rich.table import Table

from epochcast.benchmarks import CurveSet, load
from epochcast.engines import load_engine
from epochcast.errors import InputError
from epochcast.experiments import harness, real_report
from epochcast.experiments.real_rows import Row, rows_of
from epochcast.experiments.real_study import Plan, Scored, prepared, run


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    data: tuple[str, ...]  # paths, or digits_bench
    plan: Plan
    benchmarks: tuple[str, ...] = ()  # only these collections
    metric: str | None = None
    kind: str | None = None
    skip_bad: bool = False

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
            "--metric": self.metric or "",
            "--kind": self.kind or "",
        }
        given = [f"--data {path}" for path in self.data]
        given += [f"{name} {value}" for name, value in options.items() if value]
        return " ".join(["epochcast evaluate real", *given, "--out docs"])


@dataclass(frozen=True)
class Findings:
    """What came of it."""

    request: Request
    collections: tuple[CurveSet, ...]  # as they were scored
    scored: tuple[Scored, ...]
    rows: tuple[Row, ...]
    left_out: tuple[str, ...]

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
        found = load(path, metric=request.metric, kind=request.kind, skip_bad=request.skip_bad)
        sets += found.sets
        left_out += [str(item) for item in found.skipped]
    return _chosen(sets, request.benchmarks), left_out


def _chosen(sets: list[CurveSet], names: Sequence[str]) -> list[CurveSet]:
    known = [curves.name for curves in sets]
    for name in names:
        if name not in known:
            raise InputError(f"collection {name!r} is not among those found: {', '.join(known)}")
    return [curves for curves in sets if not names or curves.name in names]
