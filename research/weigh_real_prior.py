"""Which rates do real curves ask for? Prior curves weighted so that they look like the development curves.

    python research/weigh_real_prior.py ../shared/data

A classifier (gradient boosting on summary statistics and values of whole curves) learns to tell curves of the prior
from those of the collections, losses from losses and accuracies from accuracies, on the same steps. Its odds, from
folds it was not fitted on, are the density ratio of the two: under these weights the ingredients of the prior have the
shares that the collections ask for. A rate far from what they ask for is a reason to look at curves, not an order.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from compare_real_prior import (
    COLLECTIONS,
    CURVES,
    GRIDS,
    Array,
    Group,
    prior_draw,
    read,
    regular,
    signed_log,
    summary,
    wide_table,
)
from numpy.typing import NDArray
from rich.console import Console
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from epochcast.benchmarks import digits_bench
from epochcast.metric import LOSS, SHARE
from epochcast.prior import real
from epochcast.prior.real.config import parent

KINDS = {"losses": LOSS, "accuracies": SHARE}
SEEN = (0.1, 0.2, 0.4, 0.7, 1.0)  # shares of a curve at which its values are compared
FOLDS = 3
LARGEST_ODDS = 15.0  # a few curves that the prior hardly ever draws must not outweigh all others


@dataclass(frozen=True)
class Sample:
    """What a classifier sees: row i of every array belongs to curve i."""

    features: Array  # [curve, feature]
    weights: Array  # [curve]: collections count alike, however large
    is_real: NDArray[np.bool_]  # [curve]
    ingredients: dict[str, NDArray[np.bool_]]  # [curve] each; of prior curves alone

    def __add__(self, other: Sample) -> Sample:
        return Sample(
            np.concatenate([self.features, other.features]),
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.is_real, other.is_real]),
            {name: np.concatenate([mask, other.ingredients[name]]) for name, mask in self.ingredients.items()},
        )


def features(values: Array) -> Array:
    """Statistics of whole curves, some of their values, and how they went on from there, [curve, feature]."""
    length = values.shape[1]
    at = [max(int(share * length), 1) - 1 for share in SEEN]
    soon = [min(i + max(length // 5, 1), length - 1) for i in at]
    gains = [values[:, [-1, j]] - values[:, [i]] for i, j in zip(at[:-1], soon[:-1], strict=True)]
    return np.column_stack([*summary(values).values(), values[:, at], signed_log(np.hstack(gains))])


def collections(data: Path, rng: np.random.Generator) -> dict[str, list[Group]]:
    """The development curves and those that ship with epochcast."""
    groups = {name: load(read(data / f"{name}.npz"), rng) for name, load in COLLECTIONS.items()}
    for metric, kind in (("accuracy", SHARE), ("log_loss", LOSS)):
        bench = digits_bench(metric)
        finished = {int(length): bench.lengths == length for length in np.unique(bench.horizons)}
        groups[f"digits_{metric}"] = [regular(bench.normalised[rows, :n], kind) for n, rows in finished.items()]
    return groups


def beside_prior(groups: list[Group], size: int, rng: np.random.Generator) -> Sample:
    """Curves of one collection and kind, and `size` curves of the prior on their steps."""
    rows = np.concatenate([features(group.values) for group in groups])
    rows = rows[rng.permutation(len(rows))[:CURVES]]
    chosen = [groups[i] for i in rng.permutation(len(groups))[:GRIDS]]
    drawn = [_prior(group, -(-size // len(chosen)), rng) for group in chosen]
    ingredients = {name: np.concatenate([masks[name] for _, masks in drawn]) for name in drawn[0][1]}
    prior = np.concatenate([values for values, _ in drawn])
    return Sample(
        np.concatenate([rows, prior]),
        np.repeat([1.0 / len(rows), 1.0 / len(prior)], [len(rows), len(prior)]),
        np.repeat([True, False], [len(rows), len(prior)]),
        {name: np.concatenate([np.zeros(len(rows), dtype=bool), mask]) for name, mask in ingredients.items()},
    )


def _prior(group: Group, size: int, rng: np.random.Generator) -> tuple[Array, dict[str, NDArray[np.bool_]]]:
    draw, same = prior_draw(group, size, rng, real.RealPriorConfig())
    return features(draw.noisy[same]), {name: mask[same] for name, mask in draw.ingredients.items()}


def density_ratio(sample: Sample, rng: np.random.Generator) -> tuple[Array, float]:
    """Odds [curve] that a curve is real, and the area under the classifier's curve: 0.5 if nothing tells them apart."""
    chance = np.empty(len(sample.weights))
    fold = rng.integers(0, FOLDS, len(chance))
    weights = sample.weights / sample.weights.mean()
    for k in range(FOLDS):
        classifier = HistGradientBoostingClassifier(
            learning_rate=0.08, max_iter=120, max_leaf_nodes=12, min_samples_leaf=60, l2_regularization=5.0
        )
        others = fold != k
        classifier.fit(sample.features[others], sample.is_real[others], sample_weight=weights[others])
        chance[fold == k] = classifier.predict_proba(sample.features[fold == k])[:, 1]
    area = roc_auc_score(sample.is_real, chance, sample_weight=weights)
    return np.minimum(chance / (1.0 - chance), LARGEST_ODDS), float(area)


def shares(sample: Sample, odds: Array) -> dict[str, float]:
    """The share of each ingredient among the curves that could have it, under these weights."""
    odds = np.where(sample.is_real, 0.0, odds * sample.weights)

    def total(name: str | None) -> float:
        return float(odds.sum() if name is None else odds[sample.ingredients[name]].sum())

    rated = real.RealPriorConfig()
    return {name: total(name) / max(total(parent(name)), 1e-12) for name in sample.ingredients if name in rated}


def report(data: Path, size: int, seed: int, console: Console) -> None:
    rng = np.random.default_rng(seed)
    by_name = collections(data, rng)
    for title, kind in KINDS.items():
        samples = {}
        for name, groups in by_name.items():
            of_kind = [group for group in groups if group.kind == kind]
            if of_kind:
                samples[name] = beside_prior(of_kind, size, rng)
        pool, *rest = samples.values()
        for sample in rest:
            pool = pool + sample
        columns = {"prior": shares(pool, np.ones(len(pool.weights)))}
        told_apart = {"prior": 0.5}  # area under the curve of a classifier that knows nothing
        for name, sample in {"all": pool, **samples}.items():
            odds, told_apart[name] = density_ratio(sample, rng)
            columns[name] = shares(sample, odds)
        rows = {name: {column: columns[column][name] for column in columns} for name in columns["prior"]}
        console.print(wide_table(f"{title}: share of each ingredient", {**rows, "(told apart)": told_apart}))


def main() -> None:
    parser = argparse.ArgumentParser(description="the rates that real curves ask for")
    parser.add_argument("data", type=Path, help="folder with the .npz files of the development curves")
    parser.add_argument("--curves", type=int, default=6_000, help="prior curves per collection")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    report(arguments.data, arguments.curves, arguments.seed, Console(width=130))


if __name__ == "__main__":
    main()
