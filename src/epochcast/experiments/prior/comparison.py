"""Experiment 1, computed: networks and samplers on the same prior curves, each result cached as it comes.

A network answers hundreds of curves at once, a sampler works for seconds on one. So networks are given all curves, the
samplers the first ones, and curve i meets every engine and cutoff before curve i + 1: a run that is stopped has
compared all engines on the same curves.
"""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.distributions import Array, Distribution
from epochcast.errors import ConfigError
from epochcast.experiments.contenders import Contender
from epochcast.experiments.harness import PLAIN, Harness, Result, fingerprint
from epochcast.experiments.prior import scores as prior
from epochcast.experiments.prior.chains import LongChain, shared_part
from epochcast.prior import paper
from epochcast.sampling.exact import UnsettledWarning

Mask = NDArray[np.bool_]

HORIZON = 100  # of the paper's curves

_BATCH = 250  # curves that a network is given at once
_TIMED = 20  # curves that a network is given one by one, to measure what a single forecast costs
_DIGITS = 9  # of a curve's values that its key tells
_LARGEST_NAMED = 4  # contenders that a key names one by one
_DIAGNOSTICS = {"disagreement", "particles", "temperatures", "acceptance", "autocorrelation_time", "converged"}


@dataclass(frozen=True)
class Batch:
    """Curves given to a contender, or one curve to several that share an MCMC chain, as an item for a worker."""

    contenders: tuple[Contender, ...]
    values: Array  # [curve, step], the whole curves
    cutoff: int
    targets: NDArray[np.int64]  # [curve], the unseen value (counted from the cutoff) whose cdf is reported

    def key(self, first: int, fingerprints: Mapping[str, str]) -> str:
        """A name that tells the contenders, the cutoff and the very values."""
        names = "+".join(f"{contender.label}:{fingerprints[contender.label]}" for contender in self.contenders)
        if len(self.contenders) > _LARGEST_NAMED:
            names = f"{len(self.contenders)} chains:{fingerprint({'names': names})}"
        rounded = np.round(self.values, _DIGITS) + 0.0  # the last bits differ between machines; + 0.0 makes -0 a 0
        content = zlib.crc32(self.targets.tobytes(), zlib.crc32(rounded.tobytes()))
        return f"{names}/{self.cutoff}/{first}-{first + len(self.values) - 1}:{content:08x}"


def score_batch(batch: Batch) -> Result:
    """Log-likelihood and PIT [contender][curve], processor time [contender], and what samplers say of their work."""
    count, horizon = batch.values.shape
    queries = np.broadcast_to(np.arange(batch.cutoff + 1.0, horizon + 1.0), (count, horizon - batch.cutoff))
    truth = batch.values[:, batch.cutoff :]
    scores: list[tuple[Array, Array, float]] = []
    diagnostics: Result = {}
    for part in forecasts(batch, queries):
        start = time.process_time()
        own = prior.scores_of(part.forecast, truth, batch.targets)
        scores.append((*own, part.seconds + time.process_time() - start))
        diagnostics = _tabulated(part.diagnostics)
    log_likelihood, pit, seconds = (np.stack(column) for column in zip(*scores, strict=True))
    return {"log_likelihood": log_likelihood, "pit": pit, "seconds": seconds, **diagnostics}


@dataclass(frozen=True)
class Forecasted:
    forecast: Distribution  # [curve, query]
    seconds: float
    diagnostics: Sequence[Any]  # a record per curve


def forecasts(batch: Batch, queries: Array) -> Iterator[Forecasted]:
    """The forecast of each contender and its processor time."""
    chains = [contender.chain for contender in batch.contenders]
    if chains[0] is not None:
        long = LongChain(chains[0][0], [chain[1] for chain in chains if chain is not None])
        seen = prior.seen_part(batch.values, batch.cutoff)
        for part in long.forecasts(seen, queries, float(batch.values.shape[1])):
            yield Forecasted(part.forecast, part.seconds, (part.diagnostics,))
        return
    for contender in batch.contenders:
        engine = contender.build()
        if not contender.sampled:
            prior.predict(engine, batch.values[:1], batch.cutoff, queries[:1])  # a session's first call is slower
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsettledWarning)  # it is told by the diagnostics
            forecast = prior.predict(engine, batch.values, batch.cutoff, queries)
        yield Forecasted(forecast, time.process_time() - start, engine.diagnostics)


def _tabulated(records: Sequence[Any]) -> Result:
    """Records of a sampler, one per curve, as a list per measure."""
    rows = [asdict(record) | {"converged": float(record.converged)} for record in records]
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}


@dataclass(frozen=True)
class Plan:
    """Which contenders meet which curves."""

    contenders: Sequence[Contender]
    curves: int = 10_000  # for networks
    sampled: int = 300  # of them for samplers, the first ones
    shares: Sequence[float] = prior.SHARES
    seed: int = 0

    def __post_init__(self) -> None:
        labels = [contender.label for contender in self.contenders]
        if len(set(labels)) < len(labels):
            raise ConfigError(f"contenders {labels} must have names of their own")
        if not 1 <= self.sampled <= self.curves:
            raise ConfigError(f"sampled={self.sampled} must lie between 1 and curves={self.curves}")

    def only(self, labels: Sequence[str]) -> Plan:
        """The same for some of the contenders."""
        known = {contender.label: contender for contender in self.contenders}
        for label in labels:
            if label not in known:
                raise ConfigError(f"{label!r} takes no part; choose from {', '.join(known)}")
        return replace(self, contenders=[known[label] for label in labels])

    @property
    def cutoffs(self) -> list[int]:
        return [prior.cutoff_of(share, HORIZON) for share in self.shares]


