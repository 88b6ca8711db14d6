"""Experiment 1, told: means with errors, differences on the same curves, and where the differences are.

Two samples of curves would differ by more than the engines do, because their noise levels differ. So means carry the
oracle's control variate, and engines are compared curve by curve.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epochcast.console import markdown_table
from epochcast.distributions import Array
from epochcast.errors import InputError
from epochcast.experiments.estimate import Estimate, flat
from epochcast.experiments.prior import scores as prior
from epochcast.experiments.prior.comparison import Comparison, Mask, Scored
from epochcast.prior import paper

# Tables 2 and 4 of the paper, on 10,000 other curves: log-likelihood at 10/20/40/80 %, seconds on its processor.
PAPER = {
    "paper, MCMC M1": ((1.628, 1.939, 2.265, 2.469), 54.401),
    "paper, MCMC M2": ((1.641, 1.958, 2.277, 2.477), 45.160),
    "paper, MCMC M3": ((1.642, 1.956, 2.285, 2.486), 103.151),
    "paper, PFN P1": ((1.585, 1.989, 2.282, 2.431), 0.004),
    "paper, PFN P2": ((1.654, 2.044, 2.347, 2.493), 0.006),
    "paper, PFN P3": ((1.758, 2.133, 2.403, 2.519), 0.050),
}
PAPER_CUTOFFS = (10, 20, 40, 80)
THIRDS = ("quiet", "middle", "noisy")


@dataclass(frozen=True)
class Line:
    """One contender at one cutoff: on all curves it knows at every cutoff, and on those that all contenders know."""

    engine: str
    cutoff: int
    curves: int
    log_likelihood: Estimate
    controlled: Estimate  # with the oracle's control variate
    paired_curves: int
    paired_controlled: Estimate
    reference: str
    difference: Estimate  # to the reference, on the same curves
    seconds: float  # of processor time for one curve on its own


def lines(comparison: Comparison, reference: str) -> list[Line]:
    """A line per contender and cutoff."""
    return [_line(comparison, scored, reference) for scored in comparison.scored]


def _line(comparison: Comparison, scored: Scored, reference: str) -> Line:
    known, paired = comparison.complete(scored.contender.label), comparison.paired
    controlled = scored.log_likelihood - comparison.oracle(scored.cutoff) + paper.ORACLE_LOG_LIKELIHOOD
    timed = scored.seconds[~np.isnan(scored.seconds)]
    return Line(
        engine=scored.contender.label,
        cutoff=scored.cutoff,
        curves=int(known.sum()),
        log_likelihood=Estimate.of(scored.log_likelihood[known]),
        controlled=Estimate.of(controlled[known]),
        paired_curves=int(paired.sum()),
        paired_controlled=Estimate.of(controlled[paired]),
        reference=reference,
        difference=Estimate.of(difference(comparison, scored, reference)[paired]),
        seconds=float(timed.mean()) if len(timed) else math.nan,
    )


def difference(comparison: Comparison, scored: Scored, reference: str) -> Array:
    """Log-likelihood [curve] minus the reference's; NaN where either is unknown."""
    return np.asarray(scored.log_likelihood - comparison.at(reference, scored.cutoff).log_likelihood)


def choose_reference(labels: Sequence[str], wanted: str | None = None) -> str:
    """The contender that others are measured against: `exact` if it takes part, otherwise the first one."""
    if wanted is None:
        return "exact" if "exact" in labels else labels[0]
    if wanted not in labels:
        raise InputError(f"reference {wanted!r} takes no part; choose one of {', '.join(labels)}")
    return wanted


