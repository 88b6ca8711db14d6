"""`Space`: on which scale the entries of a configuration live, where that is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from epochcast.checks import shown
from epochcast.errors import InputError

Scale = Literal["linear", "log", "category"]
SCALES: tuple[str, ...] = get_args(Scale)


@dataclass(frozen=True, init=False)
class Space:
    """On which scales the entries of configurations live; those that are not named are recognised by their values.

    Args:
        scales: The scale of each entry: `"linear"`, `"log"` or `"category"`; for names that are no identifiers, such
            as those of nested entries, which are joined by dots.
        **named: The same by name.

    Raises:
        InputError: If a scale is unknown.

    Examples:
        >>> import epochcast as ec
        >>> ec.Space(lr="log", units="log", dropout="linear", optimizer="category")
        Space(dropout='linear', lr='log', optimizer='category', units='log')
        >>> ec.Space({"model.depth": "linear"}, lr="log").scale_of("model.depth")
        'linear'
    """

    scales: tuple[tuple[str, Scale], ...]  # sorted by name

    def __init__(self, scales: Mapping[str, Scale] | None = None, /, **named: Scale) -> None:
        if scales is not None and not isinstance(scales, Mapping):
            raise InputError(f"{shown(scales)} is no mapping of names to scales; write Space(lr='log')")
        told = {**(scales or {}), **named}
        for name, scale in told.items():
            if not isinstance(name, str) or scale not in SCALES:
                raise InputError(f"the scale of {shown(name)} is {shown(scale)}; choose from {', '.join(SCALES)}")
        object.__setattr__(self, "scales", tuple(sorted(told.items())))

    def __repr__(self) -> str:
        if all(name.isidentifier() for name, _ in self.scales):
            return f"Space({', '.join(f'{name}={scale!r}' for name, scale in self.scales)})"
        return f"Space({dict(self.scales)})"

    def scale_of(self, name: str) -> Scale | None:
        """The scale of an entry.

        Args:
            name: The name of the entry; those of nested ones are joined by dots.

        Returns:
            Its scale; None where it was not told.
        """
        return dict(self.scales).get(name)


def as_space(space: Space | Mapping[str, Scale] | None) -> Space | None:
    """A Space from itself or from a mapping of names to scales."""
    return space if space is None or isinstance(space, Space) else Space(space)
