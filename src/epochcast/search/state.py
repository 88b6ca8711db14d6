"""The saved state of a freeze-thaw search, read with suspicion: what `to_json` would not write is a `ConfigError`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from epochcast.checks import count, finite, flag
from epochcast.curve import Curves, clip_to_hard_bounds
from epochcast.errors import ConfigError
from epochcast.forecaster import Forecaster
from epochcast.metric import Metric
from epochcast.search.space import space_from_plain
from epochcast.search.trained_run import TrainedRun
from epochcast.stopping.model_name import ModelName, model_name_of
from epochcast.stopping.state import fields, listed, metric_of, steps_of

if TYPE_CHECKING:
    from epochcast.search.freeze_thaw import FreezeThaw

SearchT = TypeVar("SearchT", bound="FreezeThaw")
VERSION = 1
_NAMES = ("search", "version", "horizon", "metric", "seed", "every", "first", "model", "space", "asked", "runs")


def restored(kind: type[SearchT], text: str, forecaster: Forecaster | None) -> SearchT:
    """The search that a text describes."""
    state = _parsed(text)
    model = model_name_of(state["model"], version=2)
    if forecaster is None:
        forecaster = model.load()
    elif not model.is_of(forecaster):
        raise ConfigError(f"the saved search forecasts with {model}, not with {ModelName.of(forecaster)}")
    try:
        search = kind(
            space_from_plain(state["space"]),
            state["horizon"],
            metric_of(state["metric"]),
            seed=state["seed"],
            every=state["every"],
            first=state["first"],
            forecaster=forecaster,
        )
        search._asked = count(state["asked"], "asked", least=0)
        search._runs = [_run_of(run, search.horizon, search.metric) for run in listed(state["runs"], "runs")]
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"the saved search cannot be used: {error}") from error
    return search


def _parsed(text: str) -> dict[str, Any]:
    try:
        state = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"the saved search is not JSON that can be read: {error}") from None
    if not isinstance(state, dict) or state.get("search") != "freeze_thaw" or state.get("version") != VERSION:
        raise ConfigError(f"this is not the saved state of a freeze-thaw search (version {VERSION})")
    return fields(state, _NAMES, "the search")


def _run_of(data: Any, horizon: int, metric: Metric) -> TrainedRun:
    given = fields(data, ("config", "steps", "values", "until", "over"), "a run")
    if not isinstance(given["config"], dict):
        raise ConfigError(f"the configuration of a run is {given['config']!r}, not a mapping")
    steps = steps_of(given["steps"], given["values"], horizon)
    values = [finite(value, "value") for value in given["values"]]
    if values:
        clip_to_hard_bounds(Curves.of(values, steps), metric)
    until = None if given["until"] is None else count(given["until"], "until")
    over = flag(given["over"], "over")
    run = TrainedRun(given["config"], steps, values, until, over)
    if until is not None and (over or not run.newest < until <= horizon):
        raise ConfigError(f"a run that stands at step {run.newest:g} cannot be trained until step {until}")
    if run.newest >= horizon and not over:
        raise ConfigError(f"a run that stands at step {run.newest:g} is over at horizon={horizon}")
    return run
