"""Rows of a table that holds a collection, of which a bad one ends the reading or is left out."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import IO

from epochcast.benchmarks.collection import Collector


def csv_rows(file: IO[str], collector: Collector, delimiter: str = ",") -> Iterator[tuple[str, list[str]]]:
    """The place and the cells of each row, the header first, which says how many cells the others must have."""
    rows = csv.reader(file, delimiter=delimiter)
    width = 0
    try:
        for cells in rows:
            place, width = f"line {rows.line_num}", width or len(cells)
            if len(cells) == width:
                yield place, cells
            elif cells:
                collector.bad(place, f"{len(cells)} cells under {width} names")
    except (csv.Error, OSError, EOFError, UnicodeDecodeError) as error:
        collector.bad(f"line {rows.line_num}", f"cannot be read: {error}")