@dataclass(frozen=True)
class Scored:
    """What one contender reached at one cutoff; NaN for curves that it was not given."""

    contender: Contender
    cutoff: int
    log_likelihood: Array  # [curve], mean over the unseen steps
    pit: Array  # [curve]
    seconds: Array  # [curve], of processor time where the curve was forecast on its own
    diagnostics: dict[str, Array]  # [curve] each

    @property
    def known(self) -> Mask:
        return ~np.isnan(self.log_likelihood)


@dataclass(frozen=True)
class Comparison:
    """All contenders at all cutoffs."""

    plan: Plan
    draw: paper.Draw
    scored: Sequence[Scored]  # contender by contender, cutoffs within
    failures: dict[str, str]

    def at(self, label: str, cutoff: int) -> Scored:
        return next(s for s in self.scored if s.contender.label == label and s.cutoff == cutoff)

    @property
    def labels(self) -> list[str]:
        return [contender.label for contender in self.plan.contenders]

    def oracle(self, cutoff: int) -> Array:
        """Mean log-likelihood [curve] of the unseen steps with curve and noise known."""
        return np.asarray(paper.oracle_scores(self.draw)[:, cutoff:].mean(axis=1))

    def complete(self, label: str) -> Mask:
        """The curves on which a contender has been scored at every cutoff."""
        own = [scored.known for scored in self.scored if scored.contender.label == label]
        return np.asarray(np.all(own, axis=0))

    @property
    def paired(self) -> Mask:
        """The curves on which every contender has been scored at every cutoff."""
        return np.asarray(np.all([scored.known for scored in self.scored], axis=0))


def compare(plan: Plan, harness: Harness = PLAIN) -> Comparison:
    """Score all contenders."""
    draw = prior.draw_curves(plan.curves, plan.seed)
    batches = {key: (first, batch) for key, first, batch in _batches(plan, draw)}
    report = harness.run(score_batch, {key: batch for key, (_, batch) in batches.items()})
    scored = [
        _gathered(plan, contender, cutoff, [(*batches[key], result) for key, result in report.results.items()])
        for contender in plan.contenders
        for cutoff in plan.cutoffs
    ]
    return Comparison(plan, draw, scored, report.failures)


def _batches(plan: Plan, draw: paper.Draw) -> Iterator[tuple[str, int, Batch]]:
    """Keys, first curves and items: networks' batches, then the single curves of all contenders."""
    fingerprints = {contender.label: contender.fingerprint for contender in plan.contenders}
    targets = {
        cutoff: np.random.default_rng([plan.seed, 2]).integers(HORIZON - cutoff, size=plan.curves)
        for cutoff in plan.cutoffs
    }

    def item(group: tuple[Contender, ...], cutoff: int, first: int, size: int) -> tuple[str, int, Batch]:
        rows = slice(first, min(first + size, plan.curves))
        batch = Batch(group, draw.noisy[rows], cutoff, targets[cutoff][rows])
        return batch.key(first, fingerprints), first, batch

    groups = _groups(plan.contenders)
    for group in groups:
        for cutoff in plan.cutoffs if not group[0].sampled else ():
            for first in range(0, plan.curves, _BATCH):
                yield item(group, cutoff, first, _BATCH)
    for curve in range(plan.sampled):
        for cutoff in plan.cutoffs:
            for group in groups:
                if group[0].sampled or curve < _TIMED:
                    yield item(group, cutoff, curve, 1)


def _groups(contenders: Sequence[Contender]) -> list[tuple[Contender, ...]]:
    """Contenders that are parts of one MCMC chain together, the others on their own."""
    groups: dict[Any, tuple[Contender, ...]] = {}
    for contender in contenders:
        chain = contender.chain
        common = contender.label if chain is None else (chain[0], *shared_part(chain[1]))
        groups[common] = (*groups.get(common, ()), contender)
    return list(groups.values())


def _gathered(plan: Plan, contender: Contender, cutoff: int, parts: Sequence[tuple[int, Batch, Result]]) -> Scored:
    """The results of one contender at one cutoff, each at the place of its curve."""
    log_likelihood, pit, seconds = (np.full(plan.curves, np.nan) for _ in range(3))
    diagnostics: dict[str, Array] = {}
    for first, batch, result in parts:
        if batch.cutoff != cutoff or contender not in batch.contenders:
            continue
        rows, own = slice(first, first + len(batch.values)), batch.contenders.index(contender)
        log_likelihood[rows], pit[rows] = result["log_likelihood"][own], result["pit"][own]
        if len(batch.values) == 1:
            seconds[rows] = result["seconds"][own]
        for name in _DIAGNOSTICS & result.keys():
            diagnostics.setdefault(name, np.full(plan.curves, np.nan))[rows] = result[name]
    return Scored(contender, cutoff, log_likelihood, pit, seconds, diagnostics)
