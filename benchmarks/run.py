"""Speed and memory as ratios to something run in the same minute, since machines are noisy; writes a Markdown table.

    python benchmarks/run.py --out docs/research/speed.md

One core. Every figure is the median of several rounds in which both sides take turns.
"""

from __future__ import annotations

import argparse
import datetime
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# One core: numpy's libraries read this when they are first imported.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import beside_others
import numpy as np
import real_curves
import search_overhead
import torch
import watch

import epochcast as ec
from epochcast.curve import Curves
from epochcast.nn.model import PAPER_SIZES, SetModel
from epochcast.prior import paper
from epochcast.question import Question
from epochcast.runtime.networks import SetEngine, StreamEngine
from epochcast.runtime.weights import find, read_safetensors

ROUNDS = 7


@dataclass(frozen=True)
class Line:
    """One row of the table."""

    what: str
    measured: str
    wanted: str
    holds: bool


def seconds(function: Callable[[], object], repeat: int = 1) -> float:
    started = time.perf_counter()
    for _ in range(repeat):
        function()
    return (time.perf_counter() - started) / repeat


def ratio(slow: Callable[[], object], fast: Callable[[], object], repeats: tuple[int, int] = (1, 1)) -> float:
    """How many times longer `slow` takes, the two taking turns."""
    slow(), fast()
    rounds = [seconds(slow, repeats[0]) / seconds(fast, repeats[1]) for _ in range(ROUNDS)]
    return float(np.median(rounds))


def peak_megabytes(code: str) -> float:
    """Growth of a fresh process's peak memory while it runs `code`, after its imports (Linux)."""
    script = (
        "import numpy as np, epochcast as ec\n"
        "from pathlib import Path\n"
        "from epochcast.prior import paper\n"
        "ec.forecast([0.1, 0.2], 10, 'accuracy').median(); paper.sample(10, np.random.default_rng(0))\n"
        "Path('/proc/self/clear_refs').write_text('5')  # start counting the peak anew\n"
        "def peak():\n"
        "    status = Path('/proc/self/status').read_text().split()\n"
        "    return int(status[status.index('VmHWM:') + 1]) / 1024\n"
        f"before = peak()\n{code}\nprint(peak() - before)"
    )
    return float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)


def import_seconds(module: str) -> float:
    return seconds(lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True))


def curve_in_plain_python(rng: np.random.Generator, horizon: int = 100) -> list[float]:
    """One curve of the paper's prior, written as a loop: what the batched sampler is compared with."""
    while True:
        weights = [rng.uniform() for _ in range(3)]
        c, a, alpha = rng.uniform(0, 1.25), rng.uniform(-0.6, 0.6), math.exp(rng.normal(0, 2))
        top, low = rng.uniform(0, 1), rng.uniform(0, 2)
        kappa, delta = math.exp(rng.normal(-2, 1)), math.exp(rng.normal(0, 0.5))
        level, slope = rng.uniform(0, 1), rng.uniform(-0.5, 0.5)
        sigma = math.exp(rng.normal(-4, 1))
        curve = []
        for t in range(1, horizon + 1):
            value = weights[0] * (c - a * t**-alpha)
            value += weights[1] * (top - (top - low) * math.exp(-min(kappa * t**delta, 700.0)))
            curve.append(value + weights[2] * (level - slope / math.log(t + 1)))
        if curve[0] < curve[-1] and all(0 <= value <= 1 for value in curve):
            return [value + sigma * rng.normal() for value in curve]


def prior_lines() -> list[Line]:
    rng = np.random.default_rng(0)
    per_curve = ratio(lambda: [curve_in_plain_python(rng) for _ in range(100)], lambda: paper.sample(10_000, rng)) * (
        10_000 / 100
    )
    memory = peak_megabytes("paper.sample(10_000, np.random.default_rng(0))")
    return [
        Line("prior sampling, against a Python loop per curve", f"{per_curve:.0f}x", ">= 100x", per_curve >= 100),
        Line("memory of drawing 10,000 curves", f"{memory:.0f} MB", "< 200 MB", memory < 200),
    ]


def import_lines() -> list[Line]:
    pairs = [import_seconds("epochcast") / import_seconds("onnxruntime") for _ in range(ROUNDS)]
    share = float(np.median(pairs))
    return [Line("`import epochcast`, against `import onnxruntime`", f"{share:.2f}x", "<= 2x", share <= 2.0)]


