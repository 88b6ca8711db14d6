"""Forecasts of random runs: each is refused with an `EpochcastError`, or holds no NaN, in order and within its bounds.

    python fuzz/forecasts.py --count 20000 --seed 0
    python fuzz/forecasts.py --count 20000 --start 5000 --stop 10000    # a part of them
    python fuzz/forecasts.py --seed 0 --only 1234       # one case again, shown in full

Every case is drawn from (seed, its number) alone. The last tenth comes from hypothesis, a hundred at a time: arguments
of any type at all. Prints what became of each kind, the slowest case, then the first 20 distinct failures, and exits
with 1 if there is one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cases import KINDS, Case, anything

import epochcast as ec
from epochcast.errors import StrongContradictionWarning

LEVELS = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99]
TOLERANCE = 5e-5  # between a run of a batch and the same run alone, of ranks or of the range: float32 is no finer
SLOWEST = 20  # seconds of processor time; longer counts as endless
ROUND = 100  # cases that hypothesis thinks of in one go
MOST_MEMORY = 12 * 2**30  # bytes of address space, most of which torch takes without using it
SHOWN = 20


class PromiseError(AssertionError):
    """An answer that breaks a promise."""


class EndlessError(AssertionError):
    """A case that did not end in time."""


@dataclass
class Tally:
    """What became of the cases, by kind, and one example of each distinct failure."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    seconds: int = SLOWEST  # that a case may take
    farthest: float = 0.0  # largest distance seen between a run of a batch and the same run alone
    slowest: tuple[float, str] = (0.0, "none")  # seconds of processor time of a case, and which it was

    def add(self, kind: str, outcome: str) -> None:
        self.counts.setdefault(kind, Counter())[outcome] += 1

    def failed(self, kind: str, error: BaseException, example: str) -> None:
        self.add(kind, "failed")
        what = signature(error)
        if what not in self.examples:
            print(f"failed: {what} [{kind}] {example[:60]}", file=sys.stderr, flush=True)
        self.examples.setdefault(what, f"[{kind}] {example}")

    def print(self) -> None:
        for kind, counts in sorted(self.counts.items()):
            print(f"{kind:12} {'  '.join(f'{counts[what]:6d} {what}' for what in ('answered', 'refused', 'failed'))}")
        print(f"runs of a batch and alone: at most {self.farthest:.1e} apart")
        print(f"slowest case: {self.slowest[0]:.1f} s, {self.slowest[1]}")
        for what, example in itertools.islice(self.examples.items(), SHOWN):
            print(f"\n{what}\n    {example}")


def signature(error: BaseException) -> str:
    """What went wrong and where, the same for all cases that break in one place."""
    if isinstance(error, PromiseError):
        return str(error).partition(":")[0]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "epochcast" in f.filename]
    place = f"{frames[-1].filename.rpartition('epochcast/')[2]}:{frames[-1].lineno}" if frames else "nowhere"
    return f"{type(error).__name__} at {place}"


# --- what an answer promises ------------------------------------------------------------------------------------------


def promise(holds: Any, what: str, shown: Any = "") -> None:
    if not np.all(holds):
        raise PromiseError(f"{what}: {shown}")


