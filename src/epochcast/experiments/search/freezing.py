"""`Freezing`: the freeze-thaw search of this library, on recorded runs."""

from __future__ import annotations

import json
import math
from collections import defaultdict, deque
from collections.abc import Sequence

from epochcast.errors import InputError
from epochcast.experiments.search.search import Search
from epochcast.experiments.task_runs import Config, TaskRuns
from epochcast.forecaster import Forecaster
from epochcast.search.freeze_thaw import FreezeThaw, Step


class Freezing(Search):
    """A real `FreezeThaw` with its defaults, which chooses among the configurations that are recorded."""

    def __init__(self, runs: TaskRuns, order: Sequence[int], forecaster: Forecaster, seed: int) -> None:
        if runs.configs is None:
            raise InputError(f"{runs.benchmark} has no configurations to choose from; leave freeze-thaw out")
        configs = [runs.configs[run] for run in order]
        self._search = FreezeThaw(configs, runs.horizon, runs.metric, seed=seed, forecaster=forecaster)
        self._rows: list[int] = []  # which row each run of the search is
        self._waiting: defaultdict[str, deque[int]] = defaultdict(deque)  # rows by what they are configured with
        for run, config in zip(order, configs, strict=True):
            self._waiting[_key(config)].append(run)
        self._step: Step | None = None

    def ask(self) -> int | None:
        if self._step is None:
            self._step = self._search.ask()
            if self._step is None:
                return None
            if self._step.run == len(self._rows):
                self._rows.append(self._waiting[_key(self._step.config)].popleft())
        return self._rows[self._step.run]

    def tell(self, run: int, step: int, value: float) -> bool:
        assert self._step is not None
        self._search.tell(self._step.run, step, value)
        if step == self._step.until or not math.isfinite(value):
            self._step = None
        return False


def _key(config: Config) -> str:
    return json.dumps(config, sort_keys=True)
