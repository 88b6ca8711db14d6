"""Are forecasts beside other runs calibrated on tasks of the prior, and would this study notice if they were not?

    python research/context_calibration.py --tasks 300
    python research/context_calibration.py --tasks 300 --model new.onnx

Fresh tasks of the prior over tasks, of which some runs are forecast with 1, 4 or 16 finished others in view. The first
line of each count is the model; the others are negative controls, which must do worse: intervals that are a third
narrower (`cooler`), other runs with their configurations exchanged (`configurations shuffled`), and the runs of another
task in their place (`another task`). KS is the distance of the PIT values from uniform; values a random model would
exceed in one of twenty studies are in the heading.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from epochcast.curve import Array, Curves, Lengths
from epochcast.distributions import Mixture
from epochcast.engines import load_engine
from epochcast.experiments.prior.scores import Calibration
from epochcast.prior.real.task import Task, sample_tasks
from epochcast.question import Context, Engine, Question

COUNTS = (1, 4, 16)
TARGETS, STEPS = 6, 40
COOLER = np.log(2.0 / 3.0)


@dataclass(frozen=True)
class Asked:
    """Runs of a task to forecast, some of its others, and values to score them by."""

    question: Question
    context: Context
    truth: Array  # [run, step]


def configurations(task: Task, rows: Lengths) -> tuple[dict[str, float | str] | None, ...]:
    if not task.columns.shape[1]:
        return (None,) * len(rows)
    return tuple(
        {f"x{j}": f"c{x:.0f}" if task.categories[j] else x for j, x in enumerate(task.columns[row].tolist())}
        for row in rows
    )


def asked(task: Task, steps: Array, horizon: float, count: int, rng: np.random.Generator) -> Asked | None:
    """Some runs of a task, each seen up to the same random step, beside so many finished ones."""
    values = task.runs.noisy
    order = rng.permutation(len(values))
    targets, others = order[:TARGETS], order[TARGETS : TARGETS + count]
    if len(others) < count:
        return None
    seen = int(rng.integers(0, len(steps)))
    index = seen + rng.integers(0, len(steps) - seen, (len(targets), 2))
    every = np.broadcast_to(steps, values.shape)
    question = Question(
        Curves(every[targets, :seen], values[targets, :seen], np.full(len(targets), seen)),
        steps[index],
        horizon,
        task.runs.kinds[targets],
        configs=configurations(task, targets),
    )
    runs = Curves(every[others], values[others], np.full(count, len(steps)))
    context = Context(runs, np.full(count, horizon), configurations(task, others))
    return Asked(question, context, np.take_along_axis(values[targets], index, axis=1))


def drawn(tasks: int, seed: int) -> Iterator[tuple[Task, Array, float]]:
    """Tasks on grids of their own, whole runs on epochs."""
    rng = np.random.default_rng(seed)
    for _ in range(-(-tasks // 2)):
        horizon = float(round(np.exp(rng.uniform(np.log(10.0), np.log(200.0)))))
        steps = np.unique(np.linspace(1.0, horizon, min(STEPS, int(horizon))).round())
        for task in sample_tasks(2, TARGETS + max(COUNTS), rng, steps, horizon):
            yield task, steps, horizon


def scores(engine: Engine, one: Asked, context: Context | None, cooler: float = 0.0) -> tuple[Array, Array]:
    """Log-likelihood and PIT of each value."""
    answer = engine.predict(replace(one.question, context=context))
    if cooler:
        assert isinstance(answer, Mixture)
        centre = answer.icdf(0.5)[..., None]
        means = centre + np.exp(cooler) * (answer.means - centre)
        answer = Mixture(answer.log_weights, means, answer.log_scales + cooler)
    return answer.log_prob(one.truth), answer.cdf(one.truth)


def shuffled(context: Context, rng: np.random.Generator) -> Context:
    order = rng.permutation(len(context))
    return replace(context, configs=tuple(context.configs[i] for i in order))


def study(engine: Engine, tasks: int, count: int, seed: int) -> dict[str, tuple[Array, Array]]:
    """Scores by what was in view."""
    rng = np.random.default_rng([seed, count])
    found: dict[str, list[tuple[Array, Array]]] = {}
    before: dict[float, Context] = {}  # of the last task that measured the same
    for task, steps, horizon in drawn(tasks, seed):
        one = asked(task, steps, horizon, count, rng)
        if one is None:
            continue
        kind = float(one.question.kinds[0])
        views = {
            "beside other runs": (one.context, 0.0),
            "cooler": (one.context, COOLER),
            "configurations shuffled": (shuffled(one.context, rng), 0.0),
            "another task": (before.get(kind), 0.0),
            "alone": (None, 0.0),
        }
        if kind in before:
            for name, (context, cooler) in views.items():
                found.setdefault(name, []).append(scores(engine, one, context, cooler))
        before[kind] = one.context
    return {
        name: (np.concatenate([a.ravel() for a, _ in parts]), np.concatenate([b.ravel() for _, b in parts]))
        for name, parts in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="default")
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    engine = load_engine(given.model)
    for count in COUNTS:
        found = study(engine, given.tasks, count, given.seed)
        size = len(next(iter(found.values()))[0])
        independent = size / (2 * TARGETS)  # values of one task hang together
        print(
            f"{count} other runs, {size} values of {independent:.0f} tasks; KS by chance {1.36 / independent**0.5:.3f}"
        )
        for name, (likelihood, pit) in found.items():
            calibration = Calibration.of(pit)
            covered = " / ".join(f"{share:.3f}" for share in calibration.coverage.values())
            print(f"  {name:24} log-likelihood {likelihood.mean():6.3f}  KS {calibration.ks:.3f}  inside {covered}")


if __name__ == "__main__":
    main()
