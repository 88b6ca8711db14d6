"""The command line: thin commands over the library. Bad input ends with one clear line and exit code 2.

What takes time to import is imported inside `main`, so that Ctrl-C ends the command at any moment without a traceback.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from typing import Any, TextIO

from epochcast.errors import EpochcastError

__all__ = ["main"]

_BAD_INPUT, _NO_READER, _INTERRUPTED = 2, 1, 130


def main() -> None:
    """Run the command line; mistakes of the user and refusals of the system become one line and exit code 2."""
    warnings.showwarning = _show_warning
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a character of a chart gets a ? for it
    try:
        try:
            code = _run()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # a full disk shows here, and not after the last line of Python
        sys.exit(code)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except EpochcastError as error:
        _tell(str(error))
        sys.exit(_BAD_INPUT)
    except BrokenPipeError:  # the reader has seen enough
        _write_no_more()
        sys.exit(_NO_READER)
    except OSError as error:
        _write_no_more()
        where = "standard output" if error.filename is None else str(error.filename)
        _tell(f"{where}: {error.strerror or error}; give a path that can be written, on a disk that has room")
        sys.exit(_BAD_INPUT)


def _run() -> int:
    """Run the command that was asked for; its exit code."""
    import typer

    from epochcast.cli.commands import app

    usage_error: Any = typer.BadParameter.__mro__[1]  # click's, which typer brings along in some versions
    try:
        return int(app(prog_name="epochcast", standalone_mode=False) or 0)
    except typer.Abort:
        return _INTERRUPTED
    except usage_error as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # the help was printed
            context = getattr(error, "ctx", None)
            asked = "epochcast" if context is None else context.command_path
            numbers = [word for word in sys.argv[1:] if word.startswith("-") and word[1:2].isdigit()]
            hint = f"; numbers that begin with a minus go last, behind --, as in -- {numbers[0]}" if numbers else ""
            _tell(f"{error.format_message().rstrip('.')}{hint}; see {asked} --help")
        return _BAD_INPUT


def _tell(message: str) -> None:
    with contextlib.suppress(OSError):  # nobody may listen
        print(f"epochcast: {' '.join(message.split())}", file=sys.stderr)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    _tell(f"warning: {message}")


def _write_no_more() -> None:
    """Point the standard output to nowhere: Python would try to write what is left in its buffer once more."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
