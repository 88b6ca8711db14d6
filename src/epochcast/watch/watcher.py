"""`Watcher`: looks at all runs below a directory again and again, and forecasts those that have grown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.checks import count, finite, flag, name_of, number
from epochcast.curve import Array, Curves, check_horizon
from epochcast.encode import Others, seen_of
from epochcast.errors import EpochcastError, InputError
from epochcast.forecaster import Forecaster
from epochcast.logs import Findings
from epochcast.logs import Run as LoggedRun
from epochcast.logs.growing import GrowingLogs
from epochcast.logs.run import list_names, shown
from epochcast.metric import Metric, as_metric
from epochcast.question import RunCache
from epochcast.run import Run
from epochcast.runtime.kv_cache import MOST_BYTES
from epochcast.stopping.decision import (
    FINAL_LEVELS,
    MIN_SHARE,
    MIN_STEPS,
    Final,
    Reason,
    check_confidence,
    reason_for,
    too_early,
)
from epochcast.stopping.model_name import forecaster_of
from epochcast.watch.chance import asked_steps, draws, next_place, shared_part
from epochcast.watch.shared_context import SharedContext
from epochcast.watch.snapshot import Row, Snapshot, Verdict
from epochcast.watch.watched import Group, Watched

_REASONS = {Verdict.FINISHED: Reason.FINISHED, Verdict.DIVERGED: Reason.NON_FINITE}  # of verdicts without a forecast
# Whatever else is said of a run that goes on, it is running.
_VERDICTS: dict[Reason | None, Verdict] = {Reason.LEADING: Verdict.LEADING, Reason.UNLIKELY: Verdict.HOPELESS}


READING, FORECASTING = "reading logs", "forecasting runs"  # what a look does
Tell = Callable[[str, int, int], None]  # is told which of them is being done, how much of it is, and of how much


class Watcher:
    """All runs below a directory, judged against each other.

    `monitor` is the name under which the metric is logged, `metric` says what it measures. A run leads if it has
    the best value so far; it is hopeless if the chance that the best value it will reach up to the horizon beats
    the best of the other runs so far is at most 1 - `confidence`, but not before it has `min_steps` values and has
    come to `min_share` of the horizon. `best` is a further value to beat, known from elsewhere. With `alone=False`
    all runs are the context of each to a model that reads other runs, with the configurations that their loggers
    have left: sharper, but of noisy runs that are equal it calls more hopeless. Of runs that may grow, up to
    `most_bytes` are kept in memory, so that only their new values cost anything at the next look.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        monitor: str,
        metric: Metric | str,
        horizon: int,
        *,
        confidence: float = 0.95,
        best: float | None = None,
        min_steps: int = MIN_STEPS,
        min_share: float = MIN_SHARE,
        step_column: str | None = None,
        forecaster: Forecaster | None = None,
        most_bytes: int = MOST_BYTES,
        alone: bool = True,
    ) -> None:
        self.metric = as_metric(metric)
        check_horizon(Curves.of([]), horizon)
        check_confidence(confidence)
        if not 0.0 <= number(min_share, "min_share") < 1.0:  # false for NaN too
            raise InputError(f"min_share={min_share} must be a share of the horizon, 0 to less than 1")
        self.monitor = name_of(monitor, "monitor")
        self.horizon = int(horizon)
        self.confidence = confidence
        self.known_best = None if best is None else finite(best, "best")
        self.min_steps = count(min_steps, "min_steps")
        self.min_share = min_share
        self.most_bytes = count(most_bytes, "most_bytes", least=0)
        self.logs = GrowingLogs(root, step_column=step_column)
        self.runs_forecast = 0  # so far, each time counted
        self._forecaster = None if forecaster is None else forecaster_of(forecaster)
        self._alone = flag(alone, "alone")
        self._context: SharedContext | None = None  # of a model that reads other runs
        self._cache: RunCache | None = None
        self._findings = Findings(self.logs.root)
        self._watched: dict[tuple[Path, str], Watched] = {}

    @property
    def forecaster(self) -> Forecaster:
        """What the runs are forecast with."""
        if self._forecaster is None:
            self._forecaster = Forecaster()
        return self._forecaster

    def refresh(self, tell: Tell | None = None) -> Snapshot:
        """Read and forecast what has changed, and judge every run anew.

        That may take a while: `tell` is told how far it has got, and may ask for a `snapshot` meanwhile.
        """
        tell = tell or (lambda *_: None)
        self._findings = self.logs.read(partial(tell, READING))
        watched = [self._remembered(run) for run in self._findings if self.monitor in run.metrics]
        self._watched = {run.key: run for run in watched}
        self._forecast_all(
            [run for run in self._watched.values() if run.fixed_verdict(self.horizon) is None],
            partial(tell, FORECASTING),
        )
        return self.snapshot()

    def snapshot(self) -> Snapshot:
        """The runs as far as they are known; those that are still to be forecast have no forecast."""
        findings, runs = self._findings, list(self._watched.values())
        rows = tuple(sorted(self._rows(runs), key=self._order))
        best = self.metric.best_of([self.known_best, *(row.best for row in rows)])
        problem = self._problem(findings, rows)
        notes = () if problem else tuple(self._notes(findings, runs))
        skipped = tuple(findings.skipped)
        return Snapshot(self.monitor, self.metric, self.horizon, rows, best, notes, problem, skipped)

    # --- forecasts -----------------------------------------------------------------------------------------------

    def _remembered(self, run: LoggedRun) -> Watched:
        known, series = self._watched.get((run.path, run.name)), run.metrics[self.monitor]
        return known if known is not None and known.holds(series) else Watched.of(run, series, self.metric)

    def _forecast_all(self, open_runs: list[Watched], advance: Callable[[int, int], None]) -> None:
        """Forecast those of the open runs that have changed, or all where what is known beside them has."""
        if self._cache is not None:
            self._cache.forget_all_but({run.key for run in open_runs})
        if open_runs and self._context_has_changed():
            for run in open_runs:
                run.group = None
        changed = [run for run in open_runs if run.group is None]
        if not changed:
            return
        advance(0, len(changed))  # the runs are known now, if not yet what becomes of them
        if self._cache is None:
            self._cache = self.forecaster.engine.for_many_runs(self.most_bytes)
        done = 0
        for alike, others in [(changed, None)] if self._context is None else self._context.parts(changed):
            for place, group in _groups(alike, self._cache.batch, self.horizon):
                self._forecast(group, asked_steps(place, self.horizon), self.forecaster, others)
                done += len(group)
                advance(done, len(changed))

    def _context_has_changed(self) -> bool:
        """Whether other runs are read, and have changed since the last look."""
        engine = self.forecaster.engine
        if self._alone or "context" not in engine.reads:
            return False
        if self._context is None:
            self._context = SharedContext(self.metric, self.horizon, engine.most_values)
        self._context.forget_all_but(self._watched)
        return self._context.gather(self._watched.values())

    def _forecast(self, runs: list[Watched], at: Array, forecaster: Forecaster, others: Others | None) -> None:
        """Forecast runs in one call; if that fails one by one, so that a bad one does not hide the others."""
        values: Any = [run.values for run in runs]
        steps: Any = [run.steps for run in runs]
        if self._context is not None:
            for run in runs:
                run.config = self._context.config_of(run)
            values, steps = [Run(run.values, run.steps, run.config) for run in runs], None
        assert self._cache is not None
        predictor = self._cache.about([run.key for run in runs])
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # checked below
                seen = seen_of(values, steps, self.metric)
                forecast = forecaster.forecast_seen(
                    seen, self.horizon, self.metric, at=at, predictor=predictor, others=others
                )
        except EpochcastError as error:
            if len(runs) == 1:
                runs[0].error = str(error)
                return
            for run in runs:
                self._forecast([run], at, forecaster, others)
            return
        with np.errstate(over="ignore", invalid="ignore"):
            shared = shared_part(forecast.normalised.variance())
            finals = forecast.final.quantile(FINAL_LEVELS)
        group = Group(forecast, finals, shared, np.stack([draws(run.steps, at) for run in runs]), others)
        for position, run in enumerate(runs):
            if np.isfinite(group.finals[position]).all() and np.isfinite(shared[position]).all():
                run.group, run.position = group, position
            else:
                run.error = f"values of {self.metric.name} up to {np.abs(run.values).max():g} are beyond its forecast"
        self.runs_forecast += len(runs)

    # --- judgement -----------------------------------------------------------------------------------------------

    def _rows(self, runs: list[Watched]) -> Iterator[Row]:
        bests = [run.best(self.metric) for run in runs]
        rivals = self._rivals(bests)
        chances = self._chances(runs, rivals)
        for run, best, rival, chance in zip(runs, bests, rivals, chances, strict=True):
            fixed, final = run.fixed_verdict(self.horizon), None
            reason = None if fixed is None else _REASONS.get(fixed)
            if fixed is None and run.group is not None:
                reason = self._reason(run, best, rival, chance)
                final = Final(*run.group.finals[run.position].tolist())
            yield Row(
                name=run.run.name,
                path=run.run.path,
                verdict=fixed or _VERDICTS.get(reason, Verdict.RUNNING),
                step=float(run.series.steps[-1]) if len(run.series.steps) else None,
                value=float(run.series.values[-1]) if len(run.series.steps) else None,
                best=best,
                final=final,
                probability=chance if final else None,
                note=run.error,
                log_notes=run.run.notes,
                rival=rival,
                reason=reason,
                series=run.series,
                logged=run.run,
                others=None if run.group is None else run.group.others,
                config=run.config,
            )

    def _reason(self, run: Watched, best: float | None, rival: float | None, chance: float | None) -> Reason:
        """Why a run should go on, or why not."""
        if chance is None or best is None or rival is None:
            return Reason.NO_TARGET
        reason = reason_for(chance, self.metric.better(best, rival), self.confidence)
        young = too_early(len(run.values), float(run.steps[-1]), self.horizon, self.min_steps, self.min_share)
        return Reason.WARM_UP if reason is Reason.UNLIKELY and young else reason

    def _rivals(self, bests: list[float | None]) -> list[float | None]:
        """For each run, the best value of the others."""
        first = self.metric.best_of([self.known_best, *bests])
        if first is None or first not in bests:
            return [first] * len(bests)
        leader = bests.index(first)
        second = self.metric.best_of([self.known_best, *bests[:leader], *bests[leader + 1 :]])
        return [second if position == leader else first for position in range(len(bests))]

    def _chances(self, runs: list[Watched], rivals: list[float | None]) -> list[float | None]:
        """For each run, its chance to beat its rival: asked of each group at once, as rivals change for all."""
        groups = {id(run.group): run.group for run in runs if run.group is not None}
        targets = {key: np.zeros(len(group.forecast)) for key, group in groups.items()}
        for run, rival in zip(runs, rivals, strict=True):
            if run.group is not None and rival is not None:
                targets[id(run.group)][run.position] = rival
        chances = {key: group.chances(targets[key]) for key, group in groups.items()}
        return [
            None if run.group is None or rival is None else float(chances[id(run.group)][run.position])
            for run, rival in zip(runs, rivals, strict=True)
        ]

    def _order(self, row: Row) -> tuple[bool, float, str]:
        """Runs in order of the values that they are expected to end at; those without one last."""
        if row.expected is None or row.verdict is Verdict.DIVERGED:
            return True, 0.0, row.name
        return False, -self.metric.sign * row.expected, row.name

    # --- what there is to say ------------------------------------------------------------------------------------

    def _problem(self, findings: Findings, rows: tuple[Row, ...]) -> str | None:
        if not findings:
            reasons = "".join(f"; {skipped.path}: {skipped.reason}" for skipped in findings.skipped[:3])
            return f"no training logs below {findings.path} (CSV, JSON lines, TensorBoard, MLflow, W&B){reasons}"
        if not rows:
            names = list_names({name for run in findings for name in run.metrics})
            return f"no run below {findings.path} has {shown(self.monitor)}; they have {names}"
        if all(row.verdict is Verdict.UNUSABLE for row in rows):
            return f"no run below {findings.path} can be used as {self.metric.name}; {rows[0].name}: {rows[0].note}"
        return None

    def _notes(self, findings: Findings, runs: list[Watched]) -> Iterator[str]:
        if len(findings) > len(runs):
            yield f"{_count(len(findings) - len(runs))} left out: no {shown(self.monitor)}"
        if findings.skipped:
            first = findings.skipped[0]
            files = f"{len(findings.skipped)} file{'s' * (len(findings.skipped) > 1)}"
            others = "; --json names them all" if len(findings.skipped) > 1 else ""
            yield f"{files} left out, such as {first.path}: {first.reason}{others}"
        if bad := [run for run in runs if run.error is not None]:
            yield f"{_count(len(bad))} cannot be used, such as {shown(bad[0].run.name)}: {bad[0].error}"
        if again := [run for run in runs if self.monitor in run.run.restarted]:
            first_name = shown(again[0].run.name)
            yield f"{_count(len(again))} started again, such as {first_name}: only the last attempt is shown"
        if wrong := sum(run.contradicts for run in runs):
            better = "smaller" if self.metric.minimize else "larger"
            yield (
                f"{_count(wrong)} getting steadily worse for {self.metric.name}, where {better} is better: "
                "is it the right kind?"
            )


def _groups(runs: Iterable[Watched], size: int, horizon: int) -> Iterator[tuple[int, list[Watched]]]:
    """Runs that are forecast in one call, up to `size` at about the same step and of about the same length, and the
    step from which on."""

    def place(run: Watched) -> int:
        return next_place(float(run.steps[-1]), horizon)

    for step, alike in groupby(sorted(runs, key=lambda run: (place(run), len(run.values))), place):
        ordered = list(alike)
        for start in range(0, len(ordered), size):
            yield step, ordered[start : start + size]


def _count(runs: int) -> str:
    return f"{runs} run{'s' * (runs > 1)}"