def check_answers(f: ec.Forecast, rng: np.random.Generator) -> None:
    """Every question that a forecast takes."""
    known = ~np.isnan(f.steps)
    axis = 0 if f.observed.single else 1
    quantiles = np.moveaxis(np.asarray(f.quantile(LEVELS)), axis, 0)
    low, high = f.interval(0.9)
    draws = np.moveaxis(np.asarray(f.sample(3, seed=1)), axis, 0)
    plain = f.to_dict()
    mean = np.array(plain["mean"], dtype=np.float64)  # None becomes NaN
    for what, answer in (
        ("quantile", quantiles),
        ("interval", np.stack([low, high])),
        ("mean", mean),
        ("sample", draws),
    ):
        inside = np.asarray(answer)[..., known]
        promise(np.isfinite(inside), f"{what} is not finite", inside)
        promise(np.isnan(np.asarray(answer)[..., ~known]), f"{what} answers a step that was not asked", answer)
        slack = 1e-12 * np.abs(inside)
        promise((inside >= f.metric.hard[0] - slack) & (inside <= f.metric.hard[1] + slack), f"{what} is out of bounds")
    known_quantiles = quantiles[:, known]
    slack = 1e-9 * np.abs(known_quantiles[1:])
    promise(np.diff(known_quantiles, axis=0) >= -slack, "quantiles are out of order", known_quantiles)
    check_probabilities(f, known, quantiles[LEVELS.index(0.5)], rng)
    text = json.dumps(plain, allow_nan=False)
    promise(known.all() == ("null" not in text), "to_dict holds nothing where something is known", text[:300])
    repr(f)


def check_probabilities(f: ec.Forecast, known: Any, median: Any, rng: np.random.Generator) -> None:
    seen = f.observed.values[f.observed.seen]
    best = float(rng.choice(seen)) if seen.size else float(np.ravel(median)[-1])
    for what, chance in (
        ("cdf at the median", f.cdf(median)),
        ("cdf at a value seen", f.cdf(best)),
        ("prob_better than a value seen", f.prob_better(best)),
    ):
        inside = np.asarray(chance)[known]
        promise((inside >= 0.0) & (inside <= 1.0), f"{what} is no probability", inside)
    promise(~np.isnan(np.asarray(f.log_prob(median))[known]), "log_prob at the median is NaN", median)


def check_futures(f: ec.Forecast) -> None:
    """Joint futures, of one run."""
    paths = np.asarray(f.paths(4, seed=2))
    promise(np.isfinite(paths), "paths are not finite", paths)
    promise((paths >= f.metric.hard[0]) & (paths <= f.metric.hard[1]), "paths are out of bounds", paths)
    chance = np.asarray(f.prob_ever(float(np.ravel(f.median())[-1]), n=20))
    promise((chance >= 0.0) & (chance <= 1.0), "prob_ever is no probability", chance)


def distance(one: ec.Forecast, other: ec.Forecast) -> float:
    """How far two forecasts of the same run are apart, where 1 is the whole range of the metric.

    Where next to nothing lies between two modes, a quantile there is worth no more than the rank that it stands for:
    the smaller of the two distances counts.
    """
    promise(one.steps.shape == other.steps.shape, "a run of a batch has other steps than alone", (one, other))
    promise(one.steps == other.steps, "a run of a batch has other steps than alone", (one.steps, other.steps))
    a, b = (f.normalizer.forward(f.quantile(LEVELS)) for f in (one, other))
    scale = 1.0 if one.metric.transform else max(1.0, float(np.max(np.abs(a), initial=0.0)))
    ranks = np.stack([one.cdf(row) for row in np.asarray(other.quantile(LEVELS))])
    levels = np.reshape(LEVELS, (-1,) + (1,) * one.steps.ndim)
    return float(np.max(np.minimum(np.abs(a - b) / scale, np.abs(ranks - levels)), initial=0.0))


# --- one case ---------------------------------------------------------------------------------------------------------


def run(case: Case, rng: np.random.Generator, tally: Tally) -> None:
    forecasts = case.forecast()
    try:
        check(case, forecasts, rng, tally)
    except ec.EpochcastError as error:  # once there is a forecast, it takes every sound question
        raise PromiseError(f"a sound question is refused, {' '.join(str(error).split()[-4:])}: {error}") from error


def check(case: Case, forecasts: list[ec.Forecast], rng: np.random.Generator, tally: Tally) -> None:
    for f in forecasts[-1:] if len(forecasts) > 3 else forecasts:
        check_answers(f, rng)
        answered(lambda f=f: check_answers(f.final, rng))
    newest = forecasts[-1]
    if not newest.observed.single:
        row = int(rng.integers(len(newest)))
        check_answers(newest[row], rng)
        compare(newest[row], case.row(row), tally)
    elif case.kind == "stream":
        compare(newest, case.at_once(), tally)
    if newest.observed.single and hasattr(newest, "paths") and rng.random() < 0.02:
        answered(lambda: check_futures(newest))


