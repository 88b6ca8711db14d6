"""Pages of the documentation with parts that scripts fill, each between two marks: <!-- part --> and <!-- /part -->."""

from __future__ import annotations

import re
from collections.abc import Sequence


def part_of(page: str, part: str) -> str:
    """What stands between the marks of a part."""
    found = _marked(part).search(page)
    if found is None:
        raise SystemExit(f"the page has no marks <!-- {part} --> and <!-- /{part} -->")
    return found[2]


def filled(page: str, part: str, text: str) -> str:
    """The page with a part replaced."""
    part_of(page, part)
    return _marked(part).sub(lambda match: f"{match[1]}\n{text.strip()}\n\n{match[3]}", page)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as Markdown has it."""
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))


def _marked(part: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {part} -->\n)(.*?)(<!-- /{part} -->)", flags=re.DOTALL)