def forecast_lines(name: str) -> list[Line]:
    forecaster = ec.Forecaster(name)
    curves = ec.sample_prior(1_000, seed=1)[:, :50]
    bare = bare_call(forecaster.engine, curves[:1])
    single = ratio(lambda: forecaster.forecast(curves[0], 100, "unit"), bare, (30, 30))

    def singles() -> object:
        return [forecaster.forecast(row, 100, "unit") for row in curves[:50]]

    def times_faster(threads: int) -> float:
        """How much sooner each curve of a large batch is done than one by one on one core."""
        together = ec.Forecaster(name, threads=threads)
        return ratio(singles, lambda: together.forecast(curves, 100, "unit")) * (1_000 / 50)

    batch, on_two_cores = times_faster(1), times_faster(2)
    return [
        Line(
            f"`{name}`: a single forecast, against the bare onnxruntime call",
            f"{single:.2f}x",
            "<= 1.2x",
            single <= 1.2,
        ),
        Line(f"`{name}`: a forecast in a batch of 1,000, against singles", f"{batch:.1f}x faster", ">= 5x", batch >= 5),
        Line(
            f"`{name}`: the same with `threads=2`, against singles on one core",
            f"{on_two_cores:.1f}x faster",
            ">= 5x",
            on_two_cores >= 5,
        ),
    ]


def share_of_peak(name: str) -> str:
    """How much of what one core can do at best a forecast does already: what no batch can gain."""
    forecaster = ec.Forecaster(name)
    curves = ec.sample_prior(100, seed=1)[:, :50]
    arrays, _ = read_safetensors(find(name).weights)
    of_tokens = sum(array.size for key, array in arrays.items() if key.startswith("blocks.") and array.ndim == 2)
    of_queries = sum(arrays[key].size for key in ("head.weight", "decode_hidden.weight") if key in arrays)
    tokens = 100 if isinstance(forecaster.engine, SetEngine) else 51  # a set transformer's queries are tokens too
    operations = 2.0 * (tokens * of_tokens + 50 * of_queries)
    matrix = torch.rand(768, 768)
    shares = []
    for _ in range(ROUNDS):
        peak = 2.0 * 768**3 / seconds(lambda: matrix @ matrix, 3)
        single = operations / seconds(lambda: [forecaster.forecast(row, 100, "unit") for row in curves[:5]]) * 5
        batch = operations / seconds(lambda: forecaster.forecast(curves, 100, "unit")) * 100
        shares.append((single / peak, batch / peak))
    single, batch = np.median(shares, axis=0)
    return f"`{name}` {single:.0%} alone and {batch:.0%} in a batch"


def bare_call(engine: SetEngine | StreamEngine, values: np.ndarray) -> Callable[[], object]:
    """The network alone, its inputs made beforehand."""
    question = Question.of(Curves.of(values), np.arange(51.0, 101.0)[None], 100.0)
    recorded: list[dict[str, np.ndarray]] = []
    session = engine.session

    class Recorder:
        def run(self, names: list[str] | None, feed: dict[str, np.ndarray]) -> object:
            recorded.append(feed)
            return session.run(names, feed)

    engine.session = Recorder()
    engine.predict(question)
    engine.session = session
    return lambda: session.run(["raw"], recorded[0])


def paper_sized() -> Callable[[], object]:
    """One forecast of the size of the paper's largest network, in torch: cutoff 50, 50 steps."""
    reference = SetModel(PAPER_SIZES["P3"]).eval()
    steps = torch.arange(1, 101)[None] / 100
    values = torch.rand(1, 50)

    def p3() -> object:
        with torch.inference_mode():
            return reference(steps[:, :50], values, torch.ones(1, 50).bool(), steps[:, 50:])

    return p3


