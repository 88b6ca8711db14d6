"""What scoring real curves costs: the network's time against MCMC's, and the memory of a large collection.

    python benchmarks/real_curves.py

One core; the memory takes some minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

# One core: numpy's libraries read this when they are first imported.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import numpy as np

from epochcast.benchmarks import CurveSet, digits_bench
from epochcast.engines import load_engine
from epochcast.experiments.real import scores as real
from epochcast.question import Engine
from epochcast.sampling.mcmc import ShortChainWarning

CURVES, STEPS = 70_000, 52  # LCBench with all of its metrics is as large


def seconds_per_curve(engine: Engine, curves: CurveSet) -> float:
    """Processor time per curve and cutoff."""
    started = time.process_time()
    scored = sum(len(real.score(engine, curves, share)) for share in real.SHARES)
    return (time.process_time() - started) / scored


def times_faster_than_mcmc() -> float:
    """How many times longer MCMC-PP with the paper's cheapest settings takes than the default network."""
    curves = digits_bench("accuracy").sample(200, seed=5)
    network, chain = load_engine("default"), load_engine("mcmc-pp")
    before = seconds_per_curve(network, curves)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShortChainWarning)
        slow = seconds_per_curve(chain, curves[:2])
    return slow / (0.5 * (before + seconds_per_curve(network, curves)))


def peak_megabytes() -> float:
    """Peak memory of `epochcast evaluate real` on a large collection of made-up losses (Linux)."""
    rng = np.random.default_rng(0)
    steps = np.arange(1, STEPS + 1)
    gain = rng.uniform(0.0, 1.5, (CURVES, 1)) * (1.0 - steps ** -rng.uniform(0.2, 1.5, (CURVES, 1)))
    losses = np.maximum(2.0 - gain + 0.01 * rng.standard_normal((CURVES, STEPS)), 0.0).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.npz"
        tasks = {"task": rng.integers(0, 35, CURVES), "task_names": np.array([f"task{i}" for i in range(35)])}
        np.savez(path, curves=losses, metric=np.array("valid loss"), minimize=np.array(True), **tasks)
        options = ["--data", str(path), "--curves", str(CURVES), "--cutoffs", "0.8", "--engines", "default", "--json"]
        script = (
            "import resource, sys\n"
            "from epochcast.cli import main\n"
            f"sys.argv = ['epochcast', 'evaluate', 'real', *{options!r}]\n"
            "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return float(done.stderr.split()[-1])


if __name__ == "__main__":
    print(f"the network is {times_faster_than_mcmc():,.0f} times faster than MCMC-PP per curve and cutoff")
    print(f"peak memory of {CURVES:,} curves x {STEPS} steps: {peak_megabytes():.0f} MB")
