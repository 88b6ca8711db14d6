"""Ctrl-C while the command line is still being imported: no traceback.

`epochcast.cli.main` sees to every later moment, but Python imports this package, and with it numpy, before that module.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType


def is_command_line(words: list[str]) -> bool:
    """Whether Python was started as `epochcast ...` or `python -m epochcast.cli ...`."""
    started = [os.path.basename(word).removesuffix(".exe") for word in words[1:3]]
    return started[:1] == ["epochcast"] or started == ["-m", "epochcast.cli"]


def be_quiet_when_interrupted() -> None:
    """Let an interrupt end the process as it always does (130 in a shell), but without the traceback."""
    usual = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            usual(kind, error, trace)

    sys.excepthook = hook


if is_command_line(sys.orig_argv):
    be_quiet_when_interrupted()
