"""Which line of a text is the headings of a CSV table, and how its rows are written.

"Start","Duration","Name"      separated by commas
Start;  Duration;  Name        by semicolons, blanks after them
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..text.headings import UNIT

#: What a room says of a line's cells: anything but None where they are the headings of one of its tables.
Recogniser = Callable[[Sequence[str]], Any]

SEPARATORS = ",\t;"
_SPACED = re.compile(r'[,;] +"?\w')


class Dialect(NamedTuple):
    """How the rows of a table are written: what separates cells, and whether a blank follows it.

    `bare` says that quotes stand around a cell with a separator, but that those in the cell aren't doubled.
    """

    separator: str
    spaced: bool
    bare: bool = False

    def cells(self, text: str) -> list[str] | None:
        """The cells of a line, or of several where a cell in quotes has line ends in it; None where a quote is open."""
        rows = [text]
        for strict in (True, False):
            reader = csv.reader(rows, delimiter=self.separator, skipinitialspace=self.spaced, strict=strict)
            try:
                return next(reader, [])
            except csv.Error as error:
                if "unexpected end" in str(error):
                    return None
        return []


def are_units(cells: Sequence[str]) -> bool:
    """Whether the cells below the headings are words of units and blanks, at least one word among them."""
    words = [cell.strip() for cell in cells if cell.strip()]
    return bool(words) and all(UNIT.fullmatch(word) for word in words)


def find_csv(lines: Sequence[str], fits: Recogniser) -> Iterator[tuple[int, Any]]:
    """The numbers of the lines that are headings, and what the room said of them. For probes."""
    for number, line in enumerate(lines, 1):
        if found := headings_of(line, fits):
            yield number, found[1]


def headings_of(line: str, fits: Recogniser) -> tuple[list[str], Any, Dialect] | None:
    """The cells of a line that is the headings of a table, what the room says of it, and how it is written."""
    for separator in SEPARATORS:
        if separator in line:
            dialect = Dialect(separator, separator != "\t" and bool(_SPACED.search(line)))
            cells = [cell.strip() for cell in Dialect(separator, True).cells(line) or ()]
            if cells and (what := fits(cells)) is not None:
                return cells, what, dialect
    return None
