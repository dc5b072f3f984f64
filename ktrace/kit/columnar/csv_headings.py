"""Headings of CSV tables in a text, and how the rows below them are written.

"Start","Duration","Name"      separated by commas
Start;  Duration;  Name        separated by semicolons with blanks after them
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ktrace.kit.text.headings import UNIT

#: Recognises a format's tables by the cells of a line: None if they aren't headings, else anything (`CsvTable.what`).
Recogniser = Callable[[Sequence[str]], Any]

SEPARATORS = ",\t;"
_SPACED = re.compile(r'[,;] +"?\w')


class Dialect(NamedTuple):
    """How the rows of a table are written: the separator of cells, and whether a blank follows it.

    `bare`: quotes surround a cell with a separator, but quotes inside the cell aren't doubled.
    """

    separator: str
    spaced: bool
    bare: bool = False

    def cells(self, text: str) -> list[str] | None:
        """The cells of a row, which may contain line ends inside quotes; None if a quote isn't closed."""
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
    """Whether the cells below the headings are units and blanks, at least one unit among them."""
    words = [cell.strip() for cell in cells if cell.strip()]
    return bool(words) and all(UNIT.fullmatch(word) for word in words)


def find_csv(lines: Sequence[str], recognise: Recogniser) -> Iterator[tuple[int, Any]]:
    """Yields the number of each line of headings, and the format's answer for it. For probes."""
    for number, line in enumerate(lines, 1):
        if found := headings_of(line, recognise):
            yield number, found[1]


def headings_of(line: str, recognise: Recogniser) -> tuple[list[str], Any, Dialect] | None:
    """Returns the headings in a line, the format's answer for them and the dialect; None for other lines."""
    for separator in SEPARATORS:
        if separator in line:
            dialect = Dialect(separator, separator != "\t" and bool(_SPACED.search(line)))
            cells = [cell.strip() for cell in Dialect(separator, True).cells(line) or ()]
            if cells and (what := recognise(cells)) is not None:
                return cells, what, dialect
    return None
