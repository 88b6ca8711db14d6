"""The bound on wrong stops: it holds on exchangeable runs, however bad the forecasts, and fails without calibration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.curve import Curves
from epochcast.distributions import Mixture
from epochcast.errors import InputError
from epochcast.forecaster import Forecaster
from epochcast.metric import Metric
from epochcast.prior import paper
from epochcast.stopping import Reason, Stopper
from epochcast.stopping.calibration import (
    LARGEST_CONFIDENCE,
    SMALLEST_CONFIDENCE,
    FinishedRuns,
    Guarantee,
    calibrate,
    forecasts,
    lowest_chances,
    smallest_confidence,
)
from epochcast.stopping.decision import chance_to_beat

# Bounds this wide keep the check of the direction quiet: a random walk often gets steadily worse.
UP = Metric("score", minimize=False, soft=(0.0, 100.0), transform=False)
DOWN = Metric("cost", minimize=True, soft=(0.0, 100.0), transform=False)
HORIZON = 10
CUTOFFS = range(2, HORIZON)
RISK = 0.1
NOISE = 0.1


class RandomWalk:
    """Forecasts a random walk from its newest value; `belief` below 1 makes it surer than it should be."""

    name = "random walk"
    grid = None

    def __init__(self, belief: float = 1.0) -> None:
        self.belief = belief

    def predict(self, curves: Curves, queries: np.ndarray, horizon: float) -> Mixture:
        ahead = queries - curves.last_step[:, None]
        means = np.broadcast_to(curves.last_value[:, None], queries.shape)
        scales = self.belief * NOISE * np.sqrt(ahead)
        return Mixture.of(np.zeros((*queries.shape, 1)), means[..., None], np.log(scales)[..., None])


def random_walks(count: int, seed: int) -> np.ndarray:
    """Runs [run, step] that the engine above is right about when its belief is 1."""
    return np.cumsum(NOISE * np.random.default_rng(seed).standard_normal((count, HORIZON)), axis=1)


def forecaster(belief: float = 0.6) -> Forecaster:
    return Forecaster.around(RandomWalk(belief))


# --- the bound ------------------------------------------------------------------------------------------------------

REPETITIONS, FINISHED, NEW = 200, 60, 40
CASES: dict[str, dict[str, Any]] = {
    "any-best": {"target": "any"},
    "any-best-final": {"target": "final"},
    "any-best-min-gain": {"target": "any", "min_gain": 0.02},
    "goal": {"target": "any", "goal": 0.1},
    "goal-final": {"target": "final", "goal": 0.1},
    "goal-weighed-rest": {"target": "final", "goal": 0.1, "weigh_rest": True},
}


def wrong_stop_rates(worst: np.ndarray, confidence: float | None = None) -> np.ndarray:
    """The rate of wrong stops of new runs in each repetition, with a calibrated or a given confidence."""
    rates = []
    for repetition in worst.reshape(REPETITIONS, FINISHED + NEW):
        chosen = smallest_confidence(repetition[:FINISHED], RISK) if confidence is None else confidence
        rates.append((repetition[FINISHED:] <= 1.0 - chosen).mean())
    return np.array(rates)


def excess_over_the_risk(rates: np.ndarray) -> float:
    """In standard errors of the mean rate."""
    return float((rates.mean() - RISK) / (rates.std() / math.sqrt(len(rates))))


@pytest.mark.parametrize("case", CASES)
def test_calibrated_bound_holds_over_200_repetitions_and_fails_uncalibrated(case: str) -> None:
    runs = FinishedRuns.of(random_walks(REPETITIONS * (FINISHED + NEW), seed=7), UP)
    worst = lowest_chances(runs, forecaster(), CUTOFFS, **CASES[case])
    rates = wrong_stop_rates(worst)
    assert excess_over_the_risk(rates) < 3.0
    assert rates.mean() > RISK - 2.0 / FINISHED  # met by a fair choice, not by stopping nothing
    assert excess_over_the_risk(wrong_stop_rates(worst, confidence=0.7)) > 10.0  # the same check rejects a wrong one


@pytest.mark.parametrize("metric", [UP, DOWN], ids=["up", "down"])
def test_search_with_a_calibrated_stopper_stops_few_runs_wrongly(metric: Metric) -> None:
    """The stopper itself in searches whose best starts anew and grows run by run."""
    sign = -1.0 if metric.minimize else 1.0
    runs = sign * random_walks(500, seed=9)
    stopper = Stopper.calibrated(runs[:400], RISK, metric=metric, forecaster=forecaster())
    wrong = 0
    for number, run in enumerate(runs[400:]):
        if number % 5 == 0:
            stopper.best = None
        for step, value in enumerate(run, start=1):
            decision = stopper.update(step, value)
            if decision.stop:
                assert decision.best is not None
                wrong += bool((sign * run[step:] > sign * decision.best).any())
                break
        stopper.next_run()
    stopped = sum(record.stopped for record in stopper.runs)
    assert stopped > 10
    assert wrong <= 100 * RISK


# --- the simulated rule is the real one -----------------------------------------------------------------------------


def real_wrong_stop(run: np.ndarray, best: float, confidence: float, ties: bool, **options: Any) -> bool:
    """Whether a stopper that meets the run value by value stops it wrongly."""
    stopper = Stopper(HORIZON, confidence=confidence, min_steps=2, best=best, forecaster=forecaster(), **options)
    sign = -1.0 if stopper.metric.minimize else 1.0
    for step, value in enumerate(run, start=1):
        if stopper.update(step, value).reason is Reason.UNLIKELY:
            later = sign * (run[step:] if stopper.target == "any" else run[-1:])
            return bool((later >= sign * best).any() if ties else (later > sign * best).any())
    return False


@pytest.mark.parametrize("metric", [UP, DOWN], ids=["up", "down"])
@pytest.mark.parametrize("target", ["any", "final"])
@pytest.mark.parametrize("goal", [None, 0.1])
@pytest.mark.parametrize("weigh_rest", [False, True], ids=["", "weighed"])
def test_wrong_stops_of_finished_runs_are_those_of_a_real_stopper(
    metric: Metric, target: Any, goal: Any, weigh_rest: bool
) -> None:
    values = random_walks(25, seed=3)
    runs = FinishedRuns.of(values if goal is None else values.round(1), metric)  # rounded, runs tie with the goal
    worst = lowest_chances(runs, forecaster(), CUTOFFS, target=target, goal=goal, weigh_rest=weigh_rest)
    nudge = 1e-9 if metric.minimize else -1e-9  # just short of the outcome
    bests = runs.outcome(target) + nudge if goal is None else np.full(len(runs), goal)
    found = set()
    for confidence in (0.7, 0.95):
        for i, run in enumerate(runs.values):
            expected = bool(worst[i] <= 1.0 - confidence)
            options = {"metric": metric, "target": target, "weigh_rest": weigh_rest}
            assert real_wrong_stop(run, bests[i], confidence, ties=goal is not None, **options) == expected
            found.add(expected)
    assert found == {True, False}


def test_no_best_makes_a_stop_wrong_that_the_run_s_own_outcome_does_not() -> None:
    runs = FinishedRuns.of(random_walks(20, seed=4), UP)
    worst = lowest_chances(runs, forecaster(), CUTOFFS)
    rng = np.random.default_rng(5)
    confidence = float(1.0 - np.quantile(worst[np.isfinite(worst)], 0.3))
    wrong = 0
    for run, chance in zip(runs.values, worst, strict=True):
        for best in rng.uniform(run[0], run.max(), 4):
            if real_wrong_stop(run, float(best), confidence, ties=False, metric=UP):
                assert chance <= 1.0 - confidence
                wrong += 1
    assert wrong > 0


def test_run_whose_best_value_came_before_the_first_check_cannot_be_stopped_wrongly() -> None:
    runs = FinishedRuns.of(np.linspace(1.0, 0.0, HORIZON)[None].repeat(2, axis=0), UP)
    assert np.isinf(lowest_chances(runs, forecaster(), CUTOFFS)).all()


def test_wrong_stops_grow_as_the_confidence_falls_and_shrink_with_the_gain_asked_for() -> None:
    runs = FinishedRuns.of(random_walks(300, seed=6), UP)
    worst = lowest_chances(runs, forecaster(), CUTOFFS)
    lenient = lowest_chances(runs, forecaster(), CUTOFFS, min_gain=0.05)
    assert (lenient >= worst).all()
    assert (lenient > worst).any()
    strict = calibrate(runs, forecaster(), CUTOFFS, 0.05)
    loose = calibrate(runs, forecaster(), CUTOFFS, 0.2)
    assert strict.confidence > loose.confidence
    assert (worst <= 1.0 - strict.confidence).sum() == strict.wrong_stops < loose.wrong_stops


# --- the choice of the confidence -----------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    worst=st.lists(st.one_of(st.floats(1e-9, 1.0), st.just(math.inf), st.sampled_from([0.1, 0.2])), min_size=1),
    risk=st.floats(0.01, 0.99),
)
def test_smallest_confidence_meets_the_formula_and_nothing_much_smaller_does(worst: list[float], risk: float) -> None:
    scores, count = np.array(worst), len(worst)

    def bound(confidence: float) -> float:
        share = (scores <= 1.0 - confidence).mean()
        return float(count / (count + 1) * share + 1 / (count + 1))

    if risk < 1 / (count + 1):
        with pytest.raises(InputError):
            smallest_confidence(scores, risk)
        return
    confidence = smallest_confidence(scores, risk)
    assert bound(confidence) <= risk + 1e-9
    smaller = 1.0 - (1.0 - confidence) * 1.01
    assert smaller < SMALLEST_CONFIDENCE or bound(smaller) > risk


def test_risk_below_what_few_runs_can_vouch_for_raises_and_names_the_smallest() -> None:
    with pytest.raises(InputError, match=r"risk at 0.05.*10 finished runs can vouch for is 0.0909.*at least 19"):
        Stopper.calibrated(random_walks(10, seed=0), 0.05, metric=UP, forecaster=forecaster())
    assert Stopper.calibrated(random_walks(19, seed=0), 0.05, metric=UP, forecaster=forecaster()).guarantee


def test_forecasts_that_are_surely_wrong_raise_and_name_the_smallest_risk() -> None:
    worst = np.array([0.0] * 10 + [0.3] * 89)
    with pytest.raises(InputError, match=r"vouch for is 0\.11"):
        smallest_confidence(worst, 0.1)
    assert smallest_confidence(worst, 0.11) < LARGEST_CONFIDENCE


def test_goal_that_hardly_any_run_reaches_warns_that_the_bound_says_little() -> None:
    runs = random_walks(100, seed=1)
    with pytest.warns(UserWarning, match="only 1 of 100 finished runs"):
        stopper = Stopper.calibrated(runs, RISK, metric=UP, goal=float(runs.max()), forecaster=forecaster())
    assert stopper.confidence == SMALLEST_CONFIDENCE


def test_least_confidence_below_the_usual_one_uses_up_the_risk() -> None:
    worst = np.linspace(0.55, 0.95, 99)  # forecasts that know winners: each is likely to win at its worst moment
    usual, bold = (smallest_confidence(worst, RISK, least) for least in (SMALLEST_CONFIDENCE, 0.001))
    assert (usual, (worst <= 1.0 - usual).sum()) == (SMALLEST_CONFIDENCE, 0)
    assert ((worst <= 1.0 - bold).sum() + 1) / (len(worst) + 1) == RISK


def test_least_confidence_is_kept_by_the_calibrated_stopper() -> None:
    runs = random_walks(200, seed=6)
    options: Any = {"metric": UP, "min_steps": 9, "min_gain": 0.001, "forecaster": forecaster()}
    free, kept = (Stopper.calibrated(runs, 0.2, **options, least_confidence=least).confidence for least in (0.01, 0.9))
    assert free < 0.9
    assert kept == 0.9


# --- Stopper.calibrated ---------------------------------------------------------------------------------------------


def test_calibrated_stopper_carries_its_guarantee_through_a_restart() -> None:
    engine = forecaster()
    stopper = Stopper.calibrated(random_walks(99, seed=2), RISK, metric=UP, best=0.4, forecaster=engine)
    guarantee = stopper.guarantee
    assert guarantee is not None
    assert guarantee.wrong_stops == 9
    assert guarantee.bound == pytest.approx(RISK)
    assert stopper.confidence == guarantee.confidence > 0.9
    assert stopper.best == 0.4
    assert str(guarantee).startswith("at most 10 % of runs are stopped although they would have beaten the best (")
    assert Stopper.from_json(stopper.to_json(), engine).guarantee == guarantee


def test_calibration_of_a_stopper_that_stops_leaders_is_refused() -> None:
    with pytest.raises(InputError, match="stop_leader cannot be calibrated"):
        Stopper.calibrated(random_walks(50, seed=1), metric=UP, forecaster=forecaster(), stop_leader=True)


def test_guarantee_sentence_names_goal_and_gain() -> None:
    assert "beaten 0.9 (" in str(Guarantee(0.05, 0.99, 100, 20, 4, goal=0.9))
    assert "beaten the best by more than 0.01 (" in str(Guarantee(0.05, 0.99, 100, 20, 4, min_gain=0.01))


@pytest.mark.parametrize("schedule", [{"min_steps": 5}, {"check_every": 3}, {"cutoffs": (0.2, 0.4, 0.8)}])
def test_calibrated_stopper_with_fewer_checks_needs_less_confidence(schedule: dict[str, Any]) -> None:
    runs = random_walks(200, seed=5)
    options: Any = {"metric": UP, "min_steps": 2, "forecaster": forecaster()}
    every = Stopper.calibrated(runs, RISK, **options)
    fewer = Stopper.calibrated(runs, RISK, **{**options, **schedule})
    assert fewer.confidence < every.confidence


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        ([[0.1, 0.2, 0.3], [0.1, 0.2]], {}, "finished run 1 has 2 values, not horizon=3"),
        ([[0.1, 0.2, 0.3]], {"horizon": 50}, "finished run 0 has 3 values, not horizon=50"),
        ([[0.1, math.nan, 0.3]], {}, r"finished runs: values\[1\] of curve 0 = nan"),
        ([0.1, 0.2, 0.3], {}, "a batch of runs"),
        ([[0.1], [0.2]], {}, "at least 2 steps"),
        ([[0.1, 0.2, 0.3]], {"risk": 0.0}, "risk=0.0"),
        ([[0.1, 0.2, 0.3]], {"min_steps": 3}, "never checks"),
        ([[0.1, 0.2, 0.3]], {}, "never checks"),  # shorter than the usual min_steps
        ([[0.1, 0.2, 0.3]], {"risk": "low"}, "risk='low' is not a number"),
        ([[0.1, 0.2, 0.3]], {"horizon": "3"}, "horizon='3' is not a number"),
        ([[0.1, 0.2, 0.3]], {"least_confidence": None}, "confidence=None is not a number"),
        ([[0.1, 0.2, 0.3]], {"min_gain": -1.0}, "min_gain=-1"),
        ([[0.1, 0.2, 0.3]], {"min_gain": 0.1, "goal": 0.5}, "beside a goal"),
        ([[0.1, 0.2, 0.3]], {"untrained": [0.1, 0.2]}, "untrained"),
        ([[0.1, 0.2, 0.3]], {"untrained": "chance"}, "untrained"),
    ],
)
def test_calibration_on_unusable_runs_raises_an_error_that_names_them(
    runs: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Stopper.calibrated(runs, **{"metric": UP, "forecaster": forecaster(), **options})


# --- forecasts from every cutoff ------------------------------------------------------------------------------------


@pytest.mark.parametrize("untrained", [None, 2.3], ids=["", "untrained"])
@pytest.mark.parametrize("target", ["any", "final"])
@pytest.mark.parametrize("model", ["stream", "real"])
def test_chances_from_one_pass_equal_those_of_a_forecast_per_cutoff(
    untrained: float | None, target: Any, model: str
) -> None:
    stream = Forecaster(model)
    values = 2.0 - paper.sample(6, np.random.default_rng(0), 25).noisy
    runs = FinishedRuns.of(values, "log_loss", untrained=untrained)
    cutoffs = [1, 2, 9, 10, 11, 24]
    thresholds = runs.outcome("any") + 0.05
    expected = []
    for cutoff in cutoffs:
        seen = values[:, :cutoff] if untrained is None else np.column_stack([np.full(6, untrained), values[:, :cutoff]])
        steps = np.arange(1.0 if untrained is None else 0.0, cutoff + 1.0)
        expected.append(chance_to_beat(stream.forecast(seen, 25, "log_loss", steps), thresholds, target))
    chances = runs.chances(stream, thresholds, target, cutoffs)
    assert chances == pytest.approx(np.stack(expected, axis=1), abs=1e-4)
    assert chances.std() > 0.01


def test_forecasts_past_the_grid_of_a_model_are_thinned_rather_than_refused() -> None:
    runs = FinishedRuns.of(np.linspace(0.1, 0.9, 150)[None].repeat(2, axis=0), "accuracy")
    found = [(cutoff, forecast.steps.shape) for cutoff, forecast in forecasts(Forecaster("stream"), runs, [40, 20])]
    assert found == [(20, (2, 130)), (40, (2, 110))]


def test_calibrated_stopper_on_the_shipped_model_decides_on_a_new_run() -> None:
    runs = np.clip(paper.sample(40, np.random.default_rng(1), 12).noisy, 0.0, 0.999)
    stopper = Stopper.calibrated(runs[:39], 0.2, metric="accuracy", best=0.99, min_gain=0.01)
    decisions = [stopper.update(step, value) for step, value in enumerate(runs[39], start=1)]
    assert decisions[-1].reason is Reason.FINISHED
    assert SMALLEST_CONFIDENCE <= stopper.confidence < 1.0


def test_forecasts_of_runs_that_leave_their_range_are_those_of_a_stopper():
    """One pass knows one scale per run; a run that explodes is forecast anew at every cutoff."""
    steady = np.exp(-np.arange(1.0, 9.0) / 3.0) + 0.1
    runs = FinishedRuns.of([steady, np.where(np.arange(8) == 4, 1e4, steady), steady + 0.2], "loss")
    forecaster = Forecaster()
    chances = runs.chances(forecaster, 0.2, "any", range(2, 8))
    for row, values in enumerate(runs.values):
        for column, cutoff in enumerate(range(2, 8)):
            alone = forecaster.forecast(values[:cutoff], 8, "loss")
            assert chances[row, column] == pytest.approx(float(chance_to_beat(alone, 0.2, "any")), abs=1e-3)
