"""Ray on this machine, for the tests of integrations: one node, or several as on a real cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_MEMORY = 80_000_000  # of a node's object store
_PATH = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])


@contextmanager
def environment() -> Iterator[None]:
    """What the processes of Ray are to know."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")  # what Ray reports home
        patch.setenv("RAY_worker_niceness", "0")  # by default workers wait for all that the machine does otherwise
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patch.setenv("PYTHONPATH", _PATH)  # workers unpickle what test modules define
        yield


@contextmanager
def node(cpus: int) -> Iterator[None]:
    """Ray with this many processors."""
    import ray

    with environment():
        ray.init(num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        yield
        ray.shutdown()


@contextmanager
def cluster(nodes: int) -> Iterator[Any]:
    """A cluster of nodes with a processor each, to which this process is connected; a dead node is soon noticed."""
    import ray
    from ray.cluster_utils import Cluster

    health = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
    head = {"num_cpus": 1, "object_store_memory": _MEMORY, "include_dashboard": False, "_system_config": health}
    with environment():
        found = Cluster(initialize_head=True, head_node_args=head)
        for _ in range(nodes - 1):
            add_node(found)
        ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
        yield found
        ray.shutdown()
        found.shutdown()


def add_node(cluster: Any) -> None:
    """One more node with a processor."""
    cluster.add_node(num_cpus=1, object_store_memory=_MEMORY)
    cluster.wait_for_nodes()
