"""Saved states of stopping rules: old ones are read, and what `to_json` never wrote is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from epochcast.errors import ConfigError
from epochcast.metric import Metric
from epochcast.stopping import NoStopping, Patience, Reason, Stopper

HORIZON = 6
Damage = Callable[[dict[str, Any]], Any]


def saved() -> dict[str, Any]:
    """The state of a search with a finished run, a stopped one and one under way."""
    stopper = Stopper(HORIZON, "accuracy", min_steps=2, confidence=0.9)
    for run in ([0.5, 0.9, 0.95, 0.97, 0.96, 0.96], [0.1, 0.1, 0.1]):
        for step, value in enumerate(run, start=1):
            stopper.update(step, value)
        stopper.next_run()
    for step, value in enumerate([0.4, 0.5, 0.55], start=1):
        stopper.update(step, value)
    state: dict[str, Any] = json.loads(stopper.to_json())
    assert [run["reason"] for run in state["runs"]] == ["finished", "unlikely"]
    assert state["last"]["probability"] is not None
    return state


# --- states of version 1 ----------------------------------------------------------------------------------------------

VERSION_1 = {
    "rule": "stopper",
    "version": 1,
    "settings": {
        "horizon": 4,
        "metric": {"name": "accuracy", "minimize": False, "hard": [0.0, 1.0], "soft": [0.0, 1.0], "transform": True},
        "best": 0.9,
        "target": "any",
        "dry_run": False,
        "non_finite": "stop",
        "confidence": 0.95,
        "min_steps": 2,
        "check_every": 1,
        "cutoffs": None,
        "goal": None,
        "stop_leader": False,
        "weigh_rest": False,
    },
    "runs": [
        {"values": 4, "last_step": 4.0, "best": 0.9, "final": 0.9, "stopped": False, "reason": "finished"},
        {"values": 2, "last_step": 2.0, "best": 0.2, "final": 0.25, "stopped": True, "reason": "unlikely"},
    ],
    "steps": [1.0],
    "values": [0.3],
    "last": {
        "stop": False,
        "probability": None,
        "best": 0.9,
        "reason": "warm_up",
        "final": None,
        "step": 1.0,
        "horizon": 4,
        "target": "any",
    },
    "model": "stream",
    "guarantee": None,
}


def test_state_of_version_1_loads_and_its_final_is_what_counted() -> None:
    stopper = Stopper.from_json(json.dumps(VERSION_1))
    finished, stopped = stopper.runs
    assert (finished.final, finished.best, finished.outcome) == (None, 0.9, 0.9)  # the last value was not kept
    assert (stopped.final, stopped.best, stopped.outcome) == (0.25, 0.2, 0.25)
    assert (stopper.min_steps, stopper.min_share, stopper.best, stopper.forecaster.name) == (2, 0.0, 0.9, "stream")
    assert stopper.update(2, 0.3).probability is not None
    assert Stopper.from_json(stopper.to_json()).runs == [finished, stopped]


def test_state_of_version_1_with_a_final_target_keeps_its_last_values() -> None:
    state = json.loads(json.dumps(VERSION_1).replace('"target": "any"', '"target": "final"'))
    (finished, _) = Stopper.from_json(json.dumps(state)).runs
    assert (finished.final, finished.outcome) == (0.9, 0.9)


# --- states that were tampered with -----------------------------------------------------------------------------------

NESTED = json.loads("[" * 500 + "]" * 500)
DAMAGES: dict[str, Damage] = {
    "more steps than values": lambda state: state["steps"].append(4.0),
    "more values than steps": lambda state: state["values"].append(0.6),
    "negative step": lambda state: state.update(steps=[-1.0, 2.0, 3.0]),
    "step that is text": lambda state: state.update(steps=["1", 2.0, 3.0]),
    "step that is true": lambda state: state.update(steps=[True, 2.0, 3.0]),
    "step of 400 digits": lambda state: state.update(steps=[1.0, 2.0, 10**400]),
    "steps that fall": lambda state: state.update(steps=[1.0, 3.0, 2.0]),
    "steps that repeat": lambda state: state.update(steps=[1.0, 2.0, 2.0]),
    "step at the horizon of a run that goes on": lambda state: state.update(steps=[1.0, 2.0, HORIZON]),
    "step past the horizon": lambda state: state.update(steps=[1.0, 2.0, HORIZON + 1]),
    "steps that are a number": lambda state: state.update(steps=3),
    "steps that are missing": lambda state: state.pop("steps"),
    "values that are null": lambda state: state.update(values=None),
    "value outside the bounds": lambda state: state.update(values=[0.4, 0.5, 55.0]),
    "value that is null": lambda state: state.update(values=[0.4, None, 0.5]),
    "run that is a list": lambda state: state["runs"].append([1, 2]),
    "run with a key too many": lambda state: state["runs"][0].update(more=1),
    "run without its outcome": lambda state: state["runs"][0].pop("outcome"),
    "run of unknown reason": lambda state: state["runs"][0].update(reason="because"),
    "run whose reason is a list": lambda state: state["runs"][0].update(reason=["finished"]),
    "run with half a value": lambda state: state["runs"][0].update(values=2.5),
    "run of minus one value": lambda state: state["runs"][0].update(values=-1),
    "run whose best is text": lambda state: state["runs"][0].update(best="0.5"),
    "run that was stopped for finishing": lambda state: state["runs"][0].update(stopped=True),
    "run stopped by a number": lambda state: state["runs"][1].update(stopped=1),
    "runs that are missing": lambda state: state.pop("runs"),
    "runs that are a mapping": lambda state: state.update(runs={}),
    "decision that is text": lambda state: state.update(last="stop"),
    "decision without its step": lambda state: state["last"].pop("step"),
    "decision at a negative step": lambda state: state["last"].update(step=-1),
    "decision without its best": lambda state: state["last"].update(best=None),
    "decision without its probability": lambda state: state["last"].update(probability=None),
    "probability above one": lambda state: state["last"].update(probability=1.5),
    "decision of another horizon": lambda state: state["last"].update(horizon=HORIZON + 1),
    "decision of another target": lambda state: state["last"].update(target="final"),
    "decision to stop for being promising": lambda state: state["last"].update(reason="promising", stop=True),
    "end of two numbers": lambda state: state["last"].update(final=[0.5, 0.4]),
    "end that is text": lambda state: state["last"].update(final="abc"),
    "decision that is missing": lambda state: state.pop("last"),
    "horizon that is text": lambda state: state["settings"].update(horizon="6"),
    "horizon of 400 digits": lambda state: state["settings"].update(horizon=10**400),
    "confidence that is text": lambda state: state["settings"].update(confidence="x"),
    "cutoffs that are a number": lambda state: state["settings"].update(cutoffs=3),
    "settings without their min_share": lambda state: state["settings"].pop("min_share"),
    "dry run that is null": lambda state: state["settings"].update(dry_run=None),
    "settings that are a list": lambda state: state.update(settings=[]),
    "metric that is text": lambda state: state["settings"].update(metric="accuracy"),
    "metric whose name is a number": lambda state: state["settings"]["metric"].update(name=3),
    "metric of three bounds": lambda state: state["settings"]["metric"].update(hard=[0.0, 0.5, 1.0]),
    "metric of one soft bound": lambda state: state["settings"]["metric"].update(soft=[0.0]),
    "metric that transforms by text": lambda state: state["settings"]["metric"].update(transform="no"),
    "model that is a list": lambda state: state.update(model=["stream"]),
    "model that does not ship": lambda state: state.update(model="own:stream"),
    "model told what nobody understands": lambda state: state.update(model="real@cosine,speed=3"),
    "model told a schedule past the horizon": lambda state: state.update(model="real@cosine,warmup=9"),
    "guarantee that is a list": lambda state: state.update(guarantee=[]),
    "guarantee of text": lambda state: state.update(guarantee=dict.fromkeys(GUARANTEE, "x")),
    "guarantee without a risk": lambda state: state.update(guarantee={**GUARANTEE, "risk": 0.0}),
    "guarantee that is missing": lambda state: state.pop("guarantee"),
    "version that is true": lambda state: state.update(version=True),
    "values nested deep": lambda state: state.update(values=NESTED),
    "reason nested deep": lambda state: state["last"].update(reason=NESTED),
    "rule of another kind": lambda state: state.update(rule="patience"),
}
GUARANTEE = {"risk": 0.05, "confidence": 0.9, "runs": 9, "contenders": 5, "wrong_stops": 0, "goal": None, "min_gain": 0}


def test_state_that_nobody_touched_loads() -> None:
    stopper = Stopper.from_json(json.dumps({**saved(), "guarantee": GUARANTEE}))
    assert (len(stopper.runs), stopper.runs[1].reason) == (2, Reason.UNLIKELY)
    assert "chosen on 9 finished runs" in str(stopper.guarantee)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_state_that_was_tampered_with_raises_a_config_error(damage: Damage) -> None:
    state = saved()
    damage(state)
    with pytest.raises(ConfigError):
        Stopper.from_json(json.dumps(state))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"rule": "no_stopping", "version": ' + "9" * 5_000 + "}",
        '{"rule": "no_stopping", "version": NaN}',
        '{"rule": "no_stopping", "version": [1]}',
        b"\xff\xfe\xfa",
        None,
        7,
    ],
    ids=["deep", "long number", "nan", "list", "bytes", "none", "number"],
)
def test_state_that_json_cannot_read_raises_a_config_error(text: Any) -> None:
    with pytest.raises(ConfigError):
        NoStopping.from_json(text)


def test_state_of_a_metric_made_with_numpy_can_be_saved() -> None:
    rule = Patience(2, HORIZON, Metric("cost", minimize=np.True_, soft=(np.float64(0.0), np.float64(1.0))))
    assert Patience.from_json(rule.to_json()).metric == rule.metric
