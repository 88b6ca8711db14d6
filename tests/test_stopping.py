"""The stopping rules: a table of decisions on known forecasts, the state of a search, and what survives a restart."""

from __future__ import annotations

import json
import logging
import math
import shutil
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from epochcast import weights
from epochcast.curve import Curves
from epochcast.errors import ConfigError, InputError, StrongContradictionWarning
from epochcast.forecaster import Forecaster
from epochcast.metric import Metric
from epochcast.stopping import NoStopping, Patience, RunRecord, Stopper
from epochcast.stopping.decision import Decision, Reason, decide
from epochcast.stopping.search import StepWarning, StoppingRule

UP = Metric("score", minimize=False, soft=(0.0, 1.0), transform=False)
DOWN = Metric("cost", minimize=True, soft=(0.0, 1.0), transform=False)
HORIZON = 10
NAN, INF = math.nan, math.inf


@dataclass
class Normal:
    """As much of a distribution as stopping asks for, in closed form: the fuzz below lives on its speed."""

    means: np.ndarray
    scale: float

    def __getitem__(self, index: Any) -> Normal:
        return Normal(self.means[index], self.scale)

    def cdf(self, y: Any) -> np.ndarray:
        return ndtr((y - self.means) / self.scale)

    def icdf(self, q: Any) -> np.ndarray:
        return self.means + self.scale * ndtri(q)


class Gauss:
    """An engine that forecasts the same Gaussian whatever was seen; `peak` moves the mean of the next step only."""

    name = "gauss"
    grid = None

    def __init__(self, mean: float = 0.5, scale: float = 0.1, peak: float = 0.0) -> None:
        self.mean, self.scale, self.peak = mean, scale, peak
        self.calls = 0

    def predict(self, curves: Curves, queries: np.ndarray, horizon: float) -> Any:
        self.calls += 1
        next_step = np.floor(curves.last_step)[:, None] + 1.0
        return Normal(self.mean + self.peak * (queries == next_step), self.scale)


def stopper_on(engine: Any, **options: Any) -> Stopper:
    """Judges from the second value on, so that tables stay short."""
    usual = {"horizon": HORIZON, "metric": UP, "min_steps": 2, "forecaster": Forecaster.around(engine)}
    return Stopper(**{**usual, **options})


# --- the decision table ---------------------------------------------------------------------------------------------


@dataclass
class Row:
    """The last decision after `values` at steps 1, 2, ... of a run that is forecast to end about `mean`."""

    reason: Reason
    stop: bool
    values: list[float] = field(default_factory=lambda: [0.3, 0.4])
    mean: float = 0.5
    scale: float = 0.1
    peak: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)


def up(reason: Reason, stop: bool, best: float | None, **row: Any) -> Row:
    options = {"best": best, **row.pop("options", {})}
    return Row(reason, stop, options=options, **row)


def down(reason: Reason, stop: bool, best: float | None, **row: Any) -> Row:
    return up(
        reason, stop, best, **{"values": [0.7, 0.6], **row, "options": {"metric": DOWN, **row.get("options", {})}}
    )


