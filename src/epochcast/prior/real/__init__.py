"""A prior of the learning curves that people really have, each ingredient with a rate of its own."""

from __future__ import annotations

from epochcast.prior.real.config import RealPriorConfig
from epochcast.prior.real.grid import Grid, sample_grid
from epochcast.prior.real.sampler import RealDraw, sample

__all__ = ["Grid", "RealDraw", "RealPriorConfig", "sample", "sample_grid"]
