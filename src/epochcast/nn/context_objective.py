"""What a network that reads other runs is trained on.

The part that knows a run alone stays as it is, or is trained on beside: on runs without any others, which are all that
moves it. What it makes of runs is then given to the part that reads several of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from epochcast.distributions import Array, Distribution
from epochcast.features.constants import LARGEST_LOG_SCALE, LARGEST_SHIFT, SMALLEST_LOG_SCALE, SURPRISE
from epochcast.features.context import AHEAD, Cutoffs, OtherRuns, States, beside, moments
from epochcast.features.run import RunFeatures
from epochcast.nn.context import ContextInputs, ContextOutputs
from epochcast.nn.model import ModelConfig
from epochcast.nn.objective import Precision, StreamObjective, gaussians_log_prob, placed_around, tensor
from epochcast.nn.task_batch import Index, Lesson, TaskBatch, TaskRuns, TaskSampler
from epochcast.rates import Rates, widened

_HIDDEN = tuple(
    f"context.{layer}."
    for layer in (
        "run_blocks", "run_state", "from_run", "from_other", "from_own", "pair_up", "pair_down", "from_pooled",
        "from_state", "decode_hidden",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """A task as the encoder has read it: at the horizon of the task, and at their own where runs are shorter."""

    runs: TaskRuns
    features: RunFeatures
    units: Array  # [run, value]
    states: States  # [run, 1 + value, width]


@dataclass(frozen=True)
class Assembled:
    """One lesson as the network is given it, in numpy: rows are cutoffs."""

    newest_states: States  # [other, width]
    run_features: Array  # [other, feature]
    states: States  # [row, width]
    cutoff_features: States  # [row, feature]
    query_features: States  # [row, query, feature]
    other_states: States  # [row, other, width]
    now: Array  # [row, other, feature]
    then: Array  # [row, query, other, feature]
    overall: Array  # [row, query, feature]
    levels: Array  # [row, query, other]
    moved: Array  # [row, query, other]
    expected: Array  # [row, query, EXPECTED]
    last: Array  # [row]
    unit: Array  # [row]
    alone: States  # [row, query, output]: what the decoder without context answers
    targets: Array  # [draw, row, query]


class ContextObjective(StreamObjective):
    """Runs of a task, with others of it in view, and `alone` runs that have none: without these, only the weights of
    the decoder with context are trained."""

    def __init__(self, config: ModelConfig, precision: Precision = "float32", alone: int = 0) -> None:
        super().__init__(config, TaskSampler(alone), 1, precision)  # type: ignore[arg-type]
        for name, parameter in self.network.named_parameters():
            parameter.requires_grad = alone > 0 or name.startswith("context.")

    def is_hidden(self, name: str) -> bool:
        return name.startswith(_HIDDEN) or super().is_hidden(name)

    def loss(self, batch: TaskBatch, rng: np.random.Generator) -> Tensor:  # type: ignore[override]
        beside_others = -self.log_prob_of_tasks(batch).mean()
        return beside_others if batch.alone is None else beside_others + super().loss(batch.alone, rng)

    def log_prob_of_tasks(self, batch: TaskBatch) -> Tensor:
        """Log-density [draw, lesson, row, query] of later values."""
        with torch.no_grad():
            readings = [self.read(task) for task in batch.tasks]
            lessons = [self.assembled(lesson, readings) for lesson in batch.lessons]
        return self.log_prob_of_lessons(lessons)

    def log_prob_of_lessons(self, lessons: list[Assembled]) -> Tensor:
        log_weights, means, log_scales = self.answer(lessons)
        targets = tensor(np.stack([lesson.targets for lesson in lessons], axis=1))
        return torch.stack([gaussians_log_prob(log_weights, means, log_scales, y) for y in targets])

    def answer(self, lessons: list[Assembled]) -> tuple[Tensor, Tensor, Tensor]:
        """Log-weights, means and log-scales [lesson, row, query, component]."""
        most = max(len(lesson.run_features) for lesson in lessons)

        def stacked(name: str, other_axis: int | None = None) -> Tensor:
            arrays = [getattr(lesson, name) for lesson in lessons]
            if other_axis is not None:
                arrays = [_padded(array, most, other_axis) for array in arrays]
            return tensor(np.stack(arrays))

        there = torch.from_numpy(np.stack([np.arange(most) < len(lesson.run_features) for lesson in lessons]))
        given = ContextInputs(
            stacked("states"), stacked("cutoff_features"), stacked("query_features"),
            stacked("other_states", 1), stacked("now", 1), stacked("then", 2), stacked("overall"),
            stacked("levels", 2), stacked("moved", 2), stacked("expected"), stacked("unit"),
        )  # fmt: skip
        context = self.network.context
        summaries = context.encode(stacked("newest_states", 0), stacked("run_features", 0), there)
        last, unit = stacked("last")[..., None], stacked("unit")[..., None]
        return beside_alone(placed_around(stacked("alone"), last, unit), context(summaries, there, given), last, unit)

    def read(self, runs: TaskRuns) -> Reading:
        """All runs of a task, encoded."""
        features, states = self._encoded(runs, np.arange(len(runs)), runs.horizon)
        units = features.unit[:, 1:].copy()
        for horizon in np.unique(runs.horizons[runs.horizons != runs.horizon]):
            rows = np.flatnonzero(runs.horizons == horizon)
            own, states[rows] = self._encoded(runs, rows, float(horizon))
            units[rows] = own.unit[:, 1:]
        return Reading(runs, features, units, states)

    def _encoded(self, runs: TaskRuns, rows: Index, horizon: float) -> tuple[RunFeatures, States]:
        rates = Rates(runs.rates.told[rows], runs.rates.rate[rows], runs.rates.clock[rows])
        features = RunFeatures.of(runs.steps[rows], runs.values[rows], horizon, kinds=runs.kinds[rows], rates=rates)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bfloat16"):
            states, _ = self.network.encode(self._inputs(features.tokens, self.network.config.token_features))
        return features, states.float().numpy()

    def assembled(self, lesson: Lesson, readings: list[Reading]) -> Assembled:
        """What the network is given of one lesson."""
        reading = readings[lesson.task]
        runs, config = reading.runs, self.network.config
        others = self._others(lesson, readings)
        rows = np.repeat(lesson.targets, lesson.cutoffs.shape[1])
        cutoffs = lesson.cutoffs.reshape(-1)
        queries = lesson.queries.reshape(len(rows), -1)
        columns = _as_of(runs.columns[rows], others.columns.shape[1])
        own = Cutoffs.of(reading.features, runs.values, cutoffs, rows, others, columns)
        asked = runs.steps[rows[:, None], queries]
        view = beside(own, asked, others)
        seen = _rows_at(reading.features, rows, cutoffs)
        ahead = Rates(
            runs.rates.told[rows],
            *(part[rows[:, None], queries][:, None] for part in (runs.rates.rate, runs.rates.clock)),
        )
        states = reading.states[rows, cutoffs]
        cutoff_features = widened(seen.tokens, config.token_features)
        query_features = widened(seen.queries(asked[:, None], ahead), config.query_features)
        given = (torch.from_numpy(array) for array in (states[:, None], cutoff_features, query_features))
        return Assembled(
            others.newest_state, others.run_features, states, cutoff_features[:, 0], query_features[:, 0],
            others.states[np.arange(len(others)), view.positions], view.now, view.then, view.overall,
            view.levels, view.moved, view.expected,
            own.last, own.unit, self.network.decode(*given)[:, 0].numpy(), runs.targets[:, rows[:, None], queries],
        )  # fmt: skip

    def _others(self, lesson: Lesson, readings: list[Reading]) -> OtherRuns:
        """The runs in view, with what is forecast of them."""
        parts = [
            self._part(readings[task], rows, seen, readings[lesson.task].runs)
            for (task, rows), seen in zip(lesson.others, lesson.seen, strict=True)
        ]
        return parts[0] if len(parts) == 1 else OtherRuns.together(parts)

    def _part(self, reading: Reading, rows: Index, seen: Index, of: TaskRuns) -> OtherRuns:
        runs = reading.runs
        # Runs of another task are planned as long as those forecast, and their configurations have the same names.
        columns = _as_of(runs.columns[rows], of.columns.shape[1])
        horizons = runs.horizons[rows]
        ahead = np.empty((len(rows), len(AHEAD)))
        doubt = np.empty_like(ahead)
        for horizon in np.unique(horizons):
            some = np.flatnonzero(horizons == horizon)
            ahead[some], doubt[some] = self._ahead(reading, rows[some], seen[some], float(horizon))
        return OtherRuns(
            of.horizon, runs.steps[rows], runs.values[rows], reading.units[rows], seen, horizons,
            reading.states[rows], ahead, doubt, columns, of.categories,
        )  # fmt: skip

    def _ahead(self, reading: Reading, rows: Index, seen: Index, horizon: float) -> tuple[Array, Array]:
        """Means and standard deviations [run, AHEAD] of what the decoder without context forecasts."""
        runs, config = reading.runs, self.network.config
        features = replace(reading.features, horizon=horizon)
        at = _rows_at(features, rows, seen)
        left = np.maximum(horizon - at.step, 0.0)
        steps = at.step + left * AHEAD
        rates = Rates(
            runs.rates.told[rows], *(_at_steps(runs, rows, steps, part)[:, None] for part in ("rate", "clock"))
        )
        raw = self.network.decode(
            torch.from_numpy(reading.states[rows, seen])[:, None],
            self._inputs(at.tokens, config.token_features),
            self._inputs(at.queries(steps[:, None], rates), config.query_features),
        )
        parts = placed_around(raw, tensor(at.last[..., None]), tensor(at.unit[..., None]))
        return tuple(array[:, 0] for array in moments(*(part.double().numpy() for part in parts)))  # type: ignore[return-value]

    @torch.no_grad()
    def predict(self, values: Array, cutoff: int) -> Distribution:
        return super().predict(values, cutoff)


def beside_alone(
    alone: tuple[Tensor, Tensor, Tensor], beside: ContextOutputs, last: Tensor, unit: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The answer without other runs and the one beside them as one mixture; the fixed component comes last."""
    _, own_means, own_scales = placed_around(beside.raw, last, unit)
    own_logits = beside.raw[..., : own_means.shape[-1] - 1]
    logits, shifts, stretches = beside.of_suggestions.chunk(3, dim=-1)
    means = beside.means + beside.widths * shifts.clamp(-LARGEST_SHIFT, LARGEST_SHIFT)
    log_scales = (torch.log(beside.widths) + stretches).clamp(SMALLEST_LOG_SCALE, LARGEST_LOG_SCALE)
    log_weights = torch.log_softmax(torch.cat([own_logits, logits], dim=-1), dim=-1) + math.log1p(-SURPRISE)
    trust = beside.trust[..., None]
    weights_alone = alone[0][..., :-1] + F.logsigmoid(-trust)
    return (
        torch.cat([weights_alone, log_weights + F.logsigmoid(trust), alone[0][..., -1:]], dim=-1),
        torch.cat([alone[1][..., :-1], own_means[..., :-1], means, alone[1][..., -1:]], dim=-1),
        torch.cat([alone[2][..., :-1], own_scales[..., :-1], log_scales, alone[2][..., -1:]], dim=-1),
    )


