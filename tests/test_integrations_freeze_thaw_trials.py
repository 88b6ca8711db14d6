"""Trials of an engine as the runs of a freeze-thaw search, without an engine."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest

import epochcast as ec
from epochcast.integrations.freeze_thaw_trials import FreezeThawTrials, Verdict
from tests.test_search import HORIZON, Knowing, search_of, value

ENDS = [{"end": 0.3 + i / 10} for i in range(5)]


def trials_of(space: Any = None, first: int = 2, every: int = 3, **limits: float) -> FreezeThawTrials:
    return FreezeThawTrials(search_of(space=space or ENDS, first=first, every=every), **limits)


def begin(trials: FreezeThawTrials) -> str:
    """A worker takes up what comes next; a run is begun as the trial of its number, which is gone on with."""
    step = trials.next_step()
    assert step is not None
    name = trials.trial_of(step) or f"t{step.run}"
    trials.take_up(step, name)
    return name


def train(trials: FreezeThawTrials, name: str) -> Verdict:
    """Train a trial until something becomes of it."""
    run = trials.search.runs[int(name[1:])]
    verdict = Verdict.GO_ON
    while verdict is Verdict.GO_ON:
        verdict = trials.tell(name, run.newest + 1, value(run.config, run.newest + 1))
    return verdict


def test_next_step_stays_the_same_until_a_worker_takes_it_up() -> None:
    trials = trials_of()
    first = trials.next_step()
    assert first is not None
    assert trials.next_step() is first
    trials.take_up(first, "t0")
    second = trials.next_step()
    assert second is not None
    assert second.run != first.run


def test_trial_is_paused_where_it_was_to_be_trained_and_stopped_at_the_horizon() -> None:
    trials = trials_of(ENDS[:1])
    verdicts, ends = [], []
    while (step := trials.next_step()) is not None:
        verdicts.append(train(trials, begin(trials)))
        ends.append((step.until, trials.search.runs[0].newest))
    assert verdicts == [Verdict.PAUSE] * 6 + [Verdict.STOP]
    assert all(until == newest for until, newest in ends)
    assert trials.search.runs[0].newest == HORIZON


def test_trial_that_comes_next_goes_on_and_one_for_which_another_waits_does_not() -> None:
    trials = trials_of(ENDS[:2])
    one, other = begin(trials), begin(trials)
    assert train(trials, one) is Verdict.PAUSE
    assert trials.goes_on(one)  # the other one is being trained
    assert train(trials, one) is Verdict.PAUSE
    waiting = trials.next_step()
    assert waiting is not None
    assert trials.trial_of(waiting) == one
    assert train(trials, other) is Verdict.PAUSE
    assert not trials.goes_on(other)
    assert trials.next_step() is waiting


def test_workers_are_as_many_as_allowed_and_paused_trials_need_none() -> None:
    trials = trials_of(workers=2)
    first, _ = begin(trials), begin(trials)
    assert trials.next_step() is None
    train(trials, first)
    assert trials.next_step() is not None


def test_budget_ends_the_search_and_what_is_being_trained_counts() -> None:
    trials = trials_of(every=3, budget=10)
    names = [begin(trials) for _ in range(4)]
    assert trials.spent
    assert trials.next_step() is None
    for name in names:
        train(trials, name)
    assert trials.next_step() is None
    assert sum(run.newest for run in trials.search.runs) == 12  # no step is cut in two


def test_no_more_runs_are_started_than_allowed() -> None:
    trials = trials_of(most_runs=2)
    while trials.next_step() is not None:
        train(trials, begin(trials))
    assert [run.newest for run in trials.search.runs] == [HORIZON] * 2


@pytest.mark.parametrize(("step", "reported"), [(1, math.nan), (1, math.inf), (HORIZON + 1, 0.5)])
def test_trial_that_breaks_down_or_passes_the_horizon_is_stopped_for_good(step: int, reported: float) -> None:
    trials = trials_of()
    name = begin(trials)
    assert trials.tell(name, step, reported) is Verdict.STOP
    assert trials.is_over(name)


@pytest.mark.parametrize(("step", "reported"), [(1, 87.0), (1, "much"), ("first", 0.5), (-1, 0.5)])
def test_result_that_cannot_be_used_is_logged_and_the_trial_goes_on(
    step: Any, reported: Any, caplog: pytest.LogCaptureFixture
) -> None:
    trials = trials_of()
    name = begin(trials)
    with caplog.at_level(logging.WARNING, "epochcast"):
        assert trials.tell(name, step, reported) is Verdict.GO_ON
    assert f"taking in trial {name} at step {step} failed" in caplog.text
    assert train(trials, name) is Verdict.PAUSE


def test_closed_trial_never_comes_again_though_it_was_next() -> None:
    trials = trials_of(ENDS[:1])
    name = begin(trials)
    train(trials, name)
    step = trials.next_step()
    assert step is not None
    assert trials.trial_of(step) == name
    trials.close(name)
    assert trials.next_step() is None


def test_trial_that_fails_goes_on_where_it_was_told_and_twice_at_one_step_is_over() -> None:
    trials = trials_of(ENDS[:1])
    name = begin(trials)
    trials.tell(name, 1, 0.1)
    trials.fail(name)
    step = trials.next_step()
    assert step is not None
    assert (step.since, trials.trial_of(step)) == (1.0, name)
    trials.take_up(step, "another")  # some engines cannot resume it
    trials.tell("another", 2, 0.2)
    trials.fail("another")  # elsewhere
    step = trials.next_step()
    assert step is not None
    trials.take_up(step, "a third")
    trials.fail("a third")
    assert trials.is_over("a third")
    assert trials.next_step() is None


def test_restored_trials_are_all_paused_and_the_search_goes_on() -> None:
    trials = trials_of(budget=30)
    for _ in range(3):
        train(trials, begin(trials))
    busy = begin(trials)
    trials.tell(busy, trials.search.runs[int(busy[1:])].newest + 1, 0.1)
    waiting = trials.next_step()
    assert waiting is not None
    forecaster = ec.Forecaster.around(Knowing())
    again = FreezeThawTrials.from_json(trials.to_json(), forecaster, budget=30, workers=math.inf)
    assert again.names == trials.names
    assert [run.newest for run in again.search.runs] == [run.newest for run in trials.search.runs]
    assert all(run.waits for run in again.search.runs)
    while again.next_step() is not None:
        train(again, begin(again))
    assert again.spent
    assert 30 <= sum(run.newest for run in again.search.runs) < 33


def test_release_tells_which_trials_were_being_trained() -> None:
    trials = trials_of()
    first, second = begin(trials), begin(trials)
    train(trials, first)
    assert trials.release() == [second]
    assert all(run.waits for run in trials.search.runs)
