"""Tables with a header (CSV, TSV, semicolons; Lightning's and Keras' loggers) and plain lists of numbers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from epochcast.errors import InputError
from epochcast.logs import limits
from epochcast.logs.columns import Columns, is_step_name
from epochcast.logs.labels import is_run_name
from epochcast.logs.run import list_names, shown

PLAIN_COLUMN = "value"  # the name of a list of numbers that has no header
_SEPARATORS = re.compile(r"[\s,;]+")
_ABSENT = {"", "na", "n/a", "none", "null"}  # Keras writes NA where an epoch has no value
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def parse(data: bytes, source: str, *, finished: bool = False, only: Collection[str] | None = None) -> Columns:
    """The columns of a table or the numbers of a list.

    Unless the text is `finished`, a last line without a line end may still be being written and is left out: half a
    number is a number too. With `only`, other columns than those and the steps may hold anything.
    """
    columns = Columns(source)
    if not data:
        raise InputError(f"{source} is empty: it has no whole line yet")
    if not finished:
        end = data.rfind(b"\n") + 1
        if end < len(data):
            columns.notes.append("the last line has no line end: it may be unfinished and was left out")
        data = data[:end]
    text = _decode(data, source)
    first_line = next((line for line in io.StringIO(text, newline="") if line.strip()), None)
    if first_line is None:
        raise InputError(f"{source} has no whole line yet; end its last line with a line break")
    if all(_number(token) is not None for token in _tokens(first_line)):
        _read_list(text, columns)
    else:
        _Table(columns, text, _delimiter(first_line), only).read()
    return columns


def escape_cell(text: str) -> str:
    """A text cell for a CSV file that spreadsheets will show rather than run: `=1+1` becomes `'=1+1`."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def _number(cell: str) -> float | None:
    """The number that a cell holds, or None. `float` alone would also take `1_000` and digits of any script."""
    if "_" in cell or not cell.isascii():
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _delimiter(header: str) -> str:
    """What parts the cells: names may hold commas or semicolons, but hardly a tab."""
    return "\t" if "\t" in header else max(",;", key=header.count)


def _tokens(line: str) -> list[str]:
    return [token for token in _SEPARATORS.split(line) if token]


def _not_a_number(source: str, line: int, column: str, cell: str) -> InputError:
    where = f"{source}, line {line}, column {shown(column)}"
    return InputError(f"{where}: {cell[:40]!r} is not a number; leave the cell blank if there is no value")


def _read_list(text: str, columns: Columns) -> None:
    """Numbers without a header: one on each line, or all on one line."""
    lines = 0
    several = None  # the first line with more than one number
    columns.declare(PLAIN_COLUMN)
    for row, line in enumerate(io.StringIO(text, newline=""), start=1):
        tokens = _tokens(line)
        lines += bool(tokens)
        several = several or (row if len(tokens) > 1 else None)
        if several and lines > 1:
            raise InputError(
                f"{columns.source}, line {several}: a table needs a first line that names its columns, "
                "and a list of numbers has one on each line or all on one line"
            )
        for token in tokens:
            value = _number(token)
            if value is None:
                raise _not_a_number(columns.source, row, PLAIN_COLUMN, token)
            columns.add(PLAIN_COLUMN, row, value)
        limits.check_size(row, limits.MAX_ROWS, columns.source, "lines")


@dataclass
class _TextCell:
    """The first cell of a column that is not a number."""

    line: int
    text: str


class _Table:
    """A table with a header while its rows are read."""

    def __init__(self, columns: Columns, text: str, delimiter: str, only: Collection[str] | None) -> None:
        self.columns = columns
        self.only = only
        self._lines = iter(io.StringIO(text, newline=""))
        self._reader = csv.reader(self._lines, delimiter=delimiter, skipinitialspace=True, strict=True)
        self._text_cells: dict[str, _TextCell] = {}

    def read(self) -> None:
        rows = self._rows()
        _, header = next(rows, (1, []))
        names = self._declare(header)
        for line, cells in rows:
            if cells == header:  # a script that was started again
                self.columns.mark_restart(line)
                continue
            if len(cells) != len(names):
                raise InputError(
                    f"{self.columns.source}, line {line} has {len(cells)} cells, the header has {len(names)}"
                )
            self._add(line, names, cells)
        self._settle_text()

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Rows that are not blank, with the line on which they end."""
        while True:
            try:
                cells = next(self._reader, None)
            except csv.Error as error:
                if next(self._lines, None) is not None:
                    raise InputError(f"{self.columns.source}, line {self._reader.line_num}: {error}") from None
                self.columns.notes.append(f"line {self._reader.line_num} is not a whole record and was left out")
                return
            if cells is None:
                return
            limits.check_size(self._reader.line_num, limits.MAX_ROWS, self.columns.source, "lines")
            if any(cell.strip() for cell in cells):
                yield self._reader.line_num, cells

    def _declare(self, header: list[str]) -> list[str]:
        """Make the columns and return their names; an unnamed first column is the index that pandas writes."""
        names: list[str] = []
        for place, cell in enumerate(header, start=1):
            name = cell.strip() or ("index" if place == 1 else f"column {place}")
            if name in self.columns:
                raise InputError(f"{self.columns.source}: two columns are named {shown(name)}; rename one of them")
            self.columns.declare(name)
            names.append(name)
        return names

    def _add(self, line: int, names: list[str], cells: list[str]) -> None:
        for name, cell in zip(names, cells, strict=True):
            value = _number(cell)
            absent = cell.strip().lower() in _ABSENT
            if not absent and is_run_name(name):
                self.columns.label(name, line, cell.strip())
            if value is not None:
                self.columns.add(name, line, value)
            elif not absent and name not in self._text_cells:
                self._text_cells[name] = _TextCell(line, cell)

    def _must_be_numbers(self, name: str) -> bool:
        """Whether text in that column is a mistake: text among numbers, or in a column that was asked for."""
        if self.only is not None and name in self.only:
            return True
        if is_run_name(name):
            return False
        return self.columns.count(name) > 0 and (self.only is None or is_step_name(name))

    def _settle_text(self) -> None:
        """Raise where text is a mistake, and leave columns that are all text out."""
        for name, cell in self._text_cells.items():
            if self._must_be_numbers(name):
                raise _not_a_number(self.columns.source, cell.line, name, cell.text)
            self.columns.discard(name)
        left_out = [name for name in self._text_cells if not is_run_name(name)]
        if left_out:
            self.columns.notes.append(f"columns of text were left out: {list_names(left_out)}")
