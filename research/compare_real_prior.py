"""Is the prior of real curves wide enough? Summary statistics of its samples beside those of the development curves.

    python research/compare_real_prior.py ../shared/data

Prints quantiles of every statistic for the prior, for all collections together and for each of them, and then which
share of each collection's curves lies inside the central 98 % of the prior. The prior is asked for losses or accuracies
on the very steps of each collection, so that both sides show the same metric through the same grid. Then how many
curves end below where they were, of those that had risen smoothly and of others.

With --forecasts it also asks whether the prior knows how curves go on: each real curve is cut off, the prior curves
most like what is left of it are looked up, and the real end should lie in the central 90 % of theirs. As many of them
should go on to lose or to gain far more than they moved lately. It is a crude stand-in for a trained network that takes
seconds instead of an hour.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from epochcast.metric import LOSS, SHARE, Metric
from epochcast.normalize import Normalizer
from epochcast.prior import real

Array = NDArray[np.float64]
Statistics = dict[str, Array]  # [curve] each

CURVES = 2_000  # per collection, at most
STEPS = 100  # per curve, at most; longer ones are thinned, as in the paper
GRIDS = 12  # of a collection whose curves have steps of their own: how many the prior is asked for
FEWEST_STEPS = 8
QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
SMALLEST = 1e-8  # differences below this are rounding of the stored values
CUTOFFS = (0.1, 0.2, 0.4, 0.8)
RISING = 0.9  # share of the values that are no worse than the one before, for a curve to count as smooth
MOVED = 1e-3  # the range that a curve must have seen to count as either
DEEP = 0.1  # a setback that no noise explains
NEIGHBOURS = 100
FAR = 3.0  # in units of what a curve moved lately
FORECAST_PRIOR, FORECAST_CURVES = 20_000, 150  # prior and real curves per collection
NATS_PER_WORD = np.log(33_278)  # an untrained model on WikiText-2 guesses among so many words


@dataclass(frozen=True)
class Group:
    """Normalised curves that share their steps."""

    steps: Array  # [step]
    values: Array  # [curve, step]
    kind: float  # LOSS or SHARE


Collections = dict[str, list[Group]]


# The collections -----------------------------------------------------------------------------------------------------


def loss(values: Array, untrained: Array) -> Array:
    """Losses [curve, step] as the paper normalises them; a run that diverged, NaN from there on, ends at the worst."""
    normalizer = Normalizer.of(Metric("log_loss", minimize=True, hard=(0.0, np.inf)), untrained[:, None])
    return np.where(np.isfinite(values), normalizer.forward(np.nan_to_num(values, nan=0.0)), 0.0)


def thinned(steps: Array, values: Array, kind: float) -> Group:
    every = -(-len(steps) // STEPS)
    return Group(steps[every - 1 :: every], values[:, every - 1 :: every], kind)


def regular(values: Array, kind: float) -> Group:
    return thinned(np.arange(1.0, values.shape[1] + 1.0), values, kind)


def some(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.sort(rng.permutation(size)[:CURVES])


def lcbench(file: dict[str, Array], rng: np.random.Generator) -> list[Group]:
    rows = some(len(file["curves"]), rng)
    return [regular(loss(file["curves"][rows, 1:], file["y0"][rows]), LOSS)]


def nasbench_nlp(file: dict[str, Array], rng: np.random.Generator) -> list[Group]:
    return [regular(loss(file["curves"], np.full(len(file["curves"]), NATS_PER_WORD)), LOSS)]


def nasbench201(file: dict[str, Array], rng: np.random.Generator) -> list[Group]:
    return [regular(file["curves"], SHARE)]


def deepobs(file: dict[str, Array], rng: np.random.Generator) -> list[Group]:
    """Every task has its own length; column 0 is the value before training."""
    groups = []
    for task in range(len(file["task_names"])):
        curves = file["curves"][file["task"] == task]
        length = int(np.isfinite(curves).any(axis=0).sum())
        if file["minimize"]:
            groups.append(regular(loss(curves[:, 1:length], curves[:, 0]), LOSS))
        else:
            groups.append(regular(curves[:, 1:length], SHARE))
    return groups


def uneven(file: dict[str, Array], rng: np.random.Generator) -> list[Group]:
    """Curves with positions of their own, counted so that the horizon is the number of values."""
    groups = []
    for row in some(len(file["curves"]), rng):
        values, positions = file["curves"][row : row + 1], file["x"][row]
        length = int(np.isfinite(values).sum())
        if length < FEWEST_STEPS:
            continue
        values = values[:, :length]
        minimize = np.broadcast_to(file["minimize"], file["task_names"].shape)[int(file["task"][row])]
        values, kind = (loss(values, values[:, 0]), LOSS) if minimize else (values, SHARE)
        groups.append(thinned(positions[:length] / positions[length - 1] * length, values, kind))
    return groups


COLLECTIONS: dict[str, Callable[[dict[str, Array], np.random.Generator], list[Group]]] = {
    "lcbench": lcbench,
    "taskset": lcbench,
    "nasbench201": nasbench201,
    "nasbench_nlp": nasbench_nlp,
    "deepobs_accuracy": deepobs,
    "deepobs_loss": deepobs,
    "algoperf": uneven,
    "lcdb": uneven,
}


def read(path: Path) -> dict[str, Array]:
    with np.load(path) as file:
        return {name: file[name].astype(np.float64) if file[name].dtype.kind == "f" else file[name] for name in file}


# The statistics ------------------------------------------------------------------------------------------------------


def log10(size: Array) -> Array:
    return np.log10(np.maximum(size, SMALLEST))


def lag_one(differences: Array) -> Array:
    """Correlation of neighbouring differences: -0.5 for white noise, towards 1 for smooth curves, 0 for constants."""
    centred = differences - differences.mean(axis=1, keepdims=True)
    variance = (centred**2).mean(axis=1)
    covariance = (centred[:, 1:] * centred[:, :-1]).mean(axis=1)
    return np.where(variance > SMALLEST**2, covariance / np.maximum(variance, SMALLEST**2), 0.0)


def summary(values: Array) -> Statistics:
    """Statistics of curves [curve, step]; those of shape are shares of the range of the curve."""
    length = values.shape[1]
    half, late = length // 2, length - max(length // 4, 3)
    first, last, middle = values[:, 0], values[:, -1], values[:, half]
    span = np.ptp(values, axis=1)
    scale = np.maximum(span, SMALLEST)
    jumps = np.abs(np.diff(values, axis=1))
    bends = np.abs(np.diff(values, n=2, axis=1))
    risen = values >= (0.5 * (values.max(axis=1) + values.min(axis=1)))[:, None]
    early_roughness, late_roughness = (
        log10(np.median(part, axis=1)) for part in (bends[:, :half], bends[:, late - 2 :])
    )
    return {
        "first value": first,
        "last value": last,
        "log10 range": log10(span),
        "log10 range of the last half": log10(np.ptp(values[:, half:], axis=1)),
        "gain over range": np.where(span > SMALLEST, (last - first) / scale, 0.0),
        "middle above chord": np.where(span > SMALLEST, (middle - 0.5 * (first + last)) / scale, 0.0),
        "half risen at": risen.argmax(axis=1) / length,
        "gain in last quarter": np.where(span > SMALLEST, (last - values[:, late - 1]) / scale, 0.0),
        "log10 final below best": log10(values.max(axis=1) - last),
        "log10 roughness early": early_roughness,
        "log10 roughness late": late_roughness,
        "roughness decay": late_roughness - early_roughness,
        "log10 largest jump after 1/4": log10(jumps[:, length // 4 :].max(axis=1)),
        "largest over median jump": log10(jumps.max(axis=1)) - log10(np.median(jumps, axis=1)),
        "lag-1 of differences": lag_one(np.diff(values[:, half - 2 :], axis=1)),
    }


def shares(values: Array) -> Statistics:
    """What is true or false of a curve; the mean is the share."""
    span, later_span = np.ptp(values, axis=1), np.ptp(values[:, values.shape[1] // 2 :], axis=1)
    begun = values[:, : max(values.shape[1] // 5, 4)]
    gain = begun[:, -1] - begun[:, 0]
    worse = ((np.diff(begun, axis=1) <= 0.0).mean(axis=1) > 0.85) & (gain < -1e-5)
    noise = np.sqrt((np.diff(begun, n=2, axis=1) ** 2).mean(axis=1) / 6.0)  # if it is white
    # Steadily, by 0.0002 to 0.01 in the first fifth.
    creeping = (noise < 0.05 * gain) & (gain > 2e-4) & (gain < 0.01)
    return {
        "constant": span < 1e-7,
        "barely moving (range below 0.005)": span < 5e-3,
        "constant in the last half": later_span < 1e-7,
        "settled (last half within 0.001)": later_span < 1e-3,
        "ends below its start by 0.01": values[:, -1] < values[:, 0] - 0.01,
        "ends below its best by 0.03": values[:, -1] < values.max(axis=1) - 0.03,
        "ends at the worst (below 0.001)": values[:, -1] < 1e-3,
        "worse from the start": worse,
        "worse, then takes off": worse & (values.max(axis=1) - values[:, 0] > -5.0 * gain),
        "creeping at first": creeping,
        "creeping, then twice as much": creeping & (values[:, -1] - begun[:, -1] > 2.0 * gain),
    }


def setbacks(groups: list[Group]) -> dict[str, float]:
    """The share of the curves that end below where they were at a cutoff: those that had risen smoothly, others, and
    all of them that end far below."""
    found: dict[str, list[Array]] = {}
    for group, cutoff in product(groups, CUTOFFS):
        length = max(round(cutoff * len(group.steps)), 3)
        seen, end = group.values[:, :length], group.values[:, -3:].mean(axis=1)
        lost = seen[:, -1] - end
        moved = np.ptp(seen, axis=1) > MOVED
        smooth = (np.diff(seen, axis=1) >= 0.0).mean(axis=1) >= RISING
        for name, rows, least in (
            ("smooth", moved & smooth, 0.0),
            ("rough", moved & ~smooth, 0.0),
            (f"by {DEEP}", moved, DEEP),
        ):
            found.setdefault(f"{name}, seen {cutoff:.0%}", []).append(lost[rows] > least)
    together = {name: np.concatenate(parts) for name, parts in found.items()}
    return {name: float(fell.mean()) if len(fell) else np.nan for name, fell in sorted(together.items())}


def of_groups(groups: list[Group], statistic: Callable[[Array], Statistics]) -> Statistics:
    parts = [statistic(group.values) for group in groups]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def prior_groups(groups: list[Group], size: int, rng: np.random.Generator, config: real.RealPriorConfig) -> list[Group]:
    """Curves of the prior on the steps of some of these groups, larger groups first."""
    chosen = sorted(groups, key=lambda group: -len(group.values))
    chosen = chosen if len(chosen) <= GRIDS else [groups[i] for i in rng.choice(len(groups), GRIDS, replace=False)]
    each = -(-size // len(chosen))
    return [Group(group.steps, prior_curves(group, each, rng, config), group.kind) for group in chosen]


def prior_curves(group: Group, size: int, rng: np.random.Generator, config: real.RealPriorConfig) -> Array:
    """About `size` curves [curve, step] of the prior on the steps of a group, none that measure something else."""
    draw, same = prior_draw(group, size, rng, config)
    return draw.noisy[same]


def prior_draw(
    group: Group, size: int, rng: np.random.Generator, config: real.RealPriorConfig
) -> tuple[real.RealDraw, NDArray[np.bool_]]:
    """A draw of the prior on the steps of a group, and which of its curves [curve] do not measure something else."""
    draw = real.sample(size, rng, group.steps, group.steps[-1], config.but(loss=float(group.kind == LOSS)))
    return draw, draw.kinds != -group.kind


# Forecasts by the nearest prior curves --------------------------------------------------------------------------------


def signed_log(x: Array) -> Array:
    return np.sign(x) * np.log10(1.0 + np.abs(x) / 1e-5)


def features(seen: Array) -> Array:
    """What tells curves apart that are seen so far, [curve, feature]; weights say how much a unit of each matters."""
    length = seen.shape[1]
    quarter, window = max(length // 4, 1), max(length // 10, 1)
    before, earlier, now = (
        seen[:, max(end - window, 0) : end].mean(axis=1) for end in (length - quarter, length - 2 * quarter, length)
    )
    bends = np.abs(np.diff(seen, n=2, axis=1))
    half = max(bends.shape[1] // 2, 1)
    columns = [
        4.0 * now,
        2.0 * seen[:, 0],
        signed_log(now - before),
        signed_log(before - earlier),
        signed_log(earlier - seen[:, 0]),
        signed_log(seen.max(axis=1) - now),
        signed_log(seen[:, -1] - now),
        1.5 * log10(np.median(bends[:, :half], axis=1)),
        1.5 * log10(np.median(bends[:, -half:], axis=1)),
    ]
    return np.stack(columns, axis=1)


def gains_after(group: Group, prior: Array, cutoff: float) -> tuple[Array, Array]:
    """What each curve gains after a cutoff [curve], and what its nearest prior curves gain [curve, neighbour].

    Both in units of what a curve moved lately: neighbours are never quite of the same size.
    """
    length = max(round(cutoff * len(group.steps)), 4)
    drawn, wanted = features(prior[:, :length]), features(group.values[:, :length])
    centre, scale = drawn.mean(axis=0), drawn.std(axis=0) + 1e-9
    drawn, wanted = (drawn - centre) / scale, (wanted - centre) / scale
    distances = (drawn**2).sum(axis=1) - 2.0 * wanted @ drawn.T  # [curve, prior curve], up to a constant per curve
    nearest = np.argpartition(distances, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]

    def gain(values: Array) -> Array:
        movement = np.ptp(values[:, length - max(length // 3, 2) : length], axis=1) + 1e-7
        gained = values[:, -1] - values[:, length - 1]
        return np.where(np.abs(gained) > SMALLEST, gained, 0.0) / movement

    return gain(group.values), gain(prior)[nearest]


def fates(gain: Array, neighbours: Array) -> Statistics:
    """What became of curves [curve]; the mean is the share."""
    low, high = np.quantile(neighbours, [0.05, 0.95], axis=1)
    return {
        "end in the central 90 % of their nearest prior curves": (gain >= low) & (gain <= high),
        f"lose {FAR:g} recent movements": gain < -FAR,
        f"lose {FAR:g} recent movements: their nearest prior curves": (neighbours < -FAR).mean(axis=1),
        f"gain {FAR:g} recent movements": gain > FAR,
        f"gain {FAR:g} recent movements: their nearest prior curves": (neighbours > FAR).mean(axis=1),
    }


def shares_of_fates(
    groups: list[Group], rng: np.random.Generator, config: real.RealPriorConfig
) -> dict[str, dict[float, float]]:
    """The share of every fate at each cutoff."""
    long_enough = [group for group in groups if len(group.steps) >= 12]
    chosen = [long_enough[i] for i in rng.permutation(len(long_enough))[: 3 * GRIDS]]
    each = FORECAST_PRIOR // min(len(chosen), 4)
    found: dict[float, list[Statistics]] = {cutoff: [] for cutoff in CUTOFFS}
    for group in chosen:
        prior = prior_curves(group, each, rng, config)
        tested = replace(group, values=group.values[rng.permutation(len(group.values))[:FORECAST_CURVES]])
        for cutoff in CUTOFFS:
            found[cutoff].append(fates(*gains_after(tested, prior, cutoff)))
    names = found[CUTOFFS[0]][0]
    return {
        name: {cutoff: float(np.concatenate([part[name] for part in found[cutoff]]).mean()) for cutoff in CUTOFFS}
        for name in names
    }


# The report ----------------------------------------------------------------------------------------------------------


def quantile_table(name: str, columns: dict[str, Array]) -> Table:
    table = Table(title=name, title_justify="left", box=None)
    table.add_column("")
    for q in QUANTILES:
        table.add_column(f"{q:.0%}", justify="right")
    for column, values in columns.items():
        table.add_row(column, *(f"{value:.3f}" for value in np.quantile(values, QUANTILES)))
    return table


def wide_table(title: str, rows: dict[str, dict[str, float]]) -> Table:
    """One row per statistic, one column per collection."""
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("")
    for column in next(iter(rows.values())):
        table.add_column(column.replace("_", "\n"), justify="right")
    for name, row in rows.items():
        table.add_row(name, *(f"{value:.3f}" for value in row.values()))
    return table


def inside(values: Array, prior: Array) -> float:
    """Share of values inside the central 98 % of the prior."""
    low, high = np.quantile(prior, [0.01, 0.99])
    return float(((values >= low) & (values <= high)).mean())


def report(data: Path, prior_size: int, seed: int, forecasts: bool, console: Console) -> None:
    rng, config = np.random.default_rng(seed), real.RealPriorConfig()
    collections = {name: load(read(data / f"{name}.npz"), rng) for name, load in COLLECTIONS.items()}
    priors = {name: prior_groups(groups, prior_size, rng, config) for name, groups in collections.items()}
    report_quantiles(collections, priors, console)
    report_shares(collections, priors, console)
    report_setbacks(collections, priors, console)
    if forecasts:
        by_name = {name: shares_of_fates(groups, rng, config) for name, groups in collections.items()}
        for fate in next(iter(by_name.values())):
            rows = {f"seen {cutoff:.0%}": {name: by_name[name][fate][cutoff] for name in by_name} for cutoff in CUTOFFS}
            console.print(wide_table(f"share of curves that {fate}", rows))


def report_quantiles(collections: Collections, priors: Collections, console: Console) -> None:
    """Quantiles of every statistic, then what share of each collection the prior on its grid covers."""
    seen = {name: of_groups(groups, summary) for name, groups in collections.items()}
    drawn = {name: of_groups(groups, summary) for name, groups in priors.items()}
    grid = np.linspace(0.0, 1.0, 501)
    covered: dict[str, dict[str, float]] = {}
    for statistic in next(iter(seen.values())):
        # Collections differ in size a hundredfold; in the pool each counts alike.
        pool = np.concatenate([np.quantile(seen[name][statistic], grid) for name in seen])
        prior = np.concatenate([drawn[name][statistic] for name in drawn])
        rows = {"prior": prior, "pool": pool, **{name: seen[name][statistic] for name in seen}}
        console.print(quantile_table(statistic, rows))
        covered[statistic] = {name: inside(seen[name][statistic], drawn[name][statistic]) for name in seen}
    covered["mean"] = {name: float(np.mean([row[name] for row in covered.values()])) for name in seen}
    console.print(wide_table("share of curves inside the central 98 % of the prior", covered))


def report_shares(collections: Collections, priors: Collections, console: Console) -> None:
    flags = {name: of_groups(groups, shares) for name, groups in collections.items()}
    drawn = of_groups([group for groups in priors.values() for group in groups], shares)
    rows = {
        flag: {
            "prior": float(drawn[flag].mean()),
            "pool": float(np.mean([flags[name][flag].mean() for name in flags])),
            **{name: float(flags[name][flag].mean()) for name in flags},
        }
        for flag in drawn
    }
    console.print(wide_table("share of curves that are", rows))


def report_setbacks(collections: Collections, priors: Collections, console: Console) -> None:
    """Real curves that rise smoothly hardly ever turn; those of the prior should not do so either."""
    drawn = [group for groups in priors.values() for group in groups]
    columns = {
        "prior losses": setbacks([group for group in drawn if group.kind == LOSS]),
        "prior accuracies": setbacks([group for group in drawn if group.kind == SHARE]),
        **{name: setbacks(groups) for name, groups in collections.items()},
    }
    rows = {row: {name: column[row] for name, column in columns.items()} for row in columns["prior losses"]}
    console.print(wide_table("share of curves that end below where they were", rows))


def main() -> None:
    parser = argparse.ArgumentParser(description="the prior of real curves beside real curves")
    parser.add_argument("data", type=Path, help="folder with the .npz files of the development curves")
    parser.add_argument("--curves", type=int, default=2_000, help="prior curves per collection")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--forecasts", action="store_true", help="also check how curves go on")
    arguments = parser.parse_args()
    report(arguments.data, arguments.curves, arguments.seed, arguments.forecasts, Console(width=130))


if __name__ == "__main__":
    main()
