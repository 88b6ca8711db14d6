"""Rules that forecast nothing: `Patience` ends runs that stagnate, `NoStopping` none."""

from __future__ import annotations

import math
from typing import Any

from epochcast.checks import count, not_negative
from epochcast.metric import Metric
from epochcast.stopping.decision import Decision, Reason
from epochcast.stopping.search import Search


class Patience(Search):
    """Stops a run after `k` values in a row that do not improve on its own best value by more than `min_delta`."""

    rule = "patience"
    _settings = (*Search._settings, "k", "min_delta")

    def __init__(self, k: int, horizon: int, metric: Metric | str, *, min_delta: float = 0.0, **options: Any) -> None:
        self.k, self.min_delta = count(k, "k"), not_negative(min_delta, "min_delta")
        super().__init__(horizon, metric, **options)

    def _judge(self, step: float) -> Decision:
        return self._decision(step, Reason.NO_PROGRESS if self._values_without_gain() >= self.k else Reason.PROGRESSING)

    def _values_without_gain(self) -> int:
        sign = self.metric.sign
        record, waited = -math.inf, 0
        for value in self._values:
            if sign * value > record + self.min_delta:
                record, waited = sign * value, 0
            else:
                waited += 1
        return waited


class NoStopping(Search):
    """Lets every run finish: what other rules are measured against."""

    rule = "no_stopping"

    def _judge(self, step: float) -> Decision:
        return self._decision(step, Reason.NEVER)
