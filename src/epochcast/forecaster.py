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

from epochcast.checks import MOST_THREADS, count, horizon_of, number
from epochcast.contradiction import warn_on_contradiction
from epochcast.curve import Array, Missing
from epochcast.encode import Others, RunsLike, Seen, check_untrained, encode, notes_of_untrained, seen_of
from epochcast.engines import load_engine, model_name
from epochcast.errors import InputError
from epochcast.forecast import Forecast
from epochcast.metric import Bounds, Metric, as_metric
from epochcast.others import ContextLike, SpaceLike, others_of, same_others
from epochcast.question import Engine, Predictor, Question, answer, check_reads, on_grid
from epochcast.schedule import Schedule, ScheduleLike


class Forecaster:
    """A model ready to forecast.

    Args:
        model: A shipped name (see [`models`][epochcast.models]), the path of an `.onnx` file, or a sampler: `mcmc-pp`
            and `mcmc-op` (the paper's baselines), `exact` (sequential Monte Carlo).
        threads: How many cores one call may use; one by default, since it runs beside somebody's training.
        schedule: How the learning rate of the runs goes, which sharpens the forecasts where that is known: in words
            (`"cosine"`, `"linear,warmup=5"`, `"drops,at=60/80"`), as a function of the step, or as one rate per step.

    Raises:
        WeightsError: If there is no such model, or its file is damaged.
        InputError: If `schedule` cannot be read, or the model reads none.

    Examples:
        >>> import epochcast as ec
        >>> forecaster = ec.Forecaster("real", schedule="cosine")
        >>> forecaster.forecast([0.31, 0.45, 0.52, 0.57, 0.60], horizon=50, metric="accuracy")
        <Forecast of accuracy: ... at step 50>
    """

    def __init__(
        self, model: str | Path = "default", *, threads: int = 1, schedule: ScheduleLike | None = None
    ) -> None:
        self._prepare(load_engine(model, count(threads, "threads", most=MOST_THREADS)), schedule)

    @classmethod
    def around(cls, engine: Engine, schedule: ScheduleLike | None = None) -> Forecaster:
        """A forecaster around an engine of your own.

        Args:
            engine: Anything with the methods of `epochcast.question.Engine`.
            schedule: As for `Forecaster`.

        Returns:
            A forecaster that asks this engine.

        Raises:
            InputError: If `schedule` cannot be read, or the engine reads none.

        Examples:
            >>> from epochcast.baselines import LastValue
            >>> Forecaster.around(LastValue()).name
            'last-value'
        """
        forecaster = cls.__new__(cls)
        forecaster._prepare(engine, schedule)
        return forecaster

    def with_schedule(self, schedule: ScheduleLike | None) -> Forecaster:
        """The same model, which is not loaded again, for runs with another schedule.

        Args:
            schedule: As for `Forecaster`; None where nothing is known of the learning rate.

        Returns:
            A forecaster with the same engine.

        Raises:
            InputError: If `schedule` cannot be read, or the model reads none.

        Examples:
            >>> Forecaster().with_schedule("cosine").name
            'real@cosine'
        """
        if schedule is None and self.schedule is None:
            return self
        other = Forecaster.around(self.engine, schedule)
        other._newest = self._newest
        return other

    def _prepare(self, engine: Engine, schedule: ScheduleLike | None) -> None:
        self.engine = engine
        self._newest: list[Others] = []  # the newest other runs, or none; shared by forecasters of one engine
        self.schedule: Schedule | None = None if schedule is None else Schedule.of(schedule)
        if self.schedule is not None:
            check_reads(engine, "schedule", self.schedule.name)

    @property
    def name(self) -> str:
        """The model's name, with that of the schedule where one is known."""
        return self.engine.name if self.schedule is None else f"{self.engine.name}@{self.schedule.name}"

    def __getstate__(self) -> dict[str, Any]:
        # Searches save themselves with all they hold. A loaded network cannot be pickled, but its files have a name.
        source = self.engine.source
        return {"source": source, "engine": None if source else self.engine, "schedule": self.schedule}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._prepare(state["engine"] or state["source"].load(), state["schedule"])

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
        """Forecast one run, or a batch of runs, from what was seen of them up to the horizon.

        Args:
            values: One run (1-D values, a pandas series or a [`Run`][epochcast.Run]), or a batch of them (2-D, or a
                list of runs of different lengths).
            horizon: The step at which the runs are planned to end.
            metric: What the values measure: a name (see [`metric_names`][epochcast.metric_names]) or a
                [`Metric`][epochcast.Metric].
            steps: Where the values were measured: 1, 2, 3, ... by default. A value at step 0 is the untrained model's.
            missing: What to do with NaN: `"error"`, or `"drop"` to leave such values out.
            untrained: The metric of the untrained model, where it was not measured at step 0. A metric that leaves its
                soft bounds open, such as a loss, takes them from it.
            at: Certain future steps instead of all.
            context: Other runs of the task, oldest first, finished or not: a list of [`Run`][epochcast.Run] or of
                plain values, or a 2-D array. A batch shares one context, and all runs are seen at one scale. Runs that
                cannot be used are left out, with a note on the forecast; of more than 64 the 32 newest are read, and
                of the others the 32 with the best values.
            config: The configuration of the run, by name, where it is no `Run` with its own.
            space: On which scales the entries of configurations live; a [`Space`][epochcast.Space] or a mapping.

        Returns:
            The forecast of the run; of a batch one forecast for all, whose items are those of its runs.

        Raises:
            InputError: If a value, a step, the horizon, the metric or the context cannot be used, or the model makes no
                use of other runs or of a configuration; the message says which, and why.

        Examples:
            >>> import epochcast as ec
            >>> batch = ec.Forecaster().forecast([[0.31, 0.45, 0.52], [0.2, 0.3]], horizon=50, metric="accuracy")
            >>> len(batch), batch[1].steps[:2].tolist()
            (2, [3.0, 4.0])

            Among other runs of the task, before the first epoch:

            >>> earlier = [[0.2, 0.4, 0.5, 0.55], [0.3, 0.5, 0.6, 0.65], ec.Run([0.1, 0.3, 0.4], config={"lr": 0.1})]
            >>> ec.Forecaster("empirical-gp").forecast([], 4, "accuracy", context=earlier)
            <Forecast of accuracy: ... at step 4>
        """
        metric = as_metric(metric)
        seen = seen_of(values, steps, metric, missing=missing, untrained=untrained, config=config)
        others = self._others(context, horizon, metric, config, space, missing)
        forecast = self.forecast_seen(seen, horizon, metric, at=at, others=others)
        warn_on_contradiction(seen.curves, metric)
        return forecast

    def _others(
        self,
        context: ContextLike | None,
        horizon: int,
        metric: Metric,
        config: Mapping[str, Any] | None,
        space: SpaceLike | None,
        missing: Missing = "error",
    ) -> Others | None:
        """Other runs as they were handed over, for a model that makes use of them, and of a configuration."""
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
        predictor: Predictor | None = None,
        others: Others | None = None,
    ) -> Forecast:
        """The same for runs that were checked before, perhaps by the engine with what it remembers of them."""
        encoded = encode(seen, metric, horizon, at=at, schedule=self.schedule, others=others)
        unused = notes_of_untrained(self.engine, metric, seen)
        normalised, notes = answer(self.engine, encoded.question, predictor)
        steps, normalizer = encoded.steps, encoded.normalizer
        if seen.curves.single:
            steps, normalised, normalizer = steps[0], normalised[0], normalizer.at(0)
        known: dict[str, Any] = {"source": self, "question": encoded.question}
        notes = encoded.notes + unused + notes
        return Forecast(steps, metric, int(horizon), normalised, normalizer, seen.curves, notes, **known)

    def draw_paths(
        self, question: Question, size: int, rng: np.random.Generator, image: Bounds
    ) -> tuple[NDArray[np.intp], Array]:
        """Joint draws of the normalised values of one run at some of the steps asked for: see `paths.draw`."""
        from epochcast.paths import draw

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
        """A run to be forecast value by value, which reads each value once.

        Args:
            horizon: The step at which the run is planned to end.
            metric: What its values measure, as for `forecast`.
            untrained: The metric of the untrained model, as for `forecast`.
            context: Other runs of the task, as for `forecast`; they are read once, at the beginning.
            config: The configuration of the run.
            space: On which scales the entries of configurations live.

        Returns:
            A stream without values.

        Raises:
            InputError: If the horizon, the metric, `untrained` or the context cannot be used.

        Examples:
            >>> stream = Forecaster().stream(horizon=50, metric="accuracy")
            >>> for value in (0.31, 0.45, 0.52):
            ...     forecast = stream.update(value)
            >>> forecast
            <Forecast of accuracy: ... at step 50>
        """
        metric = as_metric(metric)
        others = self._others(context, horizon, metric, config, space)
        return Stream(self, horizon, metric, untrained, others=others, config=config)


