"""What it is worth to tell the model the learning-rate schedule, on runs whose schedule is known.

    python scripts/tell_schedules.py --data ../shared/data

fills the tables of docs/schedules.md. LCBench and NAS-Bench-201 anneal their rates along a cosine, NAS-Bench-NLP keeps
them, and every network of `digits_bench` says which of four schedules it had. Each run is forecast without a word
about its schedule, with the true one, and with a wrong one: `constant` where it is not, else `cosine`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from epochcast.benchmarks import CurveSet, load
from epochcast.benchmarks.npz import digits_bench
from epochcast.console import progress
from epochcast.experiments.real import SHARES, CurveScores, score
from epochcast.forecaster import load_engine, told
from epochcast.runtime import Engine
from epochcast.schedule import Schedule

PAGE = Path(__file__).resolve().parents[1] / "docs" / "schedules.md"
KNOWN = {"lcbench": "cosine", "nasbench201": "cosine", "nasbench_nlp": "constant"}
# How `digits_bench` numbers its schedules, with steps as shares of the run.
OF_NETWORKS = ("constant", "cosine", "drops,at={0.5}/{0.8}", "linear,warmup={0.2}")
MEASURES = {
    "Log-likelihood, mean over curves": lambda scores: f"{scores.log_likelihood.mean():.2f}",
    "CRPS, mean over curves, x 1000": lambda scores: f"{1000 * scores.crps.mean():.2f}",
    "Coverage of the central 90 %": lambda scores: f"{scores.inside90.mean():.2f}",
}


@dataclass(frozen=True)
class Group:
    """Runs of one collection with one schedule."""

    curves: CurveSet
    words: str  # steps in braces are shares of the horizon
    label: str

    @property
    def wrong(self) -> str:
        return "cosine" if self.words == "constant" else "constant"

    def scores(self, engine: Engine, words: str | None, share: float) -> CurveScores:
        """Of forecasts that are told a schedule, or nothing."""
        parts = []
        for horizon in np.unique(self.curves.horizons):
            rows = np.flatnonzero(self.curves.horizons == horizon)
            knowing = engine if words is None else told(engine, Schedule.of(in_steps(words, float(horizon))))
            parts.append(score(knowing, self.curves[rows], share))
        return joined(parts)


def in_steps(words: str, horizon: float) -> str:
    return re.sub(r"{([0-9.]+)}", lambda match: f"{float(match[1]) * horizon:g}", words)


def joined(parts: list[CurveScores]) -> CurveScores:
    fields = ("rows", "log_likelihood", "squared_error", "crps", "inside90", "pit")
    return CurveScores(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields))


def groups(data: Path, curves: int) -> Iterator[Group]:
    for found in load(data).sets:
        if found.name in KNOWN:
            yield Group(found.sample(curves, 0).thinned(), KNOWN[found.name], found.name)
    for metric in ("accuracy", "log_loss"):
        networks = digits_bench(metric)
        assert networks.config is not None
        schedule = networks.config[:, networks.config_names.index("schedule")]
        for number, words in enumerate(OF_NETWORKS):
            name = words.partition(",")[0]
            yield Group(networks[np.flatnonzero(schedule == number)], words, f"digits_bench, {metric}: {name}")


def tables(found: list[Group], model: str) -> str:
    engine = load_engine(model)
    heads = ("untold", "told", "told wrongly")
    cells: dict[str, list[list[str]]] = {title: [] for title in MEASURES}
    with progress("scoring") as advance:
        for i, group in enumerate(found):
            scores = [
                [group.scores(engine, words, share) for share in SHARES] for words in (None, group.words, group.wrong)
            ]
            for title, measure in MEASURES.items():
                row = [" / ".join(measure(at) for at in column) for column in scores]
                cells[title].append([group.label, f"{len(group.curves):,}", *row])
            advance(i + 1, len(found))
    text = []
    for title, rows in cells.items():
        lines = [["", "runs", *heads], ["---"] * (2 + len(heads)), *rows]
        text.append(f"### {title}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines))
    return "\n\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="default")
    parser.add_argument("--curves", type=int, default=2_000, help="of each collection")
    arguments = parser.parse_args()
    text = tables(list(groups(arguments.data, arguments.curves)), arguments.model)
    print(text)
    page = PAGE.read_text(encoding="utf-8")
    marks = r"(<!-- tables -->\n).*?(<!-- /tables -->)"
    PAGE.write_text(re.sub(marks, lambda m: f"{m[1]}\n{text}\n\n{m[2]}", page, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
