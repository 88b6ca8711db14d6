"""Where the items of an experiment are computed: in this process, in processes beside it, or on a Ray cluster.

A worker that dies (out of memory, killed, its machine lost) takes only its own item with it. The item gets a second
chance, and is then reported as failed. An item whose input the library refuses has failed at once. Any other exception
is a mistake in the code and ends the experiment.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from epochcast.errors import ConfigError, EpochcastError, MissingExtraError

Function = Callable[[Any], Mapping[str, Any]]
BackendName = Literal["loky", "ray"]


@dataclass(frozen=True)
class Finished:
    """What became of one item: its result as JSON text, or why there is none."""

    key: str
    text: str | None = None
    failure: str | None = None


@dataclass(frozen=True)
class Workers:
    """Who computes: `jobs` processes (1: this one), or up to `jobs` tasks at a time on a Ray cluster.

    `address` is that of a running cluster; without one Ray starts a cluster of its own on this machine.
    """

    jobs: int = 1
    backend: BackendName = "loky"
    address: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.jobs, int) or isinstance(self.jobs, bool) or self.jobs < 1:
            raise ConfigError(f"jobs={self.jobs!r} must be a whole number of workers, at least 1")
        if self.backend not in ("loky", "ray"):
            raise ConfigError(f"backend={self.backend!r} is unknown; choose loky (this machine) or ray (a cluster)")
        if self.address is not None and self.backend != "ray":
            raise ConfigError(f"address={self.address!r} is for backend ray, not for {self.backend}")

    def map(self, function: Function, items: Mapping[str, Any]) -> Iterator[Finished]:
        """The outcome of each item as it comes; items are started in order."""
        if self.backend == "ray":
            return _map_on_ray(function, items, self)
        if self.jobs == 1:
            return (_attempt(function, key, item) for key, item in items.items())
        return _map_in_processes(function, items, self.jobs)


def _attempt(function: Function, key: str, item: Any) -> Finished:
    """Compute one item, where it is computed. The result travels as text: fresh and stored ones cannot differ."""
    try:
        return Finished(key, text=json.dumps(function(item), default=_plain))
    except EpochcastError as error:
        return Finished(key, failure=f"{type(error).__name__}: {error}")


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy as JSON types."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a result holds {type(value).__name__}, which is not of a JSON type")


def _map_in_processes(function: Function, items: Mapping[str, Any], jobs: int) -> Iterator[Finished]:
    """Over processes of joblib's loky.

    When one of its processes dies loky ends them all and does not say which item was at fault. So each of the few
    items that were under way gets its second chance alone.
    """
    try:
        from joblib.externals.loky.process_executor import TerminatedWorkerError
    except ImportError:
        raise MissingExtraError("joblib", "cluster") from None
    waiting = dict(items)
    while waiting:
        started: dict[str, Any] = {}
        try:
            for finished in _parallel(function, waiting, jobs, started):
                del waiting[finished.key], started[finished.key]
                yield finished
        except TerminatedWorkerError:
            suspects = dict(started)
            for key, item in suspects.items():
                try:
                    yield next(_parallel(function, {key: item}, jobs, {}))
                except TerminatedWorkerError:
                    yield Finished(key, failure="its worker died twice")
                del waiting[key]


def _parallel(function: Function, items: Mapping[str, Any], jobs: int, started: dict[str, Any]) -> Iterator[Finished]:
    """Outcomes from a pool of processes; `started` gains the items as they are handed out."""
    from joblib import Parallel, delayed, parallel_config

    def hand_out() -> Iterator[Any]:
        for key, item in tuple(items.items()):
            started[key] = item
            yield delayed(_attempt)(function, key, item)

    # One item at a time per worker, and few handed out in advance: a crash then touches few.
    with parallel_config(backend="loky", inner_max_num_threads=1):
        pool = Parallel(n_jobs=jobs, batch_size=1, pre_dispatch=jobs, return_as="generator_unordered")
        yield from pool(hand_out())


def _map_on_ray(function: Function, items: Mapping[str, Any], workers: Workers) -> Iterator[Finished]:
    """As plain tasks of a Ray cluster: Ray runs the task of a lost worker again elsewhere, and touches no other.

    (Ray's backend for joblib is built on a pool of actors, where the death of one loses the items queued at it.)
    """
    ray = _connect(workers.address)
    # The function and the settings bound to it go to the cluster once, not with every item.
    shared = ray.put(function)
    task = ray.remote(num_cpus=1, max_retries=1)(_attempt)
    waiting = iter(items.items())
    under_way: dict[Any, str] = {}
    while True:
        while len(under_way) < workers.jobs and (following := next(waiting, None)) is not None:
            key, item = following
            under_way[task.remote(shared, key, item)] = key
        if not under_way:
            return
        done, _ = ray.wait(list(under_way), num_returns=1)
        for reference in done:
            yield _collect(ray, reference, under_way.pop(reference))


def _collect(ray: Any, reference: Any, key: str) -> Finished:
    try:
        finished: Finished = ray.get(reference)
    except ray.exceptions.RayTaskError:  # an exception of the function itself
        raise
    except ray.exceptions.RayError as error:
        return Finished(key, failure=f"its worker died twice ({type(error).__name__})")
    return finished


def _connect(address: str | None) -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "cluster") from None
    if ray.is_initialized():
        return ray
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of our own sends no reports
        ray.init(include_dashboard=False, log_to_driver=False)
        return ray
    _knock(address)
    try:
        ray.init(address=address, log_to_driver=False)
    except ConnectionError as error:
        raise ConfigError(f"no Ray cluster answers at address={address!r}: {error}") from None
    return ray


def _knock(address: str) -> None:
    """Raise if nothing listens at host:port, which Ray itself would wait minutes to find out."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return  # such as "auto"
    try:
        socket.create_connection((host, int(port)), timeout=10.0).close()
    except OSError as error:
        raise ConfigError(f"no Ray cluster answers at address={address!r}: {error}") from None