FULL_RUN = [0.1 * step for step in range(1, HORIZON + 1)]
TABLE = {
    # larger is better
    "up-out-of-reach": up(Reason.UNLIKELY, True, 0.9),
    "up-within-reach": up(Reason.PROMISING, False, 0.55),
    "up-sure-to-win": up(Reason.PROMISING, False, 0.42),
    "up-just-below-the-confidence": up(Reason.PROMISING, False, 0.66),  # a chance of 5.5 %
    "up-just-past-the-confidence": up(Reason.UNLIKELY, True, 0.67),  # 4.5 %
    "up-higher-confidence-goes-on": up(Reason.PROMISING, False, 0.67, options={"confidence": 0.99}),
    "up-lower-confidence-stops": up(Reason.UNLIKELY, True, 0.66, options={"confidence": 0.9}),
    "up-chance-equal-to-the-limit-stops": up(Reason.UNLIKELY, True, 0.5, options={"confidence": 0.5}),
    "up-already-better": up(Reason.LEADING, False, 0.35, mean=0.0),
    "up-was-better-earlier": up(Reason.LEADING, False, 0.35, mean=0.0, values=[0.4, 0.3]),
    "up-equal-to-the-best-is-not-better": up(Reason.UNLIKELY, True, 0.4, mean=0.0),
    "up-constant-at-the-best-possible": up(Reason.UNLIKELY, True, 1.0, values=[1.0, 1.0], mean=0.9, scale=0.01),
    "up-certain-forecast": up(Reason.UNLIKELY, True, 0.51, scale=1e-6),
    "up-peak-counts-for-any": up(Reason.PROMISING, False, 0.9, peak=0.5),
    "up-peak-does-not-count-for-final": up(Reason.UNLIKELY, True, 0.9, peak=0.5, options={"target": "final"}),
    "up-final-within-reach": up(Reason.PROMISING, False, 0.5, options={"target": "final"}),
    "up-final-leads-with-its-newest": up(Reason.LEADING, False, 0.35, mean=0.0, options={"target": "final"}),
    "up-final-lost-its-lead": up(Reason.UNLIKELY, True, 0.35, mean=0.0, values=[0.4, 0.3], options={"target": "final"}),
    # smaller is better
    "down-out-of-reach": down(Reason.UNLIKELY, True, 0.1),
    "down-within-reach": down(Reason.PROMISING, False, 0.45),
    "down-just-below-the-confidence": down(Reason.PROMISING, False, 0.34),
    "down-just-past-the-confidence": down(Reason.UNLIKELY, True, 0.33),
    "down-chance-equal-to-the-limit-stops": down(Reason.UNLIKELY, True, 0.5, options={"confidence": 0.5}),
    "down-already-better": down(Reason.LEADING, False, 0.65, mean=1.0),
    "down-was-better-earlier": down(Reason.LEADING, False, 0.65, mean=1.0, values=[0.6, 0.7]),
    "down-equal-to-the-best-is-not-better": down(Reason.UNLIKELY, True, 0.6, mean=1.0),
    "down-peak-counts-for-any": down(Reason.PROMISING, False, 0.1, peak=-0.5),
    "down-peak-does-not-count-for-final": down(Reason.UNLIKELY, True, 0.1, peak=-0.5, options={"target": "final"}),
    # a goal in place of the best
    "goal-out-of-reach": up(Reason.UNLIKELY, True, None, options={"goal": 0.9}),
    "goal-within-reach": up(Reason.PROMISING, False, None, options={"goal": 0.55}),
    "goal-beats-the-best-as-a-target": up(Reason.PROMISING, False, 0.99, options={"goal": 0.55}),
    "goal-reached": up(Reason.LEADING, False, None, mean=0.0, options={"goal": 0.35}),
    "goal-of-a-minimised-metric": down(Reason.UNLIKELY, True, None, options={"goal": 0.1}),
    # a leader held against its own best value
    "leader-that-will-improve-goes-on": up(Reason.PROMISING, False, 0.35, options={"stop_leader": True}),
    "leader-that-is-done-stops": up(Reason.UNLIKELY, True, 0.35, mean=0.0, options={"stop_leader": True}),
    "leader-past-its-peak-stops": up(
        Reason.UNLIKELY, True, 0.1, values=[0.9, 0.3], options={"stop_leader": True, "min_steps": 1}
    ),
    "leader-of-a-minimised-metric-stops": down(Reason.UNLIKELY, True, 0.65, mean=1.0, options={"stop_leader": True}),
    "leader-of-the-first-run-goes-on": up(Reason.PROMISING, False, None, options={"stop_leader": True}),
    "leader-of-the-first-run-is-done": up(Reason.UNLIKELY, True, None, mean=0.0, options={"stop_leader": True}),
    "trailing-run-beside-stop-leader": up(Reason.UNLIKELY, True, 0.9, options={"stop_leader": True}),
    # a limit that falls with the rest of the run: 0.05 x 0.8 after two of ten steps, 0.05 x 0.2 after eight
    "weighed-rest-takes-a-smaller-chance": up(Reason.PROMISING, False, 0.67, options={"weigh_rest": True}),  # 4.5 %
    "weighed-rest-early": up(Reason.UNLIKELY, True, 0.68, options={"weigh_rest": True}),  # 3.6 %
    "weighed-rest-late": up(
        Reason.PROMISING, False, 0.72, values=[0.3] * 8, options={"weigh_rest": True, "check_every": 8}
    ),  # 1.4 %
    "weighed-rest-late-and-hopeless": up(
        Reason.UNLIKELY, True, 0.75, values=[0.3] * 8, options={"weigh_rest": True, "check_every": 8}
    ),  # 0.6 %
    # nothing to judge yet
    "no-best-yet": up(Reason.NO_TARGET, False, None),
    "no-best-yet-minimised": down(Reason.NO_TARGET, False, None),
    "one-value-warms-up": up(Reason.WARM_UP, False, 0.9, values=[0.3]),
    "min-steps-4-warms-up": up(Reason.WARM_UP, False, 0.9, values=[0.3] * 3, options={"min_steps": 4}),
    "min-steps-4-over": up(Reason.UNLIKELY, True, 0.9, values=[0.3] * 4, options={"min_steps": 4}),
    "min-steps-1": up(Reason.UNLIKELY, True, 0.9, values=[0.3], options={"min_steps": 1}),
    "min-share-warms-up": up(Reason.WARM_UP, False, 0.9, values=[0.3] * 4, options={"min_share": 0.45}),
    "min-share-over": up(Reason.UNLIKELY, True, 0.9, values=[0.3] * 5, options={"min_share": 0.5}),
    "min-share-0": up(Reason.UNLIKELY, True, 0.9, values=[0.3], options={"min_steps": 1, "min_share": 0.0}),
    # when checks are due
    "check-every-3-not-due": up(Reason.NOT_DUE, False, 0.9, options={"check_every": 3}),
    "check-every-3-due": up(Reason.UNLIKELY, True, 0.9, values=[0.3] * 3, options={"check_every": 3}),
    "cutoffs-due": up(Reason.UNLIKELY, True, 0.9, options={"cutoffs": (0.1, 0.2, 0.4, 0.8)}),
    "cutoffs-not-due": up(Reason.NOT_DUE, False, 0.9, values=[0.3] * 3, options={"cutoffs": (0.1, 0.2, 0.4, 0.8)}),
    "cutoffs-do-not-end-the-warm-up": up(Reason.WARM_UP, False, 0.9, values=[0.3], options={"cutoffs": (0.1, 0.2)}),
    # the end of a run
    "finished-behind": up(Reason.FINISHED, False, 5.0, values=FULL_RUN),
    "finished-leading": up(Reason.FINISHED, False, 0.1, values=FULL_RUN),
    "one-step-before-the-end": up(Reason.UNLIKELY, True, 5.0, values=FULL_RUN[:-1]),
    # values that are not finite
    "nan-stops": up(Reason.NON_FINITE, True, 0.55, values=[0.3, NAN]),
    "nan-stops-without-a-best": up(Reason.NON_FINITE, True, None, values=[NAN]),
    "nan-stops-a-leader": up(Reason.NON_FINITE, True, 0.1, values=[0.3, NAN]),
    "infinity-stops": down(Reason.NON_FINITE, True, 0.55, values=[0.3, INF]),
    "nan-ignored": up(Reason.IGNORED, False, 0.9, values=[0.3, NAN], options={"non_finite": "ignore"}),
    "nan-ignored-does-not-count": up(Reason.WARM_UP, False, 0.9, values=[NAN, 0.3], options={"non_finite": "ignore"}),
    "nan-ignored-then-judged": up(Reason.UNLIKELY, True, 0.9, values=[0.3, NAN, 0.4], options={"non_finite": "ignore"}),
    "nan-ignored-at-the-end": up(
        Reason.FINISHED, False, 0.9, values=[*FULL_RUN[:-1], NAN], options={"non_finite": "ignore"}
    ),
    # a dry run decides, but stops nothing
    "dry-run-would-stop": up(Reason.UNLIKELY, False, 0.9, options={"dry_run": True}),
    "dry-run-nan": up(Reason.NON_FINITE, False, 0.9, values=[NAN], options={"dry_run": True}),
}


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE.keys())
def test_decision_of_a_known_forecast_is_the_one_in_the_table(row: Row) -> None:
    stopper = stopper_on(Gauss(row.mean, row.scale, row.peak), **row.options)
    decisions = [stopper.update(step, value) for step, value in enumerate(row.values, start=1)]
    assert (decisions[-1].reason, decisions[-1].stop) == (row.reason, row.stop)
    assert str(decisions[-1])


