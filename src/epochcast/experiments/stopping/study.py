"""Experiment 3 over whole collections: tasks as items of the harness, cached by everything that they depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Array
from epochcast.errors import InputError
from epochcast.experiments.contenders import contenders
from epochcast.experiments.harness import PLAIN, Harness, fingerprint
from epochcast.experiments.stopping.replay import Row, Settings, evaluate_task, rules_of
from epochcast.experiments.task_runs import TaskRuns

BENCHMARKS = ("lcbench", "taskset", "nasbench201")


@dataclass(frozen=True)
class TaskResult:
    """One task: a row and a line of mean regret per rule, in the same order."""

    rows: list[Row]
    epochs: NDArray[np.int64]  # [point]
    regret: Array  # [rule, point]
    error: Array  # [rule, point]: one standard error

    @classmethod
    def of(cls, result: dict[str, Any]) -> TaskResult:
        rows = [Row(**row) for row in result["rows"]]
        return cls(rows, np.asarray(result["epochs"]), np.asarray(result["regret"]), np.asarray(result["error"]))

    @property
    def benchmark(self) -> str:
        return self.rows[0].benchmark

    @property
    def task(self) -> str:
        return self.rows[0].task


def files_in(data: Path, names: Sequence[str] | None = None) -> list[Path]:
    """The `.npz` collections of a folder by name, by default the usual ones where it has any; else the path itself."""
    found = [data / f"{name}.npz" for name in (BENCHMARKS if names is None else names)]
    present = [path for path in found if path.is_file()]
    if data.is_dir() and not present and names is not None:
        raise InputError(f"{data} holds none of {', '.join(path.name for path in found)}")
    return present or [data]


def run(tasks: Sequence[TaskRuns], model: str | Path, settings: Settings, harness: Harness = PLAIN) -> list[TaskResult]:
    """All rules on all tasks; tasks that the store holds are not computed again."""
    (contender,) = contenders([str(model)])
    rules = [asdict(rule) for rule in rules_of(settings.confidences)]
    version = fingerprint({"model": contender.fingerprint, "rules": rules, **asdict(settings)})
    items = {_key(runs, contender.label, version): runs for runs in tasks}
    function = partial(evaluate_task, model=contender, settings=settings)
    return [TaskResult.of(result) for result in harness.run(function, items).demand().values()]


def _key(runs: TaskRuns, model: str, version: str) -> str:
    return f"stopping/{model}:{version}/{runs.benchmark}/{runs.task}:{runs.digest}"
