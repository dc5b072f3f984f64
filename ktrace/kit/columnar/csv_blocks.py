"""CSV tables anywhere in a text, as columns: for formats with millions of rows.

    ==12== Profiling result:                       text; skipped unless the format states an outcome
    "Start","Duration","Name"                      headings, recognised by the format
    ms,us,                                         a row of units, part of the table
    0.963765,167.908,"void f(int, ""x"")"          rows, yielded as blocks of columns

A format passes a function that recognises its headings and gets tables, rows and text:

    for item in CsvBlocks(source, conversion, recognise):
        if isinstance(item, CsvRows):
            yield batches.events(item.block, ids, name=item.block.take("Name"), ...)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.input.compression import mark_size, utf8
from ktrace.input.limits import current
from ktrace.input.source import Source
from ktrace.kit.text.headings import Dialect, Recogniser, are_units, headings_of
from ktrace.kit.text.lines import Line, LineAccount
from ktrace.naming.alike import FreeNames

from .blocks import Block
from .csv_parse import LONGEST_ROW, ParsedLines, line_count, parse_fast, parse_lines, wordy_rows

#: Bytes of lines that are parsed at once.
CHUNK = 4 << 20

#: Bytes of the pieces in which a chunk with something odd is parsed, so that few rows are read one by one.
PIECE = 1 << 16

#: Bytes that are parsed at once, at least, below headings that repeat.
_WINDOW = 1 << 7


@dataclass(frozen=True)
class CsvTable:
    """A table: its position from 0, the line of its headings, these and the units below them ('' for none).

    A repeated heading has '#2' appended, a blank one is '#' and its number. `what` is the format's answer for the
    headings.
    """

    ordinal: int
    line: int
    headings: tuple[str, ...]
    units: tuple[str, ...]
    what: Any
    dialect: Dialect

    def unit(self, *spellings: str) -> str:
        """The unit of the first of these headings, in any case, that the table has; '' for none."""
        units = {heading.casefold(): unit for heading, unit in zip(self.headings, self.units, strict=True)}
        return next((units[name.casefold()] for name in spellings if name.casefold() in units), "")


@dataclass(frozen=True)
class CsvRows:
    """Rows of a table; the number of a row is that of its first line. The format reports them as used."""

    table: CsvTable
    block: Block


class _Other(NamedTuple):
    """A line that isn't a row: its number, its text, its first byte, its size with the line end."""

    number: int
    line: str
    byte: int
    size: int


