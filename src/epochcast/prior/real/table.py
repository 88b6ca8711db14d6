"""The table: every ingredient of the prior of real curves, how often it appears, in which runs, and what it does.

Rates are chosen by comparing summary statistics of samples and of real collections (`research/compare_real_prior.py`),
wider than those collections rather than fitted to them. `docs/research/real-prior.md` shows every ingredient.
"""

from __future__ import annotations

from epochcast.prior.real import noise, setbacks, trend
from epochcast.prior.real import schedule as rates
from epochcast.prior.real.ingredient import EVERY, TAME, Group, Ingredient, Stage, Table, Temper
from epochcast.prior.real.source import Topic

# Given with the steps of a batch: that they grow by about the same factor; that they are iterations, not epochs.
GEOMETRIC, ITERATIONS = "geometric steps", "iterations"

WHOLE = "whole curves"
PAPER_KINDS = "kinds of the paper's curves"
SCHEDULES = "schedules"
TOKEN_SCHEDULES = "schedules of language models"

_SETBACK, _CALM = Temper.SETBACK, Temper.CALM
_METRIC, _SCHEDULE = Topic.METRIC, Topic.SCHEDULE

_WHAT_IS_MEASURED = (
    Ingredient("paper", 0.18, EVERY, "a curve of the paper's prior with its white noise", among=WHOLE),
    Ingredient("constant", 0.06, EVERY, "never moves at all", among=WHOLE),
    Ingredient("toggling", 0.025, EVERY, "a constant guess that changes between a few levels", among=WHOLE),
    Ingredient("paper_accuracy", 0.17, "paper", "said to be an accuracy", among=PAPER_KINDS, topic=_METRIC),
    Ingredient("paper_loss", 0.55, "paper", "said to be a loss", among=PAPER_KINDS, topic=_METRIC),
    Ingredient("paper_quiet", 0.55, "paper", "with a part of the noise", noise.quieter),
    Ingredient(
        "loss",
        0.55,
        "ordinary",
        "a loss, squeezed by the paper's normalisation; the others are accuracies",
        topic=_METRIC,
    ),
    Ingredient(
        "text",
        0.45,
        "losses over iterations",
        "a language model: a power law above a floor",
        trend.tokens,
        topic=_METRIC,
    ),
    Ingredient("text_epochs", 0.05, "losses over epochs", "the same", trend.tokens, topic=_METRIC),
    Ingredient(
        "first_as_reference",
        0.30,
        "all losses",
        "normalised by the first value, for want of an untrained one",
        topic=_METRIC,
    ),
    Ingredient(
        "unbounded",
        0.07,
        "training accuracies",
        "a return without bounds: its scale is what it has shown",
        topic=_METRIC,
    ),
    Ingredient("quantised", 0.50, "accuracy", "a share of n validation examples", noise.examples, topic=_METRIC),
    Ingredient("amounts", 0.70, "ordinary on geometric steps", "against the amount of data instead", topic=_METRIC),
    Ingredient(TAME, 0.50, "ordinary", "quiet, with few setbacks; the others have the more of them"),
)

_LEARNING_RATE = (
    Ingredient("cosine", 0.47, "planned", "", rates.cosine, Stage.SCHEDULE, among=SCHEDULES, topic=_SCHEDULE),
    Ingredient(
        "polynomial",
        0.09,
        "planned",
        "linear, root or square",
        rates.polynomial,
        Stage.SCHEDULE,
        among=SCHEDULES,
        topic=_SCHEDULE,
    ),
    Ingredient("exponential", 0.02, "planned", "", rates.exponential, Stage.SCHEDULE, among=SCHEDULES, topic=_SCHEDULE),
    Ingredient(
        "drops",
        0.09,
        "planned",
        "one to three sudden drops",
        rates.drops,
        Stage.SCHEDULE,
        among=SCHEDULES,
        topic=_SCHEDULE,
    ),
    Ingredient(
        "restarts", 0.03, "planned", "cosine cycles", rates.restarts, Stage.SCHEDULE, among=SCHEDULES, topic=_SCHEDULE
    ),
    Ingredient(
        "hold_decay",
        0.03,
        "planned",
        "held, then down",
        rates.hold_decay,
        Stage.SCHEDULE,
        among=SCHEDULES,
        topic=_SCHEDULE,
    ),
    Ingredient(
        "tokens_cosine", 0.33, "tokens", "", rates.cosine, Stage.SCHEDULE, among=TOKEN_SCHEDULES, topic=_SCHEDULE
    ),
    Ingredient(
        "tokens_polynomial",
        0.07,
        "tokens",
        "",
        rates.polynomial,
        Stage.SCHEDULE,
        among=TOKEN_SCHEDULES,
        topic=_SCHEDULE,
    ),
    Ingredient(
        "tokens_hold_decay",
        0.45,
        "tokens",
        "",
        rates.hold_decay,
        Stage.SCHEDULE,
        among=TOKEN_SCHEDULES,
        topic=_SCHEDULE,
    ),
    Ingredient("ends_at_horizon", 0.90, "scheduled", "the others end earlier or would end later", topic=_SCHEDULE),
    Ingredient("hold", 0.12, "annealed", "the rate is held for a while before it decays", topic=_SCHEDULE),
    Ingredient("rest", 0.30, "annealed", "the rate does not decay to zero", topic=_SCHEDULE),
    Ingredient("warmup", 0.25, "scheduled", "the rate grows at first", rates.warmup, topic=_SCHEDULE),
    Ingredient(
        "paced", 0.68, "scheduled", "progress goes with the sum of learning rates, not with the number of steps"
    ),
    Ingredient(
        "gap", 0.41, "scheduled", "a high rate holds the curve below its trend until the schedule ends", trend.gap
    ),
    Ingredient("gap_accuracy", 0.57, "scheduled accuracies", "the same", trend.gap),
    Ingredient("gap_drops", 0.60, "drops", "the same, for that is what a rate is dropped for", trend.gap),
    Ingredient("gap_tokens", 0.85, "scheduled tokens", "the same, without noise", trend.quiet_gap),
    Ingredient("gap_noise", 0.86, "held with noise", "fluctuations in proportion to the gap", noise.of_gap),
)