def test_decision_table_covers_every_reason_of_the_stopper() -> None:
    assert len(TABLE) >= 30
    other_rules = {Reason.NO_PROGRESS, Reason.PROGRESSING, Reason.NEVER}
    assert {row.reason for row in TABLE.values()} == set(Reason) - other_rules


@pytest.mark.parametrize(("metric", "sign"), [(UP, 1.0), (DOWN, -1.0)])
def test_decision_probability_and_final_are_those_of_the_gaussian(metric: Metric, sign: float) -> None:
    stopper = stopper_on(Gauss(mean=0.5, scale=0.1), metric=metric, best=0.5 + sign * 0.12, min_steps=1)
    decision = stopper.update(1, 0.5 - sign * 0.2)
    assert decision.probability == pytest.approx(float(ndtr(-1.2)), rel=1e-9)
    assert decision.best == 0.5 + sign * 0.12
    assert decision.final == pytest.approx((0.5, 0.5 - 0.1 * 1.6448536, 0.5 + 0.1 * 1.6448536), abs=1e-6)


def test_decide_sees_only_the_forecast() -> None:
    forecast = Forecaster.around(Gauss(mean=0.5)).forecast([0.3, 0.4], HORIZON, UP)
    assert decide(forecast, best=0.9).reason is Reason.UNLIKELY
    assert decide(forecast, best=0.9, confidence=0.99999).reason is Reason.PROMISING
    assert decide(forecast, best=0.35, target="final").reason is Reason.LEADING
    batch = Forecaster.around(Gauss()).forecast([[0.3, 0.4], [0.2, 0.1, 0.3]], HORIZON, UP)
    assert decide(batch[0], best=0.9).step == 2.0
    with pytest.raises(InputError, match=r"forecast\[i\]"):
        decide(batch, best=0.9)
    with pytest.raises(InputError, match="'any' or 'final'"):
        decide(forecast, best=0.9, target="last")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="confidence='x' is not a number"):
        decide(forecast, best=0.9, confidence="x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="best='x' is not a number"):
        decide(forecast, best="x")  # type: ignore[arg-type]


# --- sentences ------------------------------------------------------------------------------------------------------


def test_sentence_of_a_stop_tells_chance_best_horizon_and_expected_end() -> None:
    decision = Decision(True, 0.013, 0.912, Reason.UNLIKELY, (0.874, 0.861, 0.886), step=7.0, horizon=50)
    assert str(decision) == (
        "stop: 1.3 % chance to beat 0.912 by step 50; expected to end at 0.874 (90 %: 0.861 to 0.886)"
    )


@pytest.mark.parametrize(
    ("decision", "start"),
    [
        (Decision(False, 0.413, 2.0, Reason.PROMISING, None, 3.0, 50, "final"), "go on: 41.3 % chance to beat 2 at"),
        (Decision(False, 1e-9, 2.0, Reason.UNLIKELY, None, 3.0, 50), "would stop (dry run): under 0.1 % chance"),
        (Decision(False, 1.0, 2.0, Reason.PROMISING, None, 3.0, 50), "go on: over 99.9 % chance"),
        (Decision(False, 0.5, 2.0, Reason.LEADING, None, 3.0, 50), "go on: the run already beats 2"),
        (Decision(True, None, 2.0, Reason.NON_FINITE, None, 3.0, 50), "stop: the value at step 3 is not finite"),
        (Decision(False, None, None, Reason.NO_TARGET, None, 3.0, 50), "go on: there is no earlier run to beat"),
        (Decision(False, None, None, Reason.FINISHED, None, 50.0, 50), "the run is over: step 50 of 50"),
    ],
)
def test_sentence_of_each_decision_reads_well(decision: Decision, start: str) -> None:
    assert str(decision).startswith(start)


@pytest.mark.parametrize("reason", Reason)
def test_sentence_exists_for_every_reason(reason: Reason) -> None:
    assert ":" in str(Decision(False, 0.3, 0.5, reason, (0.4, 0.3, 0.5), 3.0, 50))


def test_logger_tells_changes_at_info_and_the_rest_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    stopper = stopper_on(Gauss(), best=0.55)
    with caplog.at_level(logging.DEBUG, logger="epochcast"):
        for step in (1, 2, 3):
            stopper.update(step, 0.3)
    assert [record.levelname for record in caplog.records] == ["DEBUG", "INFO", "DEBUG"]
    assert "score at step 2: go on: 30.9 % chance to beat 0.55" in caplog.text


def test_logger_at_info_is_silent_where_nothing_was_judged(caplog: pytest.LogCaptureFixture) -> None:
    stopper = stopper_on(Gauss(), best=0.55, check_every=3)
    with caplog.at_level(logging.INFO, logger="epochcast"):
        for step in range(1, 10):  # judged at 3, 6 and 9, always with the same verdict
            stopper.update(step, 0.3)
    assert [message.split(":")[0] for message in caplog.messages] == ["score at step 3"]


def test_logger_rounds_the_best_so_far(caplog: pytest.LogCaptureFixture) -> None:
    stopper = stopper_on(Gauss())
    with caplog.at_level(logging.INFO, logger="epochcast"):
        stopper.update(1, NAN)
        stopper.next_run()
        stopper.update(1, 0.8234234234)
        stopper.next_run()
    told = [message for message in caplog.messages if message.startswith("run")]
    assert told == [
        "run 1 ended at step 1 (non_finite); no run has a finite value yet",
        "run 2 ended at step 1 (warm_up); the best so far is 0.8234",
    ]


# --- the state of a search ------------------------------------------------------------------------------------------


def test_search_keeps_the_best_of_earlier_runs_not_of_the_current_one() -> None:
    stopper = stopper_on(Gauss(mean=0.5))
    for step in (1, 2, 3):
        assert stopper.update(step, 0.9 - 0.1 * step).reason is not Reason.UNLIKELY
    assert stopper.best is None
    stopper.next_run()
    assert stopper.best == pytest.approx(0.8)
    assert stopper.update(1, 0.1).best == pytest.approx(0.8)
    assert stopper.update(2, 0.1).stop


@pytest.mark.parametrize(("metric", "best"), [(UP, 0.95), (DOWN, 0.05)])
def test_search_never_forgets_a_best_that_was_given(metric: Metric, best: float) -> None:
    stopper = stopper_on(Gauss(), metric=metric, best=best)
    stopper.update(1, 0.5)
    stopper.next_run()
    assert stopper.best == best


def record_of(values: list[float], **options: Any) -> RunRecord:
    stopper = stopper_on(Gauss(mean=0.47), **options)
    for step, value in enumerate(values, start=1):
        stopper.update(step, value)
    record = stopper.next_run()
    assert record is not None
    assert stopper.runs == [record]
    return record


@pytest.mark.parametrize(("target", "outcome"), [("any", 0.9), ("final", 0.6)])
def test_run_record_of_a_finished_run_holds_its_last_its_best_and_what_counts(target: Any, outcome: float) -> None:
    record = record_of([0.5, 0.9, 0.7, 0.6], horizon=4, target=target)
    assert (record.finished, record.stopped, record.values) == (True, False, 4)
    assert (record.final, record.best, record.outcome) == (0.6, 0.9, outcome)


@pytest.mark.parametrize(("target", "outcome"), [("any", 0.8), ("final", 0.47)])
def test_run_record_of_a_run_that_was_left_holds_the_forecast_as_its_final(target: Any, outcome: float) -> None:
    record = record_of([0.8, 0.3], target=target)
    assert (record.final, record.best, record.outcome) == (pytest.approx(0.47), 0.8, pytest.approx(outcome))


def test_run_record_of_a_rule_without_forecasts_holds_the_newest_value_as_its_final() -> None:
    rule = Patience(2, HORIZON, DOWN)
    for step, value in enumerate([0.5, 0.3, 0.4], start=1):
        rule.update(step, value)
    record = rule.next_run()
    assert record is not None
    assert (record.final, record.best, record.outcome) == (0.4, 0.3, 0.3)


def test_run_record_of_a_stopped_run_holds_the_forecast_median() -> None:
    stopper = stopper_on(Gauss(mean=0.47), best=0.9)
    stopper.update(1, 0.2)
    assert stopper.update(2, 0.3).stop
    record = stopper.next_run()
    assert record is not None
    assert (record.stopped, record.reason, record.last_step) == (True, Reason.UNLIKELY, 2.0)
    assert record.final == pytest.approx(0.47)


def test_run_record_of_a_run_that_broke_down_has_no_final_value() -> None:
    stopper = stopper_on(Gauss())
    stopper.update(1, 0.7)
    stopper.update(2, NAN)
    record = stopper.next_run()
    assert record is not None
    assert (record.final, record.best, record.outcome, stopper.best) == (None, 0.7, 0.7, 0.7)


def test_next_run_of_a_run_that_cannot_be_forecast_ends_it() -> None:
    class Refusing(Gauss):
        def predict(self, *_: Any) -> Any:
            raise InputError("no forecast today")

    stopper = stopper_on(Refusing())
    stopper.update(1, 0.7)
    record = stopper.next_run()
    assert record is not None
    assert (record.final, record.best, record.outcome, stopper.best) == (None, 0.7, 0.7, 0.7)


def test_next_run_without_a_run_changes_nothing() -> None:
    stopper = stopper_on(Gauss())
    assert stopper.next_run() is None
    stopper.update(1, NAN)
    stopper.next_run()
    assert stopper.next_run() is None
    assert (len(stopper.runs), stopper.best) == (1, None)


@pytest.mark.parametrize("repeated", [2, 1, 1.5])
def test_step_reported_before_warns_and_the_first_decision_stands(repeated: float) -> None:
    stopper = stopper_on(Gauss(), best=0.9)
    stopper.update(1, 0.3)
    decision = stopper.update(2, 0.4)
    with pytest.warns(StepWarning, match="does not come after step 2"):
        assert stopper.update(repeated, 0.99) == decision
    record = stopper.next_run()
    assert record is not None
    assert record.best == 0.4


def test_step_past_the_horizon_warns_and_is_not_used() -> None:
    stopper = stopper_on(Gauss(), best=0.9)
    stopper.update(HORIZON, 0.3)
    with pytest.warns(StepWarning, match="past horizon=10"):
        assert stopper.update(HORIZON + 1, 0.8).reason is Reason.FINISHED
    record = stopper.next_run()
    assert record is not None
    assert (record.best, record.finished) == (0.3, True)


def test_value_at_step_0_belongs_to_the_untrained_model() -> None:
    stopper = stopper_on(Gauss(), metric="log_loss", best=0.001, min_steps=1)
    assert stopper.update(0, 2.3).reason is Reason.WARM_UP
    assert stopper.update(1, 2.0).probability is not None


def test_coarse_cutoffs_check_once_past_each_share_when_steps_are_sparse() -> None:
    stopper = stopper_on(Gauss(), horizon=100, best=0.55, cutoffs=(0.1, 0.2, 0.4, 0.8))
    reasons = [stopper.update(step, 0.3).reason for step in range(8, 100, 8)]
    checked = [step for step, reason in zip(range(8, 100, 8), reasons, strict=True) if reason is Reason.PROMISING]
    assert checked == [16, 24, 40, 80]


def test_forecasts_are_made_only_when_a_check_is_due() -> None:
    engine = Gauss()
    stopper = stopper_on(engine, best=0.55, check_every=4)
    for step in range(1, HORIZON + 1):
        stopper.update(step, 0.3)
    assert engine.calls == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 1}, "horizon=1"),
        ({"horizon": 10.5}, "horizon=10.5"),
        ({"horizon": "10"}, "horizon='10' is not a number"),
        ({"metric": "acuracy"}, "unknown"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"confidence": NAN}, "confidence=nan"),
        ({"min_steps": 0}, "min_steps=0"),
        ({"check_every": 1.5}, "check_every=1.5"),
        ({"cutoffs": ()}, "shares of the horizon"),
        ({"cutoffs": (0.1, 1.0)}, "shares of the horizon"),
        ({"cutoffs": (0.1,), "check_every": 2}, "contradict"),
        ({"best": NAN}, "best=nan must be finite"),
        ({"metric": "accuracy", "best": 91.2}, "above the upper hard bound"),
        ({"metric": "accuracy", "goal": 91.2}, "above the upper hard bound"),
        ({"target": "last"}, "target='last'"),
        ({"non_finite": "skip"}, "non_finite='skip'"),
        ({"stop_leader": True, "target": "final"}, "stop_leader"),
        ({"stop_leader": True, "goal": 0.5}, "stop_leader"),
        ({"confidence": "x"}, "confidence='x' is not a number"),
        ({"confidence": None}, "confidence=None is not a number"),
        ({"confidence": [0.9, 0.95]}, "is not a number"),
        ({"min_steps": "4"}, "min_steps='4' must be a whole number"),
        ({"min_steps": True}, "min_steps=True must be a whole number"),
        ({"min_steps": 10**5000}, "min_steps=.* must be a whole number"),
        ({"min_share": "x"}, "min_share='x' is not a number"),
        ({"min_share": 1.0}, "min_share=1.0 must be a share"),
        ({"min_share": NAN}, "min_share=nan must be a share"),
        ({"check_every": None}, "check_every=None must be a whole number"),
        ({"cutoffs": 0.5}, "cutoffs=0.5 must be shares"),
        ({"cutoffs": "x"}, "cutoff='x' is not a number"),
        ({"cutoffs": [None]}, "cutoff=None is not a number"),
        ({"goal": "x"}, "goal='x' is not a number"),
        ({"best": [0.5, 0.6]}, "best=.* is not a number"),
        ({"horizon": 10**400}, "horizon=.* is too large"),
        ({"horizon": 10**5000}, "horizon=.* is too large"),
        ({"horizon": 10**16}, "horizon=.* must be a whole number of steps, 2 to 1e[+]15"),
        ({"horizon": INF}, "horizon=inf must be a whole number"),
        ({"horizon": None}, "horizon=None is not a number"),
        ({"target": None}, "target=None"),
        ({"target": np.array(["any", "final"])}, "target="),
        ({"non_finite": []}, "non_finite="),
        ({"metric": None}, "metric must be a Metric or a name"),
        ({"dry_run": "no"}, "dry_run='no' must be True or False"),
        ({"stop_leader": 1}, "stop_leader=1 must be True or False"),
        ({"weigh_rest": None}, "weigh_rest=None must be True or False"),
        ({"forecaster": "stream"}, "forecaster='stream' must be a Forecaster"),
        ({"schedule": "cosinus"}, "schedule 'cosinus' is unknown"),
    ],
)
def test_bad_setting_raises_an_error_that_names_it(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        stopper_on(Gauss(), **options)


TOO_SHORT = [0.1] * 9


@pytest.mark.parametrize("schedule", [TOO_SHORT, "cosine,warmup=20", "cosine,end=3,hold=5", lambda step: -step])
def test_schedule_that_contradicts_the_horizon_is_refused_when_it_is_given(schedule: Any) -> None:
    with pytest.raises(InputError, match=r"schedule"):
        Stopper(HORIZON, "accuracy", schedule=schedule)
    with pytest.raises(InputError, match=r"schedule"):
        Stopper(HORIZON, "accuracy", forecaster=Forecaster(schedule=schedule))
    stopper = Stopper(HORIZON, "accuracy", schedule="cosine")
    before = stopper.to_json()
    with pytest.raises(InputError, match=r"schedule"):
        stopper.tell(schedule)
    assert stopper.to_json() == before
    assert stopper.forecaster.name == "real@cosine"


def test_schedule_that_fits_the_horizon_is_taken() -> None:
    assert Stopper(9, "accuracy", schedule=TOO_SHORT).forecaster.name == "real@rates"


@pytest.mark.parametrize(
    ("step", "value", "message"),
    [
        (1, "0.9", "value='0.9' is not a number"),
        (1, None, "value=None is not a number"),
        (1, True, "value=True is not a number"),
        ("1", 0.9, "step='1' is not a number"),
        (-1, 0.9, "step=-1.0 must be"),
        (NAN, 0.9, "step=nan must be"),
        (3, 91.2, r"step 3\) is above the upper hard bound 1 of accuracy"),
    ],
)
def test_bad_value_raises_an_error_and_leaves_the_run_as_it_was(step: Any, value: Any, message: str) -> None:
    stopper = stopper_on(Gauss(), metric="accuracy")
    stopper.update(0.5, 0.2)
    before = stopper.to_json()
    with pytest.raises(InputError, match=message):
        stopper.update(step, value)
    assert stopper.to_json() == before


def test_default_model_is_loaded_only_when_first_needed() -> None:
    stopper = Stopper(horizon=5, metric="accuracy", best=0.9)
    stopper.update(1, 0.2)
    assert stopper._forecaster is None
    stopper.update(2, 0.3)
    assert Stopper(horizon=5, metric="accuracy").forecaster is stopper.forecaster


# --- other rules ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "values", "stops_at"),
    [
        (UP, [0.1, 0.2, 0.2, 0.2, 0.2], 4),
        (UP, [0.1, 0.2, 0.15, 0.25, 0.2, 0.1], 6),
        (UP, [0.1, 0.2, 0.3, 0.4, 0.5], None),
        (DOWN, [0.5, 0.6, 0.7], 3),
        (DOWN, [0.5, 0.4, 0.45, 0.3, 0.35], None),
    ],
)
def test_patience_stops_after_k_values_without_a_gain(
    metric: Metric, values: list[float], stops_at: int | None
) -> None:
    rule = Patience(2, HORIZON, metric)
    stops = [step for step, value in enumerate(values, start=1) if rule.update(step, value).stop]
    assert (stops[0] if stops else None) == stops_at


