"""The public face: `Forecaster` turns values of a run into a `Forecast`, a distribution over every step to come."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from epochcast.curve import (
    Array,
    Curves,
    Metric,
    Missing,
    as_metric,
    check_horizon,
    clip_to_hard_bounds,
    warn_on_contradiction,
)
from epochcast.distributions import Distribution
from epochcast.errors import InputError
from epochcast.normalize import Normalizer
from epochcast.runtime import Engine, StreamEngine, load_network
from epochcast.weights import models

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_STEPS = 1_000  # future steps answered without being asked for: more are thinned to this many
_MARGIN = 1e-12  # keeps quantiles off infinite bounds
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(48)
_BANDS = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True, repr=False)
class Forecast:
    """The distribution of a metric at each future step, in the metric's own space.

    Arrays have the shape of `steps`: [step] for one run, [curve, step] for a batch. In a ragged batch, steps that a
    longer run has already seen are NaN, and so is every answer there.
    """

    steps: Array
    metric: Metric
    horizon: int
    normalised: Distribution  # in the prior's space, where larger is better
    normalizer: Normalizer
    observed: Curves  # what was seen, in the metric's space
    notes: tuple[str, ...] = ()
    at_horizon: bool = False  # narrowed to the horizon by `final`

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        if not self.observed.single:
            return f"<Forecast of {len(self.observed)} runs' {self.metric.name} up to step {self.horizon}>"
        low, high = self.final.interval(0.9)
        end = f"{self.final.median():.4g} (90 %: {low:.4g} to {high:.4g})"
        return f"<Forecast of {self.metric.name}: {end} at step {self.horizon}>"

    def __getitem__(self, index: int) -> Forecast:
        """The forecast of one curve of a batch, without the padding of ragged batches."""
        if self.steps.ndim < 2 or self.at_horizon:
            raise InputError("this is the forecast of one run; only forecasts of a batch have items")
        padding = np.isnan(self.steps[index])
        ahead = np.flatnonzero(~padding) if padding.any() else slice(None)
        return replace(
            self,
            steps=self.steps[index, ahead],
            normalised=self.normalised[index, ahead],
            normalizer=self.normalizer.at(index),
            observed=replace(self.observed[slice(index, index + 1)], single=True),
        )

    @property
    def final(self) -> Forecast:
        """The same at the horizon: every array loses its last axis."""
        if self.at_horizon:
            return self
        return replace(
            self,
            steps=self.steps[..., -1],
            normalised=self.normalised[..., -1],
            normalizer=self.normalizer.at((..., 0)),
            at_horizon=True,
        )

    # --- questions ---------------------------------------------------------------------------------------------

    def quantile(self, q: ArrayLike) -> Array:
        """The value below which a share q of the outcomes lies; several q add an axis before the steps."""
        levels = np.asarray(q, dtype=np.float64)
        if levels.ndim == 0:
            return self._quantile(levels)
        if levels.ndim > 1:
            raise InputError(f"q has {levels.ndim} dimensions; give one level or a list of levels")
        return np.stack(self._quantiles(levels), axis=self._list_axis)

    @property
    def _list_axis(self) -> int:
        """Where an axis of levels or draws goes: after the curves, before the steps."""
        return 0 if self.observed.single else 1

    def _quantiles(self, levels: Array) -> Sequence[Array]:
        """One array of quantiles per level: all at once for one run, in turn for a batch, to bound the memory."""
        if self.observed.single:
            return list(self._quantile(levels.reshape(-1, *(1,) * self.steps.ndim)))
        return [self._quantile(level) for level in levels]

    def _quantile(self, level: Array) -> Array:
        outside = ~((level > 0.0) & (level < 1.0))
        if outside.any():
            raise InputError(f"q={level[outside].flat[0]:g} must lie between 0 and 1, both excluded")
        # A decreasing map swaps the tails.
        rank = 1.0 - level if self.metric.minimize and self.metric.transform else level
        low, high = self._mass_below_image, self._mass_below_image + self._mass_in_image
        inside = np.clip(low + rank * (high - low), np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg)
        unit = self.normalised.icdf(inside)
        if self.metric.transform:
            unit = np.clip(unit, _MARGIN, 1.0 - _MARGIN)
        return self._masked(self.normalizer.inverse(unit))

    def median(self) -> Array:
        return self.quantile(0.5)

    def interval(self, coverage: float = 0.9) -> tuple[Array, Array]:
        """The central interval that holds a share `coverage` of the outcomes: (low, high)."""
        if not 0.0 < coverage < 1.0:
            raise InputError(f"coverage={coverage} must lie between 0 and 1, both excluded")
        low, high = self._quantiles(np.array([0.5 - coverage / 2, 0.5 + coverage / 2]))
        return low, high

    def mean(self) -> Array:
        if not self.metric.transform:
            return self._masked(self.normalised.mean())
        levels = 0.5 * (_NODES + 1.0)
        total = sum((w * y for w, y in zip(_NODE_WEIGHTS, self._quantiles(levels), strict=True)), np.zeros(()))
        return np.asarray(0.5 * total)

    def cdf(self, y: ArrayLike) -> Array:
        """Probability that the value is at most y; y is one number or one per step."""
        values = self._argument(y)
        rank = (self.normalised.cdf(self.normalizer.forward(values)) - self._mass_below_image) / self._mass_in_image
        rank = np.clip(rank, 0.0, 1.0)
        return self._masked(1.0 - rank if self.metric.minimize and self.metric.transform else rank)

    def log_prob(self, y: ArrayLike) -> Array:
        """Log density at y, in the metric's own space."""
        values = self._argument(y)
        low, high = self.metric.hard
        density = (
            self.normalised.log_prob(self.normalizer.forward(values))
            + self.normalizer.log_jacobian(values)
            - np.log(self._mass_in_image)
        )
        return self._masked(np.where((values >= low) & (values <= high), density, -np.inf))

    def prob_better(self, best: ArrayLike) -> Array:
        """Probability that the value at each step beats `best`: is above it, or below it for minimised metrics."""
        target = np.asarray(best, dtype=np.float64)
        if target.ndim == 1 and self.steps.ndim == 2 and len(target) == len(self.steps):
            target = target[:, None]  # one best value per curve
        below = self.cdf(target)
        return below if self.metric.minimize else 1.0 - below

    def sample(self, n: int, seed: int = 0) -> Array:
        """n draws at each step, independent across steps: [n, step], or [curve, n, step] for a batch."""
        if n < 1:
            raise InputError(f"n={n} draws were asked for; it must be at least 1")
        uniform = np.random.default_rng(seed).random((n, *self.steps.shape))
        levels = np.clip(uniform, np.finfo(float).eps, 1.0 - np.finfo(float).eps)
        return np.moveaxis(self._quantile(levels), 0, self._list_axis)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: steps, median, mean, quantiles and the notes."""
        levels = sorted({0.5 + side * band / 2 for band in _BANDS for side in (-1, 1)})
        return {
            "metric": self.metric.name,
            "minimize": self.metric.minimize,
            "horizon": self.horizon,
            "steps": _plain(self.steps),
            "median": _plain(self.median()),
            "mean": _plain(self.mean()),
            "quantiles": {f"{level:.3f}": _plain(self.quantile(level)) for level in levels},
            "notes": list(self.notes),
        }

    def plot(self, ax: Axes | None = None, *, truth: ArrayLike | None = None, **options: Any) -> Axes:
        """A fan chart of one run; `truth` draws what really came, from step 1 on. Options: title, legend."""
        from epochcast.plots import fan_chart

        if self.steps.ndim != 1:
            raise InputError("a fan chart shows one run; take one of the batch with forecast[i].plot()")
        bands = {band: self.interval(band) for band in (0.95, 0.8, 0.5)}
        seen = (self.observed.steps[0], self.observed.values[0])
        return fan_chart(self.steps, self.median(), bands, seen, self.metric.name, ax=ax, truth=truth, **options)

    # --- the part of the distribution that the metric can reach --------------------------------------------------

    @cached_property
    def _mass_below_image(self) -> Array:
        low = self.normalizer.image[0]
        return self.normalised.cdf(low) if math.isfinite(low) else np.zeros(())

    @cached_property
    def _mass_in_image(self) -> Array:
        high = self.normalizer.image[1]
        above = self.normalised.cdf(high) if math.isfinite(high) else np.ones(())
        return np.maximum(above - self._mass_below_image, np.finfo(float).tiny)

    def _argument(self, y: ArrayLike) -> Array:
        values = np.asarray(y, dtype=np.float64)
        try:
            np.broadcast_shapes(values.shape, self.steps.shape)
        except ValueError:
            raise InputError(f"y has shape {values.shape}; it must fit the steps' shape {self.steps.shape}") from None
        return values

    def _masked(self, result: Array) -> Array:
        gaps = np.isnan(self.steps)
        answer: Array = np.where(gaps, np.nan, result) if gaps.any() else np.asarray(result)
        return answer[()]  # a plain number where there is one run and one step


def _plain(array: Array) -> Any:
    """Nested lists of floats, None where nothing is known."""
    if array.ndim == 0:
        return float(array) if math.isfinite(array) else None
    return [_plain(row) for row in array]


def load_engine(name: str | Path, threads: int = 1) -> Engine:
    """An engine by name: a shipped network, your own .onnx file, a sampler (mcmc-pp, mcmc-op, exact) or a baseline
    (last-value, power-law, empirical-gp)."""
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


class Forecaster:
    """A model ready to forecast. `model` is a shipped name (see `models()`), the path of an .onnx file, or a sampler:
    `mcmc-pp` and `mcmc-op` (the paper's baselines), `exact` (sequential Monte Carlo).

    `threads` is the number of cores one call may use; one by default, since it runs beside somebody's training.
    """

    def __init__(self, model: str | Path = "default", *, threads: int = 1) -> None:
        if threads < 1:
            raise InputError(f"threads={threads} must be at least 1")
        self.engine: Engine = load_engine(model, threads)

    @classmethod
    def around(cls, engine: Engine) -> Forecaster:
        """A forecaster around an engine of your own."""
        forecaster = cls.__new__(cls)
        forecaster.engine = engine
        return forecaster

    @property
    def name(self) -> str:
        return self.engine.name

    def __getstate__(self) -> dict[str, Any]:
        # Searches save themselves with all they hold. A loaded network cannot be pickled, but a shipped one has a name.
        return {"engine": self.name if self.name in models() else self.engine}

    def __setstate__(self, state: dict[str, Any]) -> None:
        engine = state["engine"]
        self.engine = load_engine(engine) if isinstance(engine, str) else engine

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
        unit = replace(curves, values=np.where(curves.seen, normalizer.forward(curves.values), 0.0))
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
    return replace(thinned, single=curves.single)


@cache
def _default() -> Forecaster:
    return Forecaster()


def forecast(values: ArrayLike | Sequence[ArrayLike], horizon: int, metric: Metric | str, **options: Any) -> Forecast:
    """`Forecaster().forecast(...)` with the default model, loaded once."""
    return _default().forecast(values, horizon, metric, **options)