class CsvBlocks(LineAccount):
    """The tables of a source, their rows in blocks, and the lines outside of them, in the order of the text.

    Every line is counted before it is parsed. Headings, units and blank lines are structure. The format states the
    outcome of a `Line` (`used()`, `structure()`, `skip()`), else it is skipped as unrecognised; a line between rows
    comes after the rows of its piece. `units` distinguishes a row of units from the first row of the table. `place`
    precedes line numbers in the report: "host/12_kernel_trace.csv: ". `bare_quotes`: the program doesn't double quotes
    in a cell (`Dialect.bare`).
    """

    def __init__(
        self,
        source: Source,
        conversion: Conversion,
        recognise: Recogniser,
        *,
        units: Callable[[Sequence[str]], bool] = are_units,
        place: str = "",
        bare_quotes: bool = False,
    ) -> None:
        super().__init__(conversion.report, place)
        self._source = source
        self._rows_at_once = conversion.batch_rows
        self._recognise = recognise
        self._units = units
        self._bare = bare_quotes
        self._table: CsvTable | None = None
        self._tables = 0
        self._line = source.before[0] + 1
        self._kept = b""
        self._pos = 0  # in bytes, of the text that is next

    def at(self) -> str:
        """Where the reading is, for an error: the rows are read some at once."""
        return f"{self._place}before line {self._line}" if self._line > 1 else ""

    def __iter__(self) -> Iterator[CsvTable | CsvRows | Line]:
        with self._source.open() as stream:
            self._report.bytes.open += 1
            mark = mark_size(stream)
            self._pos = self._byte = self._source.before[1]
            self.pass_over("structure", mark)
            self._pos += mark
            whole, number = utf8(stream), self._line
            text = _chunk(whole, number)
            while text:
                lines = line_count(text)
                number += lines
                coming = _chunk(whole, number)
                self._report.record(lines)
                yield from self._items(text, last=not coming, small=len(text) < PIECE)
                text = coming
        self._report.bytes.open -= 1
        self.finish()

    def _items(self, text: bytes, *, last: bool, small: bool) -> Iterator[CsvTable | CsvRows | Line]:
        """Yields the items in some whole lines. `last`: no more follow. `small`: they may be read line by line."""
        text, self._kept = self._kept + text, b""
        window = len(text)
        while text:
            if self._table is None:
                text = yield from self._search(text, last)
                continue
            head = text if window >= len(text) else next(_pieces(text, window))[0]
            whole = len(head) == len(text)
            part = self._parsed(self._table, head, last and whole, small=small)
            again = None if part is None else self._next_headings(part)
            if part is not None and again is None:
                count = line_count(head) - part.left
                self._line += count
                end = _offset(head, count) if part.left else len(head)
                others = self._placed(part.others, head, end, self._line - count)
                yield from self._blocks(self._table, part)
                yield from self._others(others, last and whole and not text.endswith(b"\n"))
                text = text[end:]
                if whole:
                    self._kept = text
                    return
                window *= 4
                continue
            if not small or part is None or again is None:
                for piece, is_last in _pieces(text):
                    yield from self._items(piece, last=last and is_last, small=True)
                return
            end = _offset(head, again - self._line)
            others = self._placed([other for other in part.others if other[0] < again], head, end, self._line)
            yield from self._blocks(self._table, part.rows(0, int(np.searchsorted(part.numbers, again))))
            yield from self._others(others, False)
            text = text[end:]
            self._line, self._table = again, None
            window = max(_WINDOW, 2 * end)  # the next table is likely to be as short

    def _parsed(self, table: CsvTable, text: bytes, last: bool, *, small: bool) -> ParsedLines | None:
        """The rows of some lines; None if they have to be read in pieces. For a few lines Arrow doesn't pay."""
        if small and len(text) <= 8 * _WINDOW:
            return self._one_by_one(table, text, last)
        part = parse_fast(text, line_count(text), self._line, len(table.headings), table.dialect)
        return self._one_by_one(table, text, last) if part is None and small else part

    def _search(self, text: bytes, last: bool) -> Generator[CsvTable | Line, None, bytes]:
        """Yields the lines up to the next headings, and returns the text after these."""
        start = 0
        while start < len(text):
            end = text.find(b"\n", start) + 1 or len(text)
            line = text[start:end].decode("utf-8", "replace").rstrip("\r\n")
            if table_start := headings_of(line, self._recognise):
                if end == len(text) and not last:
                    self._kept = text[start:]  # units may follow in the next chunk
                    return b""
                self._begin(self._line, end - start)
                self.structure()
                self._line += 1
                table, size = self._opened(*table_start, text[end : text.find(b"\n", end) + 1 or len(text)])
                self._table = table
                yield table
                return text[end + size :]
            if "\ufffd" in line and "\ufffd".encode() not in text[start:end]:
                self._report.issue("encoding", f"{self._place}line {self._line}")
            self._begin(self._line, end - start)
            yield from self._other(self._line, line)
            self._line += 1
            start = end
        return b""

    def _begin(self, number: int, size: int) -> None:
        """Begins the line at the current position."""
        self.begin(number, size, self._pos)
        self._pos += size

    def _placed(self, others: list[tuple[int, str]], text: bytes, end: int, first: int) -> list[_Other]:
        """The lines that aren't rows, with their bytes; accounts for the rows in the text up to `end`.

        `first` is the number of the first line of the text.
        """
        placed, at, line = [], 0, first
        for number, content in others:
            at, line = _offset(text, number - line, at), number
            size = (text.find(b"\n", at) + 1 or len(text)) - at
            placed.append(_Other(number, content, self._pos + at, size))
        self.pass_over("read", end - sum(other.size for other in placed))
        self._pos += end
        return placed

    def _other(self, number: int, line: str) -> Iterator[Line]:
        if line.strip():
            yield Line(number, line)
        else:
            self.structure()

    def _opened(self, cells: list[str], what: Any, dialect: Dialect, following: bytes) -> tuple[CsvTable, int]:
        """Opens the table with these headings; returns it, and how many bytes of `following` are its row of units."""
        below = dialect.cells(following.decode("utf-8", "replace").rstrip("\r\n")) or []
        if len(below) == len(cells) + 1 and not below[-1].strip():
            cells = [*cells, ""]  # rows end with a separator, the headings don't
        elif len(below) == len(cells) - 1 and not cells[-1]:
            cells = cells[:-1]
        has_units = len(below) == len(cells) and self._units(below)
        units = tuple(cell.strip() for cell in below) if has_units else ("",) * len(cells)
        table = CsvTable(
            self._tables, self._line - 1, distinct_headings(cells), units, what, dialect._replace(bare=self._bare)
        )
        self._tables += 1
        if has_units:
            self._begin(self._line, len(following))
            self.structure()
            self._line += 1
        return table, len(following) if has_units else 0

    def _one_by_one(self, table: CsvTable, text: bytes, last: bool) -> ParsedLines:
        part = parse_lines(text, self._line, len(table.headings), table.dialect, last)
        for number in part.bad:
            self._report.issue("encoding", f"{self._place}line {number}")
        return part

    def _next_headings(self, part: ParsedLines) -> int | None:
        """The number of the first line of headings, of the same table or of another one."""
        numbers = [number for number, line in part.others if headings_of(line, self._recognise)]
        for row in wordy_rows(part.columns) if len(part.numbers) else ():
            if self._recognise([column[int(row)].as_py().strip() for column in part.columns]) is not None:
                numbers.append(int(part.numbers[row]))
                break
        return min(numbers, default=None)

    def _blocks(self, table: CsvTable, part: ParsedLines) -> Iterator[CsvRows]:
        count = len(part.numbers)
        for first in range(0, count, self._rows_at_once):
            rows = part.rows(first, min(first + self._rows_at_once, count))
            self._report.used(int(rows.spans.sum()) - len(rows.spans), outcome="structure")
            columns = dict(zip(table.headings, rows.columns, strict=True))
            yield CsvRows(table, Block(f"{self._place}line", pa.array(rows.numbers), columns))

    def _others(self, others: list[_Other], broken: bool) -> Iterator[Line]:
        """Yields the lines that aren't rows. `broken`: the last of all lines is a row that is cut."""
        for number, line, byte, size in others:
            self.begin(number, size, byte)
            if broken and number == self._line - 1 and line.strip():
                self.skip("cut", "the last row is cut off")
            else:
                yield from self._other(number, line)


