"""The harness on a real Ray cluster of two nodes: a worker that dies loses its own item's work and nothing else."""

from __future__ import annotations

import os
import signal
import time
import uuid
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from epochcast.errors import InputError
from epochcast.experiments.harness import Harness, Store, Workers

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")

# Starting Ray takes long, and its own code leaves sockets open and meets its own deprecations.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ITEMS = {f"item-{i}": i for i in range(12)}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes with a processor each; what Ray reports home is switched off."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    node = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=node)
    cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def note(folder: Path, item: int) -> dict[str, object]:
    """Marks the start and the end of each attempt in files of its own; slow enough for both nodes to take part."""
    (folder / f"started-{item}-{uuid.uuid4().hex}").touch()
    time.sleep(0.3)
    (folder / f"ended-{item}-{uuid.uuid4().hex}").touch()
    return {"square": item**2, "node": ray.get_runtime_context().get_node_id()}


def die_at_five_once(folder: Path, item: int) -> dict[str, object]:
    if item == 5 and not list(folder.glob("started-5-*")):
        (folder / "started-5-first").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return note(folder, item)


def always_die_at_five(folder: Path, item: int) -> dict[str, object]:
    if item == 5:
        (folder / f"started-5-{uuid.uuid4().hex}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return note(folder, item)


def refuse(item: int) -> dict[str, object]:
    raise InputError(f"{item} is refused")


def fail(item: int) -> dict[str, object]:
    return {"inverse": 1 / (item - item)}


def attempts(folder: Path, item: int) -> int:
    return len(list(folder.glob(f"started-{item}-*")))


def on(cluster) -> Workers:
    return Workers(2, "ray", cluster.address)


def test_run_on_a_cluster_uses_both_nodes_and_goes_on_from_the_store(cluster, tmp_path):
    store = tmp_path / "s.jsonl"
    report = Harness(Store(store), on(cluster)).run(partial(note, tmp_path), ITEMS)
    assert [result["square"] for result in report.demand().values()] == [i**2 for i in range(12)]
    assert len({result["node"] for result in report.results.values()}) == 2
    again = Harness(Store(store), on(cluster)).run(partial(note, tmp_path), ITEMS)
    assert again.results == report.results
    assert all(attempts(tmp_path, i) == 1 for i in range(12))


def test_run_on_a_cluster_with_a_worker_killed_repeats_only_its_item(cluster, tmp_path):
    report = Harness(Store(tmp_path / "s.jsonl"), on(cluster)).run(partial(die_at_five_once, tmp_path), ITEMS)
    assert [result["square"] for result in report.demand().values()] == [i**2 for i in range(12)]
    assert [attempts(tmp_path, i) for i in range(12)] == [2 if i == 5 else 1 for i in range(12)]


def test_run_on_a_cluster_with_an_item_that_always_kills_reports_that_item_alone(cluster, tmp_path):
    report = Harness(workers=on(cluster)).run(partial(always_die_at_five, tmp_path), ITEMS)
    assert report.failures.keys() == {"item-5"}
    assert "died twice" in report.failures["item-5"]
    assert len(report.results) == 11
    assert attempts(tmp_path, 5) == 2


def test_run_on_a_cluster_reports_refused_items_and_raises_mistakes(cluster):
    report = Harness(workers=on(cluster)).run(refuse, {"a": 1})
    assert report.failures == {"a": "InputError: 1 is refused"}
    with pytest.raises(ZeroDivisionError):
        Harness(workers=on(cluster)).run(fail, {"a": 1})


def test_run_on_a_cluster_that_loses_a_node_finishes_on_the_other(cluster, tmp_path):
    node = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    cluster.wait_for_nodes()
    workers = Workers(3, "ray", cluster.address)
    removed: list[int] = []

    def remove_it(done: int, total: int) -> None:
        if done == 4 and not removed:
            removed.append(done)
            cluster.remove_node(node, allow_graceful=False)

    report = Harness(workers=workers, progress=remove_it).run(partial(note, tmp_path), ITEMS)
    assert removed
    assert len(report.demand()) == 12
    assert sum(attempts(tmp_path, i) for i in range(12)) <= 13  # at most the one that was under way there


def test_comparison_on_a_cluster_equals_the_one_in_this_process(cluster):
    pytest.importorskip("emcee")
    from epochcast.experiments.contenders import contenders
    from epochcast.experiments.prior.comparison import Plan, compare

    chain = "nsamples=20:nwalkers=26:burn_in=0"
    plan = Plan(contenders(["lcpfn", "mcmc-pp"], [chain]), curves=6, sampled=3, shares=(0.1, 0.4))
    here, there = compare(plan), compare(plan, Harness(workers=on(cluster)))
    for expected, found in zip(here.scored, there.scored, strict=True):
        np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-6)
