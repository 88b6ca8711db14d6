"""The public face: a `Forecaster` turns values of a run into a `Forecast`, at once or value by value (`Stream`)."""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.curve import (
    Array,
    Curves,
    Mask,
    Missing,
    check_horizon,
    clip_to_hard_bounds,
    floats,
    warn_on_contradiction,
    whole_horizon,
)
from epochcast.distributions import Distribution
from epochcast.errors import InputError
from epochcast.forecast import Forecast
from epochcast.metric import Bounds, Metric, as_metric, plain_number
from epochcast.normalize import Normalizer
from epochcast.paths import draw
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
        if not (isinstance(threads, (int, np.integer)) and not isinstance(threads, bool) and threads >= 1):
            raise InputError(f"threads={threads!r} must be a whole number, at least 1")
        engine = load_engine(model, int(threads))
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
        # Searches save themselves with all they hold. A loaded network cannot be pickled, but its files have a name.
        source = getattr(self.engine, "source", None)
        if source is None:
            return {"engine": self.engine}
        return {"source": source, "schedule": getattr(self.engine, "schedule", None)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "engine" in state:
            self.engine = state["engine"]
            return
        engine = state["source"].load()
        self.engine = engine if state["schedule"] is None else told(engine, state["schedule"])

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
        model's). `untrained` is the metric of the untrained model, where it was not measured at step 0; a metric that
        leaves its soft bounds open, such as a loss, takes them from it. `at` asks for certain future steps instead of
        all.
        """
        return self._forecast(self.engine, values, horizon, as_metric(metric), steps, missing, untrained, at)

    def _forecast(
        self,
        engine: Engine,
        values: ArrayLike | Sequence[ArrayLike],
        horizon: int,
        metric: Metric,
        steps: ArrayLike | Sequence[ArrayLike] | None = None,
        missing: Missing = "error",
        untrained: float | None = None,
        at: ArrayLike | None = None,
    ) -> Forecast:
        curves = Curves.of(values, steps, missing=missing)
        check_horizon(curves, horizon)
        curves, before = _split_untrained(clip_to_hard_bounds(curves, metric))
        if untrained is not None:
            before = np.full(len(curves), metric.checked_untrained(untrained))
        warn_on_contradiction(curves, metric)
        queries, notes = _queries(curves, int(horizon), at)
        normalizer, left = Normalizer.of_runs(metric, curves, before)
        unit = replace(
            curves,
            values=np.where(curves.seen, normalizer.forward(curves.values), 0.0),
            kinds=np.full(len(curves), metric.kind),
        )
        if before is not None and getattr(engine, "reads_untrained", False):
            unit = _with_untrained(unit, normalizer.forward(before[:, None]))
        distribution, more_notes = ask(engine, unit, queries, int(horizon))
        notes += _notes_of_range(curves, left) + more_notes
        forecast = Forecast(
            queries, metric, int(horizon), distribution, normalizer, curves, notes, source=self, unit=unit
        )
        return forecast[0] if curves.single else forecast

    def draw_paths(
        self, run: Curves, steps: Array, horizon: float, size: int, rng: np.random.Generator, image: Bounds
    ) -> tuple[NDArray[np.intp], Array]:
        """Joint draws of the normalised values of one run at some of these steps: see `paths.draw`."""
        if getattr(self.engine, "samples", False):
            raise InputError(f"{self.name} would sample anew at each step of each path; draw paths with a network")
        run, queries, horizon, _ = _on_grid(self.engine, run, steps[None], horizon)
        return draw(self.engine, run, queries[0], horizon, size, rng, image)

    def stream(self, horizon: int, metric: Metric | str, *, untrained: float | None = None) -> Stream:
        """A run to be forecast value by value."""
        return Stream(self, horizon, as_metric(metric), untrained)


class Stream:
    """One run that is under way: `update` takes the newest value and answers with a forecast."""

    def __init__(self, forecaster: Forecaster, horizon: int, metric: Metric, untrained: float | None = None) -> None:
        self.horizon = whole_horizon(horizon)
        self.metric = metric
        self.untrained = None if untrained is None else metric.checked_untrained(untrained)
        self._forecaster = forecaster
        engine = self._engine = forecaster.engine
        if isinstance(engine, StreamEngine):
            if engine.schedule is not None:
                engine.schedule.check(self.horizon)
            if self.horizon <= (engine.grid or self.horizon):
                self._engine = _Remembering(engine)
        self._steps: list[float] = []
        self._values: list[float] = []

    def update(self, value: float, step: float | None = None) -> Forecast:
        """Add the newest value (at the next whole step unless told otherwise) and forecast the rest."""
        newest = self._steps[-1] if self._steps else 0.0
        at = math.floor(newest) + 1.0 if step is None else plain_number(step, "step")
        if self._steps and at <= newest:
            raise InputError(f"step {at:g} does not come after step {newest:g}; a stream only moves forward")
        steps, values = [*self._steps, at], [*self._values, plain_number(value, "value")]
        forecast = self._forecaster._forecast(
            self._engine, values, self.horizon, self.metric, steps, untrained=self.untrained
        )
        self._steps, self._values = steps, values
        return forecast


class _Remembering:
    """The engine of one stream: a session that encodes each value once."""

    def __init__(self, engine: StreamEngine) -> None:
        self.name, self.grid, self.reads_untrained = engine.name, engine.grid, engine.reads_untrained
        self.most_values = engine.most_values
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


def _notes_of_range(curves: Curves, left: Mask) -> tuple[str, ...]:
    """What to say of runs that have left the range of their metric."""
    if not left.any():
        return ()
    curve = int(np.argmax(left))
    where = "the run" if curves.single else f"curve {curve}"
    others = int(left.sum()) - 1
    more = f", and so have {others} others" if others else ""
    return (
        f"{where} has left its range: its newest value {curves.last_value[curve]:.4g} lies far outside the metric's "
        f"soft bounds, which follow it now{more}",
    )


def _queries(curves: Curves, horizon: int, at: ArrayLike | None) -> tuple[Array, tuple[str, ...]]:
    """Future steps [curve, step]: all whole ones up to the horizon, or those asked for; each run by itself."""
    last = curves.last_step[:, None]
    if at is not None:
        wanted = _asked(at)
        if not ((wanted > last.max()) & (wanted <= horizon)).all():
            raise InputError(f"at={at} must lie after step {last.max():g} and not past horizon={horizon}")
        return np.broadcast_to(wanted, (len(curves), len(wanted))), ()
    first = np.floor(last) + 1.0
    count = np.minimum(horizon - first + 1.0, MOST_STEPS)  # [curve, 1]
    back = np.arange(count.max(initial=1.0) - 1.0, -1.0, -1.0)  # counted from the horizon, where all runs end
    steps = np.round(horizon - back * (horizon - first) / np.maximum(count - 1.0, 1.0))
    notes: tuple[str, ...] = ()
    if (horizon - first + 1.0 > MOST_STEPS).any():
        notes = (f"answers {MOST_STEPS} of the steps up to {horizon}; ask for others with at=...",)
    return np.where(back < count, steps, np.nan), notes


def _asked(at: ArrayLike) -> Array:
    """Steps that a user asks for."""
    wanted = np.atleast_1d(floats(at, "at"))
    if wanted.ndim != 1 or len(wanted) == 0 or not np.isfinite(wanted).all():
        raise InputError(f"at={reprlib.repr(at)} must be one future step or a list of them")
    return wanted


def ask(engine: Engine, curves: Curves, queries: Array, horizon: float) -> tuple[Distribution, tuple[str, ...]]:
    """The engine's answer, on its own grid of steps."""
    queries = np.where(np.isnan(queries), float(horizon), queries)
    curves, queries, horizon, notes = _on_grid(engine, curves, queries, horizon)
    return engine.predict(curves, queries, horizon), notes


def _on_grid(
    engine: Engine, curves: Curves, queries: Array, horizon: float
) -> tuple[Curves, Array, float, tuple[str, ...]]:
    """Runs, steps asked for and horizon as the engine counts steps, and what was left out of the runs for it."""
    grid = engine.grid
    if grid is None:
        most = getattr(engine, "most_values", math.inf)
        thinned = curves.lengths.max(initial=0) > most
        notes = (f"{engine.name} reads {most} values of a run: longer ones were thinned evenly",) if thinned else ()
        return curves, queries, horizon, notes
    if horizon <= grid and curves.values.shape[1] <= grid:
        return curves, queries, horizon, ()
    cell = max(math.ceil(horizon / grid), 1)
    note = f"{engine.name} knows up to {grid} steps: the run was thinned to one value per {cell} steps"
    return _thin(curves, cell), queries / cell, horizon / cell, (note,)


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
def _shared(model: str | Path) -> Forecaster:
    return Forecaster(model)


def forecast(
    values: ArrayLike | Sequence[ArrayLike],
    horizon: int,
    metric: Metric | str,
    steps: ArrayLike | Sequence[ArrayLike] | None = None,
    *,
    missing: Missing = "error",
    untrained: float | None = None,
    at: ArrayLike | None = None,
    schedule: ScheduleLike | None = None,
    model: str | Path = "default",
) -> Forecast:
    """Forecast one run (1-D values) or a batch (2-D, or a ragged list) with a model that is loaded once.

    `horizon` is the step at which the run is planned to end, `metric` a name (see `metric_names()`) or a `Metric`.
    `model` and `schedule` are those of `Forecaster`, all else is as for `Forecaster.forecast`.
    """
    forecaster = _shared(model).told(schedule)
    return forecaster.forecast(values, horizon, metric, steps, missing=missing, untrained=untrained, at=at)
