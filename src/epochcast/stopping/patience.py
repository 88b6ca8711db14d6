"""Rules that make no forecasts, to compare with: `Patience` stops by stagnation, `NoStopping` never."""

from __future__ import annotations

import math
from typing import Any

from epochcast.checks import count, not_negative
from epochcast.metric import Metric
from epochcast.stopping.decision import Decision, Reason
from epochcast.stopping.search import Search


class Patience(Search):
    """Stops a run that has not improved on its own best value for a while, as early stopping mostly does.

    Args:
        k: After how many values in a row without a gain it stops.
        horizon: The last step of a run.
        metric: What is measured: a name or a `Metric`.
        min_delta: What counts as a gain: more than this.
        **options: `best`, `target`, `dry_run` and `non_finite`, as for [`Stopper`][epochcast.Stopper].

    Raises:
        InputError: If an option cannot be used.

    Examples:
        >>> rule = Patience(2, horizon=50, metric="accuracy")
        >>> [rule.update(step, 0.5).stop for step in (1, 2, 3)]
        [False, False, True]
    """

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
    """Lets every run finish: what other rules are measured against.

    Its arguments are `horizon`, `metric`, `best`, `target`, `dry_run` and `non_finite`, as for
    [`Stopper`][epochcast.Stopper].

    Examples:
        >>> NoStopping(horizon=50, metric="accuracy").update(1, 0.1).stop
        False
    """

    rule = "no_stopping"

    def _judge(self, step: float) -> Decision:
        return self._decision(step, Reason.NEVER)
