"""Tables as Nsight Compute prints them in text: columns of fixed width, long cells over several lines.

-------------------------------------- ----------- --------------------
Metric Name                            Metric Unit         Metric Value
-------------------------------------- ----------- --------------------
sass__inst_executed_per_opcode                inst   23592960 (5242880;
                                                     3145728; 2097152)
dram__bytes.sum                              Mbyte
"""

from __future__ import annotations

import re

from ktrace.converters._shared.ncu.units import is_unit

_RUN = re.compile(r"-{3,}")

#: Numbers that aren't broken.
_WHOLE = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?")

#: How names of metrics begin; the end of one that was broken doesn't.
_ID = re.compile(r"[A-Za-z0-9_.:]*[a-z0-9]__\w")


def runs_of(ruler: str) -> list[tuple[int, int]]:
    """Where the columns below a ruler stand."""
    return [found.span() for found in _RUN.finditer(ruler)]


class Table:
    """A table: `runs` are the places of its columns, `several` says that it has the smallest, greatest and average.

    `take` reads a line, `done` gives the row that was read last: name, unit and values.
    """

    def __init__(self, runs: list[tuple[int, int]]) -> None:
        self.runs = runs
        self.rows = 0
        self.headed = False
        self.several = False
        self.headings: list[str] = []  # of a table of other things than metrics
        self._row: list[str] | None = None
        self._last: list[str] = []  # what the last line added to each cell

    @property
    def _count(self) -> int:
        return 5 if self.several else 3

    def goes_on(self, text: str) -> bool:
        """Takes a line that is the next one of the row that is being read, if it is."""
        if self._row is None or len(self.runs) != self._count or not self._is_in_columns(text):
            return False
        pieces = [text[begin:end].strip() for begin, end in self.runs]
        if not any(pieces) or (pieces[0] and not self._is_rest_of_name(pieces)):
            return False
        if not pieces[0] and self._is_without_name(pieces):
            return False
        for column, piece in enumerate(pieces):
            if piece:
                self._row[column] += self._between(column) + piece
                self._last[column] = piece
        return True

    def begin(self, text: str) -> bool:
        """Takes a line that is the first one of a row, if it is."""
        cells = self._cells(text)
        if cells is None:
            return False
        self._row, self._last = cells, list(cells)
        self.rows += 1
        return True

    def plain(self, text: str) -> list[str]:
        """The cells of a line, whatever they are."""
        return [text[begin:end].strip() for begin, end in self.runs]

    def done(self) -> list[str] | None:
        """The cells of the row that was read, once."""
        row, self._row = self._row, None
        return row

    def _is_rest_of_name(self, pieces: list[str]) -> bool:
        """Whether a line with a name goes on with the one before, which then fills its column."""
        if not self._is_full(0) or _ID.match(pieces[0]) or self._row is None:
            return False
        return not any(pieces[1:]) or ("(" in self._row[-1] and not self._row[-1].endswith(")"))

    def _is_without_name(self, pieces: list[str]) -> bool:
        """Whether a line is a row of its own of which the name is empty: the one before is whole."""
        if pieces[1]:
            return not self._is_full(1)
        whole = self._row is not None and all(_WHOLE.fullmatch(cell) for cell in self._row[2:])
        return whole and not pieces[-1].startswith("(")

    def _is_full(self, column: int) -> bool:
        begin, end = self.runs[column]
        return len(self._last[column]) == end - begin

    def _between(self, column: int) -> str:
        """What stands between the last line of a cell and the next: nothing where a word was broken."""
        last = self._last[column]
        return " " if last and (not self._is_full(column) or last.endswith(";")) else ""

    def _cells(self, text: str) -> list[str] | None:
        if len(self.runs) == self._count and self._is_in_columns(text):
            cells = [text[begin:end].strip() for begin, end in self.runs]
            if cells[0] or any(cells[2:]):
                return cells
        return _parts(text, self._count - 2)

    def _is_in_columns(self, text: str) -> bool:
        gaps = [text[before[1] : after[0]] for before, after in zip(self.runs, self.runs[1:], strict=False)]
        first, last = text[: self.runs[0][0]], text[self.runs[-1][1] :]
        return not any(gap.strip() for gap in (first, last, *gaps))


def _parts(text: str, values: int) -> list[str] | None:
    """Name, unit and values of a row that isn't in its columns: the last words are the values."""
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