_SHAPE = (
    Ingredient(
        "paper_trend", 0.60, "other losses", "the trend is that of one of the paper's curves", trend.paper_decay
    ),
    Ingredient("solved", 0.39, "other losses", "hardly any error need be left at the end", trend.solved),
    Ingredient("second_decay", 0.65, "ordinary", "a fast and a slow part"),
    Ingredient("second_wind", 0.15, "ordinary", "a part is learned late, all at once", trend.second_wind),
    Ingredient("late_bloom", 0.02, "unsettled", "a small part gathers pace late, whatever the trend", trend.late_bloom),
    Ingredient("slow_start", 0.25, "ordinary", "sigmoid: an inflection before the fastest gain"),
    Ingredient("slow_accuracy", 0.25, "accuracy", "the same, since the loss must fall a while before a guess changes"),
    Ingredient(
        "bad_start", 0.07, "other losses", "the first steps make the model much worse", trend.bad_start, temper=_SETBACK
    ),
    Ingredient(
        "far_start",
        0.05,
        "training losses",
        "the untrained guess is far off, which the first steps mend",
        trend.far_start,
    ),
    Ingredient(
        "counted_start", 0.15, "training", "the first evaluation, which counts as a step, comes before any training"
    ),
    Ingredient(
        "too_slow",
        0.10,
        "other losses",
        "a rate much too small: only the first part of a decay is seen",
        trend.slow_pace,
    ),
    Ingredient("too_slow_accuracy", 0.01, "accuracy", "the same", trend.slow_pace),
    Ingredient("barely_moving", 0.22, "other losses", "a full curve in miniature, close to its start", trend.miniature),
    Ingredient("barely_moving_accuracy", 0.025, "accuracy", "the same", trend.miniature),
    Ingredient(
        "warped", 0.05, "other runs", "the clock goes a little fast or slow for a while", trend.warped, Stage.CLOCK
    ),
    Ingredient("warped_long", 0.30, "other runs over iterations", "the same", trend.warped, Stage.CLOCK),
    Ingredient("warped_tokens", 0.50, "tokens", "the same, less", trend.warped_tokens, Stage.CLOCK),
    Ingredient("strayed", 0.05, "ordinary", "a deviation with long memory from what is left to learn", trend.strayed),
    Ingredient("delay", 0.02, "ordinary", "nothing happens at first", trend.delayed, Stage.CLOCK),
    Ingredient(
        "late_accuracy", 0.03, "accuracy", "the same: one class is guessed at first", trend.delayed, Stage.CLOCK
    ),
    Ingredient("silent_delay", 0.90, "waiting", "without noise, too: the model makes one constant guess"),
    Ingredient("stall", 0.04, "ordinary", "a plateau on the way", trend.stalled, Stage.CLOCK),
    Ingredient("stays", 0.04, "unsettled", "a plateau for good", trend.staying, Stage.CLOCK),
)

