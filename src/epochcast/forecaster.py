"""The public face: a `Forecaster` turns values of a run into a `Forecast`, at once or value by value (`Stream`)."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epochcast.curve import Array, Curves, Missing, check_horizon, clip_to_hard_bounds, warn_on_contradiction
from epochcast.distributions import Distribution
from epochcast.errors import InputError
from epochcast.forecast import Forecast
from epochcast.metric import Metric, as_metric
from epochcast.normalize import Normalizer
from epochcast.runtime import Engine, StreamEngine, load_network
from epochcast.schedule import FORMS, Schedule, ScheduleLike
from epochcast.weights import models

MOST_STEPS = 1_000  # future steps answered without being asked for: more are thinned to this many


def load_engine(name: str | Path, threads: int = 1) -> Engine:
    """An engine by name: a shipped network, your own .onnx file, a sampler (mcmc-pp, mcmc-op, exact) or a baseline
    (last-value, power-law, empirical-gp). `real@cosine` is a network that is told the schedule of all its runs."""
    name, words = model_and_words(name)
    if words:
        return told(load_engine(name, threads), Schedule.of(words))
    if name in ("mcmc-pp", "mcmc-op"):
        from epochcast.sampling.mcmc import McmcEngine

        return McmcEngine("pp" if name == "mcmc-pp" else "op")
    if name == "exact":
        from epochcast.sampling.exact import ExactEngine

        return ExactEngine()
    if name in ("last-value", "power-law", "empirical-gp"):
        from epochcast.baselines import load_baseline

        return load_baseline(str(name))
    return load_network(name, threads)


def model_and_words(name: str | Path) -> tuple[str, str]:
    """`real@cosine` apart: the model, and what it is told of the schedule, which may be nothing."""
    model, at, words = str(name).rpartition("@")
    return (model, words) if at and not os.path.exists(name) else (str(name), "")


def told(engine: Engine, schedule: Schedule | None) -> Engine:
    """The engine, told the learning rates of the runs that it will see."""
    if isinstance(engine, StreamEngine):
        return engine.told(schedule)
    raise InputError(f"{engine.name} cannot be told learning rates; leave schedule={schedule and schedule.name!r} out")


def ships(name: str) -> bool:
    """Whether `load_engine` makes this engine anywhere from its name alone."""
    model, words = model_and_words(name)
    return model in models() and (not words or words.partition(",")[0] in FORMS)


class Forecaster:
    """A model ready to forecast. `model` is a shipped name (see `models()`), the path of an .onnx file, or a sampler:
    `mcmc-pp` and `mcmc-op` (the paper's baselines), `exact` (sequential Monte Carlo).

    `threads` is the number of cores one call may use; one by default, since it runs beside somebody's training.
    `schedule` tells it how the learning rate of the runs goes, which sharpens the forecasts where that is known: as
    words ("cosine", "linear,warmup=5", "drops,at=60/80"), as a function of the step, or as one rate per step.
    """

    def __init__(
        self, model: str | Path = "default", *, threads: int = 1, schedule: ScheduleLike | None = None
    ) -> None:
        if threads < 1:
            raise InputError(f"threads={threads} must be at least 1")
        engine = load_engine(model, threads)
        self.engine: Engine = engine if schedule is None else told(engine, Schedule.of(schedule))

    @classmethod
    def around(cls, engine: Engine) -> Forecaster:
        """A forecaster around an engine of your own."""
        forecaster = cls.__new__(cls)
        forecaster.engine = engine
        return forecaster

    def told(self, schedule: ScheduleLike | None) -> Forecaster:
        """The same model, told how the learning rate of the runs goes, or nothing about it."""
        if schedule is None and getattr(self.engine, "schedule", None) is None:
            return self
        return Forecaster.around(told(self.engine, None if schedule is None else Schedule.of(schedule)))

    @property
    def name(self) -> str:
        return self.engine.name

    def __getstate__(self) -> dict[str, Any]:
        # Searches save themselves with all they hold. A loaded network cannot be pickled, but a shipped one has a name.
        model, _ = model_and_words(self.name)
        if model not in models():
            return {"engine": self.engine, "schedule": None}
        return {"engine": model, "schedule": getattr(self.engine, "schedule", None)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        engine, schedule = state["engine"], state["schedule"]
        engine = load_engine(engine) if isinstance(engine, str) else engine
        self.engine = engine if schedule is None else told(engine, schedule)

    def forecast(
        self,
        values: ArrayLike | Sequence[ArrayLike],
        horizon: int,
        metric: Metric | str,
        steps: ArrayLike | Sequence[ArrayLike] | None = None,
        *,
        missing: Missing = "error",
        untrained: float | None = None,
        at: ArrayLike | None = None,
    ) -> Forecast:
        """Forecast one run (1-D values) or a batch (2-D, or a ragged list) from what was seen up to the horizon.

        `steps` says where the values were measured (1, 2, 3, ... by default; a value at step 0 is the untrained
        model's). `untrained` sets the soft bounds of metrics without an upper end, such as a log loss. `at` asks for
        certain future steps instead of all.
        """
        metric = as_metric(metric, untrained)
        curves = Curves.of(values, steps, missing=missing)
        check_horizon(curves, horizon)
        curves, reference = _split_untrained(clip_to_hard_bounds(curves, metric))
        warn_on_contradiction(curves, metric)
        queries, notes = _queries(curves, horizon, at)
        normalizer = Normalizer.of(metric, _reference(curves, metric, reference))
        unit = replace(
            curves,
            values=np.where(curves.seen, normalizer.forward(curves.values), 0.0),
            kinds=np.full(len(curves), metric.kind),
        )
        before = np.full(len(curves), untrained) if untrained is not None else reference
        if before is not None and getattr(self.engine, "reads_untrained", False):
            unit = _with_untrained(unit, normalizer.forward(before[:, None]))
        distribution, more_notes = ask(self.engine, unit, queries, horizon)
        forecast = Forecast(queries, metric, int(horizon), distribution, normalizer, curves, notes + more_notes)
        return forecast[0] if curves.single else forecast

    def stream(self, horizon: int, metric: Metric | str, *, untrained: float | None = None) -> Stream:
        """A run to be forecast value by value."""
        return Stream(self.engine, int(horizon), as_metric(metric), untrained)


class Stream:
    """One run that is under way: `update` takes the newest value and answers with a forecast."""

    def __init__(self, engine: Engine, horizon: int, metric: Metric, untrained: float | None = None) -> None:
        self._forecaster = Forecaster.around(engine)
        if isinstance(engine, StreamEngine) and horizon <= (engine.grid or horizon):
            self._forecaster.engine = _Remembering(engine)
        self.horizon = horizon
        self.metric = metric
        self.untrained = untrained
        self._steps: list[float] = []
        self._values: list[float] = []

    def update(self, value: float, step: float | None = None) -> Forecast:
        """Add the newest value (at the next whole step unless told otherwise) and forecast the rest."""
        newest = self._steps[-1] if self._steps else 0.0
        at = math.floor(newest) + 1.0 if step is None else float(step)
        if self._steps and at <= newest:
            raise InputError(f"step {at:g} does not come after step {newest:g}; a stream only moves forward")
        steps, values = [*self._steps, at], [*self._values, float(value)]
        forecast = self._forecaster.forecast(values, self.horizon, self.metric, steps, untrained=self.untrained)
        self._steps, self._values = steps, values
        return forecast


class _Remembering:
    """The engine of one stream: a session that encodes each value once."""

    def __init__(self, engine: StreamEngine) -> None:
        self.name, self.grid, self.reads_untrained = engine.name, engine.grid, engine.reads_untrained
        self.predict = engine.session_for_one().predict


def _split_untrained(curves: Curves) -> tuple[Curves, Array | None]:
    """Take values at step 0 out of the curves: they belong to the untrained model."""
    if curves.values.shape[1] == 0:
        return curves, None
    at_zero = (curves.steps[:, 0] == 0.0) & (curves.lengths > 0)
    if not at_zero.any():
        return curves, None
    if not at_zero.all():
        raise InputError(
            f"curve {int(np.argmin(at_zero))} has no value at step 0 while others have; leave it out of all"
        )
    rest = replace(curves, steps=curves.steps[:, 1:], values=curves.values[:, 1:], lengths=curves.lengths - 1)
    return rest, curves.values[:, 0]


def _with_untrained(curves: Curves, before: Array) -> Curves:
    """Curves with the value before training [curve, 1] at step 0."""
    return replace(
        curves,
        steps=np.concatenate([np.zeros_like(before), curves.steps], axis=1),
        values=np.concatenate([before, curves.values], axis=1),
        lengths=curves.lengths + 1,
    )


def _reference(curves: Curves, metric: Metric, untrained: Array | None) -> Array | None:
    """What stands in for soft bounds that the metric leaves open, one value per curve as a column."""
    if metric.soft is not None or not metric.transform:
        return None
    if untrained is not None:
        return untrained[:, None]
    if (curves.lengths == 0).any():
        return None
    return curves.values[:, :1]


def _queries(curves: Curves, horizon: int, at: ArrayLike | None) -> tuple[Array, tuple[str, ...]]:
    """Future steps [curve, step]: all whole ones up to the horizon, or those asked for."""
    last = curves.last_step[:, None]
    if at is not None:
        wanted = np.atleast_1d(np.asarray(at, dtype=np.float64))
        if not ((wanted > last.max()) & (wanted <= horizon)).all():
            raise InputError(f"at={at} must lie after step {last.max():g} and not past horizon={horizon}")
        return np.broadcast_to(wanted, (len(curves), len(wanted))), ()
    ahead = np.arange(math.floor(last.min(initial=horizon - 1)) + 1.0, horizon + 1.0)
    notes: tuple[str, ...] = ()
    if len(ahead) > MOST_STEPS:
        ahead = np.unique(np.linspace(ahead[0], horizon, MOST_STEPS).round())
        notes = (f"answers {len(ahead)} of the steps up to {horizon}; ask for others with at=...",)
    return np.where(ahead > last, ahead, np.nan), notes


def ask(engine: Engine, curves: Curves, queries: Array, horizon: float) -> tuple[Distribution, tuple[str, ...]]:
    """The engine's answer, on its own grid of steps."""
    queries = np.where(np.isnan(queries), float(horizon), queries)
    grid = engine.grid
    if grid is None:
        most = getattr(engine, "most_values", math.inf)
        thinned = curves.values.shape[1] > most
        notes = (f"{engine.name} reads {most} values of a run: it was thinned evenly to as many",) if thinned else ()
        return engine.predict(curves, queries, horizon), notes
    if horizon <= grid and curves.values.shape[1] <= grid:
        return engine.predict(curves, queries, horizon), ()
    cell = max(math.ceil(horizon / grid), 1)
    thinned = _thin(curves, cell)
    note = f"{engine.name} knows up to {grid} steps: the run was thinned to one value per {cell} steps"
    return engine.predict(thinned, queries / cell, horizon / cell), (note,)


def _thin(curves: Curves, cell: int) -> Curves:
    """The newest value of every `cell` steps, at step / cell."""
    bins = np.ceil(curves.steps / cell)
    seen = curves.seen
    newest_of_bin = seen.copy()
    newest_of_bin[:, :-1] &= (bins[:, :-1] != bins[:, 1:]) | ~seen[:, 1:]
    rows = [(curves.steps[i, keep] / cell, curves.values[i, keep]) for i, keep in enumerate(newest_of_bin)]
    thinned = Curves.of([values for _, values in rows], [steps for steps, _ in rows])
    return replace(thinned, single=curves.single, kinds=curves.kinds)


@cache
def _default() -> Forecaster:
    return Forecaster()


def forecast(
    values: ArrayLike | Sequence[ArrayLike],
    horizon: int,
    metric: Metric | str,
    *,
    schedule: ScheduleLike | None = None,
    **options: Any,
) -> Forecast:
    """`Forecaster(schedule=schedule).forecast(...)` with the default model, loaded once."""
    forecaster = _default() if schedule is None else _default().told(schedule)
    return forecaster.forecast(values, horizon, metric, **options)