def test_patience_does_not_count_gains_up_to_min_delta() -> None:
    rule = Patience(2, HORIZON, UP, min_delta=0.1)
    assert [rule.update(step, 0.05 * step).stop for step in (1, 2, 3, 4)] == [False, False, True, False]


def test_patience_with_bad_settings_raises() -> None:
    with pytest.raises(InputError, match="k=0"):
        Patience(0, HORIZON, UP)
    with pytest.raises(InputError, match="min_delta=-1"):
        Patience(1, HORIZON, UP, min_delta=-1.0)
    with pytest.raises(InputError, match="min_delta='x' is not a number"):
        Patience(1, HORIZON, UP, min_delta="x")  # type: ignore[arg-type]


def test_no_stopping_lets_every_run_finish() -> None:
    rule = NoStopping(HORIZON, UP)
    decisions = [rule.update(step, 1.0 / step) for step in range(1, HORIZON + 1)]
    assert not any(decision.stop for decision in decisions)
    assert [decision.reason for decision in decisions[-2:]] == [Reason.NEVER, Reason.FINISHED]


def rules(forecaster: Forecaster) -> list[StoppingRule]:
    return [
        Stopper(HORIZON, "log_loss", forecaster=forecaster, best=0.6),
        Stopper(HORIZON, "log_loss", forecaster=forecaster, cutoffs=(0.3, 0.6), goal=0.4, target="final"),
        Stopper(HORIZON, "log_loss", forecaster=forecaster, check_every=2, dry_run=True, non_finite="ignore"),
        Patience(2, HORIZON, "log_loss", min_delta=0.01, best=0.1),
        NoStopping(HORIZON, "log_loss"),
        Stopper(HORIZON, "log_loss", forecaster=forecaster, stop_leader=True, weigh_rest=True),
    ]


