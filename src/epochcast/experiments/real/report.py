"""The report of the real-curve experiment: tables for a terminal, and one Markdown file with tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from rich.table import Table

from epochcast.benchmarks import CurveSet
from epochcast.console import markdown_table, plain_table
from epochcast.experiments.real.rows import Row
from epochcast.experiments.real.study import Plan, Scored
from epochcast.question import Engine

NAME = "real-curves.md"
_CLEAR = 2.0  # standard errors that make a difference clear

_INTRODUCTION = """# Real curves

How good are the forecasts on learning curves of real trainings? Every engine sees the first part of the same curves and
is scored on all values that come, in the space normalised as in the LC-PFN paper (appendix A; larger is better, about
0 to 1). Curves of more than 100 values are thinned to every k-th; TaskSet is reported whole and, as in the paper, as
the best tenth of each task (good) and the rest (bad); a run that diverged is scored on what it had, and left out where
it has nothing after the cutoff. The best tenth is chosen by how runs end: who is right about all runs is too low there.

- **log-likelihood**: log density of the values that came, mean over a curve; a single surprise can cost a curve
  hundreds, so the mean over curves and the median over curves tell different stories
- **squared error**: of the forecast's median
- **CRPS**: distance between the whole forecast and the value that came; for the last value alone it would be the
  absolute error
- **coverage**: share of the values inside the central 90 % interval; 0.9 is right
- **rank**: of each curve among the engines, averaged; 1 is best

`last-value` is a random walk around the newest value, `power-law` a least-squares fit with a bootstrap of its
residuals, `empirical-gp` a Gaussian process with the mean and covariance of the curves of all other tasks of the
collection (of the curves that ship with epochcast, where a collection has one task). Cells hold the cutoffs
{cutoffs} in this order.

What to keep in mind: the networks are trained on curves of priors alone, but the prior of real curves was developed
with some of these collections in view, and the spread of `last-value` and `empirical-gp` was fitted to digits_bench, so
their figures there are in-sample. Standard errors take curves as independent, though those of one task are alike; a
collection of one task tells about that task. A run that stands still exactly is scored by how narrow an engine dares to
be (the baselines: 1e-6), which lifts the means of collections with many such runs; medians and ranks feel it less.

Made by

    {command}

