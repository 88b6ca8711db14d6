"""`Snapshot`: the runs below a directory at one moment, one `Row` each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from epochcast.encode import Others
from epochcast.logs import Run, Series, Skipped
from epochcast.metric import Metric
from epochcast.stopping.decision import Decision, Final, Reason


class Verdict(Enum):
    """Where a run stands, the most hopeful first."""

    LEADING = "leading"  # it has the best value so far
    RUNNING = "running"  # it may still beat the best, or has too few values to tell
    FINISHED = "finished"  # it has reached the horizon
    HOPELESS = "hopeless"  # its chance to beat the best is too small
    DIVERGED = "diverged"  # its newest value is NaN or infinite
    WAITING = "waiting"  # it has no value yet
    UNUSABLE = "unusable"  # its values cannot be those of this metric


@dataclass(frozen=True)
class Row:
    """One run as it stands."""

    name: str
    path: Path
    verdict: Verdict
    step: float | None = None  # of the newest value
    value: float | None = None  # the newest, as logged
    best: float | None = None  # the best value so far
    final: Final | None = None
    probability: float | None = None  # that the best value it will reach beats the best of the other runs so far
    note: str | None = None  # why it cannot be used
    log_notes: tuple[str, ...] = ()  # what the reader of its log left out or changed
    rival: float | None = None  # the best value of the other runs so far
    reason: Reason | None = None  # for the verdict; None where there is nothing to judge yet
    series: Series | None = field(default=None, repr=False, compare=False)  # its values as logged
    logged: Run | None = field(default=None, repr=False, compare=False)  # what its log tells
    others: Others | None = field(default=None, repr=False, compare=False)  # the other runs that the model was shown
    config: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)  # that the model was told

    @property
    def expected(self) -> float | None:
        """The value it is expected to end at, or has reached where no forecast is made."""
        return self.best if self.final is None else self.final[0]

    def decision(self, horizon: int) -> Decision | None:
        """What to do with the run, and why; None where there is nothing to judge yet."""
        if self.reason is None or self.step is None:
            return None
        stop = self.reason.stops
        return Decision(stop, self.probability, self.rival, self.reason, self.final, self.step, horizon)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; what is not finite is None."""
        return {
            "run": self.name,
            "path": str(self.path),
            "verdict": self.verdict.value,
            "step": self.step,
            "value": self.value if self.value is not None and math.isfinite(self.value) else None,
            "best": self.best,
            "forecast": None if self.final is None else self.final._asdict(),
            "probability": self.probability,
            "note": self.note,
            "log_notes": list(self.log_notes),
        }


@dataclass(frozen=True)
class Snapshot:
    """All runs at one moment, those that can still win first."""

    monitor: str
    metric: Metric
    horizon: int
    rows: tuple[Row, ...]
    best: float | None  # the best value so far, the one to beat
    notes: tuple[str, ...] = ()  # one sentence each
    problem: str | None = None  # why there is nothing to show
    skipped: tuple[Skipped, ...] = ()  # files that were left out

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many runs have each verdict, in the order of the verdicts."""
        counted = Counter(row.verdict for row in self.rows)
        return {verdict: counted[verdict] for verdict in Verdict if counted[verdict]}

    @cached_property
    def common_file_name(self) -> str:
        """The end that the names of all runs share, such as /metrics.csv: it tells nothing."""
        endings = {row.name.rpartition("/")[2] for row in self.rows}
        return "/" + endings.pop() if len(endings) == 1 and all("/" in row.name for row in self.rows) else ""

    @property
    def steps_saved(self) -> float:
        """How many steps would not be run if the hopeless runs were stopped now."""
        hopeless = (row for row in self.rows if row.verdict is Verdict.HOPELESS)
        return sum(max(self.horizon - (row.step or 0.0), 0.0) for row in hopeless)

    @property
    def probability_of(self) -> str:
        """What the probability of a run is that of."""
        return f"its best value by step {self.horizon} beats the best of the other runs so far"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "monitor": self.monitor,
            "metric": self.metric.name,
            "kind": self.metric.name,  # the former name of "metric", which was that of "monitor"
            "horizon": self.horizon,
            "best": self.best,
            "runs": [row.to_dict() for row in self.rows],
            "probability_of": self.probability_of,
            "notes": list(self.notes),
            "left_out": [{"path": str(skipped.path), "reason": skipped.reason} for skipped in self.skipped],
            "problem": self.problem,
        }
