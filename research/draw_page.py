"""Pictures of `epochcast watch --web` for docs/guide/web.md, of runs that ship with epochcast.

    python research/draw_page.py docs/images

The runs are those of one task of `digits_bench`, each cut somewhere as if it were under way. It needs Chromium.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import epochcast

BENCH = Path(epochcast.__file__).parent / "data" / "digits_bench.npz"
TASK, RUNS, HORIZON, SEED = "digits_wrong_labels", 48, 50, 3
WIDE, NARROW = {"width": 1180, "height": 960}, {"width": 390, "height": 844}
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
COLOURS = 255  # of a picture
SHOWN = ("learning_rate", "momentum", "weight_decay", "dropout", "batch_size", "width", "depth")


def write_runs(folder: Path) -> None:
    """A folder for each run, with its log and its configuration."""
    bench = np.load(BENCH, allow_pickle=False)
    rng = np.random.default_rng(SEED)
    of_task = np.flatnonzero((bench["task"] == list(bench["task_names"]).index(TASK)) & (bench["epochs"] == HORIZON))
    names = list(bench["config_names"])
    for index in sorted(rng.choice(of_task, min(RUNS, len(of_task)), replace=False)):
        config = dict(zip(names, bench["config"][index].tolist(), strict=True))
        words = {
            word: str(bench[f"{word}_names"][int(config[word])]) for word in ("schedule", "optimizer", "activation")
        }
        plain = {name: float(f"{config[name]:.3g}") for name in SHOWN if name in config}
        family = str(bench["family_names"][bench["family"][index]])
        values = bench["curves_accuracy"][index]
        seen = values[: int(rng.integers(4, HORIZON) if rng.random() < 0.9 else HORIZON)]
        run = folder / f"{family}_{words['optimizer']}_lr{plain['learning_rate']:.2g}_{index}"
        run.mkdir()
        lines = [f"{step},{value:.5f}\n" for step, value in enumerate(seen, start=1)]
        (run / "metrics.csv").write_text("epoch,val_acc\n" + "".join(lines))
        (run / "config.json").write_text(json.dumps({"network": family, **words, **plain}))


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The page of that folder, and its address."""
    command = [sys.executable, "-u", "-m", "epochcast.cli", "watch", str(folder), "--monitor", "val_acc"]
    command += ["--horizon", str(HORIZON), "--web", "--no-open", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    try:
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def settled(page: Page) -> None:
    """Wait until everything is drawn."""
    page.wait_for_selector("#progress", state="hidden")
    page.wait_for_selector("#overview path.seen", state="attached")
    page.mouse.move(2, 2)
    page.wait_for_timeout(500)


def draw(address: str, out: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        for name, size, scheme in (("light", WIDE, "light"), ("dark", WIDE, "dark"), ("narrow", NARROW, "light")):
            page = browser.new_page(viewport=size, color_scheme=scheme)
            page.goto(address)
            settled(page)
            page.screenshot(path=out / f"web-{name}.png")
            if name == "narrow":
                page.locator("#verdicts").scroll_into_view_if_needed()
                page.evaluate("scrollBy(0, document.getElementById('table').getBoundingClientRect().top - 190)")
                page.wait_for_timeout(300)
                page.screenshot(path=out / "web-narrow-table.png")
            else:
                page.evaluate("open(runs.sorted().find((row) => row.verdict === 'running' && row.step > 25).id)")
                page.wait_for_selector("#fan path.b05", state="attached")
                if name == "light":
                    page.locator("#reach-value").fill(f"{page.evaluate('runs.head.best'):.3g}")
                    page.locator("#reach-ask").click()
                    page.wait_for_function("() => !document.getElementById('reach-ask').disabled")
                page.mouse.move(2, 2)
                page.wait_for_timeout(500)
                page.screenshot(path=out / f"web-run-{name}.png")
            page.close()
        browser.close()
    for path in out.glob("web-*.png"):  # few colours are as many as are there
        Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="draw the page for the documentation")
    parser.add_argument("out", type=Path, help="folder for the pictures")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as name:
        write_runs(Path(name))
        with served(Path(name)) as address:
            draw(address, out)


if __name__ == "__main__":
    main()
