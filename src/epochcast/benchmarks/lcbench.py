"""LCBench's JSON (`data_2k.json`, `data_2k_lw.json`, `bench_full.json`) and exports of NAS-Bench-201 in the same shape.

LCBench: `{dataset: {configuration: {"log": {"epoch": [...], "Train/val_accuracy": [...], ...}, "config": {...}}}}`, in
which accuracies are percentages and the first value was measured before training. Exports of tabular benchmarks:
`{dataset: {architecture: [...]}}`, or `{dataset: {architecture: {metric: [...]}}}`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epochcast.benchmarks.collection import Collection, Collector, numbers_of
from epochcast.benchmarks.json_stream import Stream, TruncatedError, open_text
from epochcast.errors import InputError
from epochcast.naming import metric_from

DEFAULT_METRIC = "Train/val_accuracy"
_EXPORTED = ("valid_accuracy", "valid-accuracy", "valid_acc", "val_accuracy", "val_acc", "accuracy")


def read_nested_json(path: Path, monitor: str | None = None, *, skip_bad: bool = False) -> Collection:
    """The curves of one metric; the file is read in pieces and may be gzipped."""
    collector = Collector(path, skip_bad)
    used: set[str] = set()
    with open_text(path) as file:
        stream = Stream(path, file)
        place = "the first dataset"
        try:
            for task, members in stream.objects():
                place, before = task, len(collector) + len(collector.skipped)
                for name, member in members:
                    place = f"{task} / {name}"
                    used |= _add(collector, place, task, member, monitor)
                if len(collector) + len(collector.skipped) == before:
                    collector.bad(task, "a task without curves")
        except TruncatedError as error:
            collector.bad(place, str(error))
    found = next(iter(used), monitor or DEFAULT_METRIC)
    name = path.name.split(".")[0]
    curves = collector.build(name, lambda _: metric_from(found))
    kind = "LCBench JSON" if found.startswith(("Train/", "final")) else "JSON of nested curves"
    return Collection(path, f"{kind}, {found}", (curves,), tuple(collector.skipped))


def _add(collector: Collector, place: str, task: str, member: Any, monitor: str | None) -> set[str]:
    """Add the curve of one member; returns the name of its metric."""
    if isinstance(member, list):
        collector.add(place, task, member)
        return {monitor or _EXPORTED[0]}
    if not isinstance(member, dict):
        collector.bad(place, f"{type(member).__name__} where curves belong")
        return set()
    is_lcbench = isinstance(member.get("log"), dict)
    log = member["log"] if is_lcbench else member
    name = monitor or (DEFAULT_METRIC if is_lcbench else next((key for key in _EXPORTED if key in log), _EXPORTED[0]))
    values, steps = log.get(name), log.get("epoch")
    if not isinstance(values, list):
        collector.bad(place, _unknown(name, log))
        return set()
    if is_lcbench and not (isinstance(steps, list) and len(steps) == len(values)):
        steps = list(range(len(values)))
    collector.add(place, task, values, steps, config=numbers_of(member.get("config")))
    return {name}


def _unknown(name: str, known: dict[str, Any]) -> str:
    lists = [key for key, value in known.items() if isinstance(value, list)]
    return f"metric {name!r} is not among {', '.join(lists[:20]) or 'its members'}"


def refuse_pickle(path: Path) -> InputError:
    """Why a file that could run code when it is opened is not opened, and the way out."""
    return InputError(
        f"{path} is a pickle or torch file, which can run any code when it is opened; epochcast reads none. "
        "NAS-Bench-201 and NATS-Bench are published so: export the curves with their own library as JSON "
        "({dataset: {architecture: [values]}}), CSV (dataset, arch, epoch, valid_accuracy) or .npz, and load that"
    )