def restored(rule: StoppingRule, forecaster: Forecaster) -> StoppingRule:
    text = rule.to_json()
    if isinstance(rule, Stopper):
        return Stopper.from_json(text, forecaster)
    return type(rule).from_json(text)  # type: ignore[attr-defined,no-any-return]


# --- restarts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", range(6))
@pytest.mark.parametrize("model", ["gauss", "stream"])
def test_rule_restored_after_every_value_decides_as_if_nothing_had_happened(which: int, model: str) -> None:
    forecaster = Forecaster.around(Gauss(0.6, 0.2)) if model == "gauss" else Forecaster("stream")
    steady, restarted = (rules(forecaster)[which] for _ in range(2))
    rng = np.random.default_rng(which)
    for run in range(3):
        for step in range(1, HORIZON + 1):
            value = NAN if (run, step) == (1, 7) else float(np.exp(-0.1 * step) * rng.uniform(0.5, 1.0))
            assert steady.update(step, value) == restarted.update(step, value)
            restarted = restored(restarted, forecaster)
        assert steady.next_run() == restarted.next_run()
        restarted = restored(restarted, forecaster)
    assert (steady.best, steady.runs) == (restarted.best, restarted.runs)
    assert steady.to_json() == restarted.to_json()


def test_state_is_strict_json_even_with_infinite_bounds() -> None:
    stopper = stopper_on(Gauss(), metric=Metric("any number", minimize=True, soft=(0.0, 5.0)))
    stopper.update(1, NAN)
    json.loads(stopper.to_json(), parse_constant=pytest.fail)
    again = Stopper.from_json(stopper.to_json(), stopper.forecaster)
    assert again.metric == stopper.metric


