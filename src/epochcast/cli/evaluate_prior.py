"""`epochcast evaluate prior`: one model's quality and calibration, or several engines on the same curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from epochcast.console import as_json as json_text
from epochcast.console import floats, make_folder, plain_table, progress, words
from epochcast.errors import InputError

if TYPE_CHECKING:
    from epochcast.experiments.harness import Harness
    from epochcast.experiments.prior.comparison import Comparison, Plan
    from epochcast.experiments.prior.scores import Row


def evaluate_prior(
    model: Annotated[str, typer.Option(help="a shipped model, or the path of an .onnx file")] = "default",
    engines: Annotated[
        str | None, typer.Option(help="compare these instead: models, mcmc-pp, mcmc-op, exact, separated by commas")
    ] = None,
    mcmc: Annotated[
        str, typer.Option(help="chains: M1, M2, M3, nsamples=500:burn_in=100:start=map, ..., or grid, or length")
    ] = "M1",
    curves: Annotated[int, typer.Option(help="how many fresh curves to draw")] = 10_000,
    sampled: Annotated[
        int | None, typer.Option(help="how many of them, the first ones, samplers get; all by default")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the curves")] = 0,
    cutoffs: Annotated[str, typer.Option(help="shares of the horizon that are seen")] = "0.1,0.2,0.4,0.8",
    against: Annotated[
        str | None, typer.Option(help="the engine to take differences to; exact, if it takes part")
    ] = None,
    jobs: Annotated[int, typer.Option(help="processes, or tasks at a time on a cluster")] = 1,
    backend: Annotated[str, typer.Option(help="loky (this machine) or ray (a cluster)")] = "loky",
    address: Annotated[str | None, typer.Option(help="of a running Ray cluster; otherwise one is started")] = None,
    cache: Annotated[Path | None, typer.Option(help="folder of finished results, to go on from")] = None,
    cached_only: Annotated[bool, typer.Option("--cached", help="compute nothing: tell what the cache holds")] = False,
    gallery: Annotated[
        str, typer.Option(help="engines (as the tables name them) whose forecasts of seven curves --out also shows")
    ] = "",
    out: Annotated[Path | None, typer.Option(help="folder for the tables and pictures")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of a table")] = False,
) -> None:
    """Log-likelihood and calibration on fresh curves of the paper's prior."""
    shares = floats(cutoffs)
    make_folder(out)
    if engines is None:
        _evaluate_model(model, curves, seed, shares, as_json)
        return
    from epochcast.experiments.contenders import contenders
    from epochcast.experiments.harness import Harness, Store, Workers
    from epochcast.experiments.prior.comparison import Plan, compare
    from epochcast.experiments.prior.tables import choose_reference

    if cached_only and cache is None:
        raise InputError("--cached needs the folder of finished results: --cache DIR")
    named = contenders(words(engines), words(mcmc))
    plan = Plan(named, curves, curves if sampled is None else sampled, shares, seed)
    # Mistakes are told now, not after hours of sampling.
    reference = choose_reference([contender.label for contender in named], against)
    shown = plan.only(words(gallery))
    workers = Workers(jobs, backend, address)  # type: ignore[arg-type]  # checked by the library
    store = None if cache is None else Store(cache / "prior.jsonl")
    with progress(f"{len(plan.contenders)} engines on {plan.curves:,} curves") as report:
        comparison = compare(plan, Harness(store, workers, report, cached_only))
    _tell(comparison, reference, as_json)
    if out is not None:
        _write(comparison, reference, out)
        if shown.contenders:
            _write_gallery(shown, Harness(store, workers), out)


def _evaluate_model(model: str, curves: int, seed: int, shares: list[float], as_json: bool) -> None:
    from epochcast.engines import load_engine
    from epochcast.experiments.estimate import flat
    from epochcast.experiments.prior import scores as prior

    engine = load_engine(model)
    done, total = 0, curves * len(shares)
    with progress(f"{engine.name} on {curves:,} curves") as report:

        def advance(count: int) -> None:
            nonlocal done
            done += count
            report(done, total)

        scores = prior.evaluate(engine, curves, seed, shares, advance)
    rows = [prior.row(engine.name, score) for score in scores]
    if as_json:
        typer.echo(json_text(list(map(flat, rows))))
    else:
        Console().print(_model_table(rows, f"{engine.name}: log-likelihood of {curves} prior curves, seed {seed}"))


def _model_table(rows: list[Row], title: str) -> Table:
    table = plain_table(("seen", "raw", "controlled", "PIT", "inside 50/80/90/95 %", "ok"), title, left=("ok",))
    for row in rows:
        inside = (row.coverage50, row.coverage80, row.coverage90, row.coverage95)
        table.add_row(
            str(row.cutoff),
            str(row.log_likelihood),
            str(row.controlled),
            f"{row.pit_ks:.3f}",
            " ".join(f"{share:.3f}" for share in inside),
            "yes" if row.calibrated else "no",
        )
    return table


def _tell(comparison: Comparison, reference: str, as_json: bool) -> None:
    from epochcast.experiments.estimate import flat
    from epochcast.experiments.prior import tables as prior_tables

    if as_json:
        typer.echo(json_text(list(map(flat, prior_tables.lines(comparison, reference)))))
    else:
        typer.echo(prior_tables.as_markdown(comparison, reference))
    for key, reason in comparison.failures.items():
        typer.echo(f"note: {key} failed: {reason}", err=True)


def _write(comparison: Comparison, reference: str, out: Path) -> None:
    """Tables as CSV and Markdown, and the pictures that the curves at hand allow."""
    from epochcast.experiments.prior import plots as prior_plots
    from epochcast.experiments.prior import tables as prior_tables

    (out / "prior.csv").write_text(prior_tables.as_csv(prior_tables.lines(comparison, reference)))
    (out / "prior_curves.csv").write_text(prior_tables.scores_csv(comparison))
    (out / "prior.md").write_text(prior_tables.as_markdown(comparison, reference))
    prior_plots.cost_against_quality(comparison, reference).savefig(out / "prior_cost.png", dpi=130)
    if comparison.paired.sum() >= 6 and len(comparison.labels) > 1:
        prior_plots.gap_to_reference(comparison, reference).savefig(out / "prior_gap.png", dpi=130)
    typer.echo(f"wrote {out}", err=True)


def _write_gallery(plan: Plan, harness: Harness, out: Path) -> None:
    from dataclasses import replace

    from epochcast.experiments.prior.gallery import make_gallery
    from epochcast.experiments.prior.plots import forecasts_of_curves

    with progress("forecasts to draw") as report:
        pictures = make_gallery(plan, replace(harness, progress=report))
    forecasts_of_curves(pictures).savefig(out / "prior_forecasts.png", dpi=100)
