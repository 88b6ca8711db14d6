"""A prior over tasks: runs that keep the law they have alone, and have something in common."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from epochcast.errors import InputError
from epochcast.features.process import Process
from epochcast.metric import UNTOLD
from epochcast.prior import real
from epochcast.prior.real.config import RealPriorConfig
from epochcast.prior.real.source import Source, Topic
from epochcast.prior.real.task import Task, TaskLaw, TaskSource, sample_tasks

STEPS = np.arange(1.0, 41.0)
# What is measured by the first values of a task is one thing for runs of a task, another for runs alone.
ALONE = RealPriorConfig(first_as_reference=0.0, unbounded=0.0, paper=0.0, exploding=0.0, collapse=0.0, wild=0.0)

SUMMARIES = {
    "first": lambda y: y[:, 0],
    "end": lambda y: y[:, -1],
    "gain": lambda y: y[:, -1] - y[:, 0],
    "movement": lambda y: np.log(np.abs(np.diff(y, axis=1)).mean(axis=1) + 1e-6),
    "half-way": lambda y: (y > 0.5 * (y[:, :1] + y[:, -1:])).argmax(axis=1),
}


def tasks(count: int, runs: int, seed: int, **rates: float) -> list[Task]:
    return sample_tasks(count, runs, np.random.default_rng(seed), STEPS, 40.0, ALONE.but(**rates))


@pytest.fixture(scope="module")
def one_run_each() -> np.ndarray:
    """The first run of each of many tasks."""
    return np.concatenate([task.runs.noisy[:1] for seed in range(12) for task in tasks(50, 1, seed)])


@pytest.mark.parametrize("name", SUMMARIES)
def test_task_one_run_of_each_has_the_law_that_runs_have_alone(one_run_each: np.ndarray, name: str) -> None:
    alone = real.sample(3_000, np.random.default_rng(100), STEPS, 40.0, ALONE).noisy
    summary = SUMMARIES[name]
    assert ks_2samp(summary(one_run_each), summary(alone)).pvalue > 1e-3
    # The same test tells the law of runs that never move from it.
    other = real.sample(3_000, np.random.default_rng(101), STEPS, 40.0, ALONE.but(constant=0.4)).noisy
    assert ks_2samp(summary(other), summary(alone)).pvalue < 1e-3


def spread(groups: list[np.ndarray]) -> float:
    """The share of the variance of ends that lies within groups."""
    ends = [group[:, -1] for group in groups]
    return float(np.mean([end.var() for end in ends]) / np.concatenate(ends).var())


def test_task_runs_of_one_are_more_alike_than_runs_of_several() -> None:
    found = [task.runs.noisy for task in tasks(40, 12, 3) if len(task.runs.noisy) == 12]
    mixed = np.concatenate(found)[np.random.default_rng(0).permutation(12 * len(found))].reshape(-1, 12, len(STEPS))
    assert spread(found) < 0.75
    assert spread(list(mixed)) > 0.85


def test_task_runs_measure_the_same() -> None:
    for task in tasks(30, 16, 4, paper=0.2, unbounded=0.1):
        assert len(set(task.runs.kinds)) == 1
        assert 1 <= len(task.runs.noisy) <= 16
        assert len(task.columns) == len(task.runs.noisy)
    kinds = {float(task.runs.kinds[0]) for task in tasks(60, 2, 5)}
    assert len(kinds - {UNTOLD}) == 2


def explained_by_configurations(permuted: bool) -> float:
    """What a Gaussian process explains of ends that it has not seen, in the half of the tasks where it is most."""
    rng, shares = np.random.default_rng(0), []
    for task in tasks(60, 40, 6):
        ends, columns = task.runs.noisy[:, -1:], task.columns
        if not columns.shape[1] or len(ends) < 40 or ends.std() < 1e-3:
            continue
        columns = columns[rng.permutation(40)] if permuted else columns
        process = Process(columns[:30], task.categories, ends[:30], np.zeros((30, 1)))
        left = ((process.predict(columns[30:])[0] - ends[30:]) ** 2).mean()
        shares.append(1.0 - left / ((ends[30:] - ends[:30].mean()) ** 2).mean())
    return float(np.mean(sorted(shares)[len(shares) // 2 :]))


def test_task_configurations_explain_ends_and_permuted_ones_do_not() -> None:
    assert explained_by_configurations(permuted=False) > 0.35
    assert explained_by_configurations(permuted=True) < 0.2


def test_source_numbers_of_the_metric_are_one_for_a_task_and_white_noise_is_nobodys() -> None:
    rng = np.random.default_rng(7)
    source = TaskSource(rng, 60, TaskLaw.draw(3, 20, rng))
    shared = source.about(Topic.METRIC).uniform()[:, 0].reshape(3, 20)
    assert (shared == shared[:, :1]).all()
    assert len(np.unique(shared[:, 0])) == 3
    noise = source.white(5)
    assert len(np.unique(noise)) == noise.size


@pytest.mark.parametrize("draw", ["uniform", "normal", "beta", "integers", "choice", "coin"])
def test_source_numbers_have_their_own_law(draw: str) -> None:
    def numbers(source: Source) -> np.ndarray:
        drawn = {
            "uniform": lambda: source.uniform(2.0, 5.0),
            "normal": lambda: source.normal(1.0, 2.0),
            "beta": lambda: source.beta(0.7, 1.5),
            "integers": lambda: source.integers(1, 6),
            "choice": lambda: source.choice([1.0, 2.0, 4.0], p=[0.2, 0.5, 0.3]),
            "coin": lambda: source.coin(0.3),
        }
        return np.asarray(drawn[draw]()[:, 0], dtype=np.float64)

    rng = np.random.default_rng(8)
    of_tasks = np.concatenate([numbers(TaskSource(rng, 50, TaskLaw.draw(50, 1, rng))) for _ in range(40)])
    alone = numbers(Source(rng, 4_000))
    assert ks_2samp(of_tasks, alone).pvalue > 1e-3
    assert ks_2samp(of_tasks + 0.3 * alone.std(), alone).pvalue < 1e-3


def test_tasks_of_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="tasks=0"):
        tasks(0, 3, 0)
