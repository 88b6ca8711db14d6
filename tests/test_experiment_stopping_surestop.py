"""The comparison with surestop: our side is the real calibrated stopper, and both sides count the same way."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from epochcast.curve import Curves
from epochcast.distributions import Mixture
from epochcast.forecaster import Forecaster
from epochcast.metric import Metric
from epochcast.stopping import FinishedRuns, Stopper

HORIZON = 10
UP = Metric("score", minimize=False, soft=(0.0, 100.0), transform=False)
DOWN = Metric("cost", minimize=True, soft=(0.0, 100.0), transform=False)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).parents[1] / "scripts" / "compare_surestop.py"
    spec = importlib.util.spec_from_file_location("compare_surestop", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


class RandomWalk:
    """Forecasts a random walk from its newest value."""

    name = "random walk"
    grid = None

    def predict(self, curves: Curves, queries: np.ndarray, horizon: float) -> Mixture:
        ahead = queries - curves.last_step[:, None]
        means = np.broadcast_to(curves.last_value[:, None], queries.shape)
        return Mixture.of(np.zeros((*queries.shape, 1)), means[..., None], np.log(0.1 * np.sqrt(ahead))[..., None])


def walks(metric: Metric, count: int = 120) -> FinishedRuns:
    steps = 0.1 * np.random.default_rng(3).standard_normal((count, HORIZON))
    return FinishedRuns.of(np.cumsum(steps, axis=1), metric)


def last_epochs(stopper: Stopper, values: np.ndarray) -> list[int]:
    """The last epoch of each run in a loop with the stopper."""
    found = []
    for run in values:
        found.append(
            next(step for step, v in enumerate(run, start=1) if stopper.update(step, v).stop or step == HORIZON)
        )
        stopper.next_run()
    return found


@pytest.mark.parametrize("metric", [UP, DOWN], ids=["up", "down"])
@pytest.mark.parametrize("weigh_rest", [True, False], ids=["weighed", "plain"])
def test_our_side_stops_test_runs_where_the_calibrated_stopper_does(
    script: Any, metric: Metric, weigh_rest: bool
) -> None:
    runs, forecaster = walks(metric), Forecaster.around(RandomWalk())
    (split,) = script.splits_of(runs, 1, seed=0)
    (chances,) = script.chances_of(forecaster, runs, [split])
    stopper = Stopper.calibrated(
        runs.values[split.calibration],
        0.05,
        metric=metric,
        goal=split.tau,
        target="final",
        min_steps=1,
        min_share=0.0,
        weigh_rest=weigh_rest,
        least_confidence=script.LEAST_CONFIDENCE,
        forecaster=forecaster,
    )
    expected = last_epochs(stopper, runs.values[split.test])
    found = script.our_stops(runs, split, chances, 0.05, weigh_rest=weigh_rest)
    assert found.tolist() == expected
    assert len(set(expected)) > 2


@pytest.mark.parametrize("metric", [UP, DOWN], ids=["up", "down"])
def test_both_sides_have_the_same_tau_and_count_the_same_way(script: Any, metric: Metric) -> None:
    surestop = pytest.importorskip("surestop")
    runs = walks(metric)
    for split in script.splits_of(runs, 3, seed=1):
        rule = surestop.KillRule(alpha=0.05, maximize=not metric.minimize).fit(runs.values[split.calibration])
        assert rule.tau_ == (split.tau if metric.minimize else -split.tau)
        theirs = rule.evaluate(runs.values[split.test])
        ours = script.Outcome.of(runs, split, script.surestop_stops(runs, split, 0.05))
        assert ours.false_stops == pytest.approx(theirs["joint_false_kill_rate"])
        assert ours.saved == pytest.approx(theirs["savings"])


def test_rule_that_stops_everything_at_once_saves_most_and_stops_every_good_run(script: Any) -> None:
    runs = walks(UP)
    (split,) = script.splits_of(runs, 1, seed=2)
    outcome = script.Outcome.of(runs, split, np.ones(len(split.test), dtype=np.intp))
    good = (runs.values[split.test, -1] >= split.tau).mean()
    assert (outcome.false_stops, outcome.saved) == (pytest.approx(good), pytest.approx(1.0 - 1.0 / HORIZON))