_SETBACKS = (
    Ingredient("worsening", 0.04, "other losses", "the trend goes the wrong way from the start", setbacks.worsening),
    Ingredient(
        "wild",
        0.02,
        "training losses",
        "jumps far beyond the untrained value while the rate is high",
        setbacks.wild,
        temper=_SETBACK,
    ),
    Ingredient(
        "overfitting",
        0.12,
        "training",
        "of what was gained some is lost after an onset",
        setbacks.overfitting,
        temper=_SETBACK,
    ),
    Ingredient("overfitting_at_turn", 0.30, "overfitting", "it begins where the schedule has a sudden turn"),
    Ingredient(
        "memorising",
        0.04,
        "training losses",
        "the same whatever the temper of the run",
        setbacks.memorising,
        Stage.OF_GAINS,
    ),
    Ingredient("wandering", 0.14, "training", "small changes add up, as those of boosted trees do", setbacks.wandering),
    Ingredient(
        "unstable",
        0.012,
        "training losses",
        "what was gained is lost and found again, more lost than found",
        setbacks.unstable,
        Stage.OF_GAINS,
        _SETBACK,
    ),
    Ingredient(
        "unstable_accuracy", 0.005, "training accuracies", "the same", setbacks.unstable, Stage.OF_GAINS, _SETBACK
    ),
    Ingredient(
        "double_descent",
        0.04,
        "ordinary",
        "worse for a while, then better again",
        setbacks.double_descent,
        Stage.OF_GAINS,
        _SETBACK,
    ),
    Ingredient("spikes", 0.045, "training", "sudden, with recovery", setbacks.spikes, Stage.OF_REACH, _SETBACK),
    Ingredient("collapse", 0.026, "training losses", "divergence, for good", setbacks.collapse, temper=_SETBACK),
    Ingredient("collapse_accuracy", 0.008, "training accuracies", "back to chance", setbacks.collapse, temper=_SETBACK),
    Ingredient(
        "exploding", 0.015, "training losses", "grows by orders of magnitude from some step on", setbacks.exploding
    ),
)

_NOISE = (
    Ingredient("smooth", 0.20, "ordinary", "hardly any noise", noise.smooth, temper=_CALM),
    Ingredient("noise_decays", 0.38, "ordinary", "with the number of steps", noise.decaying),
    Ingredient("noise_grows", 0.06, "unsettled", "from some step on", noise.growing, temper=_SETBACK),
    Ingredient("noise_grows_long", 0.10, "other runs over iterations", "the same", noise.growing, temper=_SETBACK),
    Ingredient("noise_follows_error", 0.40, "ordinary", "shrinks with the error that is left", noise.following_error),
    Ingredient("noise_follows_schedule", 0.73, "scheduled", "shrinks with the rate", noise.following_schedule),
    Ingredient("correlated", 0.50, "ordinary", "AR(1), exact on irregular steps", noise.correlated),
    Ingredient(
        "heavy_tailed", 0.32, "ordinary", "some evaluations are much less certain", noise.heavy_tails, temper=_SETBACK
    ),
    Ingredient(
        "dips", 0.07, "ordinary", "single evaluations that come out much worse", noise.dips, Stage.OF_REACH, _SETBACK
    ),
)

_GROUPS = (
    Group("ordinary", none_of=("paper", "constant", "toggling")),
    Group("accuracy", all_of=("ordinary",), none_of=("loss",)),
    Group("ordinary on geometric steps", all_of=("ordinary", GEOMETRIC)),
    Group("with a rate", none_of=("paper", "amounts")),
    Group("planned", all_of=("with a rate",), none_of=("tokens",)),
    Group("training", all_of=("ordinary", "with a rate")),
    Group("training losses", all_of=("training", "loss")),
    Group("losses over iterations", all_of=("training losses", ITERATIONS)),
    Group("losses over epochs", all_of=("training losses",), none_of=(ITERATIONS,)),
    Group("tokens", any_of=("text", "text_epochs")),
    Group("other runs over iterations", all_of=("other runs", ITERATIONS)),
    Group("training accuracies", all_of=("training", "accuracy")),
    Group("all losses", any_of=("loss", "paper_loss")),
    Group("other losses", all_of=("loss",), none_of=("tokens",)),
    Group("other runs", all_of=("ordinary",), none_of=("tokens",)),
    Group("annealed", any_of=("cosine", "polynomial", "tokens_cosine", "tokens_polynomial")),
    Group("scheduled", any_of=("annealed", "exponential", "drops", "restarts", "hold_decay", "tokens_hold_decay")),
    Group("scheduled accuracies", all_of=("scheduled", "accuracy")),
    Group("unsettled", all_of=("other runs",), none_of=("scheduled accuracies",)),  # the schedule settles those
    Group("scheduled tokens", all_of=("scheduled", "tokens")),
    Group("held with noise", any_of=("gap", "gap_accuracy", "gap_drops"), none_of=("tokens",)),
    Group("held", any_of=("held with noise", "gap_tokens")),
    Group("restless", any_of=("noise_grows", "noise_grows_long")),
    Group("slow", any_of=("slow_start", "slow_accuracy")),
    Group("waiting", any_of=("delay", "late_accuracy")),
    Group("weak", any_of=("too_slow", "too_slow_accuracy")),
    Group("small", any_of=("barely_moving", "barely_moving_accuracy")),
    Group("lost", any_of=("collapse", "collapse_accuracy")),
)

TABLE = Table(
    (*_WHAT_IS_MEASURED, *_LEARNING_RATE, *_SHAPE, *_SETBACKS, *_NOISE), _GROUPS, given=(GEOMETRIC, ITERATIONS)
)
