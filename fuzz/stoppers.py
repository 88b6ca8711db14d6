"""Stopping rules in hostile hands: saved states that were tampered with, and random rules fed with random values.

    python fuzz/stoppers.py --states 70000 --stoppers 10000 --seed 0
    python fuzz/stoppers.py --only states:1234      # one case again, with its traceback

A state is refused with an `EpochcastError`, or it works: to_json, update and next_run raise nothing else afterwards.
The same goes for a rule of random settings. No probability, end or record holds a NaN. Every case is drawn from the
seed and its number alone. Prints one line per part, then the first 20 distinct failures; exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from epochcast import EpochcastError, Forecaster, Metric, NoStopping, Patience, Reason, Stopper
from epochcast.question import Engine, Input, Question
from epochcast.stopping.search import Search

Rng = np.random.Generator
SHOWN = 20
REAL = 0.03  # share of the cases that ask a shipped network; the others a model in closed form, which is quick
RULES: dict[str, type[Search]] = {rule.rule: rule for rule in (Stopper, Patience, NoStopping)}


# --- a quick model ----------------------------------------------------------------------------------------------------


@dataclass
class Normal:
    """As much of a distribution as stopping asks for."""

    means: np.ndarray
    scale: float

    def __getitem__(self, index: Any) -> Normal:
        return Normal(self.means[index], self.scale)

    def cdf(self, y: Any) -> np.ndarray:
        return np.asarray(ndtr((y - self.means) / self.scale))

    def icdf(self, q: Any) -> np.ndarray:
        return np.asarray(self.means + self.scale * ndtri(q))


class LastValue(Engine):
    """An engine that expects a run to stay where it is, but for what other runs have to say."""

    name = "quick"
    reads: frozenset[Input] = frozenset({"context", "config"})

    def predict(self, question: Question) -> Any:
        last = np.clip(question.runs.last_value, 0.0, 1.0)[:, None]
        if question.context is not None:
            last = (last + question.context.runs.last_value.mean()) / 2
        return Normal(np.broadcast_to(last, question.steps.shape), 0.1)


@cache
def forecaster(name: str) -> Forecaster:
    return Forecaster.around(LastValue()) if name == "quick" else Forecaster(name)


# --- what may come ----------------------------------------------------------------------------------------------------

LONG, DEEP = "@long@", "@deep@"  # stand for what json.dumps cannot write, or would choke on
NUMBERS = (0, 1, -1, 2, 7, 0.5, 1.5, -0.0, 1e-320, 1e308, -1e308, 1e15, 10**15, 10**16, 10**400, math.nan, math.inf)
WORDS = ("", "x", "0.5", "any", "final", "stop", "ignore", "stopper", "quick", "real", "own:real", "real@cosine")
WORDS += ("real@drops,at=3", "real@cosine,hold=99", "lcpfn@cosine", "cosine", "cosine,hold=99", "drops,at=3")
WORDS += ("\ud800", "a\x00b", "é" * 999)
WORDS += tuple(reason.value for reason in Reason)
SHAPES: tuple[Any, ...] = (None, True, False, [], {}, [[]], [1, 2, 3], [0.5, None], {"a": 1}, [0.1] * 50, LONG, DEEP)
HOSTILE_VALUES: tuple[Any, ...] = (
    *(None, "0.5", True, b"1", 1j, [], [0.5], {}, object(), 10**400, -(10**400), 10**5000, Fraction(1, 3)),
    *(np.float32(0.3), np.array(0.4), np.array([0.1, 0.2]), np.True_, math.nan, math.inf, -math.inf, 1e308, -1e308),
)
METRICS: tuple[Any, ...] = (
    *("accuracy", "error", "log_loss", "loss", "r2", "unit", "accuracy%", "perplexity"),
    Metric("free", minimize=True),
    Metric("tiny", minimize=False, hard=(0.0, 1e-200), soft=(0.0, 1e-200)),
    Metric("huge", minimize=True, soft=(-1e300, 1e300)),
)


def pick(rng: Rng, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def usual_value(rng: Rng) -> float:
    return float(pick(rng, (0.0, 1.0, 0.5, 1e-9))) if rng.random() < 0.2 else float(rng.random())


# --- what must hold ---------------------------------------------------------------------------------------------------


class PromiseError(AssertionError):
    """A number that is none, or an answer that is not what it should be."""


def check(decision: Any) -> None:
    str(decision)
    if decision.probability is not None and not 0.0 <= decision.probability <= 1.0:
        raise PromiseError(f"NaN: probability {decision.probability}")
    known = [] if decision.final is None else [*decision.final]
    _finite([*known, decision.best, decision.step], decision)


def _finite(numbers: list[Any], where: Any) -> None:
    if not all(number is None or math.isfinite(number) for number in numbers):
        raise PromiseError(f"NaN: {where}")


def check_rule(rule: Search) -> None:
    """What a rule holds can be saved, and the saved state read."""
    for run in rule.runs:
        _finite([run.best, run.final, run.outcome, run.last_step], run)
    _finite([rule.best], rule.best)
    text = rule.to_json()
    json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(PromiseError(f"NaN: {name} in JSON")))
    again = restored(type(rule), text, rule)
    if again.to_json() != text:
        raise PromiseError("a state that was restored is saved as another")


def restored(kind: type[Search], text: Any, like: Search | None = None) -> Search:
    if kind is not Stopper:
        return kind.from_json(text)
    given = like.forecaster if isinstance(like, Stopper) else None
    return Stopper.from_json(text, given)


# --- part 1: states ---------------------------------------------------------------------------------------------------


@cache
def states() -> list[tuple[type[Search], str]]:
    """States of rules of all kinds, in all moments of a search."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(120):
        rule = random_rule(rng, "quick" if number % 4 else "real", hostile=False)
        for _ in range(int(rng.integers(0, 4))):
            for step in range(1, int(rng.integers(1, rule.horizon + 2))):
                attempted(rule.update, step, usual_value(rng))  # some metrics have other bounds
            if rng.random() < 0.7:
                rule.next_run()
        found.append((type(rule), rule.to_json()))
    runs = np.random.default_rng(1).random((30, 8))
    calibrated = Stopper.calibrated(runs, 0.5, metric="unit", forecaster=forecaster("quick"))
    return [*found, *[(Stopper, calibrated.to_json())] * 10]


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something can be changed."""
    if path:
        yield path
    if isinstance(node, (dict, list)):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield from places(node[key], (*path, key))


def tampered(rng: Rng, text: str) -> str:
    """A state with one to three changes, to its content or to its text."""
    if rng.random() < 0.1:
        return scribbled(rng, text)
    state = json.loads(text)
    for _ in range(int(rng.integers(1, 4))):
        path = pick(rng, list(places(state)))
        holder = state
        for key in path[:-1]:
            holder = holder[key]
        change(rng, holder, path[-1])
    text = json.dumps(state)
    depth = int(pick(rng, (10, 300, 900, 5_000, 100_000)))
    return text.replace(f'"{LONG}"', "9" * 5_000).replace(f'"{DEEP}"', "[" * depth + "]" * depth)


def change(rng: Rng, holder: Any, key: Any) -> None:
    old = holder[key]
    kind = rng.random()
    if kind < 0.1:
        del holder[key]
    elif kind < 0.2 and isinstance(old, list):
        old.insert(int(rng.integers(len(old) + 1)), pick(rng, (old[0] if old else 0.5, *NUMBERS)))
    elif kind < 0.25 and isinstance(old, dict):
        old[pick(rng, ("extra", "values", "outcome"))] = copy.deepcopy(pick(rng, SHAPES))
    elif kind < 0.4 and type(old) in (int, float) and abs(old) < 1e300:
        holder[key] = old * float(pick(rng, (-1.0, 0.0, 0.5, 2.0, 1e6))) + float(pick(rng, (0.0, 1.0, 1e-3)))
    elif kind < 0.5 and isinstance(old, list):
        rng.shuffle(old)
    else:
        holder[key] = copy.deepcopy(pick(rng, pick(rng, (NUMBERS, WORDS, SHAPES))))


def scribbled(rng: Rng, text: str) -> str:
    at = int(rng.integers(len(text)))
    kind = rng.random()
    if kind < 0.3:
        return text[:at]
    if kind < 0.6:
        return text[:at] + chr(int(rng.integers(32, 127))) + text[at + 1 :]
    return text[:at] + pick(rng, ("9" * 5_000, "[" * 100_000, '{"a":' * 2_000, "NaN", "-", "e999", "\x00")) + text[at:]


def play_state(rng: Rng, tally: Counter[str]) -> None:
    kind, text = pick(rng, states())
    name = json.loads(text).get("model", {}).get("name", "")
    given = {"forecaster": forecaster("quick")} if name == "quick" else {}
    rule = kind.from_json(tampered(rng, text), **given)  # type: ignore[call-arg]
    tally["worked"] += 1
    if rule.horizon > 10**6 and name != "quick" and rng.random() < 0.9:
        return  # slow on a network; a tenth of them will do
    for run in rule.runs:
        str(run)
    str(getattr(rule, "guarantee", None))
    rule.to_json()
    decision = attempted(rule.update, pick(rng, (1, 2, 3, 7, rule.horizon)), 0.5)
    if decision is not None:
        check(decision)
    attempted(rule.next_run)
    check_rule(rule)


# --- part 2: rules ----------------------------------------------------------------------------------------------------


def random_rule(rng: Rng, model: str, hostile: bool) -> Search:
    """A rule of random settings, one of which is hostile if wanted."""
    common: dict[str, Any] = {
        "horizon": int(pick(rng, (2, 3, 5, 9, 30))),
        "metric": pick(rng, METRICS),
        "best": None,
        "target": pick(rng, ("any", "final")),
        "dry_run": bool(rng.random() < 0.2),
        "non_finite": pick(rng, ("stop", "ignore")),
    }
    kind: Callable[..., Search] = NoStopping
    if rng.random() < 0.15:
        kind, common = Patience, {**common, "k": int(rng.integers(1, 4)), "min_delta": float(pick(rng, (0.0, 0.1)))}
    elif rng.random() < 0.9:
        coarse = rng.random() < 0.2
        leader = common["target"] == "any" and rng.random() < 0.3
        kind, common = (
            Stopper,
            {
                **common,
                "confidence": float(rng.uniform(0.05, 0.999)),
                "min_steps": int(rng.integers(1, 6)),
                "min_share": float(pick(rng, (0.0, 0.1, 0.5))),
                "check_every": 1 if coarse else int(rng.integers(1, 4)),
                "cutoffs": (0.1, 0.5) if coarse else None,
                "goal": None
                if leader or rng.random() < 0.7 or common["metric"] not in METRICS[:6]
                else usual_value(rng),
                "stop_leader": leader,
                "weigh_rest": bool(rng.random() < 0.2),
                "forecaster": forecaster(model),
            },
        )
    if hostile:
        name = pick(rng, sorted(common))
        common[name] = pick(rng, (*HOSTILE_VALUES, *NUMBERS[:8], *WORDS[:6], 10**9, 10**15))
    return kind(**common)


def attempted(ask: Callable[..., Any], *arguments: Any) -> Any:
    """The answer, None where it was refused."""
    try:
        return ask(*arguments)
    except EpochcastError:
        return None


def play_rule(rng: Rng, tally: Counter[str]) -> None:
    model = "real" if rng.random() < REAL else "quick"
    rule = random_rule(rng, model, hostile=bool(rng.random() < 0.3))
    tally["worked"] += 1
    step = 0.0
    for _ in range(int(rng.integers(3, 25))):
        kind = rng.random()
        if kind < 0.8:
            step += float(pick(rng, (1.0, 1.0, 1.0, 0.0, 0.5, 3.0, -1.0)))
            at = pick(rng, HOSTILE_VALUES) if rng.random() < 0.05 else max(step, 0.0)
            value = pick(rng, HOSTILE_VALUES) if rng.random() < 0.1 else usual_value(rng)
            decision = attempted(rule.update, at, value)
            if decision is not None:
                tally["decisions"] += 1
                check(decision)
        elif kind < 0.9:
            entry = pick(rng, (*HOSTILE_VALUES, *WORDS[:3]))
            attempted(rule.next_run, pick(rng, (None, {"lr": entry}, {"lr": {"lr": entry}, 3: 1.0}, entry)))
            step = 0.0
        elif kind < 0.93 and isinstance(rule, Stopper):
            attempted(rule.set_schedule, pick(rng, ("cosine", "x", [0.1, 0.2], None, 3)))
        else:
            rule = restored(type(rule), rule.to_json(), rule)
    check_rule(rule)


# --- all of it --------------------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[Rng, Counter[str]], None]] = {"states": play_state, "stoppers": play_rule}


@dataclass
class Report:
    """What became of the cases of one part."""

    tally: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def failed(self, number: int, error: Exception) -> None:
        nan = isinstance(error, PromiseError) and str(error).startswith("NaN")
        self.tally["NaN" if nan else "escapes"] += 1
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/epochcast/" in frame.filename]
        place = f"{frames[-1].filename.rpartition('/epochcast/')[2]}:{frames[-1].lineno}" if frames else "here"
        self.examples.setdefault(f"{type(error).__name__} in {place}", f"case {number}: {str(error)[:200]}")

    def line(self, part: str, count: int) -> str:
        told = {name: self.tally[name] for name in ("refused", "worked", "escapes", "NaN")}
        return f"{part:9} {count:,} cases: " + ", ".join(f"{number:,} {name}" for name, number in told.items())


def run(part: str, count: int, seed: int) -> Report:
    states()  # outside of the cases, in which a refusal is a result
    report = Report()
    for number in range(count):
        try:
            PARTS[part](np.random.default_rng([seed, number]), report.tally)
        except EpochcastError:
            report.tally["refused"] += 1
        except Exception as error:
            report.failed(number, error)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=70_000)
    parser.add_argument("--stoppers", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=None, help="one case, such as states:1234")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # that steps repeat and that values contradict their metric
    if arguments.only:
        part, _, number = arguments.only.partition(":")
        PARTS[part](np.random.default_rng([arguments.seed, int(number)]), Counter())
        return 0
    failures = 0
    for part in PARTS:
        report = run(part, getattr(arguments, part), arguments.seed)
        print(report.line(part, getattr(arguments, part)), flush=True)
        for what, example in list(report.examples.items())[:SHOWN]:
            print(f"    {what}: {part}, {example}")
        failures += len(report.examples)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
