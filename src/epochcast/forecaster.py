"""The public face: a `Forecaster` turns values of a run into a `Forecast`, at once or value by value (`Stream`)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.checks import count, horizon_of, number
from epochcast.curve import Array, Missing
from epochcast.encode import Others, RunsLike, Seen, check_untrained, encode, notes_of_untrained, seen_of
from epochcast.engines import load_engine
from epochcast.errors import InputError
from epochcast.forecast import Forecast
from epochcast.metric import Bounds, Metric, as_metric
from epochcast.others import ContextLike, SpaceLike, others_of, same_others
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
        self.engine: Engine = load_engine(model, count(threads, "threads"))
        self._prepare(schedule, [])

    @classmethod
    def around(cls, engine: Engine, schedule: ScheduleLike | None = None) -> Forecaster:
        """A forecaster around an engine of your own."""
        return cls._around(engine, schedule, [])

    @classmethod
    def _around(cls, engine: Engine, schedule: ScheduleLike | None, newest: list[Others]) -> Forecaster:
        forecaster = cls.__new__(cls)
        forecaster.engine = engine
        forecaster._prepare(schedule, newest)
        return forecaster

    def with_schedule(self, schedule: ScheduleLike | None) -> Forecaster:
        """The same model for runs whose learning rate goes like this, or of which nothing is known."""
        if schedule is None and self.schedule is None:
            return self
        return Forecaster._around(self.engine, schedule, self._newest)

    def _prepare(self, schedule: ScheduleLike | None, newest: list[Others]) -> None:
        self._newest = newest  # the newest other runs, or none
        self.schedule: Schedule | None = None if schedule is None else Schedule.of(schedule)
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
        self.schedule, self._newest = state["schedule"], []

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
        context: ContextLike | None = None,
        config: Mapping[str, Any] | None = None,
        space: SpaceLike | None = None,
    ) -> Forecast:
        """Forecast one run (1-D values) or a batch (2-D, or a ragged list) from what was seen up to the horizon.

        `steps` says where the values were measured (1, 2, 3, ... by default; a value at step 0 is the untrained
        model's). `untrained` is the metric of the untrained model, where it was not measured at step 0; a metric that
        leaves its soft bounds open, such as a loss, takes them from it, and where neither the metric nor the model
        makes use of it, it is refused. `at` asks for certain future steps instead of all.

        `context` are other runs of the same task, oldest first, finished or not, as a list of `Run` or of plain values
        or as a 2-D array; a batch shares one context. Runs that cannot be used are left out, and a note says so. All
        runs are seen at one scale. With a context, the forecast of a run that has not begun may ask for its end.
        `config` is the configuration of the run, to be compared with those that the runs of the context carry, and
        `space` tells the scales of its entries.

        >>> import epochcast as ec
        >>> earlier = [ec.Run([0.2, 0.4, 0.5, 0.55], config={"lr": 0.1}), [0.3, 0.5, 0.6, 0.65], [0.1, 0.3, 0.4, 0.45]]
        >>> ec.Forecaster("empirical-gp").forecast([0.25, 0.45], 4, "accuracy", context=earlier)  # doctest: +ELLIPSIS
        <Forecast of accuracy: ... at step 4>
        """
        metric = as_metric(metric)
        seen = seen_of(values, steps, metric, missing=missing, untrained=untrained, config=config)
        others = self.others(context, horizon, metric, missing=missing, config=config, space=space)
        return self.forecast_seen(seen, horizon, metric, at=at, others=others)

    def others(
        self,
        context: ContextLike | None,
        horizon: int,
        metric: Metric,
        *,
        missing: Missing = "error",
        config: Mapping[str, Any] | None = None,
        space: SpaceLike | None = None,
    ) -> Others | None:
        """Other runs as `forecast_seen` takes them; the model must make use of them, and of a configuration."""
        if config is not None:
            check_reads(self.engine, "config", config)
        if context is None:
            return None
        found = others_of(context, metric, horizon_of(horizon), missing=missing, space=space)
        if found:
            check_reads(self.engine, "context")
        # The same object, if they are the same as the last time: the engine remembers what it has read of them.
        if not (self._newest and same_others(self._newest[0], found)):
            self._newest[:] = [found]
        return self._newest[0]

    def forecast_seen(
        self,
        seen: Seen,
        horizon: int,
        metric: Metric,
        *,
        at: ArrayLike | None = None,
        engine: Engine | None = None,
        others: Others | None = None,
    ) -> Forecast:
        """The same for runs that were checked before, perhaps by an engine that remembers them."""
        encoded = encode(seen, metric, horizon, at=at, schedule=self.schedule, others=others)
        unused = notes_of_untrained(self.engine, metric, seen)
        if encoded.question.alone is not None:
            engine = None  # runs are asked about in two parts, and one that remembers counts on all of them
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

    def stream(
        self,
        horizon: int,
        metric: Metric | str,
        *,
        untrained: float | None = None,
        context: ContextLike | None = None,
        config: Mapping[str, Any] | None = None,
        space: SpaceLike | None = None,
    ) -> Stream:
        """A run to be forecast value by value; other runs are read once, at the beginning."""
        metric = as_metric(metric)
        others = self.others(context, horizon, metric, config=config, space=space)
        return Stream(self, horizon, metric, untrained, others=others, config=config)


class Stream:
    """One run that is under way: `update` takes the newest value and answers with a forecast."""

    def __init__(
        self,
        forecaster: Forecaster,
        horizon: int,
        metric: Metric,
        untrained: float | None = None,
        *,
        others: Others | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.horizon = horizon_of(horizon)
        self.metric = metric
        self.untrained = None if untrained is None else metric.checked_untrained(untrained)
        if self.untrained is not None:
            check_untrained(forecaster.engine, metric, self.untrained)
        if forecaster.schedule is not None:
            forecaster.schedule.check(self.horizon)
        self.config = config
        self._others = others
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
        seen = seen_of(values, steps, self.metric, untrained=self.untrained, config=self.config)
        forecast = self._forecaster.forecast_seen(
            seen, self.horizon, self.metric, engine=self._engine, others=self._others
        )
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
    context: ContextLike | None = None,
    config: Mapping[str, Any] | None = None,
    space: SpaceLike | None = None,
    model: str | Path = "default",
) -> Forecast:
    """Forecast one run (1-D values) or a batch (2-D, or a ragged list) with a model that is loaded once.

    `horizon` is the step at which the run is planned to end, `metric` a name (see `metric_names()`) or a `Metric`.
    `context` are other runs of the same task, and `config` is the configuration of this one. `model` and `schedule` are
    those of `Forecaster`, all else is as for `Forecaster.forecast`.
    """
    forecaster = _shared(model).with_schedule(schedule)
    known: dict[str, Any] = {"context": context, "config": config, "space": space}
    return forecaster.forecast(values, horizon, metric, steps, missing=missing, untrained=untrained, at=at, **known)
