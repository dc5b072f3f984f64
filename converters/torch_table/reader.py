"""Turns rows of PyTorch's tables into summaries: rows with only device time into device work, others into CPU work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import takewhile
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line

from .grid import Grid, bare_grid, grid, is_double_rule, nanoseconds, rule
from .measures import HeadAndMeasures, MeasuredRow, head_and_measures

#: Rows of a table that wait until it is known which names also belong to the CPU.
_MOST_WAITING = 4096

#: Lines that the table's own header may have.
_MOST_HEADER = 12

_TOP_LEVEL = "This report only display top-level ops statistics"
_FOOTER = re.compile(r"((?:Self )?(\w+) time total): (\S+)", re.IGNORECASE)
_CAPTION = re.compile(r"#{1,6} +(?P<title>\S.*)|Profile stats for: (?P<step>.+)|(?P<text>\S.{0,120}):")

_ROUNDED = 1.001


class _Table:
    """The open table: its rows until it ends, and afterwards the sums that its footer is compared with."""

    def __init__(self, number: int, line: int, cells: Grid, scope: list[str]) -> None:
        self.number = number
        self.line = line
        self.grid = cells
        self.scope = scope or [f"table {number + 1}"]
        self.rows: list[MeasuredRow] = []
        self.is_open = True
        self.on_host: dict[str, set[Decimal | None]] = {}  # name -> self times of devices in rows of the CPU
        self.work: dict[str, float] = {}  # device -> ns of its kernels, copies and fills


class TorchTable(LineReader):
    """Adds a head with the self time for each row, other figures as measures, and a total for each footer line."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._rows.fact("source", facts={"tool": "PyTorch profiler"})
        self._table: _Table | None = None
        self._tables = 0
        self._scope: list[str] = []
        self._header_lines = 0  # number of header lines that still follow
        self._is_below = False  # whether the rule below the headings still follows

    def take(self, line: Line) -> None:
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
        elif not table and (bare := bare_grid([text, *self._coming()])):
            self._table = _Table(self._tables, line.number, bare, self._scope)
            self._tables += 1
            self._row(self._table, line)
        elif is_double_rule(text):
            self._lines.structure()
            self._header()
        elif table and (match := _FOOTER.fullmatch(text[table.grid.rule.indent :].strip())):
            self._footer(table, line, match)
        elif caption := self._caption(text):
            self._scope = [caption]
            self._lines.structure()

    def _coming(self) -> Iterator[str]:
        """The texts of the next lines, which may be rows."""
        ahead = (self._lines.peek(line) for line in range(1, _MOST_HEADER))
        return takewhile(bool, (text or "" for text in ahead))

    def end(self) -> None:
        """Ends the input."""
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
        """Takes a rule or a blank line: the first rule is below the headings, the next one ends the table."""
        self._lines.structure()
        if text.strip() and self._table and self._table.is_open:
            if self._is_below:
                self._is_below = False
            else:
                self._close(self._table)

    def _row(self, table: _Table, line: Line) -> bool:
        """Takes a row, or a frame of the stack of the row above; returns False for another line."""
        if table.rows and table.grid.continues_stack(line.text):
            table.rows[-1].frames.append(line.text.strip())
            self._lines.became("stack of the row above")
            return True
        cells = table.grid.cells(line.text)
        if cells is None or self._lines.peek() is None:
            if self._lines.peek() is None and _breaks_off(table.grid, line.text):
                self._lines.skip("cut", "the last row is cut off")
                return True
            if cells is None:
                return False
        row = MeasuredRow(line.number, table.grid.columns, cells)
        if not row.name:
            self._lines.skip("bad-record", "no name")
            return True
        if len(table.rows) >= _MOST_WAITING:
            self._add_waiting(table)
        table.rows.append(row)
        if row.on_host:
            times = (row.time(device, is_self=True) for device in row.columns.devices)
            table.on_host.setdefault(row.name, set()).update(times)
        self._lines.used()
        return True

    def _close(self, table: _Table) -> None:
        self._add_waiting(table)
        table.is_open = False

    def _add_waiting(self, table: _Table) -> None:
        for row in table.rows:
            self._add(table, row, head_and_measures(row, _is_on_both_sides(table, row)))
        table.rows.clear()

    def _add(self, table: _Table, row: MeasuredRow, measured: HeadAndMeasures) -> None:
        place: dict[str, Any] = {"table": table.number, "scope": table.scope}
        device = row.device
        if device and measured.head["kind"] in ("kernel", "memcpy", "memset"):
            table.work[device.upper()] = table.work.get(device.upper(), 0) + measured.head.get("total", 0)
        kind, args = measured.head.pop("kind"), measured.head.pop("args")
        head = self._rows.summary(kind, row.name, args=args, **measured.head, **place)
        for measure in measured.measures:
            self._rows.summary("metric", row.name, parent=head, **measure, **place)

    def _footer(self, table: _Table, line: Line, match: re.Match[str]) -> None:
        """Takes the sum of the self times. If kernels add up to more, some of them are annotations."""
        time = nanoseconds(match[3])
        if time is None:
            self._lines.skip("bad-record", "no time")
            return
        if table.is_open:
            self._close(table)
        place: dict[str, Any] = {"table": table.number, "scope": table.scope}
        self._rows.summary("total", match[1], total=float(time), unit="ns", **place)
        work = table.work.get(match[2].upper(), 0)
        if work > float(time) * _ROUNDED + 1000:
            detail = f"kernels, copies and fills of the table add up to {work:,.0f} ns, '{line.text.strip()}'"
            self._report.issue("disagreement", f"line {line.number}", detail)
        self._lines.used()

    def _header(self) -> None:
        """Sets the table's scope from the header between double rules, or from the note on top-level operators."""
        words: list[str] = []
        for ahead in range(1, _MOST_HEADER):
            text = (self._lines.peek(ahead) or "").strip()
            if is_double_rule(text) or rule(text):
                break
            words.append(text)
        else:
            return
        title = " ".join(filter(None, words))
        if title == _TOP_LEVEL:
            self._scope = [*self._scope, "top-level ops"]
        elif title:
            self._scope = [title]
        self._header_lines = len(words)

    def _caption(self, text: str) -> str:
        """The title in a line, if a table follows within two lines; '' for another line."""
        match = _CAPTION.fullmatch(text.strip())
        coming = [(self._lines.peek(ahead) or "").strip() for ahead in (1, 2)]
        if not match or not any(is_double_rule(line) or rule(line) for line in coming):
            return ""
        return next(filter(None, match.groups()), "").strip()


def _is_on_both_sides(table: _Table, row: MeasuredRow) -> bool:
    """Whether a row with only device time is the annotation of a row of the CPU.

    A kernel may also have a row of the CPU (those of Triton do), which launched it and has the same device time.
    """
    device = row.device
    if device is None or row.name not in table.on_host:
        return False
    return row.time(device, is_self=True) not in table.on_host[row.name]


def _breaks_off(cells: Grid, text: str) -> bool:
    """Whether a line ends before its last figure does; a stack may be of any length."""
    return cells.columns.columns[-1].kind != "stack" and len(text.rstrip()) < cells.rule.runs[-1][1]
