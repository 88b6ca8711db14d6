"""How the page holds under load: memory of the server, how soon a value is on the screen, and who complains.

    python benchmarks/web_load.py                                  # 2,000 runs, ten minutes
    python benchmarks/web_load.py --runs 200 --minutes 1
    python benchmarks/web_load.py --first-paint                    # of 500 runs

Runs of 200 values lie in a folder, some of them grow every other second, and two browsers look at the page, one at the
table and one at the page of a run that grows. Memory is that of the server's process; a delay is the time from the
moment that a value is in its file to the moment that it is in the page. It needs Chromium and epochcast[dev].
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
from playwright.sync_api import Browser, Page, sync_playwright

import epochcast as ec

VALUES, INTERVAL = 200, 2.0  # of a run in the beginning; seconds between two looks and two rounds of growth
GROWING = 0.1  # of the runs, each round
LONGEST_WAIT = 600.0  # seconds
SETTLED = 0.2  # of the time, after which memory is compared
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")


class Logs:
    """The logs of many runs, each a CSV file, of which some grow on demand."""

    def __init__(self, folder: Path, runs: int, horizon: int) -> None:
        self.folder, self.runs = folder, runs
        rng = np.random.default_rng(0)
        self._values = np.clip(ec.sample_prior(runs, horizon, seed=0), 0.0, 1.0)
        self._lengths = rng.integers(VALUES // 4, VALUES + 1, runs)
        for run in range(runs):
            values = self._values[run, : self._lengths[run]]
            lines = [f"{step},{value:.5f}\n" for step, value in enumerate(values, start=1)]
            self.path(run).write_text("epoch,val_acc\n" + "".join(lines))

    def path(self, run: int) -> Path:
        return self.folder / f"run_{run:04}.csv"

    def grow(self, runs: int) -> int:
        """Add a value to each of the first runs; the step that the first of them has come to."""
        for run in range(runs):
            if self._lengths[run] >= self._values.shape[1]:
                continue
            with self.path(run).open("a") as file:
                file.write(f"{self._lengths[run] + 1},{self._values[run, self._lengths[run]]:.5f}\n")
            self._lengths[run] += 1
        return int(self._lengths[0])


@dataclass
class Watched:
    """What was measured."""

    delays: list[float] = field(default_factory=list)  # seconds, of the table and of the page of a run
    megabytes: list[tuple[float, float]] = field(default_factory=list)  # at which second
    processor: float = 0.0  # seconds of the server, in each round
    heap: list[float] = field(default_factory=list)  # of the browser with the table, in MB
    said: list[str] = field(default_factory=list)  # errors in the consoles

    def growth(self, seconds: float) -> float:
        """Of the server's memory: the median of the last fifth of the time over that of the second fifth."""
        early = [size for at, size in self.megabytes if SETTLED * seconds <= at < 2 * SETTLED * seconds]
        late = [size for at, size in self.megabytes if at >= (1 - SETTLED) * seconds]
        return float(np.median(late) / np.median(early) - 1.0)


@contextlib.contextmanager
def served(folder: Path, horizon: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`epochcast watch --web` on that folder, and its address."""
    command = [sys.executable, "-u", "-m", "epochcast.cli", "watch", str(folder), "--monitor", "val_acc"]
    command += ["--horizon", str(horizon), "--web", "--no-open", "--interval", str(INTERVAL), "--port", "0"]
    process = subprocess.Popen(  # in a session of its own, as in a terminal
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    try:
        assert found is not None
        yield process, found[0]
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        print(f"the server ended with {process.returncode} and said {errors.strip() or 'nothing'}")


def browsers(said: list[str], count: int) -> Iterator[list[Page]]:
    """Pages in browsers of their own."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        started: list[Browser] = [
            playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS)) for _ in range(count)
        ]
        pages = [browser.new_page(viewport={"width": 1280, "height": 900}) for browser in started]
        for page in pages:
            page.set_default_timeout(60_000)
            page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: said.append(str(error)))
        yield pages
        for browser in started:
            browser.close()


def until(page: Page, expression: str) -> None:
    """Ask a page until this is true. (Its policy forbids the library to put a script of its own there, which waits.)"""
    deadline = time.monotonic() + LONGEST_WAIT
    while not page.evaluate(expression):
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {LONGEST_WAIT:g} s: {expression}")
        time.sleep(0.03)


