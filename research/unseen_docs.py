"""Score `real` on runs that nobody has looked at, beside its former weights and the baselines.

    python research/make_unseen_runs.py unseen13 --seed 13 --runs 30
    python research/unseen_docs.py unseen13 --former former/real.onnx

fills the tables of docs/research/unseen-runs.md. Several folders, made with different seeds, are taken together.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pages import filled, table

from epochcast.benchmarks import load
from epochcast.console import progress
from epochcast.experiments.contenders import contenders
from epochcast.experiments.real.scores import SHARES, CurveScores, score
from epochcast.question import Engine

PAGE = Path(__file__).resolve().parents[1] / "docs" / "research" / "unseen-runs.md"
COLLECTIONS = {
    "boosting_log_loss": "boosted trees, log loss",
    "boosting_accuracy": "boosted trees, accuracy",
    "networks_log_loss": "networks, log loss",
    "networks_accuracy": "networks, accuracy",
}
REAL = "`real`"
OTHERS = {"`stream`": "stream", "last value": "last-value", "power law": "power-law"}


@dataclass(frozen=True)
class Measure:
    """One number for the scores of many curves at a cutoff."""

    of: Callable[[CurveScores], float]
    format: str
    more_is_better: bool | None = None  # None where the right value lies between


MEASURES = {
    "Log-likelihood, mean over curves": Measure(lambda s: float(s.log_likelihood.mean()), ".2f", True),
    "Log-likelihood, median over curves": Measure(lambda s: float(np.median(s.log_likelihood)), ".2f", True),
    "CRPS, mean over curves, x 1000": Measure(lambda s: 1000.0 * float(s.crps.mean()), ".1f", False),
    "Squared error of the median, median over curves": Measure(
        lambda s: float(np.median(s.squared_error)), ".1e", False
    ),
    "Coverage of the central 90 %": Measure(lambda s: float(s.inside90.mean()), ".2f"),
}
Scored = dict[tuple[str, str], list[CurveScores]]  # by engine and collection, one per cutoff


def scored(engines: dict[str, Engine], folders: Sequence[Path]) -> Scored:
    sets = {name: [curves for at in folders for curves in load(at / f"{name}.npz").sets] for name in COLLECTIONS}
    cells = [(label, name) for label in engines for name in COLLECTIONS]
    result: Scored = {}
    with progress("scoring") as advance:
        for i, (label, name) in enumerate(cells):
            result[label, name] = [
                CurveScores.joined([score(engines[label], curves, share) for curves in sets[name]]) for share in SHARES
            ]
            advance(i + 1, len(cells))
    return result


def tables(found: Scored, labels: Sequence[str]) -> str:
    text = []
    for title, measure in MEASURES.items():
        rows = [
            [
                words,
                *(" / ".join(format(measure.of(at), measure.format) for at in found[label, name]) for label in labels),
            ]
            for name, words in COLLECTIONS.items()
        ]
        text.append(f"### {title}\n\n{table(['', *labels], rows)}")
    return "\n\n".join(text)


def wins(found: Scored, label: str, others: Sequence[str]) -> list[str]:
    """In how many pairs of collection and cutoff an engine is at least as good as each of the others, and by how much:
    the mean difference of likelihoods, the geometric mean of the ratios of errors."""
    lines = []
    for title, measure in MEASURES.items():
        if measure.more_is_better is None:
            continue
        values = {
            who: np.array([measure.of(at) for name in COLLECTIONS for at in found[who, name]])
            for who in (label, *others)
        }
        own, counts = values[label], []
        for who in others:
            if measure.more_is_better:
                count, by = (own >= values[who]).sum(), f"{(own - values[who]).mean():+.3f}"
            else:
                count, by = (own <= values[who]).sum(), f"x{np.exp(np.log(own / values[who]).mean()):.3f}"
            counts.append(f"{who} {count} ({by})")
        lines.append(f"{title}: {label} at least as good as {', '.join(counts)} (of {len(own)})")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="what make_unseen_runs.py wrote")
    parser.add_argument("--former", help="a model file with weights to compare with")
    arguments = parser.parse_args()
    former = {"former weights": arguments.former} if arguments.former else {}
    names = {REAL: "default"} | former | OTHERS
    engines = {label: contenders([name])[0].build() for label, name in names.items()}
    found = scored(engines, arguments.folders)
    text = tables(found, list(names))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), "tables", text), encoding="utf-8")
    print(text, *wins(found, REAL, [*former, *OTHERS]), sep="\n\n")


if __name__ == "__main__":
    main()
