"""The saved state of a search, read with suspicion: what `to_json` would not have written is a `ConfigError`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from epochcast.checks import choice, count, finite, flag, not_negative, number, shown
from epochcast.errors import ConfigError
from epochcast.metric import Metric
from epochcast.stopping.decision import TARGETS, Decision, Final, Reason, Target
from epochcast.stopping.record import RunRecord

VERSION = 2
_READABLE = (1, 2)  # in version 1 `final` of a run was what counted of it
Check = Callable[[Any, str], Any]  # an entry and its name -> the entry as it is used, or an error

_JUDGED = (Reason.UNLIKELY, Reason.PROMISING, Reason.LEADING)  # reasons that name the value to beat


# --- reading ----------------------------------------------------------------------------------------------------------


def parsed(text: str, rule: str) -> dict[str, Any]:
    """A saved state, checked to be one of this rule and of a version that can be read."""
    try:
        state = json.loads(text, parse_constant=_refuse_constant)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"the saved state is not JSON that can be read: {error}") from None
    known = isinstance(state, dict) and state.get("rule") == rule
    if not known or type(state.get("version")) is not int or state["version"] not in _READABLE:
        raise ConfigError(f"this is not the saved state of a {rule} (version {VERSION})")
    return dict(state)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def fields(data: Any, names: Iterable[str], what: str) -> dict[str, Any]:
    """A mapping with these keys and no others."""
    if not isinstance(data, dict):
        raise ConfigError(f"{what} is {shown(data)}, not a mapping")
    wanted = set(names)
    if data.keys() != wanted:
        raise ConfigError(f"{what} has the keys {shown(sorted(data))}, not {sorted(wanted)}")
    return data


def listed(data: Any, what: str) -> list[Any]:
    if not isinstance(data, list):
        raise ConfigError(f"{what} is {shown(data)}, not a list")
    return data


def known(number: Any, what: str) -> float | None:
    """A finite number, or None."""
    return None if number is None else finite(number, what)


def checked(data: Any, checks: Mapping[str, Check], what: str) -> dict[str, Any]:
    """The entries of a mapping with these keys and no others, each as its check returns it."""
    given = fields(data, checks, what)
    return {name: check(given[name], name) for name, check in checks.items()}


def _reason(name: Any, what: str) -> Reason:
    return Reason(choice(name, what, tuple(reason.value for reason in Reason)))


def _final(data: Any, what: str) -> Final | None:
    if data is None:
        return None
    numbers = [finite(item, what) for item in listed(data, what)]
    if len(numbers) != 3:
        raise ConfigError(f"{what} has {len(numbers)} numbers, not 3")
    return Final(*numbers)


def seen_of(state: dict[str, Any], horizon: int, over: bool) -> tuple[list[float], list[Any]]:
    """Steps and values of the run under way: as many of the one as of the other, and before the horizon unless over."""
    values = listed(state.get("values"), "values")
    steps = steps_of(state.get("steps"), values, horizon)
    if steps and steps[-1] == horizon and not over:
        raise ConfigError(f"step {steps[-1]:g} does not come before horizon={horizon}")
    return steps, values


def steps_of(data: Any, values: Any, horizon: int) -> list[float]:
    """The steps of a run, which rise up to the horizon, one for each of its values."""
    steps = [not_negative(step, "step") for step in listed(data, "steps")]
    if len(steps) != len(listed(values, "values")):
        raise ConfigError(f"{len(steps)} steps and {len(values)} values do not belong together")
    if any(later <= step for step, later in pairwise(steps)):
        raise ConfigError("the steps do not rise")
    if steps and steps[-1] > horizon:
        raise ConfigError(f"step {steps[-1]:g} lies past horizon={horizon}")
    return steps


_RECORD: dict[str, Check] = {
    "values": partial(count, least=0),
    "last_step": not_negative,
    "best": known,
    "final": known,
    "stopped": flag,
    "reason": _reason,
    "outcome": known,
}


def record_of(data: Any, version: int, target: Target) -> RunRecord:
    """A run that is over, from either version."""
    run = checked(data, {name: _RECORD[name] for name in _RECORD if name != "outcome" or version > 1}, "a run")
    if version == 1:
        run["outcome"] = run["final"]
        if run["reason"] is Reason.FINISHED and target == "any":
            run["final"] = None  # the best value stood in its place, and the last one was not kept
    record = RunRecord(**run)
    if record.stopped and not record.reason.stops:
        raise ConfigError(f"a run is said to be stopped, but no run is stopped for {record.reason.value!r}")
    return record


_DECISION: dict[str, Check] = {
    "stop": flag,
    "probability": known,
    "best": known,
    "reason": _reason,
    "final": _final,
    "step": not_negative,
    "horizon": count,
    "target": partial(choice, known=TARGETS),
}


def decision_of(data: Any, horizon: int, target: Target) -> Decision:
    """The newest decision, which must be about a run of this horizon and target."""
    found = Decision(**checked(data, _DECISION, "the last decision"))
    if (found.horizon, found.target) != (horizon, target):
        raise ConfigError("the last decision is about a run of another horizon or target")
    if (found.stop and not found.reason.stops) or (found.reason in _JUDGED and None in (found.probability, found.best)):
        raise ConfigError(f"the last decision does not go with its reason {found.reason.value!r}")
    if found.probability is not None and not 0.0 <= found.probability <= 1.0:
        raise ConfigError(f"probability={found.probability} must lie between 0 and 1")
    return found


# --- metrics ----------------------------------------------------------------------------------------------------------


def metric_to_dict(metric: Metric) -> dict[str, Any]:
    # JSON knows no infinity: None stands for it. Nor does it know the numbers and truth values of numpy.
    return {
        "name": str(metric.name),
        "minimize": bool(metric.minimize),
        "hard": [bound if math.isfinite(bound) else None for bound in metric.hard],
        "soft": None if metric.soft is None else list(metric.soft),
        "transform": bool(metric.transform),
    }


def metric_of(data: Any) -> Metric:
    given = fields(data, ("name", "minimize", "hard", "soft", "transform"), "the metric")
    if not isinstance(given["name"], str):
        raise ConfigError(f"the metric's name is {shown(given['name'])}, not text")
    bounds = listed(given["hard"], "hard")
    if len(bounds) != 2:
        raise ConfigError(f"hard has {len(bounds)} bounds, not 2")
    low, high = (
        infinity if bound is None else number(bound, "hard")
        for bound, infinity in zip(bounds, (-math.inf, math.inf), strict=True)
    )
    soft = None if given["soft"] is None else tuple(number(bound, "soft") for bound in listed(given["soft"], "soft"))
    return Metric(
        name=given["name"],
        minimize=flag(given["minimize"], "minimize"),
        hard=(low, high),
        soft=soft,  # type: ignore[arg-type]  # Metric says how many there must be
        transform=flag(given["transform"], "transform"),
    )
