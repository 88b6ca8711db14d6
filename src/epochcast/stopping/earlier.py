"""`Earlier`: what a search keeps of the runs before: other runs of the same task, to a model that reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epochcast.checks import finite, shown
from epochcast.curve import Curves, clip_to_hard_bounds, thinned
from epochcast.errors import ConfigError, InputError
from epochcast.features.configuration import Entry, entries_of
from epochcast.metric import Metric
from epochcast.others import FEWEST_VALUES, MOST_RUNS, newest_and_best
from epochcast.run import Run
from epochcast.stopping.state import fields, listed, steps_of

Config = dict[str, Entry]


class Earlier:
    """The newest and the best of the runs before, oldest first: as many as a model reads."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def add(
        self,
        metric: Metric,
        steps: Sequence[float],
        values: Sequence[float],
        config: Config | None,
        most_values: int | None = None,
    ) -> None:
        """Keep a run that is over, with at most so many of its values, if it shows anything."""
        if sum(step > 0.0 for step in steps) < FEWEST_VALUES:
            return
        curve = Curves.of(values, steps)
        few = curve if most_values is None else thinned(curve, most_values)
        self.runs.append(Run(few.values[0].tolist(), few.steps[0].tolist(), config))
        if len(self.runs) > MOST_RUNS:
            every: list[Any] = [run.values for run in self.runs]
            self.runs = [self.runs[i] for i in newest_and_best(metric, Curves.of(every))]

    def to_list(self) -> list[dict[str, Any]]:
        """Plain JSON types."""
        return [{"steps": run.steps, "values": run.values, "config": run.config} for run in self.runs]

    @classmethod
    def from_list(cls, data: Any, horizon: int, metric: Metric) -> Earlier:
        """The runs that `to_list` has saved."""
        saved = listed(data, "earlier runs")
        if len(saved) > MOST_RUNS:
            raise ConfigError(f"{len(saved)} earlier runs are more than the {MOST_RUNS} that are kept")
        earlier = cls()
        for item in saved:
            run = fields(item, ("steps", "values", "config"), "an earlier run")
            steps = steps_of(run["steps"], run["values"], horizon)
            values = [finite(value, "value") for value in run["values"]]
            clip_to_hard_bounds(Curves.of(values, steps), metric)
            before = len(earlier.runs)
            earlier.add(metric, steps, values, config_of(run["config"]))
            if len(earlier.runs) == before:
                raise ConfigError(f"an earlier run of {len(steps)} values shows nothing and is never kept")
        return earlier


def plain_config(config: Mapping[str, Any] | None) -> Config | None:
    """What can be read of a configuration, by name, in plain types."""
    if config is None:
        return None
    if not isinstance(config, Mapping):
        raise InputError(f"config={shown(config)} must be a mapping of names to values, such as {{'lr': 0.001}}")
    return dict(entries_of(config))


def config_of(data: Any) -> Config | None:
    """A configuration from a saved state."""
    if data is None:
        return None
    if not isinstance(data, dict) or dict(entries_of(data)) != data:
        raise ConfigError(f"{shown(data)} is no configuration of names and numbers, texts or truth values")
    return data
