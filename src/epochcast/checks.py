"""Arguments, checked: a wrong type or size is an `InputError` that names what was given."""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from epochcast.errors import InputError

MOST_STEPS = 10**15  # of a run: beyond, floats no longer tell one step from the next
MOST_THREADS = 256  # each takes memory, and no network that ships keeps more of them busy
_LONGEST_SHOWN = 200  # characters of a name or a path in a message


def shown(item: Any) -> str:
    """A short text for an error message, whatever the item is."""
    try:
        return reprlib.repr(item)
    except Exception:  # an int of 5,000 digits, a list nested too deep, an object that cannot say what it is
        return f"<{type(item).__name__}>"


def cut(text: object) -> str:
    """A name or a path for an error message, cut where it is too long to read."""
    whole = str(text)
    return whole if len(whole) <= _LONGEST_SHOWN else f"{whole[:_LONGEST_SHOWN]}..."


def name_of(item: Any, what: str) -> str:
    """A text that names something."""
    if not isinstance(item, str):
        raise InputError(f"{what}={shown(item)} must be a name, as text")
    return item


def path_of(item: Any, what: str) -> Path:
    """A path, which is not the folder of the process by mistake."""
    if not isinstance(item, (str, os.PathLike)) or item == "":
        raise InputError(f"{what}={shown(item)} must be the path of a file or a folder")
    try:
        return Path(item)
    except TypeError:  # of bytes
        raise InputError(f"{what}={shown(item)} must be a path as text") from None


def number(item: Any, what: str) -> float:
    """A float from any kind of number; text and truth values are mistakes that should be seen."""
    if not isinstance(item, (str, bytes, bool, np.bool_)):
        try:
            return float(item.detach() if hasattr(item, "detach") else item)  # torch warns of gradients
        except OverflowError:
            raise InputError(f"{what}={shown(item)} is too large") from None
        except Exception:  # numbers of other libraries fail each in a way of their own
            pass
    raise InputError(f"{what}={shown(item)} is not a number")


def is_number(item: Any) -> TypeGuard[float]:
    return isinstance(item, (int, float, np.integer, np.floating)) and not isinstance(item, bool)


def is_finite(item: Any) -> TypeGuard[float]:
    """Whether this is a finite number, and not too long for a float."""
    try:
        return is_number(item) and math.isfinite(item)
    except OverflowError:
        return False


def finite(item: Any, what: str) -> float:
    value = number(item, what)
    if not math.isfinite(value):
        raise InputError(f"{what}={value} must be finite")
    return value


def known(item: Any, what: str) -> float:
    """A number that may be infinite."""
    value = number(item, what)
    if math.isnan(value):
        raise InputError(f"{what}={shown(item)} must be a number")
    return value


def share(item: Any, what: str, usual: float | None = None) -> float:
    """A part of one."""
    value = number(item, what)
    if not 0.0 < value < 1.0:  # false for NaN too
        hint = "" if usual is None else f"; {usual:g} is usual"
        raise InputError(f"{what}={value} must lie between 0 and 1, both excluded{hint}")
    return value


def not_negative(item: Any, what: str) -> float:
    value = number(item, what)
    if not 0.0 <= value < math.inf:  # false for NaN too
        raise InputError(f"{what}={value} must be finite and not negative")
    return value


def count(item: Any, what: str, least: int = 1, most: int = MOST_STEPS) -> int:
    """A whole number of things."""
    whole = isinstance(item, (int, np.integer)) and not isinstance(item, bool)
    if not whole or not least <= item <= most:
        raise InputError(f"{what}={shown(item)} must be a whole number, {least} to {most:g}")
    return int(item)


def generator(seed: Any) -> np.random.Generator:
    """Random numbers from a seed; fresh ones from None."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InputError(f"seed={shown(seed)} must be a whole number, not negative, or None") from None


def room_for(shape: tuple[int, ...], what: str) -> NDArray[np.float64]:
    """An array to be filled, if the memory has room for it."""
    try:
        return np.empty(shape)
    except (MemoryError, ValueError):  # more than there is, more than can be addressed
        gigabytes = 8.0 * math.prod(shape) / 1e9
        raise InputError(f"{what} take {gigabytes:.3g} GB; ask for fewer at a time") from None


def horizon_of(item: Any) -> int:
    """The last step of a run; 50.0 will do, 50.5 will not."""
    value = number(item, "horizon")
    if not (value.is_integer() and 2 <= value <= MOST_STEPS):  # false for NaN and infinity too
        raise InputError(f"horizon={shown(item)} must be a whole number of steps, 2 to {MOST_STEPS:g}")
    return int(value)


def flag(item: Any, what: str) -> bool:
    if not isinstance(item, (bool, np.bool_)):
        raise InputError(f"{what}={shown(item)} must be True or False")
    return bool(item)


def choices(items: Any, what: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Some of some words, in a list."""
    listed = isinstance(items, Collection) and not isinstance(items, str)
    if not listed or not all(isinstance(item, str) and item in known for item in items):
        raise InputError(f"{what}={shown(items)} is unknown; give a list of some of {', '.join(known)}")
    return tuple(items)


def choice(item: Any, what: str, known: tuple[str, ...]) -> str:
    """One of some words."""
    if not isinstance(item, str) or item not in known:
        raise InputError(f"{what}={shown(item)} is unknown; choose {' or '.join(map(repr, known))}")
    return str(item)
