"""Tables anywhere in a text: several in a file, in several layouts, with any text around them.

    ### Kernel Statistics                      a title: the scope of what follows
    | Kernel Name | Total Time (ms) | Calls |  headings of columns, recognised by the format
    |-------------|----------------:|------:|  a rule, a row of units: structure
    | gemm        |           1,024 |     3 |  a row
    some prose                                 text; skipped unless the format states an outcome

A format passes a function that recognises its headings, usually `Columns.match`, and gets rows and text:

    for item in read_tables(lines, COLUMNS.match):
        if isinstance(item, Row):
            ...
            lines.used()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from ktrace.errors import DamagedInput
from ktrace.input.source import Sample

from .headings import FIGURES, MEASURED, Figures, Heading, are_units, cell_quantity, heading, read_figures, with_units
from .layouts import Candidate, Dashes, Delimited, Layout, Pipes, candidates, is_rule, join_surplus
from .lines import Line, Lines
from .numbers import Evidence, is_missing, may_have, with_point
from .titles import Title, is_quoted, is_structure, title_of, without_prefix

#: Recognises a format's tables by their headings and the cells of the first row (none if the table is empty). Returns
#: field -> index of the column, None for a table of another format.
Recogniser = Callable[[Sequence[Heading], Sequence[str]], "dict[str, int] | None"]

REFUSED = "a table without the required columns"

#: Lines that a cell in quotes may extend over.
_LONGEST_CELL = 64

#: Lines needed to recognise headings: two of headings, a rule, units, a row, and the line after it.
_HEADING_LINES = 6

#: Lines that are examined for the decimal separator of a file, and by a probe.
_EXAMINED_LINES = 2_000
_EXAMINED_BY_PROBES = 100


@dataclass(frozen=True)
class Table:
    """A table: its position in the source from 0, the titles above it, its headings, the format's fields."""

    ordinal: int
    line: int
    path: tuple[Title, ...]
    layout: Layout
    headings: tuple[Heading, ...]
    fields: dict[str, int] | None

    @property
    def scope(self) -> list[str]:
        """The titles above it, outermost first; without any, the heading of the name column and the table's line."""
        return [title.text for title in self.path] or [f"{self.headings[self.name_column].text} (line {self.line})"]

    @property
    def name_column(self) -> int:
        """The index of the column that gets surplus pieces of a row."""
        return (self.fields or {}).get("name", 0)

    def cells(self, pieces: Sequence[str]) -> list[str]:
        """Returns the pieces of a row as one cell for each column."""
        return join_surplus(pieces, len(self.headings), self.name_column, self.layout.joint)

    @cached_property
    def measured(self) -> tuple[int, ...]:
        """The columns that should contain numbers: those of figures, else all but the name."""
        figures = tuple(index for field, index in (self.fields or {}).items() if field in MEASURED)
        return figures or tuple(index for index in range(len(self.headings)) if index != self.name_column)

    def has_figures(self, pieces: Sequence[str]) -> bool:
        """Whether at least half of the cells that should be numbers are numbers (missing ones not counted)."""
        cells = self.cells(pieces)
        figures = [cells[index] for index in self.measured if not is_missing(cells[index])]
        numbers = sum(cell_quantity(cell) is not None for cell in figures)
        return numbers > 0 and numbers * 2 >= len(figures)


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its line, and its cells in the order of the headings, '' for an absent one."""

    table: Table
    line: int
    cells: list[str]

    def text(self, field: str) -> str:
        """The cell of a field, '' if the table doesn't have the field."""
        index = (self.table.fields or {}).get(field)
        return "" if index is None else self.cells[index]

    def figures(self, *, unit: str = "") -> Figures:
        """The figures of the row; see `read_figures`."""
        return read_figures(self.table.headings, self.cells, self.table.fields or {}, unit=unit)


@dataclass(frozen=True, slots=True)
class Text:
    """A line outside of tables, and the titles above it."""

    line: int
    text: str
    path: tuple[Title, ...]


