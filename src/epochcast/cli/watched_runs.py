"""The options of commands that look at all runs below a directory, and the `Watcher` that they describe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from epochcast.cli.metric import MetricOptions, watched_metric
from epochcast.cli.options import HorizonOption, ModelOption, ScheduleOption, StepColumnOption, number

if TYPE_CHECKING:
    from epochcast.watch import Watcher


@dataclass(frozen=True)
class WatchedRuns:
    """How the runs of a directory are read, forecast and judged."""

    horizon: HorizonOption
    confidence: Annotated[float, number("a run is hopeless if it loses with this probability")] = 0.95
    best: Annotated[float | None, number("a value to beat from elsewhere")] = None
    step_column: StepColumnOption = None
    schedule: ScheduleOption = None
    model: ModelOption = "default"

    def watcher(self, directory: Path, said: MetricOptions, **options: Any) -> Watcher:
        """What looks at the runs below a directory; further options are those of `Watcher`."""
        from epochcast.forecaster import Forecaster
        from epochcast.watch import Watcher

        monitor, metric = watched_metric(said)
        forecaster = Forecaster(self.model, schedule=self.schedule)
        judged: dict[str, Any] = {"confidence": self.confidence, "best": self.best, "step_column": self.step_column}
        return Watcher(directory, monitor, metric, self.horizon, forecaster=forecaster, **judged, **options)