`--data` takes a file or a folder: LCBench's JSON, PD1's JSON lines or CSV, TaskSet's .npz or JSON, LCDB's CSV, exports
of NAS-Bench-201 and NATS-Bench as JSON or CSV (their own files are pickles, which are never opened), logs of trainings
(`--monitor val_acc --metric accuracy`; each run counts to its own last step, or to `--horizon`), and .npz files with
the arrays `curves`, `task`, `task_names`, `metric` and `minimize`. `--cache FILE` makes a run go on where it was
stopped.
"""

Cell = Callable[[Row], str]
_TABLES: tuple[tuple[str, Cell], ...] = (
    ("Log-likelihood, median over curves", lambda row: f"{row.log_likelihood_median:.2f}"),
    ("Log-likelihood, mean over curves", lambda row: _short(row.log_likelihood.mean)),
    ("Squared error of the median, mean over curves, x 1000", lambda row: f"{1e3 * row.squared_error_median:.3g}"),
    ("Squared error of the median, median over curves", lambda row: f"{row.squared_error_median_typical:.1e}"),
    ("CRPS, mean over curves, x 1000", lambda row: f"{1e3 * row.crps:.1f}"),
    ("Coverage of the central 90 %", lambda row: f"{row.coverage90:.2f}"),
    ("Distance of the PIT from uniform (Kolmogorov-Smirnov)", lambda row: f"{row.pit_ks:.2f}"),
    ("Average rank by log-likelihood", lambda row: f"{row.rank_log_likelihood:.2f}"),
    ("Average rank by squared error", lambda row: f"{row.rank_squared_error:.2f}"),
)


def tables(rows: Sequence[Row]) -> Iterator[Table]:
    """The rows for a terminal, one table per collection."""
    for (benchmark, paired), own in groupby(rows, key=lambda row: (row.benchmark, row.paired)):
        headings = ("engine", "seen", "n", "LL mean", "median", "error", "CRPS", "in 90 %", "rank")
        table = plain_table(headings, benchmark + ", curves of the samplers" * paired, left=("engine",))
        table.collapse_padding = True  # fits a terminal of 80 columns
        for row in own:
            seen = row.engine, f"{row.cutoff:.0%}", str(row.n)
            likelihoods = f"{row.log_likelihood.mean:.2f}", f"{row.log_likelihood_median:.2f}"
            others = f"{row.squared_error_median:.2g}", f"{row.crps:.2g}", f"{row.coverage90:.2f}"
            table.add_row(*seen, *likelihoods, *others, f"{row.rank_log_likelihood:.2f}")
        yield table


def write(
    out: Path,
    collections: Sequence[CurveSet],
    scored: Sequence[Scored],
    rows: Sequence[Row],
    plan: Plan,
    engine: Engine,
    command: str,
) -> Path:
    """Write the report and its pictures; `engine` is the first one, whose forecasts are drawn."""
    from epochcast.experiments.real import plots as real_plots

    images = out / "images"
    images.mkdir(parents=True, exist_ok=True)
    pictures = [
        real_plots.ranks(rows, images / "real-ranks.png"),
        real_plots.pairs(scored, "log_likelihood", images / "real-pairs-likelihood.png"),
        real_plots.pairs(scored, "squared_error", images / "real-pairs-error.png"),
        real_plots.pit(scored, images / "real-pit.png"),
    ]
    pictures += [
        real_plots.examples(engine, curves, plan.shares, images / f"real-examples-{curves.name}.png", plan.seed)
        for curves in collections
    ]
    path = out / NAME
    path.write_text(
        markdown(rows, scored, plan, command, [picture for picture in pictures if picture]), encoding="utf-8"
    )
    return path


def markdown(
    rows: Sequence[Row], scored: Sequence[Scored], plan: Plan, command: str, pictures: Sequence[Path] = ()
) -> str:
    """The whole report as text; pictures are linked relative to it."""
    cutoffs = " / ".join(f"{share:.0%}" for share in plan.shares)
    parts = [_INTRODUCTION.format(cutoffs=cutoffs, command=command)]
    for paired, title in ((False, "## All curves"), (True, "## The curves that the samplers saw")):
        own = [row for row in rows if row.paired == paired]
        if own:
            parts.append(f"{title}\n\n{_sizes(own)}")
            parts += [f"### {name}\n\n{_table(own, cell)}" for name, cell in _TABLES]
            parts.append(f"### Log-likelihood minus {own[0].engine}'s, curve by curve\n\n{_differences(own)}")
    parts.append(_losses(rows))
    cost = _cost(scored)
    if cost:
        parts.append(cost)
    parts += [f"![{picture.stem}]({picture.parent.name}/{picture.name})" for picture in pictures]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _sizes(rows: Sequence[Row]) -> str:
    sizes: dict[str, str] = {}
    for row in rows:
        sizes.setdefault(row.benchmark, f"{row.benchmark} {row.n:,}")
    return "Curves at the first cutoff: " + ", ".join(sizes.values()) + "."


def _table(rows: Sequence[Row], cell: Cell) -> str:
    """Collections down, engines across, the cutoffs within each cell."""
    engines = list(dict.fromkeys(row.engine for row in rows))
    cells: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        cells.setdefault((row.benchmark, row.engine), []).append(cell(row))
    lines = [
        [name, *(" / ".join(cells.get((name, engine), [])) for engine in engines)]
        for name in dict.fromkeys(row.benchmark for row in rows)
    ]
    return markdown_table(["", *engines], lines)


def _differences(rows: Sequence[Row]) -> str:
    first = rows[0].engine
    others = [row for row in rows if row.engine != first]
    note = "Mean over the same curves ± its standard error; below zero the other engine is worse."
    return f"{note}\n\n{_table(others, _gap)}"


def _losses(rows: Sequence[Row]) -> str:
    """Where the first engine is behind, in words."""
    if not rows:
        return ""
    first = rows[0].engine
    own = {(row.benchmark, row.cutoff, row.paired): row for row in rows if row.engine == first}
    lines = []
    for row in rows:
        mine = own.get((row.benchmark, row.cutoff, row.paired))
        if row.engine == first or mine is None:
            continue
        reasons = []
        if row.difference.mean > _CLEAR * row.difference.error:
            reasons.append(f"mean log-likelihood +{_gap(row)}")
        if row.log_likelihood_median > mine.log_likelihood_median:
            reasons.append(
                f"median log-likelihood {row.log_likelihood_median:.2f} against {mine.log_likelihood_median:.2f}"
            )
        if row.squared_error_median < 0.95 * mine.squared_error_median:
            ratio = mine.squared_error_median / max(row.squared_error_median, 1e-300)
            reasons.append(f"its squared error is {_short(ratio)} times smaller")
        if reasons:
            curves = " (sampled curves)" if row.paired else ""
            lines.append(f"- {row.benchmark} at {row.cutoff:.0%}{curves}: {row.engine}, {'; '.join(reasons)}")
    found = "\n".join(lines) if lines else "Nowhere by these measures."
    return (
        f"## Where {first} loses\n\nTo whom, where the other engine's mean log-likelihood is clearly higher (by more "
        "than two standard errors), its median over curves is higher, or its squared error is at least 5 % smaller."
        f"\n\n{found}"
    )


def _cost(scored: Sequence[Scored]) -> str:
    """Processor time per curve and cutoff relative to the first engine's."""
    if not scored or not any(entry.sampled for entry in scored):
        return ""
    per_curve = {}
    for engine in dict.fromkeys(entry.engine for entry in scored):
        own = [entry for entry in scored if entry.engine == engine]
        per_curve[engine] = sum(entry.seconds for entry in own) / max(sum(len(entry.scores) for entry in own), 1)
    first = scored[0].engine
    ratios = [f"{name} {cost / per_curve[first]:,.2g}" for name, cost in per_curve.items() if name != first]
    return (
        f"## Cost\n\nProcessor time per curve and cutoff, forecasting and scoring together, as a multiple of "
        f"{first}'s, measured when each was computed: {', '.join(ratios)}."
    )


def _gap(row: Row) -> str:
    return f"{_short(row.difference.mean)} ± {_short(row.difference.error)}"


def _short(value: float) -> str:
    """Two decimals, or none for numbers that would be mostly digits."""
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"
