"""Runs every block of a README, Python and commands, as somebody would who has just installed epochcast.

    cd EMPTY_FOLDER && python run_readme.py README.md

Nothing but epochcast and what it brings is needed. The folder gets a log, `run.csv`, and a folder of them, `runs/`.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import epochcast as ec

FENCE = re.compile(r"(?:^<!-- needs: (\w+) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
RUNS = Path(ec.__file__).parent / "data" / "runs"

SEEN = 20  # epochs of a run that is under way


def prepare() -> None:
    lines = (RUNS / "digits_mlp.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("run.csv").write_text("".join(lines[: 1 + SEEN]), encoding="utf-8")
    shutil.copytree(RUNS, "runs", dirs_exist_ok=True)


def names() -> dict[str, object]:
    """What the blocks take for granted: a training of one's own."""
    curve = iter([0.9 - 0.6 * 0.9**step for step in range(1, 101)] * 100)
    return {"search": range(3), "train_and_validate": lambda *_: next(curve)}


def command(line: str) -> None:
    """One line of a shell block; what never ends by itself is asked to look once, and what is installed stays so."""
    words = shlex.split(line, comments=True)
    if not words or words[:2] == ["pip", "install"]:
        return
    if words[0] != "epochcast":
        raise SystemExit(f"no way to run {line!r}")
    words += ["--once"] if "watch" in words else []
    done = subprocess.run([sys.executable, "-m", "epochcast.cli", *words[1:]], capture_output=True, text=True)
    print(f"{' '.join(words)}: exit code {done.returncode}")
    if done.returncode != 0:
        raise SystemExit(done.stderr)


def main() -> None:
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    can = ec.Forecaster().engine.reads
    prepare()
    told, count = names(), 0
    for needed, language, block in FENCE.findall(text):
        if needed and needed not in can:
            print(f"left out a block that needs {needed}")
            continue
        if language == "python":
            exec(compile(block, sys.argv[1], "exec"), told)
        else:
            for line in block.splitlines():
                command(line)
        count += 1
    if count < 4:
        raise SystemExit(f"{sys.argv[1]} holds {count} blocks; are its fences intact?")
    print(f"{count} blocks ran on Python {sys.version.split()[0]} with epochcast {ec.__version__}")


if __name__ == "__main__":
    main()
