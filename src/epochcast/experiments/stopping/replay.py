"""Experiment 3: what stopping rules save in model selection, and what they cost (paper, section 4.3 and appendix C.3).

Each task is one item of the harness: forecasts of all its runs, then a replay of every rule in every order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.experiments.contenders import Contender
from epochcast.experiments.estimate import standard_errors
from epochcast.experiments.stopping.reach_table import ReachTable
from epochcast.experiments.stopping.selection import (
    Limits,
    Pool,
    Replay,
    by_forecast,
    never,
    patience,
    random_orders,
    regret,
    replay,
    speedup,
)
from epochcast.experiments.task_runs import TaskRuns
from epochcast.forecaster import Forecaster
from epochcast.stopping.decision import check_confidence
from epochcast.stopping.stopper import Stopper

BASELINE = "no stopping"
LEADERS_GO_ON = "fine, leaders go on"
CONFIDENCES = (0.9, 0.95, 0.99, 0.999)
PATIENCES = (2, 5, 10)
MIN_STEPS = (1, 2, 3, 4, 5)
USUAL_CONFIDENCE, USUAL_MIN_STEPS = 0.95, 2
COARSE_CUTOFFS = (0.1, 0.2, 0.4, 0.8)
_POINTS = 400  # of a line of regret that are kept


@dataclass(frozen=True)
class Rule:
    """A stopping rule by name; what does not apply to it is None."""

    name: str
    confidence: float | None = None
    min_steps: int | None = None
    patience: int | None = None
    coarse: bool = False
    stop_leader: bool = True  # as in the paper, whose best is that of any run thus far, the current one included
    foresight: bool = False  # the ceiling: knows what will come

    def limits(self, pool: Pool, reach_table: ReachTable) -> Limits:
        if self.patience is not None:
            return patience(pool, self.patience)
        if self.min_steps is None:
            return never(pool)
        which = np.arange(self.min_steps - 1, len(reach_table.checks))
        if self.coarse:
            count = len(reach_table.checks) + 1
            wanted = {max(math.ceil(share * count - 1e-9), 1) - 1 for share in COARSE_CUTOFFS}
            which = which[np.isin(which, sorted(wanted))]
        checks = reach_table.checks[which]
        if self.foresight or self.confidence is None:
            known = by_forecast(pool, pool.later[:, checks - 1], checks, stop_leader=self.stop_leader)
            return replace(known, forecast_at=np.zeros(pool.horizon, dtype=bool))
        return by_forecast(pool, reach_table.at(self.confidence)[:, which], checks, stop_leader=self.stop_leader)


def rules_of(confidences: Sequence[float] = CONFIDENCES) -> list[Rule]:
    """The rules of the paper, those of its appendix, the same without an end to runs that lead, and the ceilings."""
    for confidence in confidences:
        check_confidence(confidence)
    usual = USUAL_CONFIDENCE if USUAL_CONFIDENCE in confidences else confidences[0]
    return [
        Rule(BASELINE),
        *(Rule(f"patience {k}", patience=k) for k in PATIENCES),
        *(Rule("fine", confidence, USUAL_MIN_STEPS) for confidence in confidences),
        *(Rule("coarse", confidence, USUAL_MIN_STEPS, coarse=True) for confidence in confidences),
        *(Rule(LEADERS_GO_ON, confidence, USUAL_MIN_STEPS, stop_leader=False) for confidence in confidences),
        *(Rule(f"fine from {least}", usual, least) for least in MIN_STEPS if least != USUAL_MIN_STEPS),
        Rule("foresight", min_steps=USUAL_MIN_STEPS, foresight=True),
        Rule("foresight, leaders go on", min_steps=USUAL_MIN_STEPS, foresight=True, stop_leader=False),
    ]


@dataclass(frozen=True)
class Settings:
    """What the result of a task depends on, beside its runs and the model."""

    orders: int = 40
    budget: int = 20  # in full runs
    confidences: tuple[float, ...] = CONFIDENCES
    curves: int | None = None  # per task, all if None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("orders", "budget"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} must be at least 1")
        if not self.confidences:
            raise InputError("no confidence is given; name at least one, such as 0.95")
        rules_of(self.confidences)


@dataclass(frozen=True)
class Row:
    """One rule on one task."""

    benchmark: str
    task: str
    model: str
    rule: str
    confidence: float | None
    min_steps: int | None
    speedup: float
    final_regret: float
    final_regret_error: float  # one standard error, over the orders
    false_stop_rate: float | None  # of the runs stopped, those that would have beaten the best; None if none was
    false_stop_share: float  # the same runs as a share of all that were begun
    runs: float  # begun within the budget, per order
    stopped: float
    forecasts: float  # asked for within the budget, per order
    overhead: float  # seconds for these, one run at a time
    orders: int


def evaluate_task(runs: TaskRuns, model: Contender, settings: Settings) -> Mapping[str, Any]:
    """All rules on one task: rows, and lines of mean regret with standard errors, as JSON types."""
    forecaster = model.forecaster()
    reach_table = ReachTable.of(forecaster, runs, settings.confidences)
    pool = Pool.of(runs.values, runs.metric.minimize)
    if not np.isfinite(pool.best):
        raise InputError(f"{runs.benchmark}, task {runs.task!r}: no run has a finite value")
    orders = random_orders(len(runs), settings.orders, np.random.default_rng([settings.seed, 3]))
    budget = settings.budget * runs.horizon
    rules = rules_of(settings.confidences)
    replays = [replay(pool, rule.limits(pool, reach_table), orders, budget) for rule in rules]
    regrets = [regret(pool, replayed) for replayed in replays]
    baseline = regrets[0].mean(axis=0)
    per_forecast = seconds_per_forecast(forecaster, runs)
    kept = np.unique(np.linspace(0, budget - 1, min(_POINTS, budget)).round().astype(np.intp))
    return {
        "rows": [
            asdict(_row(runs, model.label, rule, replayed, line, speedup(baseline, line.mean(axis=0)), per_forecast))
            for rule, replayed, line in zip(rules, replays, regrets, strict=True)
        ],
        "epochs": kept + 1,
        "regret": [line.mean(axis=0)[kept] for line in regrets],
        "error": [standard_errors(line)[kept] for line in regrets],
    }


def _row(
    runs: TaskRuns, model: str, rule: Rule, replayed: Replay, line: Array, gain: float, per_forecast: float
) -> Row:
    stopped, wrong = int(replayed.stopped.sum()), int(replayed.wrong.sum())
    forecasts = float(replayed.forecasts.mean())
    return Row(
        benchmark=runs.benchmark,
        task=runs.task,
        model=model,
        rule=rule.name,
        confidence=rule.confidence,
        min_steps=rule.min_steps,
        speedup=gain,
        final_regret=float(line[:, -1].mean()),
        final_regret_error=float(standard_errors(line[:, -1:])[0]),
        false_stop_rate=wrong / stopped if stopped else None,
        false_stop_share=wrong / int(replayed.runs.sum()),
        runs=float(replayed.runs.mean()),
        stopped=float(replayed.stopped.mean()),
        forecasts=forecasts,
        overhead=forecasts * per_forecast,
        orders=len(line),
    )


def seconds_per_forecast(forecaster: Forecaster, runs: TaskRuns, most: int = 30) -> float:
    """Processor time of a decision in a training loop: a real stopper on the first values of a run."""
    whole = np.isfinite(runs.values).all(axis=1)
    values = runs.values[int(np.argmax(whole))][: min(most, runs.horizon - 1)]
    values = values[np.isfinite(values)]
    options: Any = {"min_steps": 1, "min_share": 0.0, "best": float(values[0]), "forecaster": forecaster}
    stopper = Stopper(runs.horizon, runs.metric, **options)
    stopper.update(1, values[0])  # the first call warms up
    start = time.process_time()
    for step, value in enumerate(values[1:], start=2):
        stopper.update(step, value)
    return (time.process_time() - start) / max(len(values) - 1, 1)
