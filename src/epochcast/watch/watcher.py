"""`Watcher`: looks at all runs below a directory again and again, and forecasts those that have grown."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import numpy as np

from epochcast.curve import Curves, check_horizon
from epochcast.errors import EpochcastError, StrongContradictionWarning
from epochcast.forecaster import Forecaster
from epochcast.logs import Findings, Run
from epochcast.logs.growing import GrowingLogs
from epochcast.logs.run import list_names, shown
from epochcast.metric import Metric, as_metric
from epochcast.question import Engine
from epochcast.stopping.decision import COVERAGE, Reason, chance_to_beat, check_confidence, reason_for
from epochcast.watch.recall import MOST_BYTES, Recall
from epochcast.watch.snapshot import Row, Snapshot, Verdict
from epochcast.watch.watched import Group, Watched

_GROUP = 64  # runs of about one length that are forecast in one call: a batch is padded to its longest
_RECALLED_GROUP = 1024  # of runs that are read on from what is known of them, which sorts them by length itself
_LEVELS = (0.5, 0.5 - COVERAGE / 2, 0.5 + COVERAGE / 2)
_VERDICTS = {
    Reason.LEADING: Verdict.LEADING,
    Reason.PROMISING: Verdict.RUNNING,
    Reason.UNLIKELY: Verdict.HOPELESS,
}


class Watcher:
    """All runs below a directory, judged against each other.

    `column` names the metric in the logs, `metric` says of what kind it is. A run leads if it has the best value so
    far; it is hopeless if the chance that its value at the horizon beats the best of the other runs is at most
    1 - `confidence`. `best` is a further value to beat, known from elsewhere. Of runs that may grow, up to
    `most_bytes` are kept in memory, so that only their new values cost anything at the next look.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        column: str,
        metric: Metric | str,
        horizon: int,
        *,
        confidence: float = 0.95,
        best: float | None = None,
        step_column: str | None = None,
        forecaster: Forecaster | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.metric = as_metric(metric)
        check_horizon(Curves.of([]), horizon)
        check_confidence(confidence)
        self.column = column
        self.horizon = int(horizon)
        self.confidence = confidence
        self.known_best = best
        self.most_bytes = most_bytes
        self.logs = GrowingLogs(root, step_column=step_column)
        self.runs_forecast = 0  # so far, each time counted
        self._forecaster = forecaster
        self._recall: Recall | None = None
        self._watched: dict[tuple[Path, str], Watched] = {}

    def refresh(self) -> Snapshot:
        """Read and forecast what has changed, and judge every run anew."""
        findings = self.logs.read()
        watched = [self._remembered(run) for run in findings if self.column in run.metrics]
        self._watched = {run.key: run for run in watched}
        runs = list(self._watched.values())
        self._forecast_all([run for run in runs if run.fixed_verdict(self.horizon) is None])
        rows = tuple(sorted(self._rows(runs), key=self._order))
        best = self._best_of([self.known_best, *(row.best for row in rows)])
        problem = self._problem(findings, rows)
        notes = () if problem else tuple(self._notes(findings, runs))
        return Snapshot(self.column, self.metric, self.horizon, rows, best, notes, problem)

    # --- forecasts -----------------------------------------------------------------------------------------------

    def _remembered(self, run: Run) -> Watched:
        known, series = self._watched.get((run.path, run.name)), run.metrics[self.column]
        return known if known is not None and known.holds(series) else Watched.of(run, series, self.metric)

    def _forecast_all(self, open_runs: list[Watched]) -> None:
        """Forecast those of the open runs that have changed."""
        if self._recall is not None:
            self._recall.forget_all_but({run.key for run in open_runs})
        changed = [run for run in open_runs if run.group is None]
        if not changed:
            return
        if self._forecaster is None:
            self._forecaster = Forecaster()
        engine = self._forecaster.engine
        if self._recall is None and isinstance(engine, StreamEngine):
            self._recall = Recall(engine, self.most_bytes)
        for group in _groups(changed, engine):
            self._forecast(group, self._forecaster)

    def _forecast(self, runs: list[Watched], forecaster: Forecaster) -> None:
        """Forecast runs in one call; if that fails one by one, so that a bad one does not hide the others."""
        values, steps = [run.values for run in runs], [run.steps for run in runs]
        if self._recall is not None:
            forecaster = Forecaster.around(self._recall.about([run.key for run in runs]))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", StrongContradictionWarning)  # it was noted when the run was read
                forecast = forecaster.forecast(values, self.horizon, self.metric, steps, at=[self.horizon])
        except EpochcastError as error:
            if len(runs) == 1:
                runs[0].error = str(error)
                return
            for run in runs:
                self._forecast([run], forecaster)
            return
        group = Group(forecast, forecast.final.quantile(_LEVELS))
        for position, run in enumerate(runs):
            run.group, run.position = group, position
        self.runs_forecast += len(runs)

    # --- judgement -----------------------------------------------------------------------------------------------

    def _rows(self, runs: list[Watched]) -> Iterator[Row]:
        bests = [run.best(self.metric) for run in runs]
        rivals = self._rivals(bests)
        chances = self._chances(runs, rivals)
        for run, best, rival, chance in zip(runs, bests, rivals, chances, strict=True):
            verdict, final = run.fixed_verdict(self.horizon), None
            if verdict is None and run.group is not None:
                leads = best is not None and rival is not None and self._better(best, rival)
                verdict = Verdict.RUNNING if chance is None else _VERDICTS[reason_for(chance, leads, self.confidence)]
                median, low, high = run.group.finals[run.position].tolist()
                final = (median, low, high)
            yield Row(
                name=run.run.name,
                path=run.run.path,
                verdict=verdict or Verdict.UNUSABLE,
                step=float(run.series.steps[-1]) if len(run.series.steps) else None,
                value=float(run.series.values[-1]) if len(run.series.steps) else None,
                best=best,
                final=final,
                probability=chance if final else None,
                note=run.error,
            )

    def _rivals(self, bests: list[float | None]) -> list[float | None]:
        """For each run, the best value of the others."""
        first = self._best_of([self.known_best, *bests])
        if first is None or first not in bests:
            return [first] * len(bests)
        leader = bests.index(first)
        second = self._best_of([self.known_best, *bests[:leader], *bests[leader + 1 :]])
        return [second if position == leader else first for position in range(len(bests))]

    def _chances(self, runs: list[Watched], rivals: list[float | None]) -> list[float | None]:
        """For each run, its chance to beat its rival: asked of each group at once, as rivals change for all."""
        groups = {id(run.group): run.group for run in runs if run.group is not None}
        targets = {key: np.zeros(len(group.forecast)) for key, group in groups.items()}
        for run, rival in zip(runs, rivals, strict=True):
            if run.group is not None and rival is not None:
                targets[id(run.group)][run.position] = rival
        chances = {key: chance_to_beat(group.forecast, targets[key], "final") for key, group in groups.items()}
        return [
            None if run.group is None or rival is None else float(chances[id(run.group)][run.position])
            for run, rival in zip(runs, rivals, strict=True)
        ]

    def _better(self, value: float, than: float) -> bool:
        return value < than if self.metric.minimize else value > than

    def _best_of(self, values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        if not known:
            return None
        return min(known) if self.metric.minimize else max(known)

    def _order(self, row: Row) -> tuple[bool, float, str]:
        """Runs in order of their outlook; those without one last."""
        if row.outlook is None or row.verdict is Verdict.DIVERGED:
            return True, 0.0, row.name
        return False, row.outlook if self.metric.minimize else -row.outlook, row.name

    # --- what there is to say ------------------------------------------------------------------------------------

    def _problem(self, findings: Findings, rows: tuple[Row, ...]) -> str | None:
        if not findings:
            reasons = "".join(f"; {skipped.path}: {skipped.reason}" for skipped in findings.skipped[:3])
            return f"no training logs below {findings.path} (CSV, JSON lines, TensorBoard, MLflow){reasons}"
        if not rows:
            names = list_names({name for run in findings for name in run.metrics})
            return f"no run below {findings.path} has {shown(self.column)}; they have {names}"
        if all(row.verdict is Verdict.UNUSABLE for row in rows):
            return f"no run below {findings.path} can be used as {self.metric.name}; {rows[0].name}: {rows[0].note}"
        return None

    def _notes(self, findings: Findings, runs: list[Watched]) -> Iterator[str]:
        if len(findings) > len(runs):
            yield f"{_count(len(findings) - len(runs))} left out: no {shown(self.column)}"
        if findings.skipped:
            first = findings.skipped[0]
            files = f"{len(findings.skipped)} file{'s' * (len(findings.skipped) > 1)}"
            yield f"{files} left out, such as {first.path}: {first.reason}"
        if bad := [run for run in runs if run.error is not None]:
            yield f"{_count(len(bad))} cannot be used, such as {shown(bad[0].run.name)}: {bad[0].error}"
        if wrong := sum(run.contradicts for run in runs):
            better = "smaller" if self.metric.minimize else "larger"
            yield (
                f"{_count(wrong)} getting steadily worse for {self.metric.name}, where {better} is better: "
                "is it the right kind?"
            )


def _groups(runs: Iterable[Watched], engine: Engine) -> Iterator[list[Watched]]:
    """Runs that are forecast in one call.

    They are of about the same length, and all with or all without a value at step 0. An engine thins the runs of a call
    alike, so they are those that it thins as much.
    """
    most, size = getattr(engine, "most_values", math.inf), _GROUP
    if isinstance(engine, StreamEngine):
        size = _RECALLED_GROUP

    def kind(run: Watched) -> tuple[bool, int]:
        return bool(run.steps[0] == 0.0), math.ceil(len(run.values) / most)

    for _, alike in groupby(sorted(runs, key=lambda run: (kind(run), len(run.values))), kind):
        ordered = list(alike)
        for start in range(0, len(ordered), size):
            yield ordered[start : start + size]


def _count(runs: int) -> str:
    return f"{runs} run{'s' * (runs > 1)}"
