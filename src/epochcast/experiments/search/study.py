"""Replayed searches over whole collections: one search in one order of one task is an item of the harness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from epochcast.checks import count
from epochcast.experiments.contenders import Contender, contenders
from epochcast.experiments.harness import PLAIN, Harness
from epochcast.experiments.search.entrant import ENTRANTS, Entrant, Start, entrants
from epochcast.experiments.search.replay import Outcome, replay
from epochcast.experiments.search.result import TaskResult, ends_of
from epochcast.experiments.stopping.selection import random_orders
from epochcast.experiments.task_runs import TaskRuns


@dataclass(frozen=True)
class Settings:
    """What is replayed."""

    searches: tuple[str, ...] = ()  # by name; all that a collection allows if empty
    model: str = "default"
    orders: int = 5
    budget: int = 20  # in full runs
    seed: int = 0  # of the orders

    def __post_init__(self) -> None:
        for name in ("orders", "budget"):
            count(getattr(self, name), name)
        entrants(self.searches)


@dataclass(frozen=True)
class _Item:
    """One search in one order; what a worker is sent."""

    runs: TaskRuns
    search: str
    order: tuple[int, ...]
    number: int


def run(tasks: Sequence[TaskRuns], settings: Settings, harness: Harness = PLAIN) -> list[TaskResult]:
    """Every search in every order of every task; what the store holds is not computed again."""
    (model,) = contenders([settings.model])
    items: dict[str, _Item] = {}
    keys: list[dict[str, list[str]]] = []  # of each task, by search
    for runs in tasks:
        ends_of(runs)  # a task that cannot be scored is told now
        own = {entrant.name: dict(_items(runs, entrant, model, settings)) for entrant in _taking_part(runs, settings)}
        keys.append({name: list(found) for name, found in own.items()})
        items.update({key: item for found in own.values() for key, item in found.items()})
    results = harness.run(partial(replayed, model=model, budget=settings.budget), items).demand()
    return [
        TaskResult.of(
            runs,
            settings.budget * runs.horizon,
            {name: [Outcome(**results[key]) for key in own] for name, own in by_search.items()},
        )
        for runs, by_search in zip(tasks, keys, strict=True)
    ]


def replayed(item: _Item, model: Contender, budget: int) -> dict[str, Any]:
    """The outcome of one item, for the harness."""
    search = ENTRANTS[item.search].make(Start(item.runs, item.order, item.number, model))
    return dict(vars(replay(item.runs, search, budget * item.runs.horizon)))


def left_out(tasks: Sequence[TaskRuns], settings: Settings) -> list[str]:
    """Which searches cannot take part, in words, and why."""
    if settings.searches:
        return []  # then it is an error
    lines = {
        f"{runs.benchmark}: {entrant.name} is left out: {reason}": None
        for runs in tasks
        for entrant in entrants(())
        if (reason := entrant.obstacle(runs)) is not None
    }
    return list(lines)


def _taking_part(runs: TaskRuns, settings: Settings) -> list[Entrant]:
    """The entrants that can; one that was asked for by name and cannot is an error."""
    found = []
    for entrant in entrants(settings.searches):
        reason = entrant.obstacle(runs)
        if reason is None:
            found.append(entrant)
        elif settings.searches:
            raise reason
    return found


def _items(runs: TaskRuns, entrant: Entrant, model: Contender, settings: Settings) -> Iterator[tuple[str, _Item]]:
    orders = random_orders(len(runs), settings.orders, np.random.default_rng([settings.seed, 3]))
    who = f"{entrant.name}:{entrant.fingerprint(model)}" + (f"/{model.label}" if entrant.asks else "")
    for number, order in enumerate(orders):
        key = f"search/{who}/{settings.budget}/{runs.benchmark}/{runs.task}:{runs.digest}/{settings.seed}.{number}"
        yield key, _Item(runs, entrant.name, tuple(order.tolist()), number)
