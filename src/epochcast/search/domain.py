"""`Domain`: what one entry of a configuration may be: a `Range` of numbers or a `Choice`.

Those of Optuna, Ray Tune, Syne Tune and ConfigSpace are recognised by what they are called and hold; none of these
packages is imported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epochcast.checks import finite, is_finite, is_number, shown
from epochcast.errors import ConfigError, InputError
from epochcast.space import Scale

_FORMS = "(low, high), (low, high, 'log'), a list of choices or one value"


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included, on a linear or a logarithmic scale."""

    low: float
    high: float
    log: bool = False
    whole: bool = False
    step: float | None = None  # counted from `low`

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            finite(getattr(self, name), name)
        if not self.low <= self.high:
            raise InputError(f"a range from {self.low:g} to {self.high:g} is empty; give (low, high)")
        if self.log and self.low <= 0.0:
            raise InputError(f"a logarithmic range cannot begin at {self.low:g}; give a low above 0 or leave 'log' out")
        if self.step is not None and not 0.0 < self.step < math.inf:
            raise InputError(f"step={self.step} of a range must be positive")

    @property
    def scale(self) -> Scale | None:
        return "log" if self.log else "linear"

    def at(self, share: float) -> float | int:
        """The number at a share, 0 to less than 1, of the range."""
        if self.whole and self.step is None:
            low, high = self.low - 0.5 if self.log else self.low, self.high + (0.5 if self.log else 1.0)
            found = _between(low, high, share, self.log)
            return int(min(max(math.floor(found + 0.5) if self.log else math.floor(found), self.low), self.high))
        if self.step is None:
            return min(max(_between(self.low, self.high, share, self.log), self.low), self.high)
        count = math.floor((self.high - self.low) / self.step * (1.0 + 1e-12)) + 1
        if self.log:
            nearest = round((_between(self.low, self.high, share, True) - self.low) / self.step)
        else:
            nearest = math.floor(share * count)
        number = self.low + min(nearest, count - 1) * self.step
        return round(number) if self.whole else number


@dataclass(frozen=True)
class Choice:
    """One of several texts, numbers, truth values or None."""

    options: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.options:
            raise InputError("a choice among nothing cannot be made; give at least one option")
        for option in self.options:
            if not (option is None or isinstance(option, (str, bool)) or is_finite(option)):
                raise InputError(
                    f"the choice {shown(option)} is no number, text, truth value or None; choose by name and look the "
                    "rest up"
                )

    @property
    def scale(self) -> Scale | None:
        """Choices among numbers are left to be told from their values."""
        return None if all(is_number(option) for option in self.options) else "category"

    def at(self, share: float) -> Any:
        """The option at a share, 0 to less than 1, of them."""
        return self.options[min(int(share * len(self.options)), len(self.options) - 1)]


Domain = Range | Choice


def domain_of(given: Any) -> Domain:
    """A domain from a plain value, or from one of another package."""
    if isinstance(given, (Range, Choice)):
        return given
    if given is None or isinstance(given, (str, bool)) or is_number(given):
        return Choice((given,))
    if isinstance(given, tuple):
        return _range(given)
    if isinstance(given, (list, range)):
        return Choice(tuple(given))
    found = _foreign(given)
    if found is None:
        raise InputError(f"{shown(given)} is no domain that is known; give {_FORMS}")
    return found


def _range(given: tuple[Any, ...]) -> Range:
    """(low, high), perhaps with a scale; of two whole numbers it holds whole numbers."""
    log = len(given) == 3 and given[2] == "log"
    if not (len(given) == 2 or (len(given) == 3 and given[2] in ("log", "linear"))):
        raise InputError(f"{shown(given)} is no range; give {_FORMS}")
    low, high = (finite(bound, "a bound") for bound in given[:2])
    return Range(low, high, log, whole=all(isinstance(bound, int) for bound in given[:2]))


def _foreign(given: Any) -> Domain | None:
    """A domain of another package, by what it holds."""
    kind = type(given).__name__
    for name in ("choices", "categories", "sequence"):  # Optuna and ConfigSpace; Ray and Syne Tune; ordinal ones
        options = getattr(given, name, None)
        if isinstance(options, Sequence) and not isinstance(options, str):
            return Choice(tuple(options))
    if hasattr(given, "low") and hasattr(given, "high"):  # Optuna
        whole = kind.startswith("Int")
        step = given.step if not (whole and given.step == 1) else None
        return Range(given.low, given.high, bool(given.log), whole, step)
    if hasattr(given, "lower") and hasattr(given, "upper"):
        return _of_bounds(given, kind)
    return Choice((given.value,)) if kind == "Constant" else None


def _of_bounds(given: Any, kind: str) -> Domain | None:
    """A range of Ray Tune, Syne Tune or ConfigSpace."""
    whole = "Integer" in kind
    if kind.startswith(("Uniform", "FiniteRange")):  # ConfigSpace; Syne Tune's of finite size
        if hasattr(given, "values") and not callable(given.values):
            return Choice(tuple(given.values))
        log = bool(getattr(given, "log", False))
        return Range(given.lower, given.upper, log, whole)
    if kind not in ("Float", "Integer"):
        return None
    sampler, step = given.get_sampler(), None
    if hasattr(sampler, "q"):
        sampler, step = sampler.sampler, sampler.q
    name = type(sampler).__name__.strip("_")
    if name not in ("Uniform", "LogUniform"):
        return None
    upper = given.upper
    if whole and type(given).__module__.startswith("ray.") and step is None:
        upper -= 1  # Ray's whole numbers end before it
    return Range(given.lower, upper, name == "LogUniform", whole, step if step != 1 or not whole else None)


def _between(low: float, high: float, share: float, log: bool) -> float:
    if log:
        return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    return low + share * (high - low)


def to_plain(domain: Domain) -> dict[str, Any]:
    """A domain in JSON types."""
    return {"options": list(domain.options)} if isinstance(domain, Choice) else dict(vars(domain))


def from_plain(data: Any) -> Domain:
    """A domain that `to_plain` has written."""
    if isinstance(data, Mapping) and data.keys() == {"options"} and isinstance(data["options"], list):
        return Choice(tuple(data["options"]))
    names = {"low", "high", "log", "whole", "step"}
    if not isinstance(data, Mapping) or data.keys() != names:
        raise ConfigError(f"{shown(data)} is no domain of a saved search")
    if not all(isinstance(data[name], bool) for name in ("log", "whole")):
        raise ConfigError(f"{shown(data)} is no domain of a saved search")
    return Range(**data)
