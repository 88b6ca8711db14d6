"""`SearchSpace`: the configurations that a search may try, drawn from domains or given one by one."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from epochcast.checks import shown
from epochcast.errors import ConfigError, InputError
from epochcast.search.domain import Domain, domain_of, from_plain, to_plain
from epochcast.space import Scale, Space

Config = dict[str, Any]
_MOST_DEPTH = 32  # of entries inside others
Path = tuple[str, ...]  # names of nested entries, the outermost first


class SearchSpace(ABC):
    """Where new configurations come from."""

    @abstractmethod
    def candidates(self, count: int, rng: np.random.Generator, started: Sequence[Config]) -> list[Config]:
        """Up to so many configurations that may be started next, where these have been already."""

    @property
    @abstractmethod
    def scales(self) -> Space | None:
        """On which scales their entries live."""

    @abstractmethod
    def to_plain(self) -> Any:
        """JSON types."""


class Domains(SearchSpace):
    """Any configuration whose entries lie in their domains."""

    def __init__(self, domains: Mapping[Path, Domain]) -> None:
        if not domains:
            raise InputError("the space has no entries; name at least one, such as {'lr': (1e-5, 0.1, 'log')}")
        self._domains = dict(domains)

    def candidates(self, count: int, rng: np.random.Generator, started: Sequence[Config]) -> list[Config]:
        shares = rng.random((count, len(self._domains)))
        return [self._at(row.tolist()) for row in shares]

    def _at(self, shares: list[float]) -> Config:
        config: Config = {}
        for (path, domain), share in zip(self._domains.items(), shares, strict=True):
            inner = config
            for name in path[:-1]:
                inner = inner.setdefault(name, {})
            inner[path[-1]] = domain.at(share)
        return config

    @property
    def scales(self) -> Space | None:
        told = {".".join(path): domain.scale for path, domain in self._domains.items() if domain.scale is not None}
        return Space(told) if told else None

    def to_plain(self) -> Any:
        return {"domains": [[list(path), to_plain(domain)] for path, domain in self._domains.items()]}


class Listed(SearchSpace):
    """Configurations given one by one, each of which is started once: the arms of a bandit."""

    def __init__(self, configs: list[Any]) -> None:
        if not configs:
            raise InputError("the list of configurations is empty; give at least one")
        for config in configs:
            if not isinstance(config, Mapping):
                raise InputError(f"{shown(config)} in the list of configurations is no mapping of names to values")
        self._configs = [dict(config) for config in configs]
        try:
            self._keys = [_key(config) for config in self._configs]
        except (TypeError, ValueError) as error:
            raise InputError(f"the list of configurations cannot be saved: {error}; give plain values") from None

    def candidates(self, count: int, rng: np.random.Generator, started: Sequence[Config]) -> list[Config]:
        taken = Counter(map(_key, started))
        left = []
        for config, key in zip(self._configs, self._keys, strict=True):
            if taken[key] > 0:
                taken[key] -= 1
            else:
                left.append(config)
        chosen = np.sort(rng.permutation(len(left))[:count])
        return [dict(left[i]) for i in chosen]

    @property
    def scales(self) -> Space | None:
        return None

    def to_plain(self) -> Any:
        return {"configs": self._configs}


def _key(config: Config) -> str:
    """What tells one configuration from another."""
    return json.dumps(config, sort_keys=True, allow_nan=False)


def space_of(given: Any) -> SearchSpace:
    """A space from what users have: a mapping of names to domains, a ConfigSpace, or a list of configurations."""
    if isinstance(given, SearchSpace):
        return given
    if isinstance(given, (list, tuple)):
        return Listed(list(given))
    if not isinstance(given, Mapping):
        raise InputError(
            f"space={shown(given)} must be a mapping of names to domains, such as {{'lr': (1e-5, 0.1, 'log')}}, or a "
            "list of configurations"
        )
    return Domains(dict(_domains_in(given, ())))


def _domains_in(given: Mapping[Any, Any], outside: Path) -> Iterator[tuple[Path, Domain]]:
    if len(outside) > _MOST_DEPTH:
        raise InputError(f"space={shown(given)} is nested more than {_MOST_DEPTH} deep; give its entries side by side")
    for name, domain in given.items():
        path = (*outside, str(name))
        if isinstance(domain, Mapping):
            yield from _domains_in(domain, path)
            continue
        try:
            yield path, domain_of(domain)
        except InputError as error:
            raise InputError(f"{'.'.join(path)}: {error}") from None


def known_scales(space: Mapping[Any, Any], depth: int = 0) -> dict[str, Scale]:
    """On which scales entries live, of a space of another package that may hold anything else beside its domains."""
    scales: dict[str, Scale] = {}
    if not isinstance(space, Mapping):
        raise InputError(f"space={shown(space)} must be a mapping of names to domains, as the tuner has it")
    if depth > _MOST_DEPTH:
        return scales
    for name, given in space.items():
        if isinstance(given, Mapping):
            inner = {"": given["grid_search"]} if given.keys() == {"grid_search"} else given  # Ray's list of choices
            scales.update({f"{name}.{key}".rstrip("."): scale for key, scale in known_scales(inner, depth + 1).items()})
            continue
        with suppress(InputError):  # a function, or a distribution without ends: its values will tell
            scale = domain_of(given).scale
            if scale is not None:
                scales[str(name)] = scale
    return scales


def space_from_plain(data: Any) -> SearchSpace:
    """A space that `to_plain` has written."""
    if isinstance(data, dict) and data.keys() == {"configs"} and isinstance(data["configs"], list):
        return Listed(data["configs"])
    if not (isinstance(data, dict) and data.keys() == {"domains"} and isinstance(data["domains"], list)):
        raise ConfigError(f"{shown(data)} is no space of a saved search")
    domains: dict[Path, Domain] = {}
    for item in data["domains"]:
        whole = isinstance(item, list) and len(item) == 2 and isinstance(item[0], list) and item[0]
        if not whole or not all(isinstance(name, str) for name in item[0]):
            raise ConfigError(f"{shown(item)} is no entry of the space of a saved search")
        domains[tuple(item[0])] = from_plain(item[1])
    return Domains(domains)
