"""Simple engines to measure others against: the last value, a fitted power law, a Gaussian process of past curves."""

from epochcast.baselines.empirical_gp import EmpiricalGp
from epochcast.baselines.last_value import LastValue
from epochcast.baselines.power_law import PowerLaw

__all__ = ["EmpiricalGp", "LastValue", "PowerLaw"]
