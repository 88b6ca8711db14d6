"""What an engine is asked, and what it refuses: in one place, with one error."""

from __future__ import annotations

from collections import UserDict
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from epochcast.curve import Curves
from epochcast.distributions import Mixture
from epochcast.engines import load_engine
from epochcast.errors import InputError
from epochcast.metric import LOSS, SHARE, UNTOLD
from epochcast.question import Context, Engine, Input, Question, RunCache, answer, check, on_grid
from epochcast.schedule import Schedule

ENGINES = ("real", "stream", "lcpfn", "mcmc-pp", "mcmc-op", "exact", "last-value", "power-law", "empirical-gp")
VALUES = [[0.1, 0.3, 0.4, 0.45], [0.2, 0.3], [0.5, 0.6, 0.62]]


def question(**known: Any) -> Question:
    return Question.of(Curves.of(VALUES), np.array([[5.0, 9.0], [3.0, 9.0], [4.0, 9.0]]), 9, **known)


def others() -> Context:
    return Context(Curves.of(VALUES), np.full(3, 9.0))


GIVEN: dict[Input, dict[str, Any]] = {
    "schedule": {"schedule": Schedule.of("cosine")},
    "context": {"context": others()},
}
SAID = {"schedule": "learning rates", "context": "other runs"}


class Recorder(Engine):
    """Remembers what it was asked."""

    name = "recorder"

    def __init__(self, **attributes: Any) -> None:
        self.asked: list[Question] = []
        for name, value in attributes.items():
            setattr(self, name, value)

    def predict(self, question: Question) -> Mixture:
        self.asked.append(question)
        shape = (*question.steps.shape, 1)
        return Mixture(np.zeros(shape), np.full(shape, 0.5), np.zeros(shape))


class Echo(Recorder):
    """Answers with each run's newest value."""

    def predict(self, question: Question) -> Mixture:
        super().predict(question)
        shape = (*question.steps.shape, 1)
        means = np.broadcast_to(question.runs.last_value[:, None, None], shape)
        return Mixture(np.zeros(shape), means, np.zeros(shape))


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", GIVEN)
@pytest.mark.parametrize("name", ENGINES)
def test_input_is_refused_with_one_error_by_every_engine_that_does_not_read_it(name: str, what: Input) -> None:
    engine = load_engine(name)
    if what in engine.reads:
        check(engine, question(**GIVEN[what]))
        return
    wanted = rf"^{engine.name} makes no use of {SAID[what]}; leave {what}=\.\.\. out or take another model$"
    for ask in (check, answer):
        with pytest.raises(InputError, match=wanted):
            ask(engine, question(**GIVEN[what]))


def test_inputs_that_the_shipped_engines_read_are_these() -> None:
    reads = {name: load_engine(name).reads for name in ENGINES}
    assert {name: set(inputs) for name, inputs in reads.items() if inputs} == {
        "real": {"untrained", "kind", "schedule", "context", "config"},
        "stream": {"kind"},
        "empirical-gp": {"context"},
    }


@pytest.mark.parametrize("name", ENGINES)
def test_question_that_says_nothing_of_an_input_is_never_refused(name: str) -> None:
    nothing = question(configs=(None, None, None), context=Context(Curves.of(VALUES)[:0], np.empty(0)))
    check(load_engine(name), nothing)
    check(load_engine(name), question())


def test_what_runs_carry_is_left_to_the_engine() -> None:
    engine = Recorder()
    told = question(untrained=np.full(3, 0.1), kinds=np.full(3, LOSS), configs=({"lr": 0.1}, None, None))
    assert told.given("untrained")
    assert told.given("kind")
    assert told.given("config")
    answer(engine, told)
    assert engine.asked == [told]


@pytest.mark.parametrize("what", GIVEN)
def test_engine_of_ones_own_is_asked_what_it_says_it_reads(what: Input) -> None:
    reader, other = Recorder(reads=frozenset({what})), Recorder()
    asked = question(**GIVEN[what])
    answer(reader, asked)
    assert reader.asked == [asked]
    with pytest.raises(InputError, match=r"^recorder makes no use of"):
        answer(other, asked)
    assert other.asked == []


def test_engine_without_a_prediction_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="predict"):
        type("Mute", (Engine,), {"name": "mute"})()


# --- questions --------------------------------------------------------------------------------------------------------


def whole() -> Question:
    return question(
        kinds=np.array([LOSS, UNTOLD, SHARE]),
        untrained=np.array([0.0, np.nan, 0.2]),
        schedule=Schedule.of("cosine"),
        configs=({"lr": 0.1}, None, UserDict(lr=0.3)),
        context=others(),
    )


def test_question_of_plain_runs_knows_nothing_else() -> None:
    plain = question()
    assert plain.kinds.tolist() == [UNTOLD] * 3
    assert isinstance(plain.horizon, float)
    for what in ("untrained", "kind", "schedule", "context", "config"):
        assert not plain.given(what)
        assert whole().given(what)


@pytest.mark.parametrize("index", [slice(1, None), slice(None, None, -2), np.array([2, 0, 0]), np.array([], dtype=int)])
def test_some_runs_of_a_question_keep_all_that_is_known_of_them(index: Any) -> None:
    rows = np.arange(3)[index]
    every, some = whole(), whole()[index]
    assert len(some) == len(rows)
    np.testing.assert_array_equal(some.runs.values, every.runs.values[rows])
    np.testing.assert_array_equal(some.runs.steps, every.runs.steps[rows])
    np.testing.assert_array_equal(some.runs.lengths, every.runs.lengths[rows])
    np.testing.assert_array_equal(some.steps, every.steps[rows])
    np.testing.assert_array_equal(some.kinds, every.kinds[rows])
    np.testing.assert_array_equal(some.untrained, every.untrained[rows])  # type: ignore[index,arg-type]
    assert list(some.configs) == [every.configs[row] for row in rows]
    assert (some.horizon, some.schedule) == (every.horizon, every.schedule)
    assert some.context is not None
    assert len(some.context) == 3  # other runs are those of all
    assert {field.name for field in fields(Question)} == {
        *("runs", "steps", "horizon", "kinds", "untrained", "schedule", "configs", "context", "alone")
    }  # a new field needs a line above


