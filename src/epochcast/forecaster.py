"""The public face: a `Forecaster` turns values of a run into a `Forecast`, at once or value by value (`Stream`)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.checks import MOST_THREADS, count, horizon_of, number
from epochcast.curve import Array, Missing
from epochcast.encode import RunsLike, Seen, check_untrained, encode, notes_of_untrained, seen_of
from epochcast.engines import load_engine, model_name
from epochcast.errors import InputError
from epochcast.forecast import Forecast
from epochcast.metric import Bounds, Metric, as_metric
from epochcast.paths import draw
from epochcast.question import Engine, Question, answer, check_reads, on_grid
from epochcast.schedule import Schedule, ScheduleLike


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
        self.engine: Engine = load_engine(model, count(threads, "threads", most=MOST_THREADS))
        self.schedule: Schedule | None = None
        self._set_schedule(schedule)

    @classmethod
    def around(cls, engine: Engine, schedule: ScheduleLike | None = None) -> Forecaster:
        """A forecaster around an engine of your own."""
        forecaster = cls.__new__(cls)
        forecaster.engine = engine
        forecaster._set_schedule(schedule)
        return forecaster

    def with_schedule(self, schedule: ScheduleLike | None) -> Forecaster:
        """The same model for runs whose learning rate goes like this, or of which nothing is known."""
        if schedule is None and self.schedule is None:
            return self
        return Forecaster.around(self.engine, schedule)

    def _set_schedule(self, schedule: ScheduleLike | None) -> None:
        self.schedule = None if schedule is None else Schedule.of(schedule)
        if self.schedule is not None:
            check_reads(self.engine, "schedule", self.schedule.name)

    @property
    def name(self) -> str:
        """The model's name, with that of the schedule where one is known."""
        return self.engine.name if self.schedule is None else f"{self.engine.name}@{self.schedule.name}"

    def __getstate__(self) -> dict[str, Any]:
        # Searches save themselves with all they hold. A loaded network cannot be pickled, but its files have a name.
        source = self.engine.source
        return {"engine": self.engine if source is None else source, "schedule": self.schedule}

    def __setstate__(self, state: dict[str, Any]) -> None:
        engine = state["engine"]
        self.engine = engine if isinstance(engine, Engine) else engine.load()
        self.schedule = state["schedule"]

    def forecast(
        self,
        values: RunsLike,
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
        leaves its soft bounds open, such as a loss, takes them from it, and where neither the metric nor the model
        makes use of it, it is refused. `at` asks for certain future steps instead of all.
        """
        metric = as_metric(metric)
        seen = seen_of(values, steps, metric, missing=missing, untrained=untrained)
        return self.forecast_seen(seen, horizon, metric, at=at)

    def forecast_seen(
        self, seen: Seen, horizon: int, metric: Metric, *, at: ArrayLike | None = None, engine: Engine | None = None
    ) -> Forecast:
        """The same for runs that were checked before, perhaps by an engine that remembers them."""
        encoded = encode(seen, metric, horizon, at=at, schedule=self.schedule)
        unused = notes_of_untrained(self.engine, metric, seen)
        distribution, notes = answer(engine or self.engine, encoded.question)
        forecast = Forecast(
            encoded.steps,
            metric,
            int(horizon),
            distribution,
            encoded.normalizer,
            seen.curves,
            encoded.notes + unused + notes,
            source=self,
            question=encoded.question,
        )
        return forecast[0] if seen.curves.single else forecast

    def draw_paths(
        self, question: Question, size: int, rng: np.random.Generator, image: Bounds
    ) -> tuple[NDArray[np.intp], Array]:
        """Joint draws of the normalised values of one run at some of the steps asked for: see `paths.draw`."""
        if self.engine.samples:
            raise InputError(f"{self.name} would sample anew at each step of each path; draw paths with a network")
        question, _ = on_grid(self.engine, question)
        return draw(self.engine, question, size, rng, image)

    def stream(self, horizon: int, metric: Metric | str, *, untrained: float | None = None) -> Stream:
        """A run to be forecast value by value."""
        return Stream(self, horizon, as_metric(metric), untrained)


class Stream:
    """One run that is under way: `update` takes the newest value and answers with a forecast."""

    def __init__(self, forecaster: Forecaster, horizon: int, metric: Metric, untrained: float | None = None) -> None:
        self.horizon = horizon_of(horizon)
        self.metric = metric
        self.untrained = None if untrained is None else metric.checked_untrained(untrained)
        if self.untrained is not None:
            check_untrained(forecaster.engine, metric, self.untrained)
        if forecaster.schedule is not None:
            forecaster.schedule.check(self.horizon)
        self._forecaster = forecaster
        # On a coarser grid of steps, values come and go.
        on_its_grid = self.horizon <= (forecaster.engine.grid or self.horizon)
        self._engine = forecaster.engine.for_one_run() if on_its_grid else forecaster.engine
        self._steps: list[float] = []
        self._values: list[float] = []

    def update(self, value: float, *positional: float, step: float | None = None) -> Forecast:
        """Add the newest value, at the next whole step unless `step` says otherwise, and forecast the rest."""
        if positional:  # stoppers take step and value in the other order: two bare numbers are easily swapped
            warnings.warn("give the step by its name: update(value, step=...)", DeprecationWarning, stacklevel=2)
            (step,) = positional
        newest = self._steps[-1] if self._steps else 0.0
        at = math.floor(newest) + 1.0 if step is None else number(step, "step")
        if self._steps and at <= newest:
            raise InputError(f"step {at:g} does not come after step {newest:g}; a stream only moves forward")
        steps, values = [*self._steps, at], [*self._values, number(value, "value")]
        seen = seen_of(values, steps, self.metric, untrained=self.untrained)
        forecast = self._forecaster.forecast_seen(seen, self.horizon, self.metric, engine=self._engine)
        self._steps, self._values = steps, values
        return forecast


@cache
def _shared(model: str | Path) -> Forecaster:
    return Forecaster(model)


def forecast(
    values: RunsLike,
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
    forecaster = _shared(model_name(model)).with_schedule(schedule)
    return forecaster.forecast(values, horizon, metric, steps, missing=missing, untrained=untrained, at=at)
