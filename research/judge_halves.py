"""Is 90 % really 90 %? Cells of one half of the development runs: coverage, log-likelihood and CRPS of each engine.

    python research/judge_halves.py ../shared/data ../shared/data/kinds --engines real,stream,last-value,power-law
    python research/judge_halves.py ... --engines new.onnx,real --told ../shared/data/kinds/lm_lr_scheduling_val.npz

A cell is a collection at a cutoff. The first engine is judged; the last lines count its cells inside 0.85 to 0.95
(those with 30 runs or more), name the worst ones, and hold it against the other engines and against `--against`, whose
sharpness it must not sell. `--told` takes one collection and says what telling its schedules is worth. Scores are kept
in `--cache`. The report half (`--half report`) is for the very end; every look at it is to be counted.
"""

from __future__ import annotations

import argparse
import hashlib
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from halves import load_half, split

from epochcast.benchmarks import CurveSet
from epochcast.benchmarks.npz import arrays_of
from epochcast.engines import load_engine
from epochcast.experiments.real.scores import SHARES, CurveScores, score
from epochcast.schedule import Schedule

COUNTS = (2, 4, 8)  # values seen, pooled over collections
FEWEST = 30  # runs of a cell that counts
SHARP = ("lcbench", "taskset", "nasbench201", "algoperf", "deepobs_accuracy", "deepobs_loss")
INSIDE = (0.85, 0.95)


@dataclass(frozen=True)
class Cell:
    """One engine on one collection at one cutoff."""

    collection: str
    cutoff: str
    runs: int
    likelihood: float
    coverage: float
    crps: float
    inside: float  # sum over runs, to pool

    @classmethod
    def of(cls, collection: str, cutoff: str, scores: CurveScores) -> Cell:
        return cls(
            collection, cutoff, len(scores), float(scores.log_likelihood.mean()), float(scores.inside90.mean()),
            float(scores.crps.mean()), float(scores.inside90.sum()),
        )  # fmt: skip


def cells(name: str, sets: list[CurveSet], cache: Path) -> Iterator[Cell]:
    """All cells of an engine, from the cache where they are known."""
    engine = load_engine(name)
    of_weights = Path(name).read_bytes() if Path(name).is_file() else b""
    for curves in sets:
        key = hashlib.sha256(of_weights + f"{name}/{curves.name}".encode() + curves.normalised.tobytes()).hexdigest()
        kept = cache / f"{key[:24]}.pickle"
        if not kept.is_file():
            found = [Cell.of(curves.name, f"{share:.0%}", score(engine, curves, share)) for share in SHARES]
            for count in COUNTS:
                counts = np.where(curves.lengths > count, count, 0)
                found.append(Cell.of(curves.name, f"{count} values", score(engine, curves, counts)))
            kept.write_bytes(pickle.dumps(found))
        yield from pickle.loads(kept.read_bytes())


def table(of_engines: dict[str, list[Cell]]) -> None:
    """Every collection on one line per engine: coverage and log-likelihood at the four cutoffs."""
    first = next(iter(of_engines.values()))
    names = list(dict.fromkeys(cell.collection for cell in first))
    print(f"{'collection':26}{'runs':>5}  {'coverage at 10/20/40/80 %':27}{'log-likelihood':31}{'CRPS x 1000'}")
    for name in names:
        for engine, of_engine in of_engines.items():
            own = [cell for cell in of_engine if cell.collection == name and cell.cutoff.endswith("%")]
            coverage = " ".join(f"{cell.coverage:.3f}" for cell in own)
            likelihood = " ".join(f"{cell.likelihood:6.2f}" for cell in own)
            crps = " ".join(f"{1000 * cell.crps:6.2f}" for cell in own)
            print(f"{name:26}{own[0].runs:5d}  {coverage:27}{likelihood:31}{crps}  {Path(engine).stem}")


