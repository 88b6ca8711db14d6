"""Tables of the comparison with peers: every engine against the first one, curve by curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from epochcast.curve import Array
from epochcast.experiments.estimate import Estimate
from epochcast.experiments.real.scores import CurveScores
from peers.study import PeerScores

_CLEAR = 2.0  # standard errors that make a difference clear
_NOTHING = "-"


@dataclass(frozen=True)
class Score:
    """A score to tabulate; `gain` turns the difference to the first engine into one where more is better."""

    name: str
    title: str
    column: str  # of CurveScores
    unit: float  # what values are multiplied by
    gain: float


SCORES = (
    Score("CRPS", "CRPS x 1000", "crps", 1e3, -1.0),
    Score("squared error", "Squared error of the median x 1000", "squared_error", 1e3, -1.0),
    Score("log-likelihood", "Log-likelihood, mean over curves", "log_likelihood", 1.0, 1.0),
)


@dataclass(frozen=True)
class Pair:
    """One engine beside the first one on the curves that both have scores of, in one collection at one cutoff."""

    benchmark: str
    share: float
    engine: str
    own: CurveScores
    first: CurveScores

    def values(self, score: Score) -> tuple[Array, Array]:
        """Scores [curve] of the engine and of the first one."""
        return getattr(self.own, score.column) * score.unit, getattr(self.first, score.column) * score.unit

    def gain(self, score: Score) -> tuple[float, float]:
        """How much better than the first one, on average, and the standard error of that."""
        own, first = self.values(score)
        return Estimate.of(score.gain * (own - first))

    def has(self, score: Score) -> bool:
        """Whether the engine has this score: a forecast of quantiles has no log-likelihood."""
        return len(self.own) > 0 and bool(np.isfinite(self.values(score)[0]).all())

    def wins(self, score: Score) -> bool:
        gain, error = self.gain(score)
        return gain > _CLEAR * error

    def loses(self, score: Score) -> bool:
        gain, error = self.gain(score)
        return gain < -_CLEAR * error


def pairs(scored: Sequence[PeerScores]) -> list[Pair]:
    """Every entry beside that of the first engine; the first one's own come with themselves."""
    first = {(entry.benchmark, entry.share): entry for entry in scored if entry.engine == scored[0].engine}
    found = []
    for entry in scored:
        reference = first[entry.benchmark, entry.share].scores
        rows = np.intersect1d(entry.scores.rows, reference.rows)
        own, other = (_only(scores, rows) for scores in (entry.scores, reference))
        found.append(Pair(entry.benchmark, entry.share, entry.engine, own, other))
    return found


def _only(scores: CurveScores, rows: Array) -> CurveScores:
    index = np.searchsorted(scores.rows, rows)
    parts = (scores.log_likelihood, scores.squared_error, scores.crps, scores.inside90, scores.pit)
    return CurveScores(rows, *(part[index] for part in parts))


def tables(scored: Sequence[PeerScores]) -> str:
    """All tables as Markdown; the first entry's engine is the one that others are held against."""
    found = pairs(scored)
    first = found[0].engine
    parts = [
        _sizes(found),
        f"### At a glance\n\n{_glance(found)}",
        *(f"### {score.title}\n\n{_by_cutoff(found, lambda pair, s=score: _cell(pair, s, first))}" for score in SCORES),
        f"### Log-likelihood, median over curves\n\n{_by_cutoff(found, _median)}",
        f"### Coverage of the central 90 %\n\n{_by_cutoff(found, _coverage)}",
        f"### Where another engine beats {first}\n\n{_wins(found, first)}",
        f"### Runs that peers left to last-value\n\n{_unanswered(scored)}",
    ]
    return "\n\n".join(parts)


def _sizes(found: Sequence[Pair]) -> str:
    """How many curves each engine has in each collection, at the first cutoff."""
    sizes: dict[str, dict[str, int]] = {}
    for pair in found:
        sizes.setdefault(pair.engine, {}).setdefault(pair.benchmark, len(pair.own))
    first, *others = sizes
    lines = ["Curves at the first cutoff: " + ", ".join(f"{name} {n}" for name, n in sizes[first].items()) + "."]
    for engine in others:
        if sizes[engine] != sizes[first]:
            lines.append(f"{engine}, which is slow, has {sum(sizes[engine].values())} of these curves.")
    return " ".join(lines)


