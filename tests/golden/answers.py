"""The answers that must not change: forecasts of all shipped models and decisions of stoppers, as plain numbers.

python -m tests.golden.answers      # writes them anew; only where an answer is meant to change
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import epochcast as ec

FILE = Path(__file__).with_name("answers.json")
LEVELS = [0.05, 0.5, 0.95]


def machine() -> str:
    """What single precision depends on: the processor and the version of onnxruntime."""
    import onnxruntime

    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.is_file() else [f"model name: {platform.processor()}"]
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"onnxruntime {onnxruntime.__version__}, {model}"


def _rising(length: int, start: float, end: float, scale: float, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    steps = np.arange(1.0, length + 1.0)
    wiggle = noise * np.random.default_rng(seed).standard_normal(length)
    return end - (end - start) * np.exp(-steps / scale) + wiggle


def _power(length: int, start: float, end: float, power: float, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    steps = np.arange(1.0, length + 1.0)
    return end + (start - end) * steps**-power * (1.0 + noise * np.random.default_rng(seed).standard_normal(length))


def _runs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Arguments of single forecasts by name."""
    for seed, (start, end, scale, noise) in enumerate(
        [(0.1, 0.9, 5, 0.01), (0.3, 0.7, 20, 0.0), (0.5, 0.52, 3, 0.005), (0.1, 0.99, 2, 0.001), (0.8, 0.6, 9, 0.02)]
    ):
        for length in (1, 2, 8, 40):
            values = np.clip(_rising(length, start, end, scale, noise, seed), 0.0, 1.0)
            yield f"accuracy {seed} of {length}", {"values": values, "horizon": 60, "metric": "accuracy"}
    for seed, (start, end, power, noise) in enumerate(
        [(2.3, 0.1, 0.7, 0.02), (10.8, 3.0, 0.3, 0.0), (0.7, 0.69, 1.0, 0.001)]
    ):
        for length in (2, 10, 45):
            values = _power(length, start, end, power, noise, seed)
            yield f"loss {seed} of {length}", {"values": values, "horizon": 90, "metric": "log_loss"}
    settled = np.clip(_rising(12, 10.0, 80.0, 6.0, 0.5, 3), 0.0, 100.0)
    yield "percentage", {"values": settled, "horizon": 30, "metric": "accuracy%"}
    yield "error", {"values": 1.0 - settled / 100.0, "horizon": 30, "metric": "error"}
    yield "perplexity", {"values": _power(15, 900.0, 40.0, 0.8), "horizon": 200, "metric": "perplexity"}
    yield "r2", {"values": _rising(15, -0.5, 0.8, 6.0), "horizon": 50, "metric": "r2"}
    yield "unit", {"values": _rising(15, 0.2, 0.8, 6.0), "horizon": 50, "metric": "unit"}
    yield "irregular", {
        "values": _rising(9, 0.2, 0.8, 3.0, 0.01), "horizon": 400, "metric": "accuracy",
        "steps": [1, 2, 4, 8, 16.5, 32, 64, 100, 150],
    }  # fmt: skip
    yield "long", {"values": _rising(450, 0.2, 0.8, 90.0, 0.01), "horizon": 900, "metric": "accuracy"}
    yield "iterations", {
        "values": _power(30, 9.0, 3.0, 0.4), "horizon": 100_000, "metric": "loss", "steps": 500.0 * np.arange(1, 31),
        "at": [20_000, 60_000, 100_000],
    }  # fmt: skip
    yield "untrained", {"values": _power(6, 2.0, 0.2, 0.7), "horizon": 40, "metric": "loss", "untrained": 2.303}
    yield "untrained at step 0", {
        "values": [0.1, *_rising(6, 0.3, 0.8, 4.0)], "horizon": 40, "metric": "accuracy", "steps": range(7),
    }  # fmt: skip
    yield "exploded", {"values": [0.9, 0.5, 0.3, 0.2, 4e4, 4e4], "horizon": 50, "metric": "loss"}


def _told() -> Iterator[tuple[str, dict[str, Any]]]:
    accuracy = {"values": _rising(20, 0.2, 0.7, 6.0, 0.01), "horizon": 100, "metric": "accuracy"}
    loss = {"values": _power(20, 2.3, 0.8, 0.6, 0.01), "horizon": 100, "metric": "loss", "untrained": 2.303}
    for schedule in ("cosine", "linear,warmup=5", "drops,at=60/80", "constant", [0.1] * 50 + [0.01] * 50):
        for name, run in (("accuracy", accuracy), ("loss", loss)):
            yield f"{name} told {schedule if isinstance(schedule, str) else 'rates'}", {**run, "schedule": schedule}


def _summary(forecast: ec.Forecast) -> list[Any]:
    """Quantiles at the next step, half-way and at the horizon, and the chance there to beat the newest value."""
    place = [0, len(forecast.steps) // 2, len(forecast.steps) - 1]
    chance = forecast.prob_better(float(forecast.observed.last_value[0]))
    return [forecast.steps[place].tolist(), forecast.quantile(LEVELS)[:, place].tolist(), chance[place].tolist()]


def _decisions(stopper: ec.Stopper, runs: list[np.ndarray]) -> list[Any]:
    found = []
    for run in runs:
        for step, value in enumerate(run, start=1):
            decision = stopper.update(step, float(value))
            found.append([decision.reason.value, decision.probability, *(decision.final or [])])
            if decision.stop:
                break
        stopper.next_run()
    return found


def answers() -> dict[str, Any]:
    """All of them, computed now."""
    found: dict[str, Any] = {}
    for model in ("real", "stream", "lcpfn"):
        for name, arguments in _runs():
            found[f"{model}: {name}"] = _summary(ec.forecast(**arguments, model=model))
    for name, arguments in _told():
        found[f"real: {name}"] = _summary(ec.forecast(**arguments))
    ragged = [_rising(length, 0.2, 0.8, 7.0, 0.01, length) for length in (3, 12, 25, 0)]
    for model in ("real", "stream", "lcpfn", "last-value", "power-law", "empirical-gp"):
        batch = ec.forecast(ragged[:3], 50, "accuracy", model=model)
        found[f"{model}: batch"] = [_summary(batch[i]) for i in range(3)]
    found["real: nothing seen"] = ec.forecast([], 50, "accuracy").quantile(LEVELS)[:, [0, 24, 49]].tolist()
    for name, metric, untrained in (("accuracy", "accuracy", None), ("loss", "loss", 2.303)):
        stream = ec.Forecaster().stream(60, metric, untrained=untrained)
        curve = _rising(12, 0.2, 0.8, 7.0, 0.01, 5) if name == "accuracy" else _power(12, 2.2, 0.4, 0.6, 0.01, 5)
        found[f"stream of {name}"] = [_summary(stream.update(float(value))) for value in curve]
    search = [
        _rising(30, 0.2, end, scale, 0.01, seed)
        for seed, (end, scale) in enumerate([(0.8, 6), (0.6, 4), (0.85, 9), (0.7, 3)])
    ]
    found["stopper"] = _decisions(ec.Stopper(30, "accuracy", context=False), search)
    found["stopper, final"] = _decisions(ec.Stopper(30, "accuracy", target="final", min_steps=2, context=False), search)
    losses = [2.3 * (1.0 - run) for run in search]
    found["stopper of losses, told"] = _decisions(
        ec.Stopper(30, "loss", schedule="cosine", min_steps=3, context=False), losses
    )
    return found


if __name__ == "__main__":
    FILE.write_text(json.dumps({"machine": machine(), **answers()}, allow_nan=False).replace('], "', '],\n"') + "\n")