def summary(of_engines: dict[str, list[Cell]], against: str) -> None:
    """What the issue asks for, of the first engine."""
    judged_name, judged = next(iter(of_engines.items()))
    for fewest in (FEWEST, 10):
        large = [cell for cell in judged if cell.cutoff.endswith("%") and cell.runs >= fewest]
        held = [cell for cell in large if INSIDE[0] <= cell.coverage <= INSIDE[1]]
        low = [cell for cell in large if cell.coverage < 0.78]
        print(f"\n{Path(judged_name).stem}, cells with {fewest} runs or more: {len(held)} of {len(large)} inside, "
              f"{len(low)} below .78, {sum(cell.coverage > INSIDE[1] for cell in large)} above .95")  # fmt: skip
    worst = sorted(large, key=lambda cell: cell.coverage)[:12]
    print("lowest:", ", ".join(f"{cell.collection} {cell.cutoff} {cell.coverage:.2f}" for cell in worst))
    for count in COUNTS:
        own = [cell for cell in judged if cell.cutoff == f"{count} values" and cell.runs]
        of_collections = np.mean([cell.coverage for cell in own if cell.runs >= 10])
        pooled = sum(cell.inside for cell in own) / sum(cell.runs for cell in own)
        print(f"from {count} values: pooled {pooled:.3f}, mean of collections {of_collections:.3f}")
    for engine, others in of_engines.items():
        if engine == judged_name:
            continue
        behind = [
            f"{cell.collection} {cell.cutoff} {cell.likelihood - other.likelihood:+.2f}"
            for cell, other in zip(judged, others, strict=True)
            if cell.cutoff.endswith("%") and cell.runs >= 10 and cell.likelihood < other.likelihood
        ]
        print(f"below {Path(engine).stem} in {len(behind)} cells: {', '.join(behind)}")
    if against in of_engines:
        sharpness(judged, of_engines[against])


def sharpness(judged: list[Cell], before: list[Cell]) -> None:
    for name in SHARP:
        pairs = [
            (cell, other)
            for cell, other in zip(judged, before, strict=True)
            if cell.collection == name and cell.cutoff.endswith("%")
        ]
        nats = " ".join(f"{cell.likelihood - other.likelihood:+.3f}" for cell, other in pairs)
        crps = " ".join(f"{100 * (cell.crps / other.crps - 1):+.1f}%" for cell, other in pairs)
        print(f"sharpness {name:18} {nats}   CRPS {crps}")
    gains = [
        c.likelihood - o.likelihood
        for c, o in zip(judged, before, strict=True)
        if c.cutoff.endswith("%") and c.runs >= 10
    ]
    print(f"mean gain over all cells {np.nanmean(gains):+.3f}, median {np.nanmedian(gains):+.3f}")


def words_of(text: str) -> str:
    """A schedule of the collections in our words: lengths are those of the runs, and a hold to the end is no decay."""
    form, *options = text.replace("?", "").split(",")
    given = dict(option.split("=") for option in options)
    given.pop("total", None)
    if form == "wsd" and float(given["hold"]) >= 1.0:
        return f"constant,warmup={given['warmup']}"
    return ",".join([form, *(f"{key}={value}" for key, value in given.items())])


def tell(path: Path, names: list[str], half: str) -> None:
    """What telling the schedule is worth, on a collection that knows all of them."""
    texts = np.array([words_of(str(text)) for text in arrays_of(path)["schedule"]])
    ((curves, rows),) = split(path, half)
    own, texts = curves[rows].thinned(), texts[rows]
    for name in names:
        engine = load_engine(name)
        for share in SHARES:
            plain = score(engine, own, share)
            parts = []
            for text in sorted(set(texts)):
                of_text = np.flatnonzero(texts == text)
                found = score(engine, own[of_text], share, schedule=Schedule.of(text))
                parts.append(replace(found, rows=of_text[found.rows]))
            with_it = CurveScores.joined(parts)
            gain = with_it.log_likelihood.mean() - plain.log_likelihood.mean()
            likelihoods = f"{plain.log_likelihood.mean():.2f} untold, told {gain:+.2f}"
            coverages = f"coverage {plain.inside90.mean():.2f}, told {with_it.inside90.mean():.2f}"
            print(f"{Path(name).stem} {path.stem} {share:.0%}: {likelihoods}; {coverages}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--engines", default="real,stream,last-value,power-law")
    parser.add_argument("--against", default="real")
    parser.add_argument("--half", default="choose")
    parser.add_argument("--curves", type=int, default=400)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/judge_halves"))
    parser.add_argument("--told", type=Path, help="a collection whose schedules are all known")
    given = parser.parse_args()
    if given.told is not None:
        tell(given.told, given.engines.split(","), given.half)
        return
    given.cache.mkdir(exist_ok=True)
    sets = [curves.sample(given.curves).thinned() for path in given.data for curves in load_half(path, given.half)]
    sets = [curves for curves in sets if len(curves) >= 3]
    of_engines = {name: list(cells(name, sets, given.cache)) for name in given.engines.split(",")}
    table(of_engines)
    summary(of_engines, given.against)


if __name__ == "__main__":
    main()