def as_csv(rows: Sequence[Line]) -> str:
    """All lines as CSV text."""
    text = io.StringIO()
    writer = csv.DictWriter(text, flat(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(flat, rows))
    return text.getvalue()


def as_markdown(comparison: Comparison, reference: str) -> str:
    """The whole experiment as Markdown tables."""
    rows = lines(comparison, reference)
    together = int(comparison.paired.sum())
    parts = [
        "Mean log-likelihood of the unseen steps with the oracle's control variate, ± one standard error, by the share "
        "of the curve that is seen. Seconds are of processor time on one core, for a single curve.",
        _quality_table(comparison, rows),
    ]
    if together >= 2:
        parts += [
            f"Difference to `{reference}` in nats, on the {together} curves that every engine was given:",
            _difference_table(comparison, rows),
            f"The same by the noise of the curve, in thirds of these {together} curves:",
            _noise_table(comparison, reference),
        ]
    if health := _health_table(comparison):
        parts += ["What the samplers say of themselves:", health]
    return "\n\n".join(parts) + "\n"


def _by_engine(comparison: Comparison, rows: Sequence[Line]) -> list[list[Line]]:
    return [[row for row in rows if row.engine == label] for label in comparison.labels]


def _headings(comparison: Comparison) -> list[str]:
    return [f"{cutoff} %" for cutoff in comparison.plan.cutoffs]


def _quality_table(comparison: Comparison, rows: Sequence[Line]) -> str:
    body = []
    for own in _by_engine(comparison, rows):
        scores = [str(row.controlled) for row in own]
        seconds = np.array([row.seconds for row in own])
        cost = f"{np.nanmean(seconds):.3g}" if not np.isnan(seconds).all() else ""
        body.append([own[0].engine, f"{own[0].curves:,}", *scores, cost])
    if tuple(comparison.plan.cutoffs) == PAPER_CUTOFFS:
        body += [
            [name, "10,000", *(f"{score:.3f}" for score in scores), f"{seconds:.3g}"]
            for name, (scores, seconds) in PAPER.items()
        ]
    limit = f"{paper.ORACLE_LOG_LIKELIHOOD:.3f}"
    body.append(["limit: curve and noise known", "", *[limit] * len(comparison.plan.cutoffs), ""])
    return markdown_table(["engine", "curves", *_headings(comparison), "s per curve"], body)


def _difference_table(comparison: Comparison, rows: Sequence[Line]) -> str:
    body = [
        [own[0].engine, *(row.difference.signed for row in own)]
        for own in _by_engine(comparison, rows)
        if own[0].engine != own[0].reference
    ]
    return markdown_table(["engine", *_headings(comparison)], body)


def noise_thirds(comparison: Comparison) -> list[Mask]:
    """The paired curves with low, middle and high noise."""
    paired = np.flatnonzero(comparison.paired)
    masks = []
    for third in prior.noise_thirds(comparison.draw.sigma[paired]):
        mask = np.zeros(len(comparison.draw.sigma), dtype=np.bool_)
        mask[paired[third]] = True
        masks.append(mask)
    return masks


def _noise_table(comparison: Comparison, reference: str) -> str:
    thirds = noise_thirds(comparison)
    body = []
    for label in comparison.labels:
        for name, mask in zip(THIRDS, thirds, strict=True):
            scored = [comparison.at(label, cutoff) for cutoff in comparison.plan.cutoffs]
            gaps = [Estimate.of(difference(comparison, own, reference)[mask]) for own in scored]
            body.append([label, name, *(gap.signed for gap in gaps)])
    return markdown_table(["engine", "noise", *_headings(comparison)], [row for row in body if row[0] != reference])


def _health_table(comparison: Comparison) -> str:
    """How far samplers agree with themselves, over all curves that they were given."""
    body = []
    for scored in comparison.scored:
        found = {name: values[~np.isnan(values)] for name, values in scored.diagnostics.items()}
        if "disagreement" in found:
            gaps = found["disagreement"]
            said = f"two runs differ by {gaps.mean():.3f} nats on average, {gaps.max():.3f} at most"
        elif "autocorrelation_time" in found:
            said = f"autocorrelation time {np.median(found['autocorrelation_time']):,.0f} steps (median)"
        else:
            continue
        settled = f"{found['converged'].mean():.0%}"
        body.append([scored.contender.label, f"{scored.cutoff} %", said, settled])
    return markdown_table(["engine", "seen", "says", "settled"], body) if body else ""


def scores_csv(comparison: Comparison) -> str:
    """The scores of the paired curves one by one, as CSV text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["curve", "sigma", "cutoff", "engine", "log_likelihood", "oracle", "pit", "seconds"])
    for scored in comparison.scored:
        oracle = comparison.oracle(scored.cutoff)
        for i in np.flatnonzero(comparison.paired):
            numbers = scored.log_likelihood[i], oracle[i], scored.pit[i], scored.seconds[i]
            cells = ["" if np.isnan(number) else f"{number:.6g}" for number in numbers]
            writer.writerow([i, f"{comparison.draw.sigma[i]:.6g}", scored.cutoff, scored.contender.label, *cells])
    return text.getvalue()