def stream_lines() -> list[Line]:
    p3 = paper_sized()
    forecaster = ec.Forecaster("stream")
    curves = ec.sample_prior(1_000, seed=1)
    single = ratio(p3, lambda: forecaster.forecast(curves[0, :50], 100, "unit"), (2, 30))

    def updates() -> object:
        fresh = forecaster.stream(100, "unit")
        for value in curves[0, :90]:
            fresh.update(value)
        return fresh

    update = ratio(p3, updates, (2, 1)) * 90
    whole = Question.of(Curves.of(curves[:100]), np.empty((100, 0)), 100.0)
    every = ratio(p3, lambda: list(forecaster.engine.at_cutoffs(whole, range(100))), (2, 1)) * 100 * 100
    memory = peak_megabytes("ec.Forecaster('stream').forecast(ec.sample_prior(1000)[:, :50], 100, 'unit').median()")
    return [
        Line(
            "`stream`: a forecast (cutoff 50, 50 steps), against P3's size in torch",
            f"{single:.0f}x",
            ">= 20x",
            single >= 20,
        ),
        Line("`stream`: a streaming update, against the same", f"{update:.0f}x", ">= 50x", update >= 50),
        Line(
            "`stream`: all cutoffs of a batch, per forecast, against the same", f"{every:.0f}x", ">= 200x", every >= 200
        ),
        Line("`stream`: memory of a batch of 1,000 curves", f"{memory:.0f} MB", "< 1000 MB", memory < 1000),
    ]


def context_lines() -> list[Line]:
    costs = beside_others.measure(ratio, paper_sized())
    memory = peak_megabytes(beside_others.MEMORY.format(folder=str(Path(__file__).parent)))
    limits = {16: 2.5, 64: 5.0}
    return [
        *(
            Line(
                f"`real`: a forecast beside {count} finished runs of 50 values, against one without",
                f"{costs.forecast[count]:.1f}x",
                f"<= {limit:g}x",
                costs.forecast[count] <= limit,
            )
            for count, limit in limits.items()
        ),
        Line(
            "`real`: a streaming update beside 16, against one without",
            f"{costs.update:.1f}x",
            "<= 2x",
            costs.update <= 2.0,
        ),
        Line(
            "`real`: a forecast beside 16, against P3's size in torch",
            f"{costs.reference:.0f}x faster",
            ">= 10x",
            costs.reference >= 10.0,
        ),
        Line("`real`: memory of reading 64 other runs", f"{memory:.0f} MB", "< 100 MB", memory < 100),
    ]


def watch_lines() -> list[Line]:
    grown = [watch.measure()["all have grown"] for _ in range(3)]
    seconds = float(np.median(grown))
    return [
        Line(
            "`watch`: a look at 500 runs that have all grown, beyond reading their logs",
            f"{seconds:.2f} s of processor time",
            "< 1 s",
            seconds < 1.0,
        )
    ]


def search_lines() -> list[Line]:
    return [Line(*row) for row in search_overhead.rows(search_overhead.measure())]


def real_curves_lines() -> list[Line]:
    times, memory = real_curves.times_faster_than_mcmc(), real_curves.peak_megabytes()
    return [
        Line("scoring real curves, MCMC-PP (M1) against the network", f"{times:,.0f}x", ">= 1,000x", times >= 1000),
        Line(
            f"memory of scoring {real_curves.CURVES:,} curves x {real_curves.STEPS}",
            f"{memory:.0f} MB",
            "< 2000 MB",
            memory < 2000,
        ),
    ]


def _kept(page: Path) -> str:
    """What stands in the page below this table, from its first heading on."""
    return "".join(page.read_text().partition("\n## ")[1:]) if page.exists() else ""


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    lines = [*prior_lines(), *import_lines()]
    for name in ("lcpfn", "stream"):
        lines += forecast_lines(name)
    lines += stream_lines()
    lines += context_lines()
    lines += watch_lines()
    lines += search_lines()
    lines += real_curves_lines()
    shares = ", ".join(share_of_peak(name) for name in ("lcpfn", "stream"))
    today = datetime.datetime.now(datetime.timezone.utc).date()
    text = [
        "# Speed and memory",
        "",
        f"Measured on {today} with `make bench`: one core, {platform.machine()}, Python {platform.python_version()}, "
        f"onnxruntime and torch {torch.__version__} on the CPU. Ratios are medians of {ROUNDS} rounds in which both "
        "sides take turns.",
        "",
        "| what | measured | wanted | holds |",
        "|---|---|---|---|",
        *(f"| {line.what} | {line.measured} | {line.wanted} | {'yes' if line.holds else '**no**'} |" for line in lines),
        "",
        f"Of the speed at which one core multiplies large matrices, a forecast reaches: {shares}. That bounds what a "
        "batch can gain on one core.",
        "",
    ]
    print("\n".join(text))
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text("\n".join(text) + _kept(out))


if __name__ == "__main__":
    main()