class SampleLines:
    """The lines of a sample, for probes: like `Lines`, but without an account."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._next = 0

    def __iter__(self) -> Iterator[Line]:
        while self._next < len(self._texts):
            self._next += 1
            yield Line(self._next, self._texts[self._next - 1])

    def peek(self, ahead: int = 1) -> str | None:
        """Returns the text of the line `ahead` lines after this one."""
        index = self._next + ahead - 1
        return self._texts[index] if index < len(self._texts) else None

    def structure(self, lines: int = 1) -> None:
        """Does nothing: a sample has no account."""

    def skip(self, kind: str, detail: str = "") -> None:
        """Does nothing: a sample has no account."""


class _Lines(Protocol):
    """The part of `Lines` that reading tables needs."""

    def __iter__(self) -> Iterator[Line]: ...
    def peek(self, ahead: int = 1) -> str | None: ...
    def structure(self, lines: int = 1) -> None: ...
    def skip(self, kind: str, detail: str = "") -> None: ...


def read_tables(lines: _Lines, recognise: Recogniser) -> Iterator[Table | Row | Text]:
    """Yields the recognised tables, their rows, and the lines outside of tables, in the order of the text.

    The caller states the outcome of the line of each row and text. Headings, rules and blank lines are structure;
    other tables are skipped, and so is a last row that is cut. A table with pipes, tabs or commas continues after
    lines that aren't rows, up to the next title or table. If each line of a table has a prefix (that of a quotation,
    of a logger; see `without_prefix`), it is removed. If the file has decimal commas, the figures of rows have points
    instead. Raises DamagedInput if the decimal separator can't be determined.
    """
    return _Scan(lines, recognise, commas=_has_decimal_commas(lines, recognise)).items()


def _has_decimal_commas(lines: _Lines, recognise: Recogniser) -> bool:
    """Whether the figures in the first lines have decimal commas."""
    texts: list[str] = []
    most = _EXAMINED_LINES if isinstance(lines, Lines) else _EXAMINED_BY_PROBES
    while len(texts) < most and (text := lines.peek(len(texts) + 1)) is not None:
        texts.append(text)
    if not may_have(texts):
        return False
    scan = _Scan(SampleLines(texts), recognise, commas=True)
    for _ in scan.items():
        pass
    problem = scan.evidence.problem
    if problem and isinstance(lines, Lines):
        raise DamagedInput(
            problem,
            path=lines.path,
            expected="one decimal separator in a file",
            remedy="write it again with decimal points (LC_ALL=C), or split the file",
        )
    return scan.evidence.commas


def find_tables(sample: Sample, recognise: Recogniser) -> Iterator[Table]:
    """Yields the recognised tables in the text of a sample; none if it is JSON."""
    if may_have_tables(sample):
        yield from (item for item in read_tables(SampleLines(sample.lines), recognise) if isinstance(item, Table))


def may_have_tables(sample: Sample) -> bool:
    """Whether the sample is text, and not JSON."""
    return bool(sample.text) and not sample.is_json


def headings_at(lines: Sequence[str], number: int, recognise: Recogniser) -> Table | None:
    """Returns the recognised table whose headings are in that line (from 1), whatever is above it; for probes."""
    first = next(read_tables(SampleLines(lines[number - 1 : number - 1 + _HEADING_LINES]), recognise), None)
    return replace(first, line=number) if isinstance(first, Table) and first.line == 1 else None


class _Scan:
    """The state of reading: the titles above the current line, and the open table."""

    def __init__(self, lines: _Lines, recognise: Recogniser, *, commas: bool = False) -> None:
        self._lines = lines
        self._recognise = recognise
        self._commas = commas
        self.evidence = Evidence()
        self._coming = iter(lines)
        self._path: tuple[Title, ...] = ()
        self._table: Table | None = None
        self._tables = 0
        self._interrupted = False
        self._prefixed = False

    def items(self) -> Iterator[Table | Row | Text]:
        for line in self._coming:
            found = self._item_in(line, first=self._prefixed or is_quoted(line.text))
            if found is None:
                self._interrupt(between_rows=self._pieces(self._peek() or "") is not None)
                yield Text(line.number, line.text, self._path)
            else:
                yield from found

    def _item_in(self, line: Line, first: bool) -> Iterable[Table | Row] | None:
        """As `_item`, with the line's prefix or without it; `first` says which is tried first."""
        before = self._prefixed
        if not first and (found := self._item(line)) is not None:
            return found
        coming = self._lines.peek() or ""
        if before or (without_prefix(line.text) != line.text and without_prefix(coming) != coming):
            self._prefixed = True
            if (found := self._item(line)) is not None:
                return found
            self._prefixed = before
        return self._item(line) if first and not before else None

    def _item(self, line: Line) -> Iterable[Table | Row] | None:
        """The rows or the table that a line begins, () for structure, None for mere text."""
        text = self._bare(line.text)
        if is_structure(text):
            if not self._continues(text):
                self._interrupt()
            self._lines.structure()
            return ()
        if title := title_of(line.number, text):
            self._path = (*(above for above in self._path if above.level < title.level), title)
            self._table = None
            self._lines.structure()
            return ()
        if (pieces := self._pieces(text)) and self._table:
            return self._row(self._table, Line(line.number, text), pieces)
        if table := self._open(Line(line.number, text)):
            self._prefixed = self._prefixed and text != line.text
            return () if table.fields is None else (table,)
        return None

    def _bare(self, text: str) -> str:
        """The line without its prefix if the table or title above had one, else the line."""
        return without_prefix(text) if self._prefixed else text

    def _peek(self, ahead: int = 1) -> str | None:
        text = self._lines.peek(ahead)
        return None if text is None else self._bare(text)

    def _continues(self, text: str) -> bool:
        """Whether the open table continues after a line of structure: after a rule between rows, not a blank line."""
        if not (text.strip() and self._table):
            return False
        return isinstance(self._table.layout, Pipes) or (is_rule(text) and self._pieces(self._peek() or "") is not None)

    def _interrupt(self, *, between_rows: bool = False) -> None:
        """Ends the table at a line that isn't a row, unless its separators are unambiguous.

        A table of fixed width continues after a line right above a row, such as the rest of a name of two lines.
        """
        layout = self._table.layout if self._table else None
        if isinstance(layout, (Pipes, Delimited)):
            self._interrupted = True
        elif not (between_rows and isinstance(layout, Dashes)):
            self._table = None

    def _pieces(self, text: str) -> list[str] | None:
        """The pieces of the line as a row of the open table, None if it isn't a row."""
        table = self._table
        if table is None:
            return None
        pieces = table.layout.split(self._with_rest(text)[0])
        if pieces is None or (self._interrupted and len(pieces) != len(table.headings)):
            return None
        pointed = self._with_points(pieces)
        if table.has_figures(pointed):
            if not _broke_off(table, text, pieces):  # a cut figure isn't evidence
                self._examine(table, pieces)
            return pointed
        explicit = isinstance(table.layout, Pipes) and not self._interrupted
        return pointed if explicit and not is_rule(self._peek() or "") else None

    def _with_points(self, pieces: list[str]) -> list[str]:
        return [with_point(piece) for piece in pieces] if self._commas else pieces

    def _examine(self, table: Table, pieces: Sequence[str]) -> None:
        """Notes the decimal separators in a row while that of the file isn't known yet."""
        if not self._commas or table.fields is None:
            return
        cells = table.cells(pieces)
        times = {table.fields[field] for field in FIGURES if field in table.fields}
        for index in table.measured:
            unit = table.headings[index].unit
            is_whole = index not in times or unit == "ns" or cells[index].endswith("ns")
            self.evidence.add(cells[index], is_whole=is_whole)

    def _with_rest(self, text: str) -> tuple[str, int]:
        """Joins the line with the following ones that its last, quoted cell extends over; and counts these."""
        layout = self._table.layout if self._table else None
        if not isinstance(layout, Delimited) or not layout.quoted or text.count('"') % 2 == 0:
            return text, 0
        whole = text
        for ahead in range(1, _LONGEST_CELL):
            more = self._peek(ahead)
            if more is None:
                break
            whole += "\n" + more
            if more.count('"') % 2:
                return whole, ahead
        return text, 0

    def _row(self, table: Table, line: Line, pieces: list[str]) -> Iterator[Row]:
        self._interrupted = False
        for _ in range(self._with_rest(line.text)[1]):
            self._lines.structure()
            next(self._coming)
        if table.fields is None:
            self._lines.skip("unrecognised", REFUSED)
        elif self._peek() is None and _broke_off(table, line.text, pieces):
            self._lines.skip("cut", "the last row breaks off")
        else:
            yield Row(table, line.number, table.cells(pieces))

    def _open(self, line: Line) -> Table | None:
        """Opens the table whose headings are in the line."""
        refused = None
        for candidate in candidates(line.text, self._lines.peek):
            units, first = self._below(candidate)
            headings = with_units([heading(text) for text in candidate.texts], units)
            fields = self._recognise(headings, first)
            table = Table(self._tables, line.number, self._path, candidate.layout, headings, fields)
            if fields is not None:
                lines = candidate.lines
                break
            if candidate.ruled and isinstance(candidate.layout, (Pipes, Dashes)):
                refused = refused or table
        else:
            if refused is None:
                return None
            table, lines = refused, 1
        self._table, self._interrupted = table, False
        self._tables += 1
        self._pass_header(table, lines)
        return table

    def _below(self, candidate: Candidate) -> tuple[list[str], list[str]]:
        """The row of units below the headings, and the first row; empty for an absent one."""
        rows: list[list[str]] = []
        layout, first = candidate.layout, candidate.lines + candidate.ruled
        for ahead in (first, first + 1):
            pieces = layout.split(self._peek(ahead) or "") or []
            rows.append(self._with_points([piece.strip() for piece in pieces]))
        if isinstance(layout, Delimited) and are_units(rows[0]):
            return rows[0], rows[1]
        return [], rows[0]

    def _pass_header(self, table: Table, lines: int) -> None:
        """Accounts for the headings and for the rule and the units below them."""
        for _ in range(lines - 1):
            self._account(table)
            next(self._coming)
        below = self._peek() or ""
        has_units = isinstance(table.layout, Delimited) and are_units(table.layout.split(below) or [])
        if is_rule(below) or has_units:
            self._account(table)
            next(self._coming)
        self._account(table)

    def _account(self, table: Table) -> None:
        if table.fields is None:
            self._lines.skip("unrecognised", REFUSED)
        else:
            self._lines.structure()


def _broke_off(table: Table, text: str, pieces: Sequence[str]) -> bool:
    """Whether a row lacks cells, or the pipe at its end, or ends before the last column of fixed width, a name."""
    if len(pieces) < len(table.headings):
        return True
    if isinstance(table.layout, Dashes) and table.name_column == len(pieces) - 1:
        return len(text) < table.layout.runs[-1][0] and not pieces[-1].strip()
    return (
        isinstance(table.layout, Pipes) and table.layout.closed and not text.rstrip().endswith(tuple(table.layout.ends))
    )
