"""Which model a saved stopper forecasts with: its name, the sha256 of its weights, and its schedule."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from epochcast.checks import shown
from epochcast.errors import ConfigError, InputError
from epochcast.forecaster import Forecaster, shared
from epochcast.runtime.weights import models, registry, shipped_digest
from epochcast.schedule import FORMS

_log = logging.getLogger("epochcast")


@dataclass(frozen=True)
class ModelName:
    """What tells one model from another."""

    name: str
    sha256: str | None  # of its weights; None for an engine that has none
    ships: bool  # whether the name alone is enough to load it
    schedule: str | None = None

    @classmethod
    def default(cls) -> ModelName:
        name = registry()["default"]
        return cls(name, shipped_digest(name), ships=True)

    @classmethod
    def of(cls, forecaster: Forecaster) -> ModelName:
        source, schedule = forecaster.engine.source, forecaster.schedule
        ships = source is not None and source.model in models()
        sha256 = None if source is None else source.sha256
        return cls(forecaster.engine.name, sha256, ships, None if schedule is None else schedule.name)

    def __str__(self) -> str:
        known = f", sha256 {self.sha256[:12]}..." if self.sha256 else ""
        schedule = f", schedule {shown(self.schedule)}" if self.schedule else ""
        return f"{shown(self.name)}{known}{schedule}"

    def is_of(self, forecaster: Forecaster) -> bool:
        """Whether the forecaster is of this model; what was saved without a digest has only its name."""
        other = ModelName.of(forecaster)
        alike = (self.name, self.schedule) == (other.name, other.schedule)
        return alike and (self.sha256 is None or self.sha256 == other.sha256)

    def load(self) -> Forecaster:
        """The forecaster, if the name is enough for it."""
        in_words = self.schedule is None or self.schedule.partition(",")[0] in FORMS
        if not (self.ships and in_words and self.name in models()):
            raise ConfigError(f"the saved stopper forecasts with {self}, which does not ship; pass forecaster=")
        try:
            forecaster = shared(self.name).with_schedule(self.schedule)
        except InputError as error:
            raise ConfigError(f"the saved stopper forecasts with {self}: {error}") from None
        if self.sha256 not in (None, shipped_digest(self.name)):
            _tell_of_other_weights(self.name)
        return forecaster


@cache  # once
def _tell_of_other_weights(name: str) -> None:
    _log.warning("%s has other weights than when the stopper was saved; its forecasts may differ", name)


def model_name_of(data: Any, version: int) -> ModelName:
    """A model's name from a saved state; version 1 had `real@cosine`, and took every known name for a shipped one."""
    if version == 1 and isinstance(data, str):
        name, _, words = data.partition("@")
        return ModelName(name, None, name in models(), words or None)
    names = {field.name for field in fields(ModelName)}
    if not isinstance(data, dict) or data.keys() != names:
        raise ConfigError(f"the saved stopper names {shown(data)} as its model, which is no name")
    texts = isinstance(data["name"], str) and all(
        data[key] is None or isinstance(data[key], str) for key in ("sha256", "schedule")
    )
    if not texts or not isinstance(data["ships"], bool):
        raise ConfigError(f"the saved stopper names {shown(data)} as its model, which is no name")
    return ModelName(**data)


def forecaster_of(item: Any) -> Forecaster:
    """A forecaster that was handed over; anything else is a mistake."""
    if not isinstance(item, Forecaster):
        raise InputError(f"forecaster={shown(item)} must be a Forecaster, such as Forecaster('stream')")
    return item