class Stream:
    """One run that is under way: `update` takes the newest value and answers with a forecast.

    Streams are made by [`Forecaster.stream`][epochcast.Forecaster.stream], whose arguments they share.
    """

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
        engine = forecaster.engine  # on a coarser grid of steps, values come and go
        self._predictor = engine.for_one_run() if self.horizon <= (engine.grid or self.horizon) else engine
        self._steps: list[float] = []
        self._values: list[float] = []
        self._contradicted = False  # said once, not with each value

    def update(self, value: float, *positional: float, step: float | None = None) -> Forecast:
        """Add the newest value and forecast the rest.

        Args:
            value: The newest value of the metric.
            *positional: The step without its name, as in earlier versions.
            step: Where it was measured: the next whole step by default.

        Returns:
            The forecast from all values so far.

        Raises:
            InputError: If the step does not come after the newest one, or the value cannot be that of the metric. The
                stream then stays as it was.

        Examples:
            >>> stream = Forecaster().stream(horizon=1000, metric="log_loss")
            >>> stream.update(2.31, step=50).steps[0].item()
            51.0
        """
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
            seen, self.horizon, self.metric, predictor=self._predictor, others=self._others
        )
        self._contradicted = self._contradicted or warn_on_contradiction(seen.curves, self.metric)
        self._steps, self._values = steps, values
        return forecast


