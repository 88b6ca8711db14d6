"""What the README and the pages of the documentation show is run, block by block; commands have their options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import epochcast as ec
from epochcast.cli.commands import app

ROOT = Path(__file__).parents[1]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.is_file()]
if not PAGES:
    pytest.skip("no README beside the tests", allow_module_level=True)

_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>not run|needs): (?P<why>.*?) -->\n)?^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S
)
FEATURES = {"context": "context" in ec.Forecaster().engine.reads}  # whether the default model can


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: of which language, what was said before it, and where it stands."""

    language: str
    text: str
    mark: str | None
    why: str | None
    line: int

    @property
    def runs(self) -> bool:
        """Whether it is to be run: it may be a part of something, or need what is not there yet."""
        return self.mark is None or (self.mark == "needs" and FEATURES[str(self.why)])


def blocks(text: str) -> list[Block]:
    found = []
    for match in _FENCE.finditer(text):
        language = match["kind"].split(" ")[0]
        line = text[: match.start("text")].count("\n")
        found.append(Block(language, match["text"], match["mark"], match["why"], line))
    return found


def code(page: Path) -> list[Block]:
    return [block for block in blocks(page.read_text(encoding="utf-8")) if block.language == "python"]


def names() -> dict[str, Any]:
    """What the blocks take for granted: a training of one's own."""
    curve = iter(np.tile(0.9 - 0.6 * np.exp(-np.arange(1.0, 101.0) / 9.0), 100))
    values = [0.31, 0.45, 0.52, 0.57, 0.60]
    return {"ec": ec, "train_and_validate": lambda *_: next(curve), "search": range(3), "values": values}


def run(page: Path) -> int:
    """Run the blocks of a page one after another, as its reader would; how many there were."""
    told, count = names(), 0
    for block in code(page):
        if "--8<--" in block.text:
            continue  # an example, which has a test of its own
        compiled = compile("\n" * block.line + block.text, str(page), "exec")
        if block.runs:
            exec(compiled, told)
            count += 1
    return count


@pytest.mark.parametrize("page", [page for page in PAGES if code(page)], ids=lambda page: page.name)
def test_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if any(".plot(" in block.text for block in code(page)):
        pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    run(page)


def test_block_that_fails_is_seen_unless_its_feature_is_missing(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Text.\n\n```python\na = 1\n```\n\n```python\na / 0\n```\n")
    with pytest.raises(ZeroDivisionError):
        run(page)
    page.write_text("<!-- not run: a part of something -->\n```python\n1 / 0\n```\n\n```python\na = 1\n```\n")
    assert run(page) == 1
    page.write_text("<!-- not run: a part of something -->\n```python\n1 /\n```\n")
    with pytest.raises(SyntaxError):
        run(page)


# --- commands ---------------------------------------------------------------------------------------------------------


def commands(page: Path) -> Iterator[tuple[str, bool]]:
    """Lines of the page's shell blocks that call epochcast, and whether all they need is there."""
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language in ("", "console", "sh"):
            for line in block.text.replace("\\\n", " ").splitlines():
                words = line.partition("#")[0].strip()
                if words.startswith("epochcast "):
                    yield words, block.runs


def fault(words: str) -> str | None:
    """What is wrong with a command, by the options that the command line has."""
    command: Any = typer.main.get_command(app)
    given = shlex.split(words)[1:]
    while given and given[0] in getattr(command, "commands", {}):
        command = command.commands[given.pop(0)]
    if hasattr(command, "commands"):
        return f"there is no command {' '.join(given[:1])!r}"
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    asked = {word.partition("=")[0] for word in given if word.startswith("--")}
    return ", ".join(sorted(asked - known - {"--help"})) or None


COMMANDS = sorted({words for page in PAGES for words, needed in commands(page) if needed})


def test_pages_show_commands() -> None:
    assert len(COMMANDS) >= 4


@pytest.mark.parametrize("words", COMMANDS)
def test_command_has_options_that_there_are(words: str) -> None:
    assert fault(words) is None


def test_command_with_a_wrong_name_or_option_is_seen() -> None:
    assert fault("epochcast forecast run.csv --horizont 50") == "--horizont"
    assert fault("epochcast predict run.csv") == "there is no command 'predict'"
