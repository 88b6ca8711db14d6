"""A mean and its standard error, as tables show it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from epochcast.distributions import Array


class Estimate(NamedTuple):
    """A mean and its standard error; unknown, and shown as nothing, for fewer than two values."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: Array) -> Estimate:
        if len(values) < 2:
            return cls(float(values.mean()) if len(values) else math.nan, math.nan)
        return cls(float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))))

    def __str__(self) -> str:
        return "" if math.isnan(self.error) else f"{self.mean:.3f} ± {self.error:.3f}"

    @property
    def signed(self) -> str:
        return "" if math.isnan(self.error) else f"{self.mean:+.3f} ± {self.error:.3f}"


def flat(row: Any) -> dict[str, Any]:
    """The fields of a row by name, an estimate as two of them: `name`, and `name_error` behind it."""
    fields: dict[str, Any] = {}
    for name, item in vars(row).items():
        if isinstance(item, Estimate):
            fields[name], fields[f"{name}_error"] = item
        else:
            fields[name] = item
    return fields


def standard_errors(lines: Array) -> Array:
    """Of the mean of lines [line, point] at each point; nothing is known of a single one, which is told as 0."""
    count = len(lines)
    return lines.std(axis=0, ddof=1) / math.sqrt(count) if count > 1 else np.zeros(lines.shape[1])
