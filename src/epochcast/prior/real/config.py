"""The table of rates: how often each ingredient of the prior of real curves appears.

Rates are chosen by comparing summary statistics of samples and of real collections (`scripts/compare_real_prior.py`),
wider than those collections rather than fitted to them. `docs/real-prior.md` shows every ingredient.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.errors import ConfigError
from epochcast.prior.families import Array

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]


@dataclass(frozen=True)
class RealPriorConfig:
    """Rates of the ingredients, each a probability; what a rate is a share of is said beside it."""

    # Whole curves, at most one each: shares of all curves. The rest are ordinary runs.
    paper: float = 0.18  # a curve of the paper's prior with its white noise
    constant: float = 0.06  # never moves at all
    toggling: float = 0.025  # a constant guess that changes: jumps between a few levels around chance

    # What is measured.
    paper_accuracy: float = 0.17  # of the paper's curves: said to be an accuracy
    paper_loss: float = 0.55  # of the paper's curves: said to be a loss; the others are not said to be anything
    paper_quiet: float = 0.55  # of the paper's curves: with a part of their noise
    loss: float = 0.55  # of ordinary runs: a loss, squeezed by the paper's normalisation; the others are accuracies
    first_as_reference: float = 0.30  # of all losses: normalised by their first value, for want of an untrained one

    tokens: float = 0.20  # of losses in training: of a language model, a power law above a floor
    amounts: float = 0.70  # of ordinary runs on steps that grow geometrically: against the amount of data instead

    # The learning-rate schedule, at most one each: shares of planned runs, which are all but the paper's curves and
    # those against the amount of data.
    cosine: float = 0.47
    polynomial: float = 0.09  # linear, root or square, some after a long hold
    exponential: float = 0.02
    drops: float = 0.09  # one to three sudden drops
    restarts: float = 0.03  # cosine cycles
    hold_decay: float = 0.05  # held for most of the run, then down at once, linear, 1 - sqrt, exponential or cosine
    tokens_hold_decay: float = 0.35  # of language models: the same

    # What a schedule does: shares of the runs that have one.
    ends_at_horizon: float = 0.90  # the others end earlier or would end later
    hold: float = 0.12  # of cosine and polynomial ones: the rate is held for a while before it decays
    rest: float = 0.30  # of cosine and polynomial ones: the rate does not decay to zero
    warmup: float = 0.25
    paced: float = 0.68  # progress goes with the sum of learning rates, not with the number of steps
    gap: float = 0.41  # a high learning rate holds the curve below its trend until the schedule ends
    gap_accuracy: float = 0.57  # of accuracies: the same
    gap_tokens: float = 0.85  # of language models: the same
    gap_drops: float = 0.60  # of runs with drops: the same, for that is what a rate is dropped for
    gap_noise: float = 0.80  # of runs with a gap: fluctuations in proportion to it
    noise_follows_schedule: float = 0.73

    tame: float = 0.50  # of ordinary runs: quiet, with few setbacks; the others have the more of them

    warped: float = 0.35  # the clock runs a little fast or slow for a while: no family is exact
    warped_tokens: float = 0.80  # of language models: the same
    strayed: float = 0.20  # a deviation with long memory, in proportion to what is left to learn

    # The shape: shares of ordinary runs; setbacks but double descents are of those that are trainings.
    paper_trend: float = 0.60  # of losses: the trend is that of one of the paper's curves
    solved: float = 0.39  # of losses: hardly any error need be left at the end
    second_decay: float = 0.65  # a fast and a slow part
    second_wind: float = 0.15  # not beside a trend of the paper: a part is learned late, all at once
    slow_start: float = 0.25  # sigmoid: an inflection before the fastest gain
    slow_accuracy: float = 0.25  # of accuracies: the same, since the loss must fall a while before a guess changes
    worsening: float = 0.04  # of losses: the trend goes the wrong way from the start
    wild: float = 0.02  # of losses in training: they jump far beyond the untrained value as long as the rate is high
    bad_start: float = 0.07  # of losses: the first steps make the model much worse than untrained
    far_start: float = 0.05  # of losses in training: the untrained guess is far off, which the first steps mend
    counted_start: float = 0.15  # of trainings: the first evaluation, which counts as a step, comes before any training
    delay: float = 0.02  # nothing happens at first
    late_accuracy: float = 0.03  # of accuracies: the same, since the model keeps guessing one class at first
    silent_delay: float = 0.90  # of these: without noise, too: the model makes one constant guess
    stall: float = 0.04  # a plateau on the way
    stays: float = 0.05  # a plateau for good: from some step on nothing more is learned
    too_slow: float = 0.10  # of losses: the learning rate is much too small: only the first part of a decay is seen
    too_slow_accuracy: float = 0.01  # of accuracies: the same
    barely_moving: float = 0.22  # of losses: a full curve in miniature, close to its start
    barely_moving_accuracy: float = 0.025  # of accuracies: the same
    overfitting: float = 0.12  # of what was gained some is lost after an onset
    memorising: float = 0.05  # of losses: the same, smoothly, whatever the temper of the run
    overfitting_at_turn: float = 0.30  # of these, if the schedule has a sudden turn: it begins there
    wandering: float = 0.14  # small changes add up, as those of boosted trees do
    unstable: float = 0.012  # of losses: what was gained is lost and found again, more lost than found
    unstable_accuracy: float = 0.005  # of accuracies: the same
    double_descent: float = 0.04  # worse for a while, then better again
    spikes: float = 0.045  # sudden, with recovery
    collapse: float = 0.026  # of losses: divergence, for good
    collapse_accuracy: float = 0.008  # of accuracies: back to chance

    exploding: float = 0.015  # of losses: from some step on they grow by orders of magnitude
    unbounded: float = 0.07  # of accuracies: a return, which has no bounds: its scale is what it has shown

    # The noise: shares of ordinary runs.
    smooth: float = 0.20  # hardly any noise
    noise_decays: float = 0.38  # with the number of steps
    noise_follows_error: float = 0.40  # shrinks with the error that is left
    correlated: float = 0.50
    heavy_tailed: float = 0.32
    dips: float = 0.07  # single evaluations that come out much worse
    quantised: float = 0.50  # of accuracies: a share of n validation examples

    def __post_init__(self) -> None:
        rates = asdict(self)
        for name, rate in rates.items():
            if not (isinstance(rate, (int, float)) and 0.0 <= rate <= 1.0):
                raise ConfigError(f"rate {name}={rate!r} must be a probability, 0 to 1")
        for group in EXCLUSIVE:
            total = sum(rates[name] for name in group)
            if total > 1.0 + 1e-9:
                raise ConfigError(
                    f"rates of {', '.join(group)} sum to {total:g}; a curve has one of them, so at most 1"
                )


WHOLE_CURVES = ("paper", "constant", "toggling")
PAPER_KINDS = ("paper_accuracy", "paper_loss")
SCHEDULES = ("cosine", "polynomial", "exponential", "drops", "restarts", "hold_decay")
EXCLUSIVE = (WHOLE_CURVES, PAPER_KINDS, SCHEDULES)

# What the rates below are shares of: another ingredient, which comes first in the table, or a union of some.
_PARENTS = {
    **dict.fromkeys((*PAPER_KINDS, "paper_quiet"), "paper"),
    "amounts": "geometric",
    **dict.fromkeys(SCHEDULES, "planned"),
    "first_as_reference": "all losses",
    **dict.fromkeys(("ends_at_horizon", "warmup", "paced", "gap", "noise_follows_schedule"), "scheduled"),
    **dict.fromkeys(("hold", "rest"), "annealed"),
    "gap_accuracy": "scheduled accuracies",
    "gap_tokens": "scheduled tokens",
    "gap_drops": "drops",
    "gap_noise": "held",
    "tokens": "training losses",
    "tokens_hold_decay": "tokens",
    "warped_tokens": "tokens",
    "exploding": "training losses",
    "memorising": "training losses",
    "unbounded": "training accuracies",
    **dict.fromkeys(("wild", "far_start", "unstable", "collapse"), "training losses"),
    "silent_delay": "waiting",
    **dict.fromkeys(("paper_trend", "solved", "worsening", "bad_start", "too_slow", "barely_moving"), "other losses"),
    **dict.fromkeys(("slow_accuracy", "late_accuracy", "too_slow_accuracy", "barely_moving_accuracy"), "accuracy"),
    "quantised": "accuracy",
    "overfitting_at_turn": "overfitting",
    **dict.fromkeys(("counted_start", "overfitting", "wandering", "spikes"), "training"),
    **dict.fromkeys(("unstable_accuracy", "collapse_accuracy"), "training accuracies"),
}


# What befalls tame runs at a part of its rate, and the others the more often, so that the rate is that of all.
SETBACKS = (
    "wild", "bad_start", "overfitting", "unstable", "unstable_accuracy", "double_descent", "spikes", "collapse",
    "collapse_accuracy", "heavy_tailed", "dips",
)  # fmt: skip
_OUT_OF_CHARACTER = 0.1  # share of its rate at which an ingredient befalls the wrong temper


# What happens to accuracies at a rate of their own: the name for both, and the ingredient it is the same as.
_UNIONS = {
    "gap_drops": ("held", "gap", "gap_accuracy", "gap_tokens", "gap_drops"),
    "warped_tokens": ("bent", "warped", "warped_tokens"),
    "slow_accuracy": ("slow", "slow_start"),
    "late_accuracy": ("waiting", "delay"),
    "too_slow_accuracy": ("weak", "too_slow"),
    "barely_moving_accuracy": ("small", "barely_moving"),
    "unstable_accuracy": ("unsteady", "unstable"),
    "collapse_accuracy": ("lost", "collapse"),
}


def parent(name: str) -> str | None:
    """The ingredient whose curves the rate of another is a share of; None for shares of all curves."""
    return None if name in WHOLE_CURVES else _PARENTS.get(name, "ordinary")


def draw_ingredients(
    size: int, config: RealPriorConfig, rng: np.random.Generator, *, geometric: bool = False
) -> dict[str, Mask]:
    """Which ingredients each curve has, [curve] per name, and the parents that have no rate of their own.

    `geometric` says that steps grow by about the same factor.
    """
    whole, told, schedule = (_one_of(group, size, config, rng) for group in EXCLUSIVE)
    has = {**whole, "ordinary": ~np.any(list(whole.values()), axis=0)}
    has["tame"] = (rng.random(size) < config.tame) & has["ordinary"]
    has |= {name: mask & has["paper"] for name, mask in told.items()}
    has["geometric"] = has["ordinary"] & geometric
    has["amounts"] = (rng.random(size) < config.amounts) & has["geometric"]
    has["planned"] = ~has["paper"] & ~has["amounts"]
    has["training"] = has["ordinary"] & has["planned"]
    has["loss"] = (rng.random(size) < config.loss) & has["ordinary"]
    has["training losses"] = has["training"] & has["loss"]
    has["tokens"] = (rng.random(size) < config.tokens) & has["training losses"]
    has |= {name: mask & has["planned"] for name, mask in schedule.items()}
    has["tokens_hold_decay"] = (rng.random(size) < config.tokens_hold_decay) & has["tokens"]
    for name in SCHEDULES:
        has[name] &= ~has["tokens_hold_decay"]
    has["hold_decay"] |= has["tokens_hold_decay"]
    has["scheduled"] = np.any([has[name] for name in SCHEDULES], axis=0)
    has["annealed"] = has["cosine"] | has["polynomial"]
    for name, rate in asdict(config).items():
        if name not in has:
            chance = _chance(name, rate, config.tame, has["tame"])
            has[name] = (rng.random(size) < chance) & has[parent(name) or "ordinary"]
        if name == "loss":
            has["accuracy"] = has["ordinary"] & ~has["loss"]
            has["other losses"] = has["loss"] & ~has["tokens"]
            has["scheduled tokens"] = has["scheduled"] & has["tokens"]
            has["training accuracies"] = has["training"] & has["accuracy"]
            has["all losses"] = has["loss"] | has["paper_loss"]
            has["scheduled accuracies"] = has["scheduled"] & has["accuracy"]
        if name in _UNIONS:
            union, *others = _UNIONS[name]
            has[union] = np.any([has[name], *(has[other] for other in others)], axis=0)
    return has


def _chance(name: str, rate: float, tame_share: float, tame: Mask) -> Array | float:
    """The chance [curve] of an ingredient that has this rate over tame runs and others together."""
    if name in SETBACKS:
        return _out_of_character(rate, tame, tame_share)
    if name == "smooth":
        return _out_of_character(rate, ~tame, 1.0 - tame_share)
    return rate


def _out_of_character(rate: float, wrong: Mask, share: float) -> Array:
    """The chance [curve] of what seldom befalls curves of the wrong temper, which are this share of all."""
    if share in (0.0, 1.0):
        return np.full(len(wrong), rate)
    of_others = min(rate * (1.0 - _OUT_OF_CHARACTER * share) / (1.0 - share), 1.0)
    return np.where(wrong, (rate - (1.0 - share) * of_others) / share, of_others)


def _one_of(names: tuple[str, ...], size: int, config: RealPriorConfig, rng: np.random.Generator) -> dict[str, Mask]:
    """At most one of the names for each curve."""
    borders = np.cumsum([0.0, *(getattr(config, name) for name in names)])
    choice = np.searchsorted(borders, rng.random(size), side="right") - 1
    return {name: choice == k for k, name in enumerate(names)}
