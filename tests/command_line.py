"""`epochcast ...` in the process of a test, which spares the start of another."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import warnings
from typing import Any, NamedTuple
from unittest import mock

import pytest

from epochcast.cli import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def answer(self) -> Any:
        """The JSON printed, read without the words that JSON does not have."""
        assert self.code == 0, self.err
        return json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))

    @property
    def refusal(self) -> str:
        """The one line that a command ends with."""
        assert (self.code, self.out) == (2, "")
        assert self.err.startswith("epochcast: ")
        assert self.err.count("\n") == 1, self.err
        return self.err


def command(*arguments: str, stdin: str = "") -> Outcome:
    """Run the command line."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["epochcast", *arguments]),
        mock.patch.object(sys, "stdin", io.StringIO(stdin)),
        mock.patch.object(sys, "excepthook", sys.excepthook),  # typer sets its own
        mock.patch.object(warnings, "showwarning", warnings.showwarning),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as left,
    ):
        main()
    return Outcome(int(left.value.code or 0), out.getvalue(), err.getvalue())
