"""The fuzz of the log readers, a small share of what `python fuzz/logs.py` does."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from epochcast.logs import jsonl
from tests.checkout import in_a_checkout

pytestmark = in_a_checkout


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = Path(__file__).parent.parent / "fuzz" / "logs.py"
    spec = importlib.util.spec_from_file_location("fuzz_logs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fuzz_logs", module)
    spec.loader.exec_module(module)
    return module


def test_fuzz_logs_of_every_format_has_no_escapes(fuzz: ModuleType) -> None:
    report = fuzz.fuzz_logs(mutations=30, seed=7)
    assert len(report) == 7
    for counts in report.values():
        assert counts["escapes"] == 0
        assert counts["read"] + counts["refused"] == counts["mutations"] == 30
        assert counts["read"] > 0


def test_fuzz_logs_is_the_same_for_the_same_seed(fuzz: ModuleType) -> None:
    assert fuzz.fuzz_logs(mutations=10, seed=3) == fuzz.fuzz_logs(mutations=10, seed=3)


def test_fuzz_logs_finds_a_reader_that_fails_in_its_own_way(
    fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def parse(*_: object, **__: object) -> None:
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr(jsonl, "parse", parse)
    report = fuzz.fuzz_logs(mutations=5, seed=0)
    assert report["jsonl"]["escapes"] == 5
    assert report["csv"]["escapes"] == 0
    assert "surprise" in capsys.readouterr().err