def test_state_of_a_shipped_model_needs_no_forecaster_and_keeps_its_model() -> None:
    stopper = Stopper(HORIZON, "accuracy", forecaster=Forecaster("lcpfn"))
    assert Stopper.from_json(stopper.to_json()).forecaster.name == "lcpfn"


def own_model_named_as_a_shipped_one(folder: Path) -> Forecaster:
    for suffix in (".onnx", ".safetensors"):
        shutil.copy(weights.FOLDER / f"stream{suffix}", folder)
    return Forecaster(folder / "stream.onnx")


def test_state_of_an_own_model_named_as_a_shipped_one_needs_that_model(tmp_path: Path) -> None:
    own = own_model_named_as_a_shipped_one(tmp_path)
    text = Stopper(HORIZON, "accuracy", forecaster=own).to_json()
    with pytest.raises(ConfigError, match="'own:stream', which does not ship; pass forecaster="):
        Stopper.from_json(text)
    with pytest.raises(ConfigError, match="'own:stream', not with 'stream'"):
        Stopper.from_json(text, Forecaster("stream"))
    assert Stopper.from_json(text, own).forecaster is own


def test_state_of_a_shipped_model_is_not_taken_up_with_an_own_one_of_its_name(tmp_path: Path) -> None:
    text = Stopper(HORIZON, "accuracy", forecaster=Forecaster("stream")).to_json()
    with pytest.raises(ConfigError, match="'stream', not with 'own:stream'"):
        Stopper.from_json(text, own_model_named_as_a_shipped_one(tmp_path))