def test_runs_that_are_asked_about_alone_have_no_context_and_the_others_have_it() -> None:
    mixed = replace(whole(), alone=np.array([False, True, False]))
    apart, among = mixed[1:2], mixed[np.array([2, 0])]
    assert apart.context is None
    assert among.context is mixed.context
    assert apart.alone is None
    assert among.alone is None
    np.testing.assert_array_equal(mixed[1:].alone, [True, False])  # type: ignore[arg-type]


def test_batch_of_which_some_are_alone_is_asked_in_two_parts_and_answered_in_its_own_order() -> None:
    engine = Echo(reads=frozenset({"context", "schedule"}))
    mixed = replace(whole(), alone=np.array([False, True, False]))
    found, _ = answer(engine, mixed)
    assert [(len(part), part.context is None) for part in engine.asked] == [(2, False), (1, True)]
    np.testing.assert_array_equal(found.mean()[:, 0], mixed.runs.last_value)


def test_values_before_training_stand_at_step_0_of_the_runs_that_have_one() -> None:
    begun = whole().with_untrained_at_zero()
    assert begun.lengths.tolist() == [5, 2, 4]
    assert [begun.values[i, :length].tolist() for i, length in enumerate(begun.lengths)] == [
        [0.0, 0.1, 0.3, 0.4, 0.45],
        [0.2, 0.3],
        [0.2, 0.5, 0.6, 0.62],
    ]
    assert begun.steps[:, 0].tolist() == [0.0, 1.0, 0.0]
    assert question().with_untrained_at_zero().values.tolist() == question().runs.values.tolist()


# --- grids ------------------------------------------------------------------------------------------------------------


def test_question_within_the_grid_is_asked_as_it_is() -> None:
    asked = question()
    assert on_grid(Recorder(grid=9), asked) == (asked, ())
    assert on_grid(Recorder(), asked) == (asked, ())


def test_question_past_the_grid_is_asked_in_cells_with_the_newest_value_of_each() -> None:
    steps = [[1.0, 2.0, 3.0, 4.0, 5.0], [10.0, 20.0, 26.0, 29.0, 30.0]]
    runs = Curves.of([[0.1, 0.2, 0.3, 0.4, 0.5], [0.5, 0.6, 0.7, 0.8, 0.9]], steps)
    long = replace(question()[:2], runs=runs, steps=np.array([[15.0], [40.0]]), horizon=50.0)
    thin, notes = on_grid(Recorder(grid=10), long)
    assert (thin.horizon, thin.steps.tolist()) == (10.0, [[3.0], [8.0]])
    assert thin.runs.lengths.tolist() == [1, 3]
    assert thin.runs.values.tolist() == [[0.5, 0.0, 0.0], [0.5, 0.6, 0.9]]
    assert thin.runs.steps.tolist() == [[1.0, 0.0, 0.0], [2.0, 4.0, 6.0]]
    assert notes == ("recorder knows up to 10 steps: the run was thinned to one value per 5 steps",)


def test_question_past_the_grid_keeps_what_else_is_known() -> None:
    every = whole()
    thin, _ = on_grid(Recorder(grid=5), every)
    assert thin.horizon < every.horizon
    for name in ("kinds", "untrained", "schedule", "configs", "context"):
        assert getattr(thin, name) is getattr(every, name)


def test_run_of_more_values_than_are_read_is_said_to_be_thinned() -> None:
    asked = question()
    assert on_grid(Recorder(most_values=4), asked) == (asked, ())
    same, notes = on_grid(Recorder(most_values=3), asked)
    assert same is asked
    assert notes == ("recorder reads 3 values of a run: longer ones were thinned evenly",)


# --- what an engine of one's own need not bother with -----------------------------------------------------------------


def test_engine_that_remembers_nothing_serves_one_run_many_and_paths_itself() -> None:
    engine = Recorder()
    assert engine.for_one_run() is engine
    assert engine.for_paths() is engine
    many = engine.for_many_runs(most_bytes=0)
    assert type(many) is RunCache
    assert many.about(["a", "b"]) is engine
    many.forget_all_but(["a"])


def test_engine_is_asked_about_each_cutoff_of_finished_runs_with_what_was_seen_by_then() -> None:
    engine = Recorder()
    runs = Curves.of(np.arange(12.0).reshape(2, 6) / 12.0)
    finished = Question.of(runs, np.empty((2, 0)), 6, kinds=np.array([LOSS, SHARE]))
    found = {cutoff: distribution.shape for cutoff, distribution in engine.at_cutoffs(finished, (4, 0, 1))}
    assert found == {0: (2, 6), 1: (2, 5), 4: (2, 2)}
    assert list(found) == [0, 1, 4]
    last = engine.asked[-1]
    assert last.runs.lengths.tolist() == [4, 4]
    assert last.runs.values.shape == (2, 4)
    assert last.steps.tolist() == [[5.0, 6.0]] * 2
    assert last.kinds.tolist() == [LOSS, SHARE]
