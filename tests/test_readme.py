"""What the README shows is run, block by block."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import epochcast as ec

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
if not README.is_file():
    pytest.skip("no README beside the tests", allow_module_level=True)

BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
COMMANDS = [
    line.partition("#")[0].strip()
    for block in re.findall(r"```\n(.*?)```", README.read_text(), re.DOTALL)
    for line in block.splitlines()
    if line.startswith(("epochcast ", "cat "))
]


def names() -> dict[str, object]:
    """What the blocks take for granted: a training of one's own."""
    curve = iter(np.tile(0.9 - 0.6 * np.exp(-np.arange(1.0, 101.0) / 9.0), 100))
    values = [0.31, 0.45, 0.52, 0.57, 0.60]
    return {"ec": ec, "train_and_validate": lambda *_: next(curve), "search": range(3), "values": values}


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block {i}" for i in range(len(BLOCKS))])
def test_block_of_the_readme_runs(block: str) -> None:
    if ".plot(" in block:
        pytest.importorskip("matplotlib").use("Agg")
    exec(compile(block, "README.md", "exec"), names())


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_the_readme_has_options_that_there_are(command: str) -> None:
    """With --help in place of its work: a name or an option that is not known is an error all the same."""
    words = shlex.split(command.rpartition("|")[2].strip())
    assert words[0] == "epochcast"
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    commands = [word for word in words[1:3] if not word.startswith("-") and word.isalpha()]
    for depth in (2, 1):
        done = subprocess.run(
            [sys.executable, "-m", "epochcast.cli", *commands[:depth], "--help"],
            capture_output=True, text=True, check=False,
            env={**os.environ, "COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"},
        )  # fmt: skip
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr
    assert options <= set(re.findall(r"--[a-z][a-z-]*", done.stdout))
