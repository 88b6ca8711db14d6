from __future__ import annotations

import logging
import math
import pickle
from typing import Any

import pytest

import epochcast as ec
from epochcast.errors import InputError
from epochcast.integrations.trials import Trials
from epochcast.stopping import Reason

HORIZON = 20


def losses(end: float, steps: int = HORIZON) -> list[float]:
    return [end + 1.3 * 0.6**step for step in range(1, steps + 1)]


def run(trials: Trials, name: str, values: list[float]) -> int:
    """How many values a trial reports before it is stopped."""
    for step, value in enumerate(values, start=1):
        if trials.check(name, "loss", "epoch", {"loss": value, "epoch": step}):
            return step
    return len(values)


def test_check_trial_without_a_chance_against_a_running_one_is_stopped() -> None:
    trials = Trials(HORIZON, "loss")
    assert run(trials, "a", losses(0.1, HORIZON - 5)) == HORIZON - 5  # it is still running
    assert run(trials, "b", losses(0.9)) < HORIZON
    assert trials.decisions["b"].reason is Reason.UNLIKELY
    assert run(trials, "c", losses(0.01)) == HORIZON


def test_check_final_target_counts_only_trials_that_came_to_the_end() -> None:
    trials = Trials(HORIZON, "loss", target="final")
    run(trials, "a", losses(0.1, HORIZON - 5))
    assert run(trials, "b", losses(0.9)) == HORIZON
    assert trials.decisions["b"].reason is Reason.FINISHED
    run(trials, "c", losses(0.1))
    assert run(trials, "d", losses(0.9)) < HORIZON


def test_check_best_from_elsewhere_is_to_be_beaten() -> None:
    assert run(Trials(HORIZON, "loss", best=0.1), "a", losses(0.9)) < HORIZON
    assert run(Trials(HORIZON, "loss"), "a", losses(0.9)) == HORIZON


def test_check_own_values_are_no_rival() -> None:
    trials = Trials(HORIZON, "loss")
    rising = [0.1, *(0.1 + 0.01 * step for step in range(1, HORIZON))]
    assert run(trials, "a", rising) == HORIZON


@pytest.mark.parametrize("missing", ["loss", "epoch"])
def test_check_name_missing_from_the_first_result_raises_and_lists_names(missing: str) -> None:
    result = {"loss": 1.0, "epoch": 1, "seconds": 2.5, "node": "n1"}
    del result[missing]
    with pytest.raises(InputError, match=rf"'{missing}' is not reported; these names are: .*seconds"):
        Trials(HORIZON, "loss").check("a", "loss", "epoch", result)


def test_check_name_missing_later_goes_on() -> None:
    trials = Trials(HORIZON, "loss")
    trials.check("a", "loss", "epoch", {"loss": 1.0, "epoch": 1})
    assert not trials.check("a", "loss", "epoch", {"seconds": 2.0})


def test_check_nan_stops_and_is_no_rival() -> None:
    trials = Trials(HORIZON, "loss")
    assert run(trials, "a", [1.0, math.nan, 0.5]) == 2
    assert run(trials, "b", losses(0.5)) == HORIZON


def test_check_repeated_step_changes_nothing() -> None:
    trials = Trials(HORIZON, "loss")
    results = [{"loss": 1.0, "epoch": 1}, {"loss": 0.9, "epoch": 2}, {"loss": 0.9, "epoch": 2}]
    assert not any(trials.check("a", "loss", "epoch", result) for result in results)  # nor is there a warning
    assert trials.decisions["a"].step == 2


def test_check_value_outside_the_bounds_is_logged_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    trials = Trials(HORIZON, "accuracy")
    with caplog.at_level(logging.WARNING, "epochcast"):
        assert not trials.check("a", "acc", "epoch", {"acc": 87.0, "epoch": 1})
    assert "trailing %" in caplog.text


def test_check_stop_is_logged_in_a_sentence(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "epochcast"):
        run(Trials(HORIZON, "loss", best=0.01), "t7", losses(0.9))
    assert [message.split(" chance")[0] for message in caplog.messages] == ["trial t7 at step 4: stop: under 0.1 %"]


def test_check_dry_run_is_logged_once_per_trial(caplog: pytest.LogCaptureFixture) -> None:
    trials = Trials(HORIZON, "loss", best=0.01, dry_run=True, check_every=2)
    with caplog.at_level(logging.INFO, "epochcast"):
        run(trials, "a", losses(0.9, 9))
        trials = pickle.loads(pickle.dumps(trials))
        run(trials, "a", losses(0.9))
        run(trials, "b", losses(0.9))
    assert [message.split(": ")[:2] for message in caplog.messages] == [
        [f"trial {name} at step 4", "would stop (dry run)"] for name in ("a", "b")
    ]


def test_check_decisions_that_are_no_news_are_logged_for_those_who_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "epochcast"):
        run(Trials(HORIZON, "loss"), "a", losses(0.1))
    assert {record.levelname for record in caplog.records} == {"DEBUG"}
    assert len(caplog.records) == HORIZON


def test_check_dry_run_never_stops() -> None:
    trials = Trials(HORIZON, "loss", best=0.01, dry_run=True)
    assert run(trials, "a", losses(0.9, HORIZON - 1)) == HORIZON - 1
    assert trials.decisions["a"].reason is Reason.UNLIKELY


def test_trials_unusable_option_raises_when_they_are_made() -> None:
    with pytest.raises(InputError, match="confidence=3"):
        Trials(HORIZON, "loss", confidence=3.0)


@pytest.mark.parametrize(
    ("forecaster", "schedule"), [(None, None), ("lcpfn", None), (None, "cosine"), (None, [1.0] * HORIZON)]
)
def test_trials_pickled_in_the_middle_go_on_as_before(forecaster: str | None, schedule: Any) -> None:
    model = None if forecaster is None else ec.Forecaster(forecaster)
    trials = Trials(HORIZON, "loss", confidence=0.999, forecaster=model, schedule=schedule)
    run(trials, "a", losses(0.1, 10))
    run(trials, "b", losses(0.2, 4))
    restored = pickle.loads(pickle.dumps(trials))
    for search in (trials, restored):
        search.check("b", "loss", "epoch", {"loss": 0.3, "epoch": 5})
    assert restored.decisions == trials.decisions
    assert restored.decisions["b"].probability is not None


def test_trials_schedule_that_contradicts_the_horizon_is_refused_when_the_search_is_made() -> None:
    with pytest.raises(InputError, match="9 rates where the run has 20 steps"):
        Trials(HORIZON, "loss", schedule=[0.1] * 9)
