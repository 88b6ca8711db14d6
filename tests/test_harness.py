"""The cached, parallel, resumable map: what is computed once stays, whoever dies."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from epochcast.errors import ConfigError, EpochcastError, InputError, MissingExtraError
from epochcast.experiments.harness import Harness, Store, Workers, fingerprint


def square(item: float) -> dict[str, float]:
    return {"square": item**2}


def square_and_note(folder: Path, item: int) -> dict[str, int]:
    """Leaves a mark per call, so that tests can count calls made in other processes."""
    with open(folder / "calls", "a") as file:
        file.write(f"{item}\n")
    return {"square": item**2, "process": os.getpid()}


def die_at_three_once(folder: Path, item: int) -> dict[str, int]:
    result = square_and_note(folder, item)
    if item == 3 and calls(folder).count(3) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return result


def always_die_at_three(folder: Path, item: int) -> dict[str, int]:
    result = square_and_note(folder, item)
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return result


def refuse_odd(item: int) -> dict[str, int]:
    if item % 2:
        raise InputError(f"{item} is odd")
    return {"half": item // 2}


def divide_by_zero_after_the_first_result(store: Path, item: int) -> dict[str, float]:
    deadline = time.monotonic() + 30.0
    while item == 3 and not store.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return {"inverse": 1 / (item - 3)}


def numbers(item: int) -> dict[str, object]:
    return {"scalar": np.float32(0.5), "whole": np.int64(item), "list": np.arange(3.0), "worst": -np.inf}


def calls(folder: Path) -> list[int]:
    path = folder / "calls"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def items(count: int) -> dict[str, int]:
    return {f"item-{i}": i for i in range(count)}


@pytest.mark.parametrize("jobs", [1, 2])
def test_run_returns_the_results_of_all_items_in_order(jobs):
    report = Harness(workers=Workers(jobs)).run(square, {"b": 3.0, "a": 2.0})
    assert list(report.results.items()) == [("b", {"square": 9.0}), ("a", {"square": 4.0})]
    assert report.demand() == report.results


def test_run_with_two_jobs_computes_in_other_processes(tmp_path):
    report = Harness(workers=Workers(2)).run(partial(square_and_note, tmp_path), items(4))
    assert os.getpid() not in {result["process"] for result in report.results.values()}


def test_run_of_no_items_returns_nothing():
    assert Harness().run(square, {}).results == {}


def test_run_with_a_store_computes_only_what_is_missing(tmp_path):
    function = partial(square_and_note, tmp_path)
    first = Harness(Store(tmp_path / "s.jsonl")).run(function, items(3))
    second = Harness(Store(tmp_path / "s.jsonl")).run(function, items(5))
    assert calls(tmp_path) == [0, 1, 2, 3, 4]
    assert {key: second.results[key] for key in first.results} == first.results


def test_run_returns_fresh_results_as_stored_ones_come_back(tmp_path):
    fresh = Harness(Store(tmp_path / "s.jsonl")).run(numbers, {"k": 7}).results
    stored = Harness(Store(tmp_path / "s.jsonl")).run(numbers, {"k": 7}).results
    assert fresh == stored == {"k": {"scalar": 0.5, "whole": 7, "list": [0.0, 1.0, 2.0], "worst": -np.inf}}
    assert type(fresh["k"]["list"]) is list


def test_run_reports_progress_counting_stored_items(tmp_path):
    Harness(Store(tmp_path / "s.jsonl")).run(square, items(2))
    seen: list[tuple[int, int]] = []
    Harness(Store(tmp_path / "s.jsonl"), progress=lambda *at: seen.append(at)).run(square, items(4))
    assert seen == [(2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_run_with_items_the_library_refuses_reports_them_and_keeps_the_rest(jobs, tmp_path):
    report = Harness(Store(tmp_path / "s.jsonl"), Workers(jobs)).run(refuse_odd, items(4))
    assert list(report.results) == ["item-0", "item-2"]
    assert report.failures.keys() == {"item-1", "item-3"}
    assert "InputError: 1 is odd" in report.failures["item-1"]
    with pytest.raises(EpochcastError, match=r"2 item\(s\) failed"):
        report.demand()
    assert len(Store(tmp_path / "s.jsonl")) == 2  # failures are tried again next time


@pytest.mark.parametrize("jobs", [1, 2])
def test_run_with_a_mistake_in_the_function_raises_it_and_keeps_what_was_done(jobs, tmp_path):
    path = tmp_path / "s.jsonl"
    with pytest.raises(ZeroDivisionError):
        Harness(Store(path), Workers(jobs)).run(partial(divide_by_zero_after_the_first_result, path), items(6))
    assert "item-0" in Store(path)


def test_run_with_a_worker_killed_loses_nothing(tmp_path):
    report = Harness(Store(tmp_path / "s.jsonl"), Workers(2)).run(partial(die_at_three_once, tmp_path), items(8))
    assert [result["square"] for result in report.demand().values()] == [i**2 for i in range(8)]
    again = [i for i in range(8) if calls(tmp_path).count(i) > 1]
    assert 3 in again
    assert len(again) <= 4  # what each worker had under way, or had just done: a busy machine fetches results late


def test_run_with_an_item_that_always_kills_its_worker_reports_that_item_alone(tmp_path):
    report = Harness(workers=Workers(2)).run(partial(always_die_at_three, tmp_path), items(8))
    assert report.failures == {"item-3": "its worker died twice"}
    assert len(report.results) == 7
    assert calls(tmp_path).count(3) == 2


def test_run_killed_in_the_middle_goes_on_where_it_was(tmp_path):
    script = """
    import os, signal, sys
    from pathlib import Path
    from epochcast.experiments import harness

    def work(item):
        if item == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"value": item}

    harness.Harness(harness.Store(Path(sys.argv[1]))).run(work, {f"item-{i}": i for i in range(8)})
    """
    path = tmp_path / "s.jsonl"
    process = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(path)], timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert len(Store(path)) == 5
    report = Harness(Store(path)).run(partial(square_and_note, tmp_path), items(8))
    assert calls(tmp_path) == [5, 6, 7]
    assert len(report.results) == 8


def test_store_with_a_torn_last_line_skips_it_and_appends_after_it(tmp_path, caplog):
    path = tmp_path / "s.jsonl"
    store = Store(path)
    for i in range(3):
        store.put(f"item-{i}", {"square": i**2})
    path.write_bytes(path.read_bytes()[:-8])  # the process died while it wrote the third line
    with caplog.at_level(logging.WARNING):
        torn = Store(path)
    assert "1 line(s) cannot be read" in caplog.text
    assert len(torn) == 2
    torn.put("item-2", {"square": 4})
    torn.put("item-3", {"square": 9})
    healed = Store(path)
    assert [healed[f"item-{i}"]["square"] for i in range(4)] == [0, 1, 4, 9]


@pytest.mark.parametrize(
    "damage", [b"\xff\xfe\n", b"[1, 2]\n", b'{"key": "x"}\n', b"null\n", b'{"result": 3}\n', b"\n"]
)
def test_store_with_a_damaged_line_keeps_the_others(damage, tmp_path):
    path = tmp_path / "s.jsonl"
    Store(path).put("a", {"v": 1})
    path.write_bytes(damage + path.read_bytes())
    assert len(Store(path)) == 1


def test_store_with_every_truncation_keeps_all_whole_lines(tmp_path):
    path = tmp_path / "s.jsonl"
    store = Store(path)
    for i in range(3):
        store.put(f"item-{i}", {"square": i**2})
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        # A line whose newline alone is missing is whole.
        assert len(Store(path)) in (whole[:size].count(b"\n"), whole[: size + 1].count(b"\n"))


def test_store_of_a_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="no file"):
        Store(tmp_path)


def test_store_is_plain_json_lines(tmp_path):
    Store(tmp_path / "deep" / "s.jsonl").put("a", {"v": [1.5]})
    assert json.loads((tmp_path / "deep" / "s.jsonl").read_text()) == {"key": "a", "result": {"v": [1.5]}}


def test_fingerprint_depends_on_values_but_not_on_order():
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint({"a": 1, "b": 2}) != fingerprint({"a": 1, "b": 3})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"jobs": 0}, "jobs=0"),
        ({"jobs": 2.5}, "jobs=2.5"),
        ({"backend": "dask"}, "'dask' is unknown"),
        ({"address": "localhost:1"}, "backend ray"),
    ],
)
def test_workers_with_a_mistake_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Workers(**settings)


@pytest.mark.parametrize(("workers", "package"), [(Workers(2), "joblib"), (Workers(2, "ray"), "ray")])
def test_workers_without_their_package_name_the_extra(workers, package, monkeypatch):
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, "joblib.externals.loky.process_executor", None)
    with pytest.raises(MissingExtraError, match=r"epochcast\[cluster\]"):
        list(workers.map(square, {"a": 1.0}))


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_workers_with_an_address_where_nothing_listens_say_so(scheme):
    pytest.importorskip("ray")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but it does not listen
        address = f"{scheme}127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ConfigError, match="no Ray cluster answers"):
            list(Workers(2, "ray", address).map(square, {"a": 1.0}))


def test_cache_inside_a_file_is_refused(tmp_path):
    (tmp_path / "prior.jsonl").write_text("")
    with pytest.raises(InputError, match="is no folder"):
        Store(tmp_path / "prior.jsonl" / "prior.jsonl")
