"""Reads the tables that Nsight Compute prints as text: columns of fixed width, with long cells over several lines.

-------------------------------------- ----------- --------------------
Metric Name                            Metric Unit         Metric Value
-------------------------------------- ----------- --------------------
sass__inst_executed_per_opcode                inst   23592960 (5242880;
                                                     3145728; 2097152)
dram__bytes.sum                              Mbyte
"""

from __future__ import annotations

import re

from ktrace.kit.ncu_cells import is_unit

_RUN = re.compile(r"-{3,}")

#: Complete numbers.
_WHOLE = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?")

#: The start of a metric's name; the second line of a broken name doesn't match.
_ID = re.compile(r"[A-Za-z0-9_.:]*[a-z0-9]__\w")


def runs_of(ruler: str) -> list[tuple[int, int]]:
    """Returns the (begin, end) of each column below a ruler."""
    return [match.span() for match in _RUN.finditer(ruler)]


class Table:
    """A table: `runs` are the places of its columns; with `several` it has minimum, maximum and average.

    `begin` and `continue_row` read lines, `take_row` returns the row that was read last: name, unit and values.
    """

    def __init__(self, runs: list[tuple[int, int]]) -> None:
        self.runs = runs
        self.rows = 0
        self.headed = False
        self.several = False
        self.headings: list[str] = []  # of a table without metrics
        self._row: list[str] | None = None
        self._last: list[str] = []  # what the last line added to each cell

    @property
    def _count(self) -> int:
        return 5 if self.several else 3

    def continue_row(self, text: str) -> bool:
        """Reads a line that continues the current row; returns False if it doesn't."""
        if self._row is None or len(self.runs) != self._count or not self._is_in_columns(text):
            return False
        pieces = self.cells(text)
        if not any(pieces) or (pieces[0] and not self._is_rest_of_name(pieces)):
            return False
        if not pieces[0] and self._is_without_name(pieces):
            return False
        for column, piece in enumerate(pieces):
            if piece:
                self._row[column] += self._separator(column) + piece
                self._last[column] = piece
        return True

    def begin(self, text: str) -> bool:
        """Reads the first line of a row; returns False if the line isn't one."""
        cells = self._row_cells(text)
        if cells is None:
            return False
        self._row, self._last = cells, list(cells)
        self.rows += 1
        return True

    def cells(self, text: str) -> list[str]:
        """Returns the text of a line in each column."""
        return [text[begin:end].strip() for begin, end in self.runs]

    def take_row(self) -> list[str] | None:
        """Returns the cells of the row that was read, and forgets them; None if there is none."""
        row, self._row = self._row, None
        return row

    def _is_rest_of_name(self, pieces: list[str]) -> bool:
        """Whether the name in a line continues the previous one, which then fills its column."""
        if not self._is_full(0) or _ID.match(pieces[0]) or self._row is None:
            return False
        return not any(pieces[1:]) or ("(" in self._row[-1] and not self._row[-1].endswith(")"))

    def _is_without_name(self, pieces: list[str]) -> bool:
        """Whether a line is a new row with an empty name, because the previous row is complete."""
        if pieces[1]:
            return not self._is_full(1)
        whole = self._row is not None and all(_WHOLE.fullmatch(cell) for cell in self._row[2:])
        return whole and not pieces[-1].startswith("(")

    def _is_full(self, column: int) -> bool:
        begin, end = self.runs[column]
        return len(self._last[column]) == end - begin

    def _separator(self, column: int) -> str:
        """Returns the text between the last line of a cell and the next: a blank, or nothing within a broken word."""
        last = self._last[column]
        return " " if last and (not self._is_full(column) or last.endswith(";")) else ""

    def _row_cells(self, text: str) -> list[str] | None:
        if len(self.runs) == self._count and self._is_in_columns(text):
            cells = self.cells(text)
            if cells[0] or any(cells[2:]):
                return cells
        return _parts(text, self._count - 2)

    def _is_in_columns(self, text: str) -> bool:
        gaps = [text[before[1] : after[0]] for before, after in zip(self.runs, self.runs[1:], strict=False)]
        first, last = text[: self.runs[0][0]], text[self.runs[-1][1] :]
        return not any(gap.strip() for gap in (first, last, *gaps))


def _parts(text: str, values: int) -> list[str] | None:
    """Returns name, unit and values of a row that isn't aligned with the columns: the last words are the values."""
    words = re.split(r"\s{2,}", text.strip())
    if len(words) == values + 2 and (is_unit(words[1]) or not words[1]):
        return words
    words = text.split()
    if len(words) < values + 1:
        return None
    tail, head = words[-values:], words[:-values]
    unit = head.pop() if len(head) > 1 and is_unit(head[-1]) else ""
    if any(not re.match(r"[-+]?[\d.]|n/a|nan|inf|\(!\)", word) for word in tail):
        return None
    return [" ".join(head), unit, *tail]
