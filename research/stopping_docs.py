"""Fill the tables and pictures of docs/research/stopping.md from the commands that the page names.

    python research/stopping_docs.py --data ../shared/data --cache stopping.jsonl          # all parts: an hour or two
    python research/stopping_docs.py --data ../shared/data --parts search,speed --model NAME

Each part replaces what stands between its two marks in the page.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from pages import filled

ROOT = Path(__file__).resolve().parents[1]
PAGE, IMAGES = ROOT / "docs" / "research" / "stopping.md", ROOT / "docs" / "research" / "images"
PARTS = ("early", "results", "speed", "surestop", "search")
EARLY = ("lcbench.npz", "taskset.npz", "kinds/families_lightning.npz", "kinds/families_misc.npz")


def run(*command: str) -> str:
    """Standard output of a command, which must succeed."""
    return subprocess.run([*command], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def early(arguments: argparse.Namespace) -> str:
    data = [f"--data={path}" for path in [*(arguments.data / name for name in EARLY), "digits_bench"]]
    return run(sys.executable, "research/wrong_stops.py", *data, "--model", arguments.model).strip()


def results(arguments: argparse.Namespace) -> str:
    """Tables of experiment 3; its pictures go beside the others."""
    options = ["--data", str(arguments.data), "--model", arguments.model, "--jobs", str(arguments.jobs)]
    options += ["--curves", str(arguments.curves)] if arguments.curves else []
    options += ["--cache", str(arguments.cache)] if arguments.cache else []
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "epochcast.cli", "evaluate", "stopping", *options, "--out", folder)
        pictures = sorted(Path(folder).glob("*.png"))
        for picture in pictures:
            (IMAGES / picture.name).write_bytes(picture.read_bytes())
        tables = (Path(folder) / "stopping.md").read_text(encoding="utf-8")
    amount = f"{arguments.curves} runs per task, drawn at random" if arguments.curves else "all runs of every task"
    links = "\n\n".join(f"![regret, {picture.stem}](images/{picture.name})" for picture in pictures)
    return f"Model `{arguments.model}`, {amount}.\n\n{links}\n\n{tables}"


def speed(arguments: argparse.Namespace) -> str:
    data = str(arguments.data / "lcbench.npz")
    curves = ["--curves", str(arguments.curves)] if arguments.curves else []
    text = run(sys.executable, "benchmarks/stopping.py", "--data", data, "--model", arguments.model, *curves)
    return f"```\n{text.strip()}\n```"


def surestop(arguments: argparse.Namespace) -> str:
    curves = ["--curves", str(arguments.curves)] if arguments.curves else []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "table.md"
        options = ["--data", str(arguments.data), "--model", arguments.model, "--out", str(out), *curves]
        run(sys.executable, "research/compare_surestop.py", *options)
        return out.read_text(encoding="utf-8").strip()


def search(arguments: argparse.Namespace) -> str:
    text = run(sys.executable, "examples/random_search.py", "--model", arguments.model, "--quiet")
    return f"```\n{text.strip()}\n```"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="default")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--curves", type=int, default=None, help="runs per task; all by default")
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    arguments.data = arguments.data.resolve()
    makers = {"early": early, "results": results, "speed": speed, "surestop": surestop, "search": search}
    for part in arguments.parts.split(","):
        if part not in makers:
            raise SystemExit(f"{part!r} is no part of the page; choose from {', '.join(PARTS)}")
        text = makers[part](arguments)
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), part, text), encoding="utf-8")
        print(f"filled {part}")


if __name__ == "__main__":
    main()