def distinct_headings(cells: Sequence[str]) -> tuple[str, ...]:
    """Names of columns by their headings: Name, Name#2 where it stands again, #3 where a third column has none."""
    names: dict[str, None] = {}
    free = FreeNames(lambda name: not name or name in names)
    for index, cell in enumerate(cells, 1):
        place = f"#{index}"
        names[free.free(cell) if cell or place in names else place] = None
    return tuple(names)


def _chunk(stream: BinaryIO, number: int) -> bytes:
    """Reads some whole lines, and a few more if a cell in quotes seems to continue after them.

    `number` is that of the first one. Raises DamagedInput at a longer line than allowed.
    """
    limits = current()
    text = limits.lines(stream, CHUNK, number)
    for _ in range(LONGEST_ROW):
        if text.count(b'"') % 2 == 0 or not (more := limits.readline(stream)):
            break
        if len(text) - CHUNK + len(more) > limits.line:
            limits.check_line(len(text) + len(more), None, number + line_count(text))
        text += more
    return text


def _pieces(text: bytes, size: int = PIECE // 2) -> Iterator[tuple[bytes, bool]]:
    """Yields pieces of `size` bytes in whole lines, and whether each is the last; most don't end within quotes."""
    start = 0
    while start < len(text):
        first = end = text.find(b"\n", start + size) + 1 or len(text)
        for _ in range(LONGEST_ROW):
            if text.count(b'"', start, end) % 2 == 0:
                break
            end = text.find(b"\n", end) + 1 or len(text)
        else:
            end = first
        yield text[start:end], end == len(text)
        start = end


def _offset(text: bytes, lines: int, start: int = 0) -> int:
    """Where the line after that many lines begins, counted from a line that begins at `start`."""
    for _ in range(lines):
        start = text.find(b"\n", start) + 1
    return start
