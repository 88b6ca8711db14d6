"""The page itself: its HTML, style and scripts, as files of a server or all in one file."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "static"
STYLE = "page.css"
SCRIPTS = (  # in the order in which they build on each other
    "dom.js",
    "format.js",
    "scale.js",
    "source.js",
    "chart.js",
    "export.js",
    "overview.js",
    "table.js",
    "run.js",
    "page.js",
)
TYPES = {".css": "text/css", ".js": "text/javascript"}
_HEAD_MARK, _BODY_MARK = "<!-- head -->", "<!-- scripts -->"


def asset(name: str) -> bytes:
    """A file of the page."""
    return (_FOLDER / name).read_bytes()


def live_page() -> str:
    """The page whose style and scripts the server has."""
    head = f'<link rel="stylesheet" href="static/{STYLE}">'
    scripts = "\n".join(f'<script src="static/{name}"></script>' for name in SCRIPTS)
    return _filled(head, scripts)


def whole_page(data: dict[str, Any]) -> str:
    """The page in one file, with all that it shows; it opens without a server and loads nothing."""
    style = asset(STYLE).decode()
    scripts = [asset(name).decode() for name in SCRIPTS]
    policy = (
        f"default-src 'none'; img-src data: blob:; style-src {_hash(style)}; "
        f"script-src {' '.join(_hash(script) for script in scripts)}; base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    # What a log is called cannot end the element: < never stands in it as such.
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    body = f'<script type="application/json" id="data">{text}</script>\n'
    return _filled(head, body + "\n".join(f"<script>{script}</script>" for script in scripts))


def _filled(head: str, body: str) -> str:
    before, middle, after = _split(asset("page.html").decode())
    return before + head + middle + body + after


def _split(page: str) -> tuple[str, str, str]:
    before, rest = page.split(_HEAD_MARK)
    middle, after = rest.split(_BODY_MARK)
    return before, middle, after


def _hash(text: str) -> str:
    """What a content security policy calls a style or a script that stands in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