def _glance(found: Sequence[Pair]) -> str:
    """One row per engine over all collections and cutoffs."""
    crps, error, likelihood = SCORES
    cells = len({(pair.benchmark, pair.share) for pair in found})
    rows = []
    for engine in _engines(found):
        own = [pair for pair in found if pair.engine == engine]
        dense = [pair for pair in own if pair.has(likelihood)]
        median = np.median(np.concatenate([pair.own.log_likelihood for pair in dense])) if dense else math.nan
        better = np.concatenate([pair.own.crps < pair.first.crps for pair in own]).mean()
        same = engine == found[0].engine
        rows.append(
            [
                engine,
                f"{_ratio(own, crps):.2f}",
                f"{_ratio(own, error):.2f}",
                _NOTHING if same else f"{better:.0%}",
                _NOTHING if same else f"{sum(p.wins(crps) for p in own)} / {sum(p.loses(crps) for p in own)}",
                _NOTHING if same else f"{sum(p.wins(error) for p in own)} / {sum(p.loses(error) for p in own)}",
                f"{median:.2f}" if dense else _NOTHING,
                f"{np.concatenate([pair.own.inside90 for pair in own]).mean():.2f}",
            ]
        )
    first = found[0].engine
    heading = ["engine", "CRPS", "sq. error", "curves won", "CRPS better / worse", "error better / worse"]
    note = (
        f"CRPS and squared error as multiples of {first}'s (geometric mean over {cells} pairs of collection and "
        f"cutoff, on the same curves); the share of curves on which the engine's CRPS is lower than {first}'s; in how "
        f"many pairs it is clearly better and clearly worse (by more than {_CLEAR:g} standard errors of the paired "
        "difference); the median log-likelihood of all curves; the share of values inside the central 90 %."
    )
    return f"{note}\n\n{markdown([*heading, 'median LL', 'in 90 %'], rows)}"


def _ratio(own: Sequence[Pair], score: Score) -> float:
    """Geometric mean over collections and cutoffs of the mean score relative to the first engine's."""
    means = [[values.mean() for values in pair.values(score)] for pair in own]
    return math.exp(np.mean([math.log(max(mine, 1e-12) / max(first, 1e-12)) for mine, first in means]))


def _engines(found: Sequence[Pair]) -> list[str]:
    return list(dict.fromkeys(pair.engine for pair in found))


def _by_cutoff(found: Sequence[Pair], cell: Callable[[Pair], str]) -> str:
    """Collections and cutoffs down, engines across."""
    engines = _engines(found)
    by_place = {(pair.benchmark, pair.share, pair.engine): pair for pair in found}
    places = dict.fromkeys((pair.benchmark, pair.share) for pair in found)
    rows = [
        [benchmark, f"{share:.0%}", *(cell(by_place[benchmark, share, engine]) for engine in engines)]
        for benchmark, share in places
    ]
    return markdown(["collection", "seen", *engines], rows)


def _cell(pair: Pair, score: Score, first: str) -> str:
    """The mean over curves, and the standard error of its difference to the first engine's (or of its own mean)."""
    if not pair.has(score):
        return _NOTHING
    mean, error = Estimate.of(pair.values(score)[0])
    if pair.engine == first:
        return f"{_short(mean)} ± {_short(error)}"
    _, error = pair.gain(score)
    text = f"{_short(mean)} ± {_short(error)}"
    return f"**{text}**" if pair.wins(score) else text


def _median(pair: Pair) -> str:
    values = pair.own.log_likelihood
    return _short(float(np.median(values))) if len(values) and np.isfinite(values).all() else _NOTHING


def _coverage(pair: Pair) -> str:
    return f"{pair.own.inside90.mean():.2f}" if len(pair.own) else _NOTHING


def _wins(found: Sequence[Pair], first: str) -> str:
    lines = []
    for pair in found:
        for score in SCORES:
            if pair.engine != first and pair.has(score) and pair.wins(score):
                own, other = (_short(float(values.mean())) for values in pair.values(score))
                lines.append(
                    f"- {pair.benchmark} at {pair.share:.0%}: {pair.engine}, {score.name} {own} against {other}"
                )
    return "\n".join(lines) if lines else f"Nowhere by more than {_CLEAR:g} standard errors."


def _unanswered(scored: Sequence[PeerScores]) -> str:
    """The share of runs, by cutoff, that a peer could not answer, mostly for having too few values."""
    shares = list(dict.fromkeys(entry.share for entry in scored))
    rows = []
    for engine in dict.fromkeys(entry.engine for entry in scored):
        cells = []
        for share in shares:
            own = [entry for entry in scored if (entry.engine, entry.share) == (engine, share)]
            runs = sum(len(entry.scores) for entry in own)
            cells.append(f"{1.0 - sum(entry.answered for entry in own) / max(runs, 1):.0%}")
        if any(cell != "0%" for cell in cells):
            rows.append([engine, *cells])
    return markdown(["engine", *(f"{share:.0%} seen" for share in shares)], rows) if rows else "None."


def markdown(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns line up in the source too."""
    widths = [max(len(row[i]) for row in (heading, *rows)) for i in range(len(heading))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (heading, *rows)]
    rule = " | ".join("-" * width for width in widths)
    return "\n".join(f"| {line} |" for line in (lines[0], rule, *lines[1:]))


def _short(value: float) -> str:
    """Three digits or so, whatever the size."""
    size = abs(value)
    if not math.isfinite(value):
        return _NOTHING
    if size >= 1e5:
        return f"{value:.0e}"
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"