def test_state_of_another_model_or_rule_is_refused() -> None:
    text = stopper_on(Gauss()).to_json()
    with pytest.raises(ConfigError, match="'gauss', which does not ship"):
        Stopper.from_json(text)
    with pytest.raises(ConfigError, match="not with 'stream'"):
        Stopper.from_json(text, Forecaster("stream"))
    with pytest.raises(ConfigError, match="not the saved state of a patience"):
        Patience.from_json(text)


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state["settings"].pop("confidence"),
        lambda state: state["settings"].update(extra=1),
        lambda state: state["settings"].update(confidence=2.0),
        lambda state: state["settings"]["metric"].update(hard=[None]),
        lambda state: state["last"].update(reason="because"),
        lambda state: state["runs"].append({}),
        lambda state: state.pop("values"),
        lambda state: state.update(values=["0.3"]),
        lambda state: state.update(version=99),
        lambda state: state.update(guarantee={"risk": 0.1}),
    ],
)
def test_damaged_state_raises_a_config_error(damage: Any) -> None:
    stopper = stopper_on(Gauss())
    stopper.update(1, 0.3)
    state = json.loads(stopper.to_json())
    damage(state)
    with pytest.raises(ConfigError):
        Stopper.from_json(json.dumps(state), stopper.forecaster)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3"])
