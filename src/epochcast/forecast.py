"""A forecast: the distribution of a run's metric at every step to come, in the metric's own space."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.checks import count, generator, known, room_for
from epochcast.curve import Array, Mask
from epochcast.errors import InputError
from epochcast.marginals import DRAWS_AT_ONCE, MARGIN, Marginals
from epochcast.metric import Bounds
from epochcast.question import Question

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from epochcast.paths import FirstStep

_PATHS_AT_ONCE = 200  # a network keeps what it has read of each
_BANDS = (0.5, 0.8, 0.9, 0.95)


class PathSource(Protocol):
    """A forecaster that draws joint futures of a run; see `epochcast.paths.draw`."""

    def draw_paths(
        self, question: Question, size: int, rng: np.random.Generator, image: Bounds
    ) -> tuple[NDArray[np.intp], Array]: ...


@dataclass(frozen=True, repr=False)
class Forecast(Marginals):
    """The distribution of a metric at each future step, in the metric's own space.

    Arrays have the shape of `steps`: [step] for one run, [curve, step] for a batch, whose items `forecast[i]` are the
    forecasts of its runs. In a ragged batch, steps that a longer run has already seen are NaN, and so is every answer
    there. `f` in the examples of the methods is the forecast below.

    Attributes:
        steps: The steps to come.
        metric: What is measured.
        horizon: The step at which the run is planned to end.
        observed: What was seen of the runs.
        notes: What the user should know of this forecast, such as a run that has left its range; mostly empty.

    Examples:
        >>> import epochcast as ec
        >>> f = ec.forecast([0.31, 0.45, 0.52, 0.57, 0.60], horizon=50, metric="accuracy")
        >>> f
        <Forecast of accuracy: ... (90 %: ... to ...) at step 50>
    """

    notes: tuple[str, ...] = ()
    at_horizon: bool = False  # narrowed to the horizon by `final`
    source: PathSource | None = None  # what made it, and can draw its joint futures
    question: Question | None = None  # what that was asked

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        if not self.observed.single:
            return f"<Forecast of {len(self.observed)} runs' {self.metric.name} up to step {self.horizon}>"
        # The horizon, or the last step asked for where that was left out.
        last = self if self.at_horizon else self._at(int(np.argmax(self.steps)))
        low, high = last.interval(0.9)
        end = f"{last.median():.4g} (90 %: {low:.4g} to {high:.4g})"
        return f"<Forecast of {self.metric.name}: {end} at step {last.steps:g}>"

    def __getitem__(self, index: int) -> Forecast:
        """The forecast of one run of a batch, without the padding of ragged batches.

        Args:
            index: Which run, from 0; negative counts from the last.

        Returns:
            The forecast of that run alone.

        Raises:
            InputError: If this is the forecast of one run already.
            IndexError: If there is no such run.

        Examples:
            >>> ec.forecast([[0.31, 0.45], [0.2, 0.3]], horizon=50, metric="accuracy")[1]
            <Forecast of accuracy: ... at step 50>
        """
        if self.steps.ndim < 2 or self.at_horizon:
            raise InputError("this is the forecast of one run; only forecasts of a batch have items")
        if not (isinstance(index, (int, np.integer)) and -len(self) <= index < len(self)):
            raise IndexError(f"curve {index!r} is asked for; there are {len(self)}")  # ends a loop over the curves
        index = int(index) % len(self)
        padding = np.isnan(self.steps[index])
        ahead = np.flatnonzero(~padding) if padding.any() else slice(None)
        return replace(
            self,
            steps=self.steps[index, ahead],
            normalised=self.normalised[index, ahead],
            normalizer=self.normalizer.at(index),
            observed=replace(self.observed[slice(index, index + 1)], single=True),
            question=None if self.question is None else self.question[slice(index, index + 1)],
        )

    @property
    def final(self) -> Forecast:
        """The same at the horizon: every array loses its last axis.

        Raises:
            InputError: If the horizon is not among the steps that `at=` asked for.

        Examples:
            >>> f.final.steps.item()
            50.0
        """
        if self.at_horizon:
            return self
        steps = self.steps if self.steps.ndim == 1 else self.steps[0]
        found = np.flatnonzero(steps == self.horizon)
        if len(found) == 0:
            raise InputError(f"step {self.horizon}, the horizon, was not asked for; add it to at=...")
        return self._at(int(found[0]))

    def _at(self, position: int) -> Forecast:
        """The same at one of the steps."""
        return replace(
            self,
            steps=self.steps[..., position],
            normalised=self.normalised[..., position],
            normalizer=self.normalizer.at((..., 0)),
            at_horizon=True,
        )

    # --- joint futures -------------------------------------------------------------------------------------------

    def paths(self, n: int = 200, seed: int | None = None) -> Array:
        """Joint futures of one run: the network's own draws, fed back to it step by step.

        Of more than 100 steps as many are drawn, evenly spread; those between keep the rank of the nearest one.

        200 futures of 50 steps take under a second with `real` and `stream`, about three with `lcpfn`: a value that a
        set network is given changes what it makes of all values before, so that it reads each future anew at each
        step. Drawing fewer of the steps would be faster, but leave out much of what a run does between them.

        Args:
            n: How many futures.
            seed: Of the random numbers; None draws afresh.

        Returns:
            One future per row, [n, step].

        Raises:
            InputError: If this is the forecast of a batch, or of a model that samples.

        Examples:
            >>> f.paths(20, seed=0).shape
            (20, 45)
        """
        size, order = count(n, "n"), np.argsort(self.steps)
        if self.source is None or self.question is None or self.steps.ndim != 1:
            raise InputError("paths are drawn of one run, by what forecast it; take one of a batch with forecast[i]")
        if self.steps.size > 1 and (np.diff(self.steps[order]) == 0.0).any():
            raise InputError(f"paths need different steps; at={self.steps.tolist()} holds one twice")
        rng = generator(seed)
        paths = room_for((size, len(order)), f"{size} paths of {len(order)} steps")
        image = (MARGIN, 1.0 - MARGIN) if self.metric.transform else self.normalizer.image
        ahead = replace(self.question, steps=self.steps[order][None])
        for start in range(0, size, _PATHS_AT_ONCE):
            part = paths[start : start + _PATHS_AT_ONCE]
            positions, values = self.source.draw_paths(ahead, len(part), rng, image)
            if len(positions) < len(order):
                values = np.clip(self._filled(order, positions, values), *image)
            part[:, order] = values
        return self.normalizer.inverse(paths)

    def _filled(self, order: NDArray[np.intp], positions: NDArray[np.intp], values: Array) -> Array:
        """Normalised values at all steps, in order, from those drawn at some positions."""
        drawn = self.normalised[order[positions]]
        ranks = np.clip(drawn.cdf(values), MARGIN, 1.0 - MARGIN)
        nearest = np.abs(np.arange(len(order))[:, None] - positions).argmin(axis=1)
        filled = np.empty((len(values), len(order)))
        for start in range(0, len(values), max(1, DRAWS_AT_ONCE // len(order))):
            part = slice(start, start + max(1, DRAWS_AT_ONCE // len(order)))
            filled[part] = self.normalised[order].icdf(ranks[part][:, nearest])
        filled[:, positions] = values
        return filled

    def prob_ever(self, best: float, n: int = 1000, seed: int | None = 0) -> float:
        """The probability that any of the later values beats `best`.

        That is the share of joint futures that do, or the chance at the likeliest single step where that is larger.

        Args:
            best: The value to beat.
            n: From how many joint futures.
            seed: Of the random numbers; None draws afresh.

        Returns:
            A probability, which is at least that at any one of the steps.

        Raises:
            InputError: If `best` is not a number, or no joint futures can be drawn (see `paths`).

        Examples:
            >>> f.prob_ever(1.0, n=20)
            0.0
        """
        target = known(best, "best")
        share = self.metric.better(self.paths(n, seed), target).any(axis=1).mean()
        return max(float(share), float(np.max(self.prob_better(target))))

    def first_step(self, value: float, n: int = 1000, seed: int | None = 0) -> FirstStep:
        """When the run first reaches `value`.

        Args:
            value: A value of the metric.
            n: From how many joint futures.
            seed: Of the random numbers; None draws afresh.

        Returns:
            A probability for each step and for never; all at a step already seen if the run has been there.

        Raises:
            InputError: If `value` is not a number, or no joint futures can be drawn (see `paths`).

        Examples:
            >>> f.first_step(0.5)  # the third value was 0.52
            <FirstStep at 0.5: median step 3, 0 % never>
        """
        from epochcast.paths import FirstStep

        target = known(value, "value")
        if self.steps.ndim != 1:
            raise InputError("first_step is about one run; take one of the batch with forecast[i]")
        seen = self._reaches(self.observed.values[0, : self.observed.lengths[0]], target)
        if seen.any():
            step = self.observed.steps[0, int(np.argmax(seen))]
            return FirstStep(target, np.array([step]), np.ones(1), 0.0)
        order = np.argsort(self.steps)
        reached = self._reaches(self.paths(n, seed)[:, order], target)
        first = np.bincount(reached.argmax(axis=1)[reached.any(axis=1)], minlength=len(order)) / len(reached)
        return FirstStep.of(target, self.steps[order], first, self.prob_better(target)[order])

    def _reaches(self, values: Array, target: float) -> Mask:
        return np.asarray(~self.metric.better(np.full(values.shape, target), values))

    def to_dict(self) -> dict[str, Any]:
        """The answers that most programs ask for, in plain JSON types.

        Returns:
            Metric, horizon, steps, median, mean, quantiles and notes.

        Examples:
            >>> sorted(f.to_dict()["quantiles"])
            ['0.025', '0.050', '0.100', '0.250', '0.750', '0.900', '0.950', '0.975']
        """
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
        """A fan chart of one run: what was seen, the median, and the intervals of 50, 80 and 95 %.

        Args:
            ax: Where to draw; a new figure by default.
            truth: What really came, from step 1 on.
            **options: `title`, and `legend=False` to leave the legend out.

        Returns:
            The axes drawn on.

        Raises:
            InputError: If this is the forecast of a batch.
            MissingExtraError: If matplotlib is not installed.

        Examples:
            >>> f.plot(title="my run").figure.savefig("fan.png")  # doctest: +SKIP
        """
        from epochcast.plots import fan_chart

        if self.steps.ndim != 1:
            raise InputError("a fan chart shows one run; take one of the batch with forecast[i].plot()")
        bands = {band: self.interval(band) for band in (0.95, 0.8, 0.5)}
        seen = (self.observed.steps[0], self.observed.values[0])
        return fan_chart(self.steps, self.median(), bands, seen, self.metric.name, ax=ax, truth=truth, **options)


def _plain(array: Array) -> Any:
    """Nested lists of floats, None where nothing is known."""
    if array.ndim == 0:
        return float(array) if math.isfinite(array) else None
    return [_plain(row) for row in array]
