"""Who is scored on which real curves, as items of the harness: cached, parallel, resumed after a stop.

Fast engines answer chunks of curves, samplers one curve at a time and fewer curves in total. All of them see the same
curves, so that their scores are paired.
"""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from epochcast.baselines import BASELINES
from epochcast.benchmarks import CurveSet
from epochcast.benchmarks.curveset import LONGEST
from epochcast.curve import Lengths
from epochcast.distributions import Distribution
from epochcast.errors import InputError
from epochcast.experiments.contenders import Contender, contenders
from epochcast.experiments.harness import PLAIN, Harness
from epochcast.experiments.real.scores import SHARES, CurveScores, score
from epochcast.question import Engine, Question
from epochcast.sampling.mcmc import ShortChainWarning
from epochcast.schedule import Schedule

_CHUNK = 500  # curves of one item of a fast engine
_MOST_PAST = 5_000  # curves of other tasks that are told to an engine
_COLUMNS = ("log_likelihood", "squared_error", "crps", "inside90", "pit")


@dataclass(frozen=True)
class Plan:
    """What to evaluate."""

    engines: tuple[str, ...] = ("default", *BASELINES)
    shares: tuple[float, ...] = SHARES
    curves: int = 5_000  # per collection, at most
    sampler_curves: int = 40  # of these, for engines that take seconds per curve
    sampled_on: tuple[str, ...] = ()  # collections that samplers work on; all if empty
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.engines:
            raise InputError("no engine is named; name a model, a baseline or a sampler")
        if min(self.curves, self.sampler_curves) < 1:
            raise InputError(f"curves={self.curves} and sampler_curves={self.sampler_curves} must be at least 1")
        for share in self.shares:
            if not 0.0 < share < 1.0:
                raise InputError(f"cutoff {share} must be a share of the horizon between 0 and 1, both excluded")


@dataclass(frozen=True)
class Scored:
    """Scores of one engine on one collection at one cutoff, and the processor time they took."""

    benchmark: str
    engine: str
    share: float
    sampled: bool
    scores: CurveScores  # rows count in the prepared collection
    seconds: float


def prepared(curves: CurveSet, plan: Plan) -> list[CurveSet]:
    """The curves to score: sampled, thinned to 100 values; TaskSet also as the paper's good and bad half."""
    whole = curves.sample(plan.curves, plan.seed).thinned()
    if not curves.name.startswith("taskset"):
        return [whole]
    halves = zip(("good", "bad"), curves.sample_halves(plan.curves, plan.seed), strict=True)
    return [whole, *(replace(half, name=f"{curves.name}-{which}").thinned() for which, half in halves)]


def entrants(plan: Plan) -> list[Contender]:
    """The engines of a plan, in its order."""
    return contenders(plan.engines)


@dataclass(frozen=True)
class _Item:
    """Curves for one engine to score at one cutoff; what a worker is sent."""

    entrant: Contender
    curves: CurveSet
    share: float
    seed: int
    past: CurveSet | None = None  # curves of other tasks, for an engine that reads a context

    @cached_property
    def key(self) -> str:
        """Changes with everything that the scores depend on."""
        digest = hashlib.sha256(repr((self.share, self.seed, self.curves.horizons.tolist())).encode())
        for curves in filter(None, (self.curves, self.past)):
            for array in (curves.normalised, curves.steps, curves.untrained):
                digest.update(b"/" if array is None else np.ascontiguousarray(array).tobytes())
        who = f"{self.entrant.label}/{self.curves.name}"
        return f"{who}/{self.share:g}/{self.entrant.fingerprint}/{digest.hexdigest()[:16]}"


class _OnPaperGrid(Engine):
    """A sampler of the paper's priors, which are made for steps 1 to 100: longer runs are thinned to that."""

    grid = LONGEST

    def __init__(self, engine: Engine) -> None:
        self.engine, self.name = engine, engine.name

    def predict(self, question: Question) -> Distribution:
        return self.engine.predict(question)


