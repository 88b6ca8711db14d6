"""How often each ingredient of the prior appears: the rates of the table, or others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from epochcast.prior.real.ingredient import EVERY
from epochcast.prior.real.source import Mask, Source
from epochcast.prior.real.table import GEOMETRIC, ITERATIONS, TABLE


class RealPriorConfig(Mapping[str, float]):
    """A rate for each ingredient, a probability; those of the table unless said otherwise.

    >>> RealPriorConfig(dips=0.1)["dips"]
    0.1
    """

    def __init__(self, **rates: float) -> None:
        self._rates = {name: ingredient.rate for name, ingredient in TABLE.items()} | rates
        TABLE.check(self._rates)

    @classmethod
    def bare(cls, **rates: float) -> RealPriorConfig:
        """Nothing but the ingredients named."""
        return cls(**dict.fromkeys(TABLE, 0.0) | rates)

    def but(self, **rates: float) -> RealPriorConfig:
        """The same with some other rates."""
        return RealPriorConfig(**{**self._rates, **rates})

    def __getitem__(self, name: str) -> float:
        return self._rates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rates)

    def __len__(self) -> int:
        return len(self._rates)


def parent(name: str) -> str | None:
    """The ingredient or group whose runs the rate of another is a share of; None for shares of all runs."""
    return None if TABLE[name].of == EVERY else TABLE[name].of


def draw_ingredients(
    source: Source, config: RealPriorConfig, *, geometric: bool = False, iterations: bool = False
) -> dict[str, Mask]:
    """Which ingredients each run has and which groups it belongs to, [run] per name.

    `geometric` says that steps grow by about the same factor, `iterations` that they are no epochs.
    """
    of_grid = {GEOMETRIC: geometric, ITERATIONS: iterations}
    return TABLE.draw(source, config, {name: np.full(len(source), given) for name, given in of_grid.items()})
