"""What a prior is made of: ingredients with their rates, groups of runs that may have them, and how they are drawn.

A table is checked when it is made, so that a misspelt name fails at import. The order of its rows does not matter.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from epochcast.errors import ConfigError
from epochcast.prior.families import Array
from epochcast.prior.real.source import Mask, Source, Topic

_OUT_OF_CHARACTER = 0.1  # share of its rate at which an ingredient befalls the wrong temper
EVERY = "every run"
TAME = "tame"


class Temper(enum.Enum):
    """Which runs an ingredient befalls more often."""

    ANY = enum.auto()
    SETBACK = enum.auto()  # wild ones; tame runs at a part of its rate
    CALM = enum.auto()  # tame ones


class Stage(enum.Enum):
    """Where in the making of a run the law of an ingredient has its place."""

    ELSEWHERE = enum.auto()  # it is part of another law, or a whole curve
    SCHEDULE = enum.auto()  # (grid, outline, source) -> the learning rate
    CLOCK = enum.auto()  # (clock, grid, source) -> the clock
    OF_GAINS = enum.auto()  # (grid, source) -> error, in proportion to what was gained
    OF_REACH = enum.auto()  # (grid, source) -> error, in proportion to what can be gained


@dataclass(frozen=True)
class Ingredient:
    """Something that a run may have."""

    name: str
    rate: float  # a share of the runs of `of`
    of: str  # the ingredient or group whose runs may have it
    does: str
    law: Callable[..., Any] | None = None
    stage: Stage = Stage.ELSEWHERE
    temper: Temper = Temper.ANY
    among: str | None = None  # a run has at most one of the ingredients among these
    topic: Topic = Topic.RUN


@dataclass(frozen=True)
class Group:
    """Runs that have all of some, any of some and none of some other ingredients or groups."""

    name: str
    any_of: tuple[str, ...] = ()
    all_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()

    @property
    def members(self) -> tuple[str, ...]:
        return self.any_of + self.all_of + self.none_of

    def mask(self, has: Mapping[str, Mask]) -> Mask:
        found = np.any([has[name] for name in self.any_of], axis=0) if self.any_of else has[EVERY].copy()
        for name in self.all_of:
            found &= has[name]
        for name in self.none_of:
            found &= ~has[name]
        return np.asarray(found)


class Table(Mapping[str, Ingredient]):
    """Ingredients by name, and the groups that they are shares of."""

    def __init__(self, ingredients: Sequence[Ingredient], groups: Sequence[Group], given: Sequence[str] = ()) -> None:
        self._ingredients = {ingredient.name: ingredient for ingredient in ingredients}
        self._groups = {group.name: group for group in groups}
        names = [*self._ingredients, *self._groups, EVERY, *given]
        if len(set(names)) != len(ingredients) + len(groups) + 1 + len(given):
            raise ConfigError("two ingredients or groups of the table have the same name")
        self._order = _ordered(self._needs(), set(names)) if names else []
        self._groups_of_one = {of: self.among(of) for of in sorted({i.among for i in ingredients if i.among})}
        for members in self._groups_of_one.values():
            if len({member.of for member in members}) > 1:
                raise ConfigError(f"{', '.join(m.name for m in members)}: one of them for each run, so shares of one")

    def __getitem__(self, name: str) -> Ingredient:
        return self._ingredients[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ingredients)

    def __len__(self) -> int:
        return len(self._ingredients)

    def among(self, names: str) -> list[Ingredient]:
        """Ingredients of which a run has at most one, by name."""
        return [ingredient for _, ingredient in sorted(self._ingredients.items()) if ingredient.among == names]

    def at(self, stage: Stage) -> list[Ingredient]:
        """Ingredients whose laws have their place at a stage, by name."""
        return [ingredient for _, ingredient in sorted(self._ingredients.items()) if ingredient.stage is stage]

    def _needs(self) -> dict[str, set[str]]:
        needs = {group.name: set(group.members) for group in self._groups.values()}
        for ingredient in self._ingredients.values():
            tempered = {TAME} if ingredient.temper is not Temper.ANY else set()
            needs[ingredient.name] = {ingredient.of} | tempered
        return needs

    def check(self, rates: Mapping[str, float]) -> None:
        """Refuse rates that are no probabilities, or sum to more than 1 where a run has at most one."""
        for name, rate in rates.items():
            if name not in self:
                raise ConfigError(f"{name!r} is no ingredient; choose from {', '.join(self)}")
            if not (isinstance(rate, (int, float)) and 0.0 <= rate <= 1.0):
                raise ConfigError(f"rate {name}={rate!r} must be a probability, 0 to 1")
        for members in self._groups_of_one.values():
            names = [member.name for member in members]
            total = sum(rates[name] for name in names)
            if total > 1.0 + 1e-9:
                raise ConfigError(f"rates of {', '.join(names)} sum to {total:g}; a run has one of them, so at most 1")

    def draw(self, source: Source, rates: Mapping[str, float], given: Mapping[str, Mask]) -> dict[str, Mask]:
        """Which ingredients each run has, and which groups it belongs to: [run] per name."""
        has = {EVERY: np.ones(len(source), dtype=bool), **given}
        places = {names: source.about(of[0].topic).uniform()[:, 0] for names, of in self._groups_of_one.items()}
        for name in self._order:
            if name in self._groups:
                has[name] = self._groups[name].mask(has)
            elif name in self._ingredients:
                has[name] = self._drawn(self._ingredients[name], source, rates, places, has)
        return has

    def _drawn(
        self,
        what: Ingredient,
        source: Source,
        rates: Mapping[str, float],
        places: dict[str, Array],
        has: dict[str, Mask],
    ) -> Mask:
        if what.among is not None:
            before = sum(rates[other.name] for other in self.among(what.among) if other.name < what.name)
            place = places[what.among] - before
            return (place >= 0.0) & (place < rates[what.name]) & has[what.of]
        chance: Array | float = rates[what.name]
        if what.temper is Temper.SETBACK:
            chance = _out_of_character(rates[what.name], has[TAME], rates[TAME])
        elif what.temper is Temper.CALM:
            chance = _out_of_character(rates[what.name], ~has[TAME], 1.0 - rates[TAME])
        return np.asarray((source.about(what.topic).uniform()[:, 0] < chance) & has[what.of])


def _ordered(needs: dict[str, set[str]], known: set[str]) -> list[str]:
    """Names in an order in which each comes after those it needs; the same whatever order they were given in."""
    for name, others in sorted(needs.items()):
        for other in sorted(others - known):
            raise ConfigError(f"{name!r} of the table needs {other!r}, which it does not hold")
    sorter = TopologicalSorter(needs)
    try:
        sorter.prepare()
    except CycleError as error:
        raise ConfigError(f"ingredients of the table need each other: {', '.join(error.args[1])}") from None
    order: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order += ready
        sorter.done(*ready)
    return order


def _out_of_character(rate: float, wrong: Mask, share: float) -> Array:
    """The chance [run] of what seldom befalls runs of the wrong temper, which are this share of all."""
    if share in (0.0, 1.0):
        return np.full(len(wrong), rate)
    of_others = min(rate * (1.0 - _OUT_OF_CHARACTER * share) / (1.0 - share), 1.0)
    return np.where(wrong, (rate - (1.0 - share) * of_others) / share, of_others)
