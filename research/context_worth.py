"""What are other runs of the task worth? Forecasts of real runs with 0, 1, 4, 16 and 64 finished ones in view.

    python research/context_worth.py ../shared/data/lcbench.npz ../shared/data/taskset.npz --model new.onnx
    python research/context_worth.py ... --without-configs --half report
    python research/context_worth.py ../shared/data/lcbench.npz --strangers ../shared/data/taskset.npz
    python research/context_worth.py ../shared/data/lcbench.npz --model latent-kronecker-gp --counts 16 --most-targets 8

Runs of a task are split by chance into those in view and those forecast, all normalised by one reference. A cell is a
collection at a cutoff with so many runs in view; each line shows the mean log-likelihood, what it gained, the share of
values inside the 90 % interval, and, before the first epoch, the root mean squared error of the median of the end.
With `--finished` runs that broke down, or grew beyond 100,000, are neither in view nor forecast.
The report half (`--half report`) is for the very end; every look at it is to be counted.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from halves import groups, split
from numpy.typing import NDArray
from peers.latent_kronecker import LatentKronecker

from epochcast.benchmarks import CurveSet
from epochcast.benchmarks.npz import arrays_of
from epochcast.curve import Array, Curves, Lengths
from epochcast.engines import load_engine
from epochcast.question import Context, Engine, Question

PEER = LatentKronecker.name  # with botorch installed; of it there is no forecast without other runs
SHARES = (0.0, 0.1, 0.2, 0.4, 0.8)
COUNTS = (1, 4, 16, 64)
FEWEST = 4  # runs of a task
QUERIES = 12  # later steps of a run that are scored
EXPLODED = 1e5


@dataclass(frozen=True)
class Score:
    """One run at one cutoff."""

    likelihood: float
    inside: float
    end_error: float  # squared, of the median at the last step


def known_configs(curves: CurveSet, rows: Lengths) -> tuple[dict[str, float] | None, ...]:
    if curves.config is None or not curves.config_names:
        return (None,) * len(rows)
    names = curves.config_names
    return tuple(
        {name: float(x) for name, x in zip(names, curves.config[row], strict=True) if np.isfinite(x)} or None
        for row in rows
    )


def context_of(curves: CurveSet, rows: Lengths, with_configs: bool) -> Context:
    configs = known_configs(curves, rows) if with_configs else ()
    return Context(curves.prefixes(curves.lengths)[rows], curves.horizons[rows], configs)


def with_strangers(context: Context, strangers: Context, share: float) -> Context:
    """A share of the runs in view replaced by those of another task, which say nothing."""
    count = round(share * len(context))
    own, strange = np.arange(len(context) - count), np.arange(count)
    parts = [(context.runs[own], context.horizons[own]), (strangers.runs[strange], strangers.horizons[strange])]
    runs = Curves.of(
        [values[:length] for runs, _ in parts for values, length in zip(runs.values, runs.lengths, strict=True)],
        [steps[:length] for runs, _ in parts for steps, length in zip(runs.steps, runs.lengths, strict=True)],
    )
    configs = (*(context.configs or (None,) * len(context))[: len(own)], *(None,) * count)
    return Context(runs, np.concatenate([horizons for _, horizons in parts]), configs)


def scored(
    engine: Engine, curves: CurveSet, rows: Lengths, share: float, context: Context | None, with_configs: bool
) -> Iterator[tuple[int, Score]]:
    """Scores of some runs of a task, each asked about a few of its later steps."""
    counts = curves.seen_at(share)[rows] if share else np.zeros(len(rows), dtype=np.int64)
    for horizon in np.unique(curves.horizons[rows]):
        some = np.flatnonzero((curves.horizons[rows] == horizon) & (counts < curves.lengths[rows]))
        if not len(some):
            continue
        own, seen = rows[some], counts[some]
        left = curves.lengths[own] - seen
        index = seen[:, None] + np.round(np.linspace(0.0, 1.0, QUERIES) * (left[:, None] - 1)).astype(np.int64)
        steps = np.take_along_axis(curves.step_grid[own], index, axis=1)
        truth = np.take_along_axis(curves.normalised[own], index, axis=1)
        part = curves[own]
        question = replace(
            part.question(seen, steps), context=context, configs=known_configs(curves, own) if with_configs else ()
        )
        for i, score in zip(some, _scores(engine, question, truth), strict=True):
            yield int(i), score


def _scores(engine: Engine, question: Question, truth: Array) -> list[Score]:
    answer: Any = engine.predict(question)
    likelihood = answer.log_prob(truth).mean(axis=1)
    inside = (np.abs(answer.cdf(truth) - 0.5) <= 0.45).mean(axis=1)
    error = (answer.icdf(0.5) - truth)[:, -1] ** 2
    return [Score(*(float(x) for x in row)) for row in zip(likelihood, inside, error, strict=True)]


def finished(curves: CurveSet) -> NDArray[np.bool_]:
    """Which runs came to their end."""
    rows = np.arange(len(curves))
    largest = np.abs(curves.values, where=np.isfinite(curves.values), out=np.zeros_like(curves.values)).max(axis=1)
    return (curves.step_grid[rows, curves.lengths - 1] >= curves.horizons) & (largest < EXPLODED)


def tasks(path: Path, given: argparse.Namespace) -> Iterator[tuple[str, CurveSet, list[str]]]:
    """Tasks of a half, with one reference for all runs of each, and what each run must not see of its like."""
    for curves, chosen in split(path, given.half):
        if given.finished:
            chosen = chosen & finished(curves)
        names = [str(name) for name in arrays_of(path).get("run_names", np.arange(len(curves)))]
        parents = groups(curves, names) if "lr_scheduling" in path.name else [str(i) for i in range(len(curves))]
        for task in np.unique(curves.task[chosen]):
            rows = np.flatnonzero(chosen & (curves.task == task) & (curves.lengths > 1))
            if len(rows) < FEWEST:
                continue
            own = curves[rows]
            shared = replace(own, references=np.full(len(own), float(np.median(own.references))), untrained=None)
            yield curves.name, shared, [parents[row] for row in rows]


def compare(
    engine: Engine, path: Path, given: argparse.Namespace, strange: tuple[Context, float] | None
) -> dict[tuple[int, float], list]:
    """Scores [with, without] of every run that was forecast with so many others in view."""
    cells: dict[tuple[int, float], list[tuple[Score, Score]]] = {}
    with_configs = not given.without_configs
    for number, (_, curves, parents) in enumerate(tasks(path, given)):
        rng = np.random.default_rng([given.seed, number])
        order = rng.permutation(len(curves))
        others, targets = (
            order[: min(max(COUNTS), len(order) // 2 + 1)],
            order[len(order) // 2 + 1 :][: given.most_targets],
        )
        if "lr_scheduling" in path.name:  # every run is forecast, with runs of other parents in view
            others, targets = order, order[: given.most_targets]
        for share in SHARES:
            alone = share and given.model != PEER
            without = dict(scored(engine, curves, targets, share, None, with_configs)) if alone else {}
            for count in given.counts:
                for i, score in beside(engine, curves, targets, others, count, share, with_configs, parents, strange):
                    cells.setdefault((count, share), []).append((score, without.get(i, score)))
    return cells


def beside(
    engine: Engine, curves: CurveSet, targets: Lengths, others: Lengths, count: int, share: float,
    with_configs: bool, parents: list[str], strange: tuple[Context, float] | None,
) -> Iterator[tuple[int, Score]]:  # fmt: skip
    """Scores of runs with the first `count` others in view that are no near copies of them."""
    for parent in dict.fromkeys(parents[row] for row in targets):
        own = np.array([i for i, row in enumerate(targets) if parents[row] == parent])
        allowed = np.array([row for row in others if parents[row] != parent], dtype=np.int64)
        if len(set(parents)) == len(parents):  # each run is its own parent: all of them at once
            own, allowed = np.arange(len(targets)), others
        if len(allowed) >= count:
            context = context_of(curves, allowed[:count], with_configs)
            if strange is not None:
                context = with_strangers(context, *strange)
            for i, score in scored(engine, curves, targets[own], share, context, with_configs):
                yield int(own[i]), score
        if len(own) == len(targets):
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("collections", nargs="+", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument("--half", choices=("choose", "report"), default="choose")
    parser.add_argument("--without-configs", action="store_true")
    parser.add_argument("--finished", action="store_true", help="leave out runs that broke down")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--counts", type=lambda text: [int(part) for part in text.split(",")], default=COUNTS)
    parser.add_argument("--most-targets", type=int, default=40, help="runs of a task that are forecast")
    parser.add_argument(
        "--strangers", type=Path, help="a collection whose runs take the place of a share of those in view"
    )
    parser.add_argument("--strange-share", type=float, default=1.0)
    given = parser.parse_args()
    engine: Engine = LatentKronecker() if given.model == PEER else load_engine(given.model)
    strange = None
    if given.strangers is not None:
        _, curves, _ = next(tasks(given.strangers, given))
        strange = context_of(curves, np.arange(min(max(COUNTS), len(curves))), False), given.strange_share
    for path in given.collections:
        cells = compare(engine, path, given, strange)
        print(
            f"{path.stem}: log-likelihood (gain, inside 90 %) at 0 / 10 / 20 / 40 / 80 %, and error of the end at 0 %"
        )
        for count in given.counts:
            line = []
            for share in SHARES:
                pairs = cells.get((count, share), [])
                if not pairs:
                    continue
                mean = np.mean([score.likelihood for score, _ in pairs])
                gain = mean - np.mean([score.likelihood for _, score in pairs])
                inside = np.mean([score.inside for score, _ in pairs])
                line.append(
                    f"{mean:6.2f} ({gain:+.2f}, {inside:.2f})" if share else f"{mean:6.2f} (     , {inside:.2f})"
                )
            ends = [score.end_error for score, _ in cells.get((count, 0.0), [])]
            if line:
                print(
                    f"{count:4d} runs, {len(ends):4d} forecast {' '.join(line)}  {np.sqrt(np.mean(ends)):.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