def answered(ask: Callable[[], Any]) -> Any:
    """The answer, None where it was refused."""
    try:
        return ask()
    except ec.EpochcastError:
        return None


def compare(one: ec.Forecast, forecast: Callable[[], ec.Forecast] | None, tally: Tally) -> None:
    other = None if forecast is None else forecast()
    if other is not None:
        apart = distance(one, other)
        tally.farthest = max(tally.farthest, apart)
        promise(apart <= TOLERANCE, "a run of a batch or stream is not as alone", f"{apart:.2e}")


@contextmanager
def watched(seconds: int) -> Iterator[None]:
    """Warnings of numpy are failures, and so is a case that does not end."""

    def stop(signum: int, frame: Any) -> None:
        raise EndlessError(f"not done after {seconds} seconds")

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", StrongContradictionWarning)
            warnings.filterwarnings("ignore", category=UserWarning, module="epochcast")
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, previous)


def attempt(case: Case, rng: np.random.Generator, tally: Tally, name: str) -> None:
    began = time.process_time()
    try:
        with watched(tally.seconds):
            run(case, rng, tally)
        tally.add(case.kind, "answered")
    except ec.EpochcastError:
        tally.add(case.kind, "refused")
    except (Exception, EndlessError) as error:
        tally.failed(case.kind, error, f"{name}: {case.shown()}  -> {str(error)[:200]}")
    seconds = time.process_time() - began
    if seconds > tally.slowest[0]:
        tally.slowest = seconds, f"{name}: {case.shown()}"


def draw(seed: int, number: int) -> tuple[Case, np.random.Generator]:
    """Case `number`; its kind goes round, the rest is drawn."""
    rng = np.random.default_rng([seed, number])
    kind = list(KINDS)[number % len(KINDS)]
    return KINDS[kind](rng), rng


def attempt_anything(round: str, count: int, tally: Tally) -> None:
    """Arguments of any type: what hypothesis thinks of is stranger than what we do. The round seeds it."""
    import hypothesis

    @hypothesis.seed(round)
    @hypothesis.settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(anything())
    def attempt_one(case: Case) -> None:
        attempt(case, np.random.default_rng(0), tally, round)

    attempt_one()


def attempt_all(numbers: range, count: int, seed: int, tally: Tally) -> None:
    """Some of `count` cases. A round of hypothesis is done where its first number is one of them."""
    first_odd = count - count // 10
    for number in numbers:
        if number < first_odd:
            case, rng = draw(seed, number)
            attempt(case, rng, tally, f"--seed {seed} --only {number}")
        elif (number - first_odd) % ROUND == 0:
            round = f"--seed {seed} --count {count} --start {number} --stop {number + 1}"
            attempt_anything(round, min(ROUND, count - number), tally)


def main() -> int:
    parser = argparse.ArgumentParser(description="forecasts of random runs")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--start", type=int, default=0, help="the first of them that is done")
    parser.add_argument("--stop", type=int, help="the first of them that is done no more; by default all are done")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=SLOWEST, help="a case that takes longer has failed")
    parser.add_argument("--only", type=int, help="the number of one case, to see it again")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    tally = Tally(seconds=arguments.seconds)
    if arguments.only is not None:
        case, rng = draw(arguments.seed, arguments.only)
        print(case.shown(most=math.inf))
        with watched(tally.seconds):
            run(case, rng, tally)
        return 0
    stop = arguments.count if arguments.stop is None else min(arguments.stop, arguments.count)
    attempt_all(range(arguments.start, stop), arguments.count, arguments.seed, tally)
    tally.print()
    return int(bool(tally.examples))


if __name__ == "__main__":
    sys.exit(main())