def under_load(runs: int, minutes: float) -> Watched:
    """Let runs grow for some minutes while two browsers look."""
    found, seconds = Watched(), 60.0 * minutes
    rounds = int(seconds / INTERVAL) + 60
    horizon = VALUES + rounds + 10
    with tempfile.TemporaryDirectory() as name:
        logs = Logs(Path(name), runs, horizon)
        with served(logs.folder, horizon) as (process, address):
            for table, one in browsers(found.said, 2):
                for page in (table, one):
                    page.goto(address)
                    until(page, f"runs.rows.size === {runs}")
                    until(page, "document.getElementById('progress').hidden")
                first = "[...runs.rows.values()].find((row) => row.name === 'run_0000.csv')"
                one.evaluate(f"open({first}.id)")
                server = psutil.Process(process.pid)
                began, spent = time.monotonic(), processor_seconds(server)
                while (now := time.monotonic() - began) < seconds:
                    step = logs.grow(int(GROWING * runs))
                    written = time.monotonic()
                    until(table, f"{first}.step === {step}")
                    until(one, f"document.getElementById('facts').innerText.includes('{step} of')")
                    found.delays.append(time.monotonic() - written)
                    found.megabytes.append((now, server.memory_info().rss / 2**20))
                    found.heap.append(float(table.evaluate("performance.memory.usedJSHeapSize")) / 2**20)
                    time.sleep(max(0.0, INTERVAL - (time.monotonic() - began - now)))
                found.processor = (processor_seconds(server) - spent) / len(found.delays)
    return found


def processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def first_paint(runs: int) -> None:
    """How soon the page of a new server is on the screen, and what of the forecasts."""
    said: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        logs = Logs(Path(name), runs, 2 * VALUES)
        with served(logs.folder, 2 * VALUES) as (process, address):
            announced = time.monotonic()
            for (page,) in browsers(said, 1):
                asked = time.monotonic()
                page.goto(address, wait_until="commit")
                until(page, "document.getElementById('doing')?.innerText")
                painted = time.monotonic()
                page.wait_for_selector("#rows tr[data-id]", state="attached")
                rows = time.monotonic()
                page.wait_for_selector("#rows .median", state="attached")
                first = time.monotonic()
                until(page, "document.getElementById('progress').hidden")
                done = time.monotonic()
                spent = processor_seconds(psutil.Process(process.pid))
    print(
        f"{runs} runs: the page is there with its progress bar {painted - asked:.2f} s after it was asked for. Counted"
    )
    print(f"from the server's first line, the browser was ready after {asked - announced:.2f} s, the runs were in the")
    print(
        f"table after {rows - announced:.2f} s, the first forecasts of those in sight after {first - announced:.2f} s"
    )
    print(
        f"and all after {done - announced:.2f} s; the server took {spent:.1f} s of processor time, its start included;"
    )
    print(f"complaints in the console: {said or 'none'}")


def main() -> None:
    parser = argparse.ArgumentParser(description="how the page holds under load")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--first-paint", action="store_true", help="tell how soon the page of 500 runs is there")
    options = parser.parse_args()
    if options.first_paint:
        first_paint(500)
        return
    found = under_load(options.runs, options.minutes)
    delays = np.array(found.delays)
    growth = found.growth(60.0 * options.minutes)
    print(f"{options.runs} runs, {int(GROWING * options.runs)} growing every {INTERVAL:g} s, two browsers:")
    print(f"a value is on both screens after {np.median(delays):.2f} s (median of {len(delays)}), 95 % after")
    print(f"{np.quantile(delays, 0.95):.2f} s, at the latest after {delays.max():.2f} s, of which the server works")
    print(f"{found.processor:.2f} s (processor time for each of these rounds, of all its cores); it takes")
    print(f"{found.megabytes[-1][1]:.0f} MB in the end, which is {growth:+.1%} against early on; the browser")
    print(
        f"with the table {np.median(found.heap[:10]):.0f} MB at first and {np.median(found.heap[-10:]):.0f} MB in the"
    )
    print(f"end; complaints in the consoles: {found.said or 'none'}")


if __name__ == "__main__":
    main()