@cache
def shared(model: str | Path = "default") -> Forecaster:
    """A model that is loaded once for all who ask."""
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
    """Forecast one run, or a batch of runs, with a model that is loaded once.

    Args:
        values: As for [`Forecaster.forecast`][epochcast.Forecaster.forecast], like all arguments down to `at`.
        horizon: The step at which the run is planned to end.
        metric: What is measured: a name (see [`metric_names`][epochcast.metric_names]) or a
            [`Metric`][epochcast.Metric].
        steps: Where the values were measured: 1, 2, 3, ... by default.
        missing: What to do with NaN: `"error"` or `"drop"`.
        untrained: The metric of the untrained model, where it is known.
        at: Certain future steps instead of all.
        schedule: How the learning rate goes, as for [`Forecaster`][epochcast.Forecaster].
        context: Other runs of the same task, for a model that reads them.
        config: The configuration of the run, to be compared with theirs.
        space: On which scales the entries of configurations live.
        model: The model to ask, as for [`Forecaster`][epochcast.Forecaster].

    Returns:
        The distribution of the metric at every step to come.

    Raises:
        InputError: If a value, a step, the horizon, the metric or the schedule cannot be used.
        WeightsError: If there is no such model, or its file is damaged.

    Examples:
        >>> import epochcast as ec
        >>> f = ec.forecast([0.31, 0.45, 0.52, 0.57, 0.60], horizon=50, metric="accuracy")
        >>> low, high = f.final.interval(0.9)
        >>> bool(low < f.final.median() < high)
        True
    """
    known: dict[str, Any] = {"untrained": untrained, "at": at, "context": context, "config": config, "space": space}
    forecaster = shared(model_name(model)).with_schedule(schedule)
    return forecaster.forecast(values, horizon, metric, steps, missing=missing, **known)
