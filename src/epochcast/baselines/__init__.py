"""Simple engines to measure others against: the last value, a fitted power law, a Gaussian process of past curves."""

from __future__ import annotations

from epochcast.baselines.empirical_gp import EmpiricalGp
from epochcast.baselines.last_value import LastValue
from epochcast.baselines.power_law import PowerLaw
from epochcast.errors import InputError

__all__ = ["BASELINES", "EmpiricalGp", "LastValue", "PowerLaw", "load_baseline"]

BASELINES = ("last-value", "power-law", "empirical-gp")


def load_baseline(name: str) -> LastValue | PowerLaw | EmpiricalGp:
    """A baseline by its name; without a context empirical-gp knows the curves that ship."""
    if name == "last-value":
        return LastValue()
    if name == "power-law":
        return PowerLaw()
    if name == "empirical-gp":
        return EmpiricalGp()
    raise InputError(f"baseline {name!r} is unknown; choose from {', '.join(BASELINES)}")
