"""A stopper that shows its model the runs before: which, with what, and how that is saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import epochcast as ec
from epochcast.distributions import Mixture
from epochcast.errors import ConfigError, InputError
from epochcast.integrations.base import StopperCallback
from epochcast.metric import Metric
from epochcast.normalize import Normalizer
from epochcast.others import MOST_RUNS
from epochcast.question import Engine, Input, Question
from epochcast.stopping.earlier import Earlier, plain_config

HORIZON = 12
STEPS = np.arange(1.0, HORIZON + 1.0)
NORMAL = Normalizer.of(Metric.named("accuracy"))


class Recorder(Engine):
    """Forecasts the mean of the last values of the other runs, and remembers what it was asked."""

    name = "recorder"
    reads: frozenset[Input] = frozenset({"context", "config"})

    def __init__(self) -> None:
        self.questions: list[Question] = []

    @property
    def contexts(self) -> list[int]:
        """How many other runs each question had."""
        return [0 if question.context is None else len(question.context) for question in self.questions]

    def predict(self, question: Question) -> Mixture:
        self.questions.append(question)
        shape = (*question.steps.shape, 1)
        ends = [0.9] if question.context is None else question.context.runs.last_value
        return Mixture(np.zeros(shape), np.full(shape, np.mean(ends)), np.full(shape, -3.0))


class Alone(Recorder):
    reads: frozenset[Input] = frozenset()


def curve(end: float, length: int = HORIZON, scale: float = 4.0) -> list[float]:
    return (end - (end - 0.1) * np.exp(-STEPS[:length] / scale)).tolist()


def play(stopper: ec.Stopper, run: list[float], config: dict[str, Any] | None = None, *, end: bool = True) -> list[Any]:
    if config is not None:
        stopper.next_run(config=config)
    found = []
    for step, value in enumerate(run, start=1):
        found.append(stopper.update(step, value))
        if found[-1].stop:
            break
    if end:
        stopper.next_run()
    return found


@pytest.fixture
def engine() -> Recorder:
    return Recorder()


def stopper_of(engine: Engine, **options: Any) -> ec.Stopper:
    return ec.Stopper(HORIZON, "accuracy", forecaster=ec.Forecaster.around(engine), **{"min_steps": 3, **options})


@pytest.mark.parametrize("options", [{}, {"check_every": 3}, {"cutoffs": [0.5]}], ids=str)
def test_runs_before_are_the_context_of_the_next(engine: Recorder, options: dict[str, Any]) -> None:
    stopper = stopper_of(engine, **options)
    ends = (0.8, 0.3, 0.7)
    for runs, end in enumerate(ends):
        before = len(engine.questions)
        play(stopper, curve(end))
        assert set(engine.contexts[before:]) == {runs}
    last = engine.questions[-1].context
    assert last is not None
    assert last.runs.lengths[0] == HORIZON
    assert last.runs.lengths[1] == stopper.runs[1].values
    assert last.horizons.tolist() == [HORIZON] * 2
    np.testing.assert_allclose(last.runs.values[0], NORMAL.forward(curve(0.8)))


def test_stream_of_a_run_asks_with_one_context(engine: Recorder) -> None:
    stopper = stopper_of(engine, dry_run=True)
    play(stopper, curve(0.8))
    engine.questions.clear()
    play(stopper, curve(0.5))
    assert len(engine.questions) > 5
    assert len({id(question.context) for question in engine.questions}) == 1


def test_runs_before_change_what_is_decided() -> None:
    among, alone = (stopper_of(Recorder(), context=context) for context in (True, False))
    for stopper in (among, alone):
        for end in (0.8, 0.3, 0.3, 0.3):
            play(stopper, curve(end))
    found = [play(stopper, curve(0.5))[-1] for stopper in (among, alone)]
    assert [decision.reason for decision in found] == [ec.Reason.UNLIKELY, ec.Reason.FINISHED]


@pytest.mark.parametrize(
    ("engine", "options"), [(Recorder(), {"context": False}), (Alone(), {})], ids=["off", "unread"]
)
def test_runs_before_are_not_kept_where_they_are_not_wanted_or_not_read(engine: Recorder, options: Any) -> None:
    stopper = stopper_of(engine, **options)
    for end in (0.8, 0.7):
        play(stopper, curve(end), {"lr": 0.1})
    assert set(engine.contexts) == {0}
    assert json.loads(stopper.to_json())["earlier"] == []


def test_context_that_is_no_truth_value_is_refused() -> None:
    with pytest.raises(InputError, match="context='yes' must be True or False"):
        stopper_of(Recorder(), context="yes")


def test_configuration_is_that_of_the_run_to_come(engine: Recorder) -> None:
    stopper = stopper_of(engine, dry_run=True)
    play(stopper, curve(0.8), {"lr": np.float64(0.1), "model": {"depth": 2}, "seed": None, "data": object()})
    assert engine.questions[-1].configs == ({"lr": 0.1, "model.depth": 2.0},)
    play(stopper, curve(0.7))
    assert engine.questions[-1].configs == ()
    play(stopper, curve(0.6), {"lr": 0.3})
    last = engine.questions[-1]
    assert last.configs == ({"lr": 0.3},)
    assert last.context is not None
    assert last.context.configs == ({"lr": 0.1, "model.depth": 2.0}, None)


def test_configuration_that_is_no_mapping_ends_no_run(engine: Recorder) -> None:
    stopper = stopper_of(engine)
    play(stopper, curve(0.8)[:5], end=False)
    with pytest.raises(InputError, match=r"config=\[1\] must be a mapping of names to values"):
        stopper.next_run(config=[1])  # type: ignore[arg-type]
    assert stopper.runs == []
    assert stopper.update(6, 0.7).step == 6


def test_other_rules_take_a_configuration_and_make_no_use_of_it() -> None:
    for rule in (ec.Patience(3, HORIZON, "accuracy"), ec.NoStopping(HORIZON, "accuracy")):
        rule.update(1, 0.5)
        assert rule.next_run(config={"lr": 0.1}) is not None


def test_callbacks_with_a_shared_stopper_have_the_runs_before_and_keep_the_configuration(engine: Recorder) -> None:
    stopper = stopper_of(engine, dry_run=True)
    for i, end in enumerate((0.8, 0.6)):
        callback = StopperCallback("val_accuracy", stopper=stopper)
        stopper.next_run(config={"lr": float(i)})
        callback.begin(HORIZON)
        for step, value in enumerate(curve(end), start=1):
            callback.check(step, {"val_accuracy": value})
        callback.end()
    last = engine.questions[-1]
    assert last.configs == ({"lr": 1.0},)
    assert last.context is not None
    assert last.context.configs == ({"lr": 0.0},)


def test_runs_that_show_nothing_are_not_kept(engine: Recorder) -> None:
    stopper = stopper_of(engine)
    for run in ([], [0.4], [float("nan")], [0.3, float("nan")]):
        play(stopper, run)
    stopper.update(0, 0.1)
    stopper.update(1, 0.2)
    stopper.next_run()
    play(stopper, [0.1, 0.2, float("nan")])  # broke down, after two values
    play(stopper, curve(0.8))
    assert engine.contexts[-1] == 1


def test_value_before_training_of_an_earlier_run_is_kept(engine: Recorder) -> None:
    stopper = stopper_of(engine)
    stopper.update(0, 0.1)
    play(stopper, curve(0.8))
    play(stopper, curve(0.7))
    context = engine.questions[-1].context
    assert context is not None
    assert context.untrained is not None
    assert context.untrained.tolist() == pytest.approx([float(NORMAL.forward(0.1))])
    assert context.runs.lengths.tolist() == [HORIZON]


def test_of_many_runs_the_newest_and_the_best_are_kept() -> None:
    metric, rng = Metric.named("accuracy"), np.random.default_rng(0)
    ends = rng.permutation(150) / 200.0
    earlier = Earlier()
    for i, end in enumerate(ends):
        earlier.add(metric, [1.0, 2.0], [0.0, float(end)], {"i": i})
    kept = [run.config["i"] for run in earlier.runs if run.config]
    assert len(kept) == MOST_RUNS
    assert kept == sorted([*range(118, 150), *np.argsort(-ends[:118])[:32].tolist()])


def test_long_runs_are_kept_as_thin_as_the_model_reads_them() -> None:
    earlier = Earlier()
    earlier.add(Metric.named("unit"), np.arange(1.0, 1001.0).tolist(), np.linspace(0, 1, 1000).tolist(), None, 200)
    (run,) = earlier.runs
    assert run.steps == np.arange(5.0, 1001.0, 5.0).tolist()
    assert np.size(run.values) == 200


def test_configuration_is_kept_in_types_that_json_has() -> None:
    config = {"a": np.int64(3), "b": np.bool_(True), "c": "x", "d": float("inf"), "e": [1], 5: 2, "n": {"m": 10**400}}
    assert plain_config(config) == {"a": 3.0, "b": True, "c": "x", "5": 2.0}  # type: ignore[arg-type]
    assert plain_config(None) is None


# --- state ------------------------------------------------------------------------------------------------------------


def half_way() -> ec.Stopper:
    """A search with two runs before and one under way."""
    stopper = stopper_of(Recorder())
    play(stopper, curve(0.8), {"lr": 0.1, "optimizer": "adam", "nesterov": True})
    play(stopper, curve(0.4))
    play(stopper, curve(0.7)[:5], {"lr": 0.3}, end=False)
    return stopper


def test_restored_stopper_goes_on_with_the_runs_before() -> None:
    stopper, engine = half_way(), Recorder()
    again = ec.Stopper.from_json(stopper.to_json(), ec.Forecaster.around(engine))
    assert again.to_json() == stopper.to_json()
    for step in range(6, HORIZON + 1):
        value = curve(0.7)[step - 1]
        assert again.update(step, value) == stopper.update(step, value)
    last = engine.questions[-1]
    assert last.configs == ({"lr": 0.3},)
    assert last.context is not None
    assert last.context.configs == ({"lr": 0.1, "optimizer": "adam", "nesterov": True}, None)
    for found in (stopper, again):
        found.next_run()
        play(found, curve(0.6))
    assert again.to_json() == stopper.to_json()
    assert set(engine.contexts[-3:]) == {3}


DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "earlier runs that are a mapping": lambda state: state.update(earlier={}),
    "earlier runs without end": lambda state: state.update(earlier=state["earlier"] * 40),
    "earlier run that is a list": lambda state: state["earlier"].append([1]),
    "earlier run without values": lambda state: state["earlier"][0].pop("values"),
    "earlier run of another length": lambda state: state["earlier"][0]["values"].append(0.5),
    "earlier run whose steps fall": lambda state: state["earlier"][0]["steps"].reverse(),
    "earlier run past the horizon": lambda state: state["earlier"][0]["steps"].__setitem__(-1, HORIZON + 1),
    "earlier run outside the bounds": lambda state: state["earlier"][0]["values"].__setitem__(0, 5.0),
    "earlier run of text": lambda state: state["earlier"][0]["values"].__setitem__(0, "0.5"),
    "earlier run of nothing": lambda state: state["earlier"][0].update(steps=[], values=[]),
    "earlier run of one value": lambda state: state["earlier"][0].update(steps=[0.0, 1.0], values=[0.1, 0.2]),
    "configuration that is text": lambda state: state.update(config="lr"),
    "configuration that holds a list": lambda state: state["earlier"][0].update(config={"lr": [1]}),
    "configuration that is nested": lambda state: state.update(config={"model": {"lr": 1}}),
    "configuration of infinity": lambda state: state.update(config={"lr": 10**400}),
    "context that is text": lambda state: state["settings"].update(context="yes"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_earlier_runs_that_were_tampered_with_raise_a_config_error(damage: Callable[[dict[str, Any]], Any]) -> None:
    state = json.loads(half_way().to_json())
    damage(state)
    with pytest.raises(ConfigError):
        ec.Stopper.from_json(json.dumps(state), ec.Forecaster.around(Recorder()))


# --- the bound --------------------------------------------------------------------------------------------------------


def test_calibrated_stopper_forecasts_each_run_by_itself_as_its_bound_says(engine: Recorder) -> None:
    finished = np.stack([curve(end) for end in np.linspace(0.3, 0.9, 40)])
    options: dict[str, Any] = {"metric": "accuracy", "forecaster": ec.Forecaster.around(engine), "min_steps": 3}
    stopper = ec.Stopper.calibrated(finished, 0.2, **options)
    assert stopper.context is False
    for end in (0.8, 0.7):
        play(stopper, curve(end))
    assert set(engine.contexts) == {0}
    with pytest.raises(InputError, match="forecast each by itself, so context=True cannot be had"):
        ec.Stopper.calibrated(finished, 0.2, context=True, **options)
