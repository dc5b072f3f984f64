"""Rows of PyTorch's tables as summaries: what a device alone did as kernels and copies, all else as the CPU's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.converters._shared.text.lines import Line, Lines
from ktrace.input.source import Source
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from .columns import nanoseconds
from .grid import Grid, grid, is_double_rule, rule
from .measures import Row, Told, told

#: Rows of a table that wait until it is known which names the CPU has, too.
_MOST_HELD = 4096

#: Lines that the table's own header may have.
_MOST_HEADER = 12

_TOP_LEVEL = "This report only display top-level ops statistics"
_FOOTER = re.compile(r"((?:Self )?(\w+) time total): (\S+)", re.IGNORECASE)
_CAPTION = re.compile(r"#{1,6} +(?P<title>\S.*)|Profile stats for: (?P<step>.+)|(?P<text>\S.{0,120}):")

_ROUNDED = 1.001


class _Table:
    """A table that is open: its rows until it ends, and afterwards what its footer is held against."""

    def __init__(self, number: int, line: int, cells: Grid, scope: list[str]) -> None:
        self.number = number
        self.line = line
        self.grid = cells
        self.scope = scope or [f"table {number + 1}"]
        self.rows: list[Row] = []
        self.is_open = True
        self.on_host: dict[str, set[Decimal | None]] = {}  # name -> the self times of devices in rows of the CPU
        self.work: dict[str, float] = {}  # device -> ns of its kernels, copies and fills


class _Reading:
    """The state of a reading."""

    def __init__(self, lines: Lines, rows: RowBuilder, report: Report) -> None:
        self._lines = lines
        self._rows = rows
        self._report = report
        self._table: _Table | None = None
        self._tables = 0
        self._scope: list[str] = []
        self._header_lines = 0  # that are still to come
        self._is_below = False  # whether the rule below the headings is still to come

    def line(self, line: Line) -> None:
        """Says what became of a line, and adds the rows that are whole."""
        text, table = line.text, self._table
        if self._header_lines:
            self._header_lines -= 1
            self._lines.structure()
        elif opened := grid(text, self._lines.peek() or ""):
            self._open(line, opened)
        elif rule(text) or not text.strip():
            self._structure(text)
        elif table and table.is_open and self._row(table, line):
            pass
        elif is_double_rule(text):
            self._lines.structure()
            self._header()
        elif table and (found := _FOOTER.fullmatch(text[table.grid.rule.indent :].strip())):
            self._footer(table, line, found)
        elif caption := self._caption(text):
            self._scope = [caption]
            self._lines.structure()

    def finish(self) -> None:
        """The input ends."""
        table = self._table
        if table and table.is_open:
            self._report.issue("cut", "the last line", f"the table of line {table.line} has no end", 0)
            self._close(table)

    def _open(self, line: Line, opened: Grid) -> None:
        if self._table:
            self._close(self._table)
        self._table = _Table(self._tables, line.number, opened, self._scope)
        self._tables += 1
        self._scope = []
        for column in opened.columns.columns:
            if column.kind == "text" and column.heading not in ("Node ID", "Input Shapes", "Overload Name"):
                self._report.issue("unknown-column", f"line {line.number}", column.heading)
        self._lines.structure()
        self._is_below = True

    def _structure(self, text: str) -> None:
        """A rule or a blank line: the first rule is below the headings, the next one ends the table."""
        self._lines.structure()
        if text.strip() and self._table and self._table.is_open:
            if self._is_below:
                self._is_below = False
            else:
                self._close(self._table)

    def _row(self, table: _Table, line: Line) -> bool:
        """Takes a row, or a frame of the stack of the row above; False where the line is neither."""
        if table.rows and table.grid.goes_on(line.text):
            table.rows[-1].frames.append(line.text.strip())
            self._lines.became("stack of the row above")
            return True
        cells = table.grid.cells(line.text)
        if cells is None or self._lines.peek() is None:
            if self._lines.peek() is None and _breaks_off(table.grid, line.text):
                self._lines.skip("cut", "the last row breaks off")
                return True
            if cells is None:
                return False
        row = Row(line.number, table.grid.columns, cells)
        if not row.name:
            self._lines.skip("bad-record", "no name")
            return True
        if len(table.rows) >= _MOST_HELD:
            self._give(table)
        table.rows.append(row)
        if row.on_host:
            times = (row.time(device, own=True) for device in row.columns.devices)
            table.on_host.setdefault(row.name, set()).update(times)
        self._lines.used()
        return True

    def _close(self, table: _Table) -> None:
        self._give(table)
        table.is_open = False

    def _give(self, table: _Table) -> None:
        for row in table.rows:
            self._add(table, row, told(row, _is_on_both_sides(table, row)))
        table.rows.clear()

    def _add(self, table: _Table, row: Row, said: Told) -> None:
        place: dict[str, Any] = {"table": table.number, "scope": table.scope}
        device = row.worked
        if device and said.head["kind"] in ("kernel", "memcpy", "memset"):
            table.work[device.upper()] = table.work.get(device.upper(), 0) + said.head.get("total", 0)
        kind, args = said.head.pop("kind"), said.head.pop("args")
        head = self._rows.summary(kind, row.name, args=args, **said.head, **place)
        for measure in said.measures:
            self._rows.summary("metric", row.name, parent=head, **measure, **place)

    def _footer(self, table: _Table, line: Line, found: re.Match[str]) -> None:
        """The sum of the self times; kernels that make more are annotations in part, which no name tells."""
        time = nanoseconds(found[3])
        if time is None:
            self._lines.skip("bad-record", "no time")
            return
        if table.is_open:
            self._close(table)
        place: dict[str, Any] = {"table": table.number, "scope": table.scope}
        self._rows.summary("total", found[1], total=float(time), unit="ns", **place)
        work = table.work.get(found[2].upper(), 0)
        if work > float(time) * _ROUNDED + 1000:
            said = f"kernels, copies and fills of the table are {work:,.0f} ns together, '{line.text.strip()}'"
            self._report.issue("disagreement", f"line {line.number}", said)
        self._lines.used()

    def _header(self) -> None:
        """The header between double rules, and whether only top-level operators are shown: the scope of the table."""
        words: list[str] = []
        for ahead in range(1, _MOST_HEADER):
            text = (self._lines.peek(ahead) or "").strip()
            if is_double_rule(text) or rule(text):
                break
            words.append(text)
        else:
            return
        said = " ".join(filter(None, words))
        if said == _TOP_LEVEL:
            self._scope = [*self._scope, "top-level ops"]
        elif said:
            self._scope = [said]
        self._header_lines = len(words)

    def _caption(self, text: str) -> str:
        """The title of the table that comes within two lines; '' where the line is none."""
        found = _CAPTION.fullmatch(text.strip())
        coming = [(self._lines.peek(ahead) or "").strip() for ahead in (1, 2)]
        if not found or not any(is_double_rule(line) or rule(line) for line in coming):
            return ""
        return next(filter(None, found.groups()), "").strip()


def _is_on_both_sides(table: _Table, row: Row) -> bool:
    """Whether a row of a device is the annotation of a row of the CPU.

    A kernel may have a row of the CPU, too (those of Triton): that has launched it, and says the same time.
    """
    device = row.worked
    if device is None or row.name not in table.on_host:
        return False
    return row.time(device, own=True) not in table.on_host[row.name]


def _breaks_off(cells: Grid, text: str) -> bool:
    """Whether a line ends before its last figure does; a stack may be of any length."""
    return cells.columns.columns[-1].kind != "stack" and len(text.rstrip()) < cells.rule.runs[-1][1]


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Summaries: a head a row with its self time, its other figures as measures; a total a line of the footer."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    reading = _Reading(lines, rows, conversion.report)
    rows.fact("source", facts={"tool": "PyTorch profiler"})
    for line in lines:
        reading.line(line)
        yield from rows.ready()
    reading.finish()
    yield from rows.rest()
