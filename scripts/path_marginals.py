"""How far the marginals of joint futures are from the direct forecasts: `f.paths` against `f.quantile` on prior curves.

    python scripts/path_marginals.py --curves 100 --paths 200

At each cutoff the values of the paths are ranked in the direct forecast of their step. Ranks of a consistent model are
uniform, so their Kolmogorov-Smirnov distance is that of as many uniform draws, which is printed beside it.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer
from scipy import stats

import epochcast as ec
from epochcast.console import progress

CUTOFFS = (0.1, 0.2, 0.4, 0.8)
HORIZON = 100


def distance(forecaster: ec.Forecaster, curves: np.ndarray, cutoff: int, paths: int) -> tuple[float, float]:
    """Mean over curves of the KS distance at the horizon and half-way to it."""
    found = []
    for seed, curve in enumerate(curves):
        forecast = forecaster.forecast(curve[:cutoff], HORIZON, "unit", at=np.arange(cutoff + 1.0, HORIZON + 1.0))
        ranks = forecast.cdf(forecast.paths(paths, seed=seed))
        ends = (ranks[:, ranks.shape[1] // 2], ranks[:, -1])
        found.append([stats.kstest(rank, "uniform").statistic for rank in ends])
    half, end = np.mean(found, axis=0)
    return float(half), float(end)


def main(
    curves: Annotated[int, typer.Option(help="curves of the paper's prior")] = 100,
    paths: Annotated[int, typer.Option(help="paths of each")] = 200,
) -> None:
    """Print a table, one row per model and cutoff."""
    drawn = ec.sample_prior(curves, HORIZON, seed=11)
    rng = np.random.default_rng(0)
    chance = np.mean([stats.kstest(rng.random(paths), "uniform").statistic for _ in range(1000)])
    rows = []
    with progress("drawing paths") as advance:
        for done, (model, cutoff) in enumerate([(m, c) for m in ("real", "stream") for c in CUTOFFS], start=1):
            half, end = distance(ec.Forecaster(model), drawn, round(cutoff * HORIZON), paths)
            rows.append(f"| {model} | {100 * cutoff:.0f} % | {half:.3f} | {end:.3f} | {chance:.3f} |")
            advance(done, 8)
    print("| model | seen | half-way | end | of uniform draws |\n|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    typer.run(main)