def score_item(item: _Item) -> dict[str, Any]:
    """Scores of one item as lists, for the harness."""
    engine = _OnPaperGrid(item.entrant.build()) if item.entrant.sampled else item.entrant.build()
    schedule = Schedule.of(item.entrant.schedule) if item.entrant.schedule else None
    context = None if item.past is None else item.past.context()
    started = time.process_time()
    with warnings.catch_warnings():
        # Chains as short as the paper's have rarely converged; the report says so once.
        warnings.simplefilter("ignore", ShortChainWarning)
        scores = score(engine, item.curves, item.share, schedule=schedule, context=context, seed=item.seed)
    columns = {name: getattr(scores, name) for name in _COLUMNS}
    return {"rows": scores.rows, **columns, "seconds": time.process_time() - started}


def run(collections: Sequence[CurveSet], plan: Plan, harness: Harness = PLAIN) -> list[Scored]:
    """Score every engine of the plan on the prepared collections, in order of collection, cutoff and engine."""
    entries = [
        _Entry(parts, entrant, share, plan.seed)
        for parts in (_Parts(curves, plan) for curves in collections)
        for share in plan.shares
        for entrant in entrants(plan)
        if not entrant.sampled or parts.has_samplers
    ]
    items = {item.key: item for entry in entries for item in entry.items}
    results = harness.run(score_item, items).demand()
    return [entry.joined(results) for entry in entries]


@dataclass(frozen=True)
class _Parts:
    """A collection cut into the parts that engines score at a time; every part is cut once."""

    curves: CurveSet
    plan: Plan

    @property
    def has_samplers(self) -> bool:
        names = self.plan.sampled_on
        return not names or any(self.curves.name == name or self.curves.name.startswith(f"{name}-") for name in names)

    def of(self, entrant: Contender) -> list[_Part]:
        """For a sampler single curves, for the process of other tasks' curves whole tasks, for all others chunks."""
        if entrant.sampled:
            return self._singles
        return self._tasks if entrant.engine == "empirical-gp" else self._chunks

    @cached_property
    def _singles(self) -> list[_Part]:
        return [self._part(np.array([row])) for row in sampler_rows(self.curves, self.plan)]

    @cached_property
    def _chunks(self) -> list[_Part]:
        count = len(self.curves)
        return [self._part(np.arange(start, min(start + _CHUNK, count))) for start in range(0, count, _CHUNK)]

    @cached_property
    def _tasks(self) -> list[_Part]:
        parts = []
        for task in np.unique(self.curves.task):
            own = self.curves.task == task
            parts.append(replace(self._part(np.flatnonzero(own)), past=self.curves[~own].sample(_MOST_PAST)))
        return parts

    def _part(self, rows: Lengths) -> _Part:
        return _Part(rows, self.curves[rows])


@dataclass(frozen=True)
class _Part:
    rows: Lengths  # of the collection
    curves: CurveSet  # these rows
    past: CurveSet | None = None  # curves of all other tasks


@dataclass(frozen=True)
class _Entry:
    """One engine on one collection at one cutoff."""

    parts: _Parts
    entrant: Contender
    share: float
    seed: int

    @cached_property
    def items(self) -> list[_Item]:
        return [
            _Item(self.entrant, part.curves, self.share, self.seed, part.past) for part in self.parts.of(self.entrant)
        ]

    def joined(self, results: dict[str, dict[str, Any]]) -> Scored:
        found = [
            (part.rows, results[item.key]) for part, item in zip(self.parts.of(self.entrant), self.items, strict=True)
        ]
        rows = np.concatenate([rows[np.asarray(part["rows"], dtype=np.int64)] for rows, part in found])
        order = np.argsort(rows, kind="stable")
        columns = {name: np.concatenate([part[name] for _, part in found])[order] for name in _COLUMNS}
        seconds = math.fsum(part["seconds"] for _, part in found)
        name, entrant = self.parts.curves.name, self.entrant
        return Scored(name, entrant.label, self.share, entrant.sampled, CurveScores(rows[order], **columns), seconds)


def sampler_rows(curves: CurveSet, plan: Plan) -> Lengths:
    """The rows that samplers work on: random ones among those that can be scored at every cutoff."""
    counts = [curves.seen_at(share) for share in plan.shares]
    usable = np.flatnonzero(np.all([(count > 0) & (count < curves.lengths) for count in counts], axis=0))
    wanted = plan.sampler_curves // 2 if curves.name.endswith(("-good", "-bad")) else plan.sampler_curves
    if wanted >= len(usable):
        return usable
    return np.sort(np.random.default_rng([plan.seed, 3]).choice(usable, size=wanted, replace=False))
