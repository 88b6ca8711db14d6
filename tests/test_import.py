"""`import epochcast` is light: no torch, no matplotlib, no framework, and the public names are frozen."""

from __future__ import annotations

import json
import subprocess
import sys

import epochcast as ec

HEAVY = ("torch", "matplotlib", "emcee", "sklearn", "pandas", "joblib", "ray", "onnx", "scipy.stats", "scipy.optimize")


def test_import_epochcast_drags_in_nothing_heavy():
    code = "import sys, json, epochcast; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    assert [name for name in HEAVY if name in loaded] == []


def test_forecasting_never_imports_torch():
    code = (
        "import sys, epochcast as ec; ec.forecast([0.1, 0.4, 0.5], 20, 'accuracy').final.interval(0.9);"
        "print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout.strip() == b"False"


PUBLIC = [
    "Curves",
    "Decision",
    "EpochcastError",
    "Forecast",
    "Forecaster",
    "FreezeThaw",
    "Metric",
    "NoStopping",
    "Patience",
    "Reason",
    "Run",
    "Space",
    "Stopper",
    "Stream",
    "forecast",
    "metric_names",
    "models",
    "sample_prior",
]


def test_public_names_are_these():
    assert ec.__all__ == PUBLIC
    assert dir(ec) == sorted([*PUBLIC, "__version__"])
    assert [name for name in dir(ec) if not hasattr(ec, name)] == []


def test_core_install_needs_neither_torch_nor_cuda():
    from importlib.metadata import PackageNotFoundError, requires

    from packaging.requirements import Requirement

    needed, waiting = set(), ["epochcast"]
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in needed:
            continue
        needed.add(name)
        try:
            listed = [Requirement(line) for line in requires(name) or []]
        except PackageNotFoundError:  # not wanted on this platform
            continue
        waiting += [need.name for need in listed if need.marker is None or need.marker.evaluate({"extra": ""})]
    assert {"numpy", "scipy", "onnxruntime", "safetensors", "typer", "rich"} <= needed
    assert not [name for name in needed if name.startswith(("torch", "nvidia", "cuda", "triton", "onnxruntime-gpu"))]