def test_state_that_is_no_state_raises_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError):
        NoStopping.from_json(text)


# --- fuzz -----------------------------------------------------------------------------------------------------------

STRIDES = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.5, 2.0, -1.0]
SPECIAL_VALUES = [0.0, 1.0, 0.5, 1e-200, 1e-9]
FUZZ_METRICS = [UP, DOWN, Metric.named("accuracy"), Metric.named("error"), Metric.named("log_loss"), Metric.named("r2")]


def random_rule(rng: np.random.Generator, forecaster: Forecaster) -> StoppingRule:
    metric = FUZZ_METRICS[rng.integers(len(FUZZ_METRICS))]
    common = {
        "horizon": int(rng.integers(2, 9)),
        "metric": metric,
        "best": rng.choice([None, random_value(rng)]),
        "dry_run": bool(rng.random() < 0.2),
        "non_finite": str(rng.choice(["stop", "ignore"])),
        "target": str(rng.choice(["any", "final"])),
    }
    if rng.random() < 0.1:
        return Patience(int(rng.integers(1, 5)), min_delta=float(rng.choice([0.0, 0.1])), **common)
    coarse = rng.random() < 0.3
    goal = rng.choice([None, None, random_value(rng)])
    return Stopper(
        confidence=float(rng.uniform(0.5, 1.0)),
        min_steps=int(rng.integers(1, 4)),
        check_every=1 if coarse else int(rng.integers(1, 3)),
        cutoffs=(0.1, 0.2, 0.4, 0.8) if coarse else None,
        goal=goal,
        stop_leader=bool(goal is None and common["target"] == "any" and rng.random() < 0.3),
        weigh_rest=bool(rng.random() < 0.3),
        forecaster=forecaster,
        **common,
    )


def random_value(rng: np.random.Generator) -> float:
    """In [0, 1], with a weight on the ends, ties and very small values."""
    return SPECIAL_VALUES[rng.integers(len(SPECIAL_VALUES))] if rng.random() < 0.3 else float(rng.random())


def check_decision(rule: StoppingRule, decision: Decision, values: int) -> None:
    assert decision.stop <= decision.reason.stops
    assert str(decision)
    if isinstance(rule, Stopper) and decision.reason is Reason.UNLIKELY:
        assert values >= rule.min_steps
        assert decision.best is not None
        assert decision.probability is not None
        assert decision.probability <= 1.0 - rule.confidence
    if decision.probability is not None:
        assert 0.0 <= decision.probability <= 1.0
    if decision.final is not None:
        median, low, high = decision.final
        assert low <= median <= high


def fuzz_run(rule: StoppingRule, rng: np.random.Generator) -> None:
    step, values = 0.0, 0
    for _ in range(rng.integers(0, 8)):
        step += STRIDES[rng.integers(len(STRIDES))]
        value = (NAN, INF, -INF)[rng.integers(3)] if rng.random() < 0.03 else random_value(rng)
        values += math.isfinite(value)
        decision = rule.update(max(step, 0.0), value)
        check_decision(rule, decision, values)
        if decision.stop and rng.random() < 0.8:
            break
    before = rule.best
    rule.next_run()
    if before is not None:
        assert rule.best is not None
        assert rule.best <= before if rule.metric.minimize else rule.best >= before


def fuzz(forecaster: Forecaster, runs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        # Random steps repeat and pass the horizon, and random values contradict any direction.
        warnings.simplefilter("ignore", StepWarning)
        warnings.simplefilter("ignore", StrongContradictionWarning)
        done = 0
        while done < runs:
            rule = random_rule(rng, forecaster)
            for _ in range(min(10, runs - done)):
                fuzz_run(rule, rng)
                done += 1
            assert restored(rule, forecaster).to_json() == rule.to_json()


def test_ten_thousand_random_runs_raise_nothing() -> None:
    fuzz(Forecaster.around(Gauss(0.5, 0.3)), runs=10_000, seed=0)


@pytest.mark.parametrize("model", ["stream", "lcpfn"])
def test_random_runs_with_a_shipped_model_raise_nothing(model: str) -> None:
    fuzz(Forecaster(model), runs=50, seed=1)