def _rows_at(features: RunFeatures, rows: Index, cutoffs: Index) -> RunFeatures:
    """Cutoffs [row] of runs [row], each by itself: axes [row, 1]."""
    picked = {
        name: getattr(features, name)[rows, cutoffs][:, None]
        for name in ("tokens", "step", "gap", "last", "unit", "slopes")
    }
    rates = features.rates
    if rates is not None:
        rates = Rates(rates.told[rows], rates.rate[rows, cutoffs][:, None], rates.clock[rows, cutoffs][:, None])
    return replace(features, **picked, rates=rates)


def _at_steps(runs: TaskRuns, rows: Index, steps: Array, name: str) -> Array:
    """Rates or clocks of runs at any steps [run, step]."""
    known = getattr(runs.rates, name)
    return np.stack(
        [
            np.interp(at, runs.steps[row, : runs.lengths[row]], known[row, : runs.lengths[row]])
            for row, at in zip(rows, steps, strict=True)
        ]
    )


def _as_of(columns: Array, count: int) -> Array:
    """Configurations with so many columns."""
    found = np.full((len(columns), count), np.nan)
    shared = min(count, columns.shape[1])
    found[:, :shared] = columns[:, :shared]
    return found


def _padded(array: Array, most: int, axis: int) -> Array:
    ahead = [(0, 0)] * array.ndim
    ahead[axis] = (0, most - array.shape[axis])
    return np.pad(array, ahead)
