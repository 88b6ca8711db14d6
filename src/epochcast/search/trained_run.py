"""`TrainedRun`: what a freeze-thaw search knows of one run that it has started."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from epochcast.curve import Curves, thinned
from epochcast.metric import Metric
from epochcast.others import FEWEST_VALUES
from epochcast.run import Run


@dataclass
class TrainedRun:
    """One run: its configuration, its values so far, and whether somebody is training it."""

    config: dict[str, Any]
    steps: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    until: int | None = None  # the step to which it is being trained; None while it is paused
    over: bool = False  # it has come to the horizon, or broke down

    @property
    def newest(self) -> float:
        """The newest step of which a value is known."""
        return self.steps[-1] if self.steps else 0.0

    @property
    def tells(self) -> bool:
        """Whether other runs can learn from it."""
        return sum(step > 0.0 for step in self.steps) >= FEWEST_VALUES

    @property
    def waits(self) -> bool:
        """Whether it can be gone on with."""
        return not self.over and self.until is None

    def broken(self, horizon: int) -> bool:
        """Whether it broke down: it is over, though it has not come to the horizon."""
        return self.over and self.newest < horizon

    def come_to(self, value: float) -> TrainedRun:
        """The same run, had it gone on to a value instead of breaking down."""
        steps = [self.newest + 1.0 + i for i in range(FEWEST_VALUES)]
        return TrainedRun(self.config, [*self.steps, *steps], [*self.values, *[value] * FEWEST_VALUES], over=True)

    def take(self, step: float, value: float, horizon: int) -> None:
        """Take in a value; a step that is known already, as after a restart, changes nothing."""
        if not math.isfinite(value):
            self.over, self.until = True, None
            return
        if not self.steps or step > self.steps[-1]:
            self.steps.append(step)
            self.values.append(value)
        self.over = self.newest >= horizon
        if self.over or (self.until is not None and self.newest >= self.until):
            self.until = None

    def best(self, metric: Metric) -> float:
        """The best value, where larger is better; minus infinity where there is none."""
        return max((metric.sign * value for value in self.values), default=-math.inf)

    def shown(self, most_values: int | None) -> Run:
        """The run as a forecaster takes it."""
        if most_values is None or len(self.values) <= most_values:
            return Run(self.values, self.steps, self.config)
        few = thinned(Curves.of(self.values, self.steps), most_values)
        return Run(few.values[0], few.steps[0], self.config)
