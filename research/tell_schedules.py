"""What it is worth to tell the model the learning-rate schedule, on runs whose schedule is known.

    python research/make_unseen_runs.py unseen --seed 12 --runs 30
    python research/tell_schedules.py --data ../shared/data --unseen unseen

fills the tables of docs/research/schedules.md. LCBench and NAS-Bench-201 anneal their rates along a cosine, NAS-Bench-
NLP keeps them, and so do the runs of DeepOBS, whose names list all their settings. Every network of `digits_bench` says
which of four schedules it had, and `make_unseen_runs.py` stores the rates of each network. A run is forecast without a
word about its schedule, with the true one, and with a wrong one (`constant` where it is not, else `cosine`); and by
`stream`, whose prior knows no schedules.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pages import filled, table

from epochcast.benchmarks import CurveSet, load
from epochcast.benchmarks.npz import arrays_of, digits_bench
from epochcast.console import progress
from epochcast.engines import load_engine
from epochcast.experiments.real.scores import SHARES, CurveScores, score
from epochcast.question import Engine
from epochcast.schedule import Schedule

PAGE = Path(__file__).resolve().parents[1] / "docs" / "research" / "schedules.md"
KNOWN = {
    "lcbench": "cosine",
    "nasbench201": "cosine",
    "nasbench_nlp": "constant",
    "deepobs_accuracy": "constant",
    "deepobs_loss": "constant",
}
# How `digits_bench` numbers its schedules, with steps as shares of the run.
OF_NETWORKS = ("constant", "cosine", "drops,at={0.5}/{0.8}", "linear,warmup={0.2}")
MEASURES: dict[str, Callable[[CurveScores], str]] = {
    "Log-likelihood, mean over curves": lambda scores: f"{scores.log_likelihood.mean():.2f}",
    "Log-likelihood, median over curves": lambda scores: f"{np.median(scores.log_likelihood):.2f}",
    "CRPS, mean over curves, x 1000": lambda scores: f"{1000 * scores.crps.mean():.2f}",
    "Coverage of the central 90 %": lambda scores: f"{scores.inside90.mean():.2f}",
}


@dataclass(frozen=True)
class Group:
    """Runs of one collection, and the schedule of each."""

    label: str
    curves: CurveSet
    schedules: list[Schedule]

    @classmethod
    def alike(cls, label: str, curves: CurveSet, words: str) -> Group:
        """All with one schedule, whose steps in braces are shares of the horizon."""
        return cls(label, curves, [Schedule.of(in_steps(words, float(horizon))) for horizon in curves.horizons])

    def wrongly(self) -> Group:
        """The same runs with schedules that they did not have."""
        other = [Schedule.of("cosine" if is_constant(schedule) else "constant") for schedule in self.schedules]
        return Group(self.label, self.curves, other)

    def scores(self, engine: Engine, share: float) -> CurveScores:
        parts = []
        for schedule in dict.fromkeys(self.schedules):
            rows = np.flatnonzero([own == schedule for own in self.schedules])
            part = score(engine, self.curves[rows], share, schedule=schedule)
            parts.append(replace(part, rows=rows[part.rows]))
        return CurveScores.joined(parts)


def in_steps(words: str, horizon: float) -> str:
    return re.sub(r"{([0-9.]+)}", lambda match: f"{float(match[1]) * horizon:g}", words)


def is_constant(schedule: Schedule) -> bool:
    return bool(np.ptp(schedule.at(np.linspace(0.01, 1.0, 100)[None] * 100.0, 100.0).rate) == 0.0)


def collections(data: Path, curves: int) -> Iterator[Group]:
    for found in load(data).sets:
        if found.name in KNOWN:
            words = KNOWN[found.name]
            yield Group.alike(f"{found.name}: {words}", found.sample(curves, 0).thinned(), words)


def networks() -> Iterator[Group]:
    for metric in ("accuracy", "log_loss"):
        curves = digits_bench(metric)
        assert curves.config is not None
        schedule = curves.config[:, curves.config_names.index("schedule")]
        for number, words in enumerate(OF_NETWORKS):
            some = curves[np.flatnonzero(schedule == number)]
            yield Group.alike(f"digits_bench, {metric}: {words.partition(',')[0]}", some, words)


def unseen(folder: Path) -> Iterator[Group]:
    for metric in ("accuracy", "log_loss"):
        path = folder / f"networks_{metric}.npz"
        (curves,) = load(path).sets
        rates = arrays_of(path)["rates"]
        yield Group(
            f"unseen networks, {metric}: any", curves, [Schedule.spaced(row[np.isfinite(row)]) for row in rates]
        )


def tables(found: list[Group], model: str) -> str:
    engine, unscheduled = load_engine(model), load_engine("stream")
    heads = ("without", "with the true one", "with a wrong one", "`stream`")
    cells: dict[str, list[list[str]]] = {title: [] for title in MEASURES}
    with progress("scoring") as advance:
        for i, group in enumerate(found):
            columns = [
                [score(engine, group.curves, share) for share in SHARES],
                [group.scores(engine, share) for share in SHARES],
                [group.wrongly().scores(engine, share) for share in SHARES],
                [score(unscheduled, group.curves, share) for share in SHARES],
            ]
            for title, measure in MEASURES.items():
                row = [" / ".join(measure(at) for at in column) for column in columns]
                cells[title].append([group.label, f"{len(group.curves):,}", *row])
            advance(i + 1, len(found))
    text = []
    for title, rows in cells.items():
        text.append(f"### {title}\n\n{table(['', 'runs', *heads], rows)}")
    return "\n\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--unseen", type=Path, required=True, help="what make_unseen_runs.py wrote")
    parser.add_argument("--model", default="default")
    parser.add_argument("--curves", type=int, default=2_000, help="of each collection")
    arguments = parser.parse_args()
    found = [*collections(arguments.data, arguments.curves), *networks(), *unseen(arguments.unseen)]
    text = tables(found, arguments.model)
    print(text)
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), "tables", text), encoding="utf-8")


if __name__ == "__main__":
    main()
