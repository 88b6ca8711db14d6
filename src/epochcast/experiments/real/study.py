"""Who is scored on which real curves, as items of the harness: cached, parallel, resumed after a stop.

Fast engines answer chunks of curves, samplers one curve at a time and fewer curves in total. All of them see the same
curves, so that their scores are paired.
"""

from __future__ import annotations

import copy
import hashlib
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, partial
from typing import Any, Literal

import numpy as np

from epochcast.benchmarks import CurveSet
from epochcast.benchmarks.curveset import LONGEST
from epochcast.curve import Lengths
from epochcast.engines import BASELINES
from epochcast.errors import InputError
from epochcast.experiments.contenders import Contender, contenders
from epochcast.experiments.harness import PLAIN, Harness
from epochcast.experiments.real.scores import SHARES, CurveScores, score
from epochcast.sampling.mcmc import ShortChainWarning
from epochcast.schedule import Schedule

Cut = Literal["chunks", "curves", "tasks"]  # how a collection is cut into parts

_CHUNK = 500  # curves of one item of a fast engine
_MOST_PAST = 5_000  # curves of other tasks that are told to an engine
_COLUMNS = [field.name for field in fields(CurveScores)]


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


@dataclass(frozen=True)
class _Part:
    """Curves that an engine scores at a time."""

    rows: Lengths  # of the collection
    curves: CurveSet  # these rows
    past: CurveSet | None = None  # curves of other tasks, for an engine that reads a context


@dataclass(frozen=True)
class _Item:
    """A part for one engine to score at one cutoff; what a worker is sent."""

    entrant: Contender
    part: _Part
    share: float
    seed: int

    @cached_property
    def key(self) -> str:
        """Changes with everything that the scores depend on."""
        digest = hashlib.sha256(repr((self.share, self.seed, self.part.curves.horizons.tolist())).encode())
        for curves in filter(None, (self.part.curves, self.part.past)):
            for array in (curves.normalised, curves.steps, curves.untrained):
                digest.update(b"/" if array is None else np.ascontiguousarray(array).tobytes())
        who = f"{self.entrant.label}/{self.part.curves.name}"
        return f"{who}/{self.share:g}/{self.entrant.fingerprint}/{digest.hexdigest()[:16]}"


def score_item(item: _Item) -> dict[str, Any]:
    """Scores of one item as lists, for the harness."""
    engine = item.entrant.build()
    if item.entrant.sampled:  # the paper's priors are made for steps 1 to 100: longer runs are thinned to that
        engine = copy.copy(engine)
        engine.grid = LONGEST
    schedule = Schedule.of(item.entrant.schedule) if item.entrant.schedule else None
    context = None if item.part.past is None else item.part.past.context()
    started = time.process_time()
    with warnings.catch_warnings():
        # Chains as short as the paper's have rarely converged; the report says so once.
        warnings.simplefilter("ignore", ShortChainWarning)
        scores = score(engine, item.part.curves, item.share, schedule=schedule, context=context, seed=item.seed)
    return {**vars(scores), "seconds": time.process_time() - started}


def run(collections: Sequence[CurveSet], plan: Plan, harness: Harness = PLAIN) -> list[Scored]:
    """Score every engine of the plan on the prepared collections, in order of collection, cutoff and engine."""
    entries = [items for curves in collections for items in _entries(curves, plan)]
    results = harness.run(score_item, {item.key: item for items in entries for item in items}).demand()
    return [_joined(items, [results[item.key] for item in items]) for items in entries]


def _entries(curves: CurveSet, plan: Plan) -> Iterator[list[_Item]]:
    """The items of every engine on one collection at every cutoff."""
    parts = cache(partial(_parts, curves, plan))  # cut once for all engines and cutoffs
    names = plan.sampled_on
    sampled = not names or any(curves.name == name or curves.name.startswith(f"{name}-") for name in names)
    for share in plan.shares:
        for entrant in contenders(plan.engines):
            own = parts(_cut_for(entrant)) if sampled or not entrant.sampled else []
            if own:
                yield [_Item(entrant, part, share, plan.seed) for part in own]


def _cut_for(entrant: Contender) -> Cut:
    return "curves" if entrant.sampled else "tasks" if entrant.engine == "empirical-gp" else "chunks"


def _parts(curves: CurveSet, plan: Plan, cut: Cut) -> list[_Part]:
    """Single curves for a sampler, whole tasks for the process of other tasks' curves, chunks for all others."""
    count = len(curves)
    if cut == "chunks":
        rows = [np.arange(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
    elif cut == "curves":
        rows = [np.array([row]) for row in sampler_rows(curves, plan)]
    else:
        rows = [np.flatnonzero(curves.task == task) for task in np.unique(curves.task)]
    parts = [_Part(own, curves[own]) for own in rows]
    if cut != "tasks":
        return parts
    return [replace(part, past=curves[curves.task != curves.task[part.rows[0]]].sample(_MOST_PAST)) for part in parts]


def _joined(items: Sequence[_Item], results: Sequence[dict[str, Any]]) -> Scored:
    """One engine on one collection at one cutoff, from its parts."""
    parts = [CurveScores(*(np.asarray(own[name]) for name in _COLUMNS)) for own in results]
    rows = [item.part.rows[part.rows.astype(np.int64)] for item, part in zip(items, parts, strict=True)]
    whole = replace(CurveScores.joined(parts), rows=np.concatenate(rows))
    scores = whole[np.argsort(whole.rows, kind="stable")]
    seconds = math.fsum(own["seconds"] for own in results)
    entrant, share = items[0].entrant, items[0].share
    return Scored(items[0].part.curves.name, entrant.label, share, entrant.sampled, scores, seconds)


def used(collections: Sequence[CurveSet], scored: Sequence[Scored]) -> Iterator[str]:
    """How many curves of each collection were scored, in words."""
    for curves in collections:
        own = [entry.scores.rows for entry in scored if entry.benchmark == curves.name]
        count = len(np.unique(np.concatenate(own))) if own else 0
        rest = "" if count == len(curves) else "; the others have no value on both sides of any cutoff"
        yield f"{curves.name}: {count:,} of {len(curves):,} curves used{rest}"


def chosen(sets: Sequence[CurveSet], names: Sequence[str]) -> list[CurveSet]:
    """The collections of these names, all where none is named."""
    known = [curves.name for curves in sets]
    for name in names:
        if name not in known:
            raise InputError(f"collection {name!r} is not among those found: {', '.join(known)}")
    return [curves for curves in sets if not names or curves.name in names]


def sampler_rows(curves: CurveSet, plan: Plan) -> Lengths:
    """The rows that samplers work on: random ones among those that can be scored at every cutoff."""
    counts = [curves.seen_at(share) for share in plan.shares]
    usable = np.flatnonzero(np.all([(count > 0) & (count < curves.lengths) for count in counts], axis=0))
    wanted = plan.sampler_curves // 2 if curves.name.endswith(("-good", "-bad")) else plan.sampler_curves
    if wanted >= len(usable):
        return usable
    return np.sort(np.random.default_rng([plan.seed, 3]).choice(usable, size=wanted, replace=False))
