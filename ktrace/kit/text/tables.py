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

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice, pairwise
from typing import NamedTuple, Protocol

from ktrace.errors import DamagedInput
from ktrace.input.source import Sample

from .alike import STAMP, Alike, alike_table
from .candidates import Candidate, candidates, framed, unframed
from .headings import (
    FIGURES,
    MEASURED,
    Figures,
    Heading,
    are_types,
    are_units,
    bare_figures,
    figure,
    heading,
    is_time,
    is_total,
    read_figures,
    unit_in,
    unit_of_file,
    with_unit_of_all,
    with_units,
)
from .layouts import (
    Dashes,
    Delimited,
    Edges,
    Layout,
    Pipes,
    Spaces,
    Words,
    begins_with_edge,
    chunks_of,
    is_rule,
    is_rule_below,
    join_surplus,
)
from .lines import Line, Lines
from .markup import Markup, begins_row, in_one_line, is_markup_line, whole_markup_row
from .numbers import Evidence, is_missing, may_have, nanoseconds, with_point
from .proofs import add_up, bare_table, may_be_bare, sums_of, unit_of_shares
from .titles import Title, is_compared, is_quoted, is_structure, title_of, without_prefix
from .wrapped import whole_row, with_cut, with_line_ends

#: Recognises a format's tables by their headings and the rows below them. Returns field -> index of the column, None
#: for a table of another format.
Recogniser = Callable[[Sequence[Heading], "Below"], "dict[str, int] | None"]

REFUSED = "a table without the required columns"

#: Lines that a cell in quotes may extend over.
_LONGEST_CELL = 64

#: Lines needed to recognise headings: those of headings, rules, units, and some rows.
_HEADING_LINES = 24

#: Rows below headings that a recogniser sees; lines right below headings that aren't rows.
EXAMINED_ROWS = 64
_MOST_BELOW = 4

#: Fields of events whose cells are times.
TIMES = frozenset(("start", "dur", "end"))

#: Lines amid rows of fixed width that aren't rows, at most; those amid rows of cells with single blanks between them.
_MOST_STRAYS, _MOST_STRAYS_AMID_WORDS = 20, 2

#: Columns of fixed width, at least, for a line without two blanks to be none of their rows.
_FEWEST_APART = 3

#: What draws the branches of a tree before names; the fewest characters by which names are indented.
_BRANCH = re.compile(
    r"[\s│┃|]{0,80}[├└┣┗╰+`|\\][─━-]{1,4}[╴╸>]?\s?|\s{0,8}\|\d{1,4}>>>(?:\s{1,200}\|_|\s)"  # timemory's: |0>>>   |_step
)
_LEAST_STEP = 2
#: A branch that shows by its length how deep a name is: |-- gemm.
_DEPTH = re.compile(r"\s?\|(?P<depth>-{1,12})\s")

#: Blanks between cells, at least, in the layout of spaces.
_GAP = 2

#: A number in a line.
_FIGURE = re.compile(r"(?:^|\s)\d")

#: Cells of a row that stands for others.
_DOTS = re.compile(r"(?:\.{2,3}|…|⋮|⋯|·|:)")

#: A number of three groups of digits and more: its commas aren't decimal.
_GROUPS = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3}){2,}(?![\w,])")

#: Lines above a table that may state the unit of its times.
_MOST_TEXTS = 3

#: The level of a line that is a title for what it says alone.
_LEAST_LEVEL = 8

#: Lines above headings among which one that states the unit of all times is looked for, by probes.
_FARTHEST_UNIT = 40

#: Lines that are examined for the decimal separator of a file, and by a probe.
_EXAMINED_LINES = 2_000
_EXAMINED_BY_PROBES = 100


@dataclass(frozen=True)
class Table:
    """A table: its position in the source from 0, the titles above it, its headings, the format's fields.

    `boxed`: a rule is above the headings, so that another one ends the table. `is_tree`: names are indented, each below
    the one that it is within. `sums` are the names of rows whose figures show that they are sums of others, `subtotals`
    those of sums of a few rows beside them.
    `adds_up`: whether its figures show that its rows add up, or that they don't; None if they show neither.
    """

    ordinal: int
    line: int
    path: tuple[Title, ...]
    layout: Layout
    headings: tuple[Heading, ...]
    fields: dict[str, int] | None
    boxed: bool = False
    is_tree: bool = False
    sums: frozenset[str] = frozenset()
    subtotals: frozenset[str] = frozenset()
    adds_up: bool | None = None

    @property
    def scope(self) -> list[str]:
        """The titles above it, outermost first; without any, the heading of the name column and the table's line."""
        named = self.headings[self.name_column].text or "table"
        return [title.text for title in self.path] or [f"{named} (line {self.line})"]

    @property
    def name_column(self) -> int:
        """The index of the column that gets surplus pieces of a row."""
        return (self.fields or {}).get("name", 0)

    def cells(self, pieces: Sequence[str]) -> list[str]:
        """Returns the pieces of a row as one cell for each column.

        Surplus pieces are parts of the name, unless those before them fit the columns as they are.
        """
        count = len(self.headings)
        if len(pieces) > count and self.name_column < count - 1 and isinstance(self.layout, Delimited):
            cells = [piece.strip() for piece in pieces[:count]]
            if all(is_missing(cells[index]) or figure(cells[index]) for index in self.measured):
                return cells
        return join_surplus(pieces, count, self.name_column, self.layout.joint)

    @cached_property
    def measured(self) -> tuple[int, ...]:
        """The columns that should contain numbers: those of figures, else all but the name."""
        figures = tuple(index for field, index in (self.fields or {}).items() if field in {*MEASURED, *TIMES})
        return figures or tuple(index for index in range(len(self.headings)) if index != self.name_column)

    def has_figures(self, pieces: Sequence[str]) -> bool:
        """Whether at least half of the cells that should be numbers are numbers (missing ones not counted)."""
        cells = self.cells(pieces)
        figures = [cells[index] for index in self.measured if not is_missing(cells[index])]
        numbers = sum(figure(cell) is not None for cell in figures)
        return numbers > 0 and numbers * 2 >= len(figures)

    def lacks_figures(self, pieces: Sequence[str]) -> bool:
        """Whether a row between delimiters has a cell for each column, each figure of which says that it's missing."""
        cells = [piece.strip() for piece in pieces]
        is_row = (
            isinstance(self.layout, Delimited) and len(cells) == len(self.headings) and bool(cells[self.name_column])
        )
        return is_row and all(cells[index] and is_missing(cells[index]) for index in self.measured)

    def is_whole(self, pieces: Sequence[str]) -> bool:
        """Whether a row has a cell for each column, a name that is a text, and figures wherever they belong."""
        cells = self.cells(pieces)
        name = cells[self.name_column]
        figures = all(cells[index] and (is_missing(cells[index]) or figure(cells[index])) for index in self.measured)
        return len(pieces) == len(self.headings) and bool(name) and figures and figure(name) is None


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its line, and its cells in the order of the headings, '' for an absent one.

    `indent` is how many characters its name is indented, where that shows what is within what (`Table.is_tree`).
    """

    table: Table
    line: int
    cells: list[str]
    indent: int = 0

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

    def note(self, kind: str, detail: str) -> None:
        """Does nothing: a sample has no account."""


class _Lines(Protocol):
    """The part of `Lines` that reading tables needs."""

    def __iter__(self) -> Iterator[Line]: ...
    def peek(self, ahead: int = 1) -> str | None: ...
    def structure(self, lines: int = 1) -> None: ...
    def skip(self, kind: str, detail: str = "") -> None: ...
    def note(self, kind: str, detail: str) -> None: ...


def read_tables(lines: _Lines, recognise: Recogniser, *, bare: bool = False) -> Iterator[Table | Row | Text]:
    """Yields the recognised tables, their rows, and the lines outside of tables, in the order of the text.

    The caller states the outcome of the line of each row and text. Headings, rules and blank lines are structure;
    other tables are skipped, and so is a last row that is cut. A table with pipes, tabs or commas continues after
    lines that aren't rows, up to the next title or table. If each line of a table has a prefix (that of a quotation,
    of a logger; see `without_prefix`), it is removed. If the file has decimal commas, the figures of rows have points
    instead. `bare`: rows whose figures prove which is which need no headings. Raises DamagedInput if the decimal
    separator can't be determined.
    """
    return _Scan(lines, recognise, commas=_has_decimal_commas(lines, recognise), bare=bare).items()


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
    problem = "" if any(map(_GROUPS.search, texts)) and not scan.evidence.commas else scan.evidence.problem
    if problem and isinstance(lines, Lines):
        raise DamagedInput(
            problem,
            path=lines.path,
            expected="one decimal separator in a file",
            remedy="write it again with decimal points (LC_ALL=C), or split the file",
        )
    return scan.evidence.commas


def find_tables(sample: Sample, recognise: Recogniser, *, bare: bool = False) -> Iterator[Table]:
    """Yields the recognised tables in the text of a sample; none if it is JSON."""
    if may_have_tables(sample):
        items = read_tables(SampleLines(sample.lines), recognise, bare=bare)
        yield from (item for item in items if isinstance(item, Table))


def may_have_tables(sample: Sample) -> bool:
    """Whether the sample is text, and not JSON."""
    return bool(sample.text) and not sample.is_json


def headings_at(lines: Sequence[str], number: int, recognise: Recogniser) -> Table | None:
    """Returns the recognised table whose headings are in that line (from 1), whatever is above it; for probes."""
    scan = _Scan(
        SampleLines(lines[number - 1 : number - 1 + _HEADING_LINES]), recognise, above=_texts_above(lines, number)
    )
    first = next(scan.items(), None)
    return replace(first, line=number) if isinstance(first, Table) and first.line == 1 else None


def _texts_above(lines: Sequence[str], number: int) -> list[str]:
    """The lines with words right above a line, the nearest first."""
    above = reversed(lines[max(number - 5, 0) : number - 1])
    near = [line for line in above if line.strip() and not is_rule(line)][:_MOST_TEXTS]
    stated = (line for line in reversed(lines[max(number - _FARTHEST_UNIT, 0) : number - 1]) if unit_of_file(line))
    return [*near, *islice(stated, 1)]


class Below:
    """The rows below headings. They are read when a recogniser looks at them, so that most cost nothing.

    `is_drawn`: bars are drawn between the cells.
    """

    def __init__(self, rows: Callable[[], Iterator[list[str]]] = lambda: iter(()), *, is_drawn: bool = False) -> None:
        self._rows = rows
        self.is_drawn = is_drawn

    def __iter__(self) -> Iterator[list[str]]:
        """The cells of the first rows, at most `EXAMINED_ROWS`."""
        return islice(self._rows(), EXAMINED_ROWS)

    @cached_property
    def first(self) -> list[str]:
        """The cells of the first row, none if there is no row."""
        return next(self._rows(), [])


class _TableRows(NamedTuple):
    """A row: its pieces, and how many lines below its first one belong to it."""

    pieces: list[str]
    more: int


class _Scan:
    """The state of reading: the titles above the current line, and the open table."""

    def __init__(
        self,
        lines: _Lines,
        recognise: Recogniser,
        *,
        commas: bool = False,
        above: Sequence[str] = (),
        bare: bool = False,
    ) -> None:
        self._lines = lines
        self._takes_bare = bare
        self._recognise = recognise
        self._commas = commas
        self.evidence = Evidence()
        self._coming = iter(lines)
        self._path: tuple[Title, ...] = ()
        self._table: Table | None = None
        self._tables = 0
        self._interrupted = False
        self._strays = 0  # lines since the last row that aren't one
        self._prefixed = False
        self._framed = False
        self._rule = ""  # the line above if it is a rule
        self._texts = deque(above, maxlen=_MOST_TEXTS)  # the last texts outside of tables, the nearest first
        self._is_open = False  # the box of the table
        self._lacking = 0  # cells that the row above lacks
        self._unit = next(filter(None, map(unit_of_file, above)), "")
        self._run: Title | None = None  # the text above, if it says of which of two runs what follows is

    def items(self) -> Iterator[Table | Row | Text]:
        for line in self._coming:
            parsed = self._item_in(line, first=self._prefixed or self._begins_with_prefix(line.text))
            if parsed is None:
                self._interrupt(line.text, between_rows=self._pieces(self._peek() or "", 1) is not None)
                self._texts.appendleft(line.text)
                self._unit = unit_of_file(line.text) or self._unit
                words = line.text.strip().removesuffix(":")
                self._run = Title(_LEAST_LEVEL, words, line.number) if is_compared(line.text) else None
                yield Text(line.number, line.text, self._path)
            else:
                yield from parsed
            text = self._bare(line.text)
            self._rule = text if is_rule(text) else ""
            self._is_open = self._is_open and not self._rule
        if self._is_open and self._table:
            self._lines.note("cut", "the box of the table isn't closed")

    def _item_in(self, line: Line, first: bool) -> Iterable[Table | Row] | None:
        """As `_item`, with the line's prefix or without it; `first` says which is tried first."""
        before = self._prefixed
        if not first and (items := self._item(line)) is not None:
            return items
        coming = self._lines.peek() or ""
        if before or (without_prefix(line.text) != line.text and without_prefix(coming) != coming):
            self._prefixed = True
            if (items := self._item(line)) is not None:
                return items
            self._prefixed = before
        return self._item(line) if first and not before else None

    def _begins_with_prefix(self, text: str) -> bool:
        """Whether a line begins with the mark of a quotation, or with a prefix, as the next line does."""
        below = self._lines.peek() or ""
        return is_quoted(text) or (without_prefix(text) != text and without_prefix(below) != below)

    def _item(self, line: Line) -> Iterable[Table | Row] | None:
        """The rows or the table that a line begins, () for structure, None for mere text."""
        text = self._bare(line.text)
        drawn = is_structure(text) or is_markup_line(text)
        if drawn and not begins_row(text):
            if not self._continues(text):
                self._interrupt()
            self._lines.structure()
            return ()
        if table := self._open_behind_hash(Line(line.number, text)):
            return (table,)
        is_row = self._table is not None and isinstance(self._table.layout, Alike) and self._pieces(text) is not None
        if not is_row and (title := title_of(line.number, text)):
            self._path = (*(above for above in self._path if above.level < title.level), title)
            self._table = None
            self._lines.structure()
            return ()
        if (whole := self._pieces(text)) and self._table:
            return self._row(self._table, Line(line.number, text), whole)
        if table := self._open_framed(Line(line.number, text)) or self._open(Line(line.number, text)):
            self._prefixed = self._prefixed and text != line.text
            return () if table.fields is None else (table,)
        if drawn:
            self._lines.structure()
            return ()
        return self._open_bare(line.number, text) if self._takes_bare and may_be_bare(text) else None

    def _bare(self, text: str) -> str:
        """The line without its prefix or frame if the table or title above had one, else the line."""
        text = without_prefix(text) if self._prefixed else text
        return unframed(text) if self._framed else text

    def _peek(self, ahead: int = 1) -> str | None:
        text = self._lines.peek(ahead)
        return None if text is None else self._bare(text)

    def _continues(self, text: str) -> bool:
        """Whether the open table continues after a line of structure: a rule between rows, a blank line above a row."""
        table = self._table
        if table is None:
            return False
        if isinstance(table.layout, (Pipes, Markup)):
            return bool(text.strip())
        below = self._pieces(self._peek() or "", 1)
        if text.strip():
            return is_rule(text) and below is not None
        if below is None or not isinstance(table.layout, (Dashes, Edges, Spaces)):
            return False
        cells = table.cells(below.pieces)
        return table.is_whole(below.pieces) or is_total(cells[table.name_column])

    def _interrupt(self, text: str = "", *, between_rows: bool = False) -> None:
        """Notes a line that isn't a row: rows below it need a figure in each column of figures.

        It ends a table of fixed width if it may be other headings, or if the last row is too far above. Such a table
        continues as before after a line right above a row, such as the rest of a name of two lines.
        """
        layout = self._table.layout if self._table else None
        self._strays += 1
        if isinstance(layout, (Pipes, Delimited, Markup)):
            self._interrupted = True
        elif between_rows and isinstance(layout, Dashes):
            return
        elif self._table and self._strays <= (_MOST_STRAYS_AMID_WORDS if isinstance(layout, Words) else _MOST_STRAYS):
            bare = self._bare(text)
            pieces = len(bare.split()) if isinstance(layout, Words) else len(chunks_of(bare))
            self._interrupted = True
            if pieces == len(self._table.headings):
                self._table, self._framed = None, False
        else:
            self._table, self._framed = None, False

    def _pieces(self, text: str, ahead: int = 0) -> _TableRows | None:
        """The pieces of the line `ahead` lines after this one as a row of the open table, None if it isn't a row."""
        table = self._table
        if table is None:
            return None
        pieces, more = self._split(table.layout, text, ahead, len(table.headings))
        if _is_sentence(table.layout, text):
            return None
        if pieces is None or (self._interrupted and len(pieces) != len(table.headings)):
            return None
        pointed = self._with_points(pieces)
        if (
            self._interrupted
            and not isinstance(table.layout, (Pipes, Delimited, Markup))
            and not table.is_whole(pointed)
        ):
            return None
        if table.has_figures(pointed):
            if not _broke_off(table, text, pieces):  # a cut figure isn't evidence
                self._examine(table, pieces)
            return _TableRows(pointed, more)
        if is_ellipsis(pieces):
            return _TableRows(pieces, more)
        explicit = isinstance(table.layout, (Pipes, Markup)) or (self._takes_bare and table.lacks_figures(pointed))
        explicit = explicit and not self._interrupted
        below = self._peek(ahead + more + 1) or ""
        is_heading = is_rule(below) and sum(map(bool, map(str.strip, pieces))) > 1
        is_heading = is_heading and ("|" not in below or len(table.layout.split(below) or ()) == len(pieces))
        return _TableRows(pointed, more) if explicit and not is_heading else None

    def _split(self, layout: Layout, text: str, ahead: int, columns: int) -> tuple[list[str] | None, int]:
        """The pieces of a row, which may extend over several lines, and how many lines it has below its first one."""

        def peek(below: int) -> str | None:
            return self._peek(ahead + below)

        if isinstance(layout, Delimited):
            whole, more = _with_rest(layout, text, peek)
            return layout.split(whole), more
        if isinstance(layout, Markup):
            return whole_markup_row(layout, text, peek)
        if isinstance(layout, Pipes) and layout.outer and not layout.cuts:
            whole, more = with_line_ends(layout, text, peek, columns)
            if more:
                return [in_one_line(piece) for piece in layout.split(whole) or ()], more
        return whole_row(layout, text, peek, after_rule=bool(self._rule) and ahead == 0)

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

    def _row(self, table: Table, line: Line, whole: _TableRows) -> Iterator[Row]:
        self._interrupted, self._strays = False, 0
        self._is_open = table.boxed
        for _ in range(whole.more):
            self._lines.structure()
            next(self._coming)
        if table.fields is None:
            self._lines.skip("unrecognised", REFUSED)
        elif is_ellipsis(whole.pieces):
            self._lines.skip("elided", "rows are left out here")
        elif self._peek() is None and _broke_off(table, line.text, whole.pieces, self._lacking):
            self._lines.skip("cut", "the last row is cut off")
        else:
            self._lacking = max(len(table.headings) - len(whole.pieces), 0)
            cells = table.cells(whole.pieces)
            indent = 0
            if table.is_tree:
                indent, cells[table.name_column] = indented(self._name_piece(table, line.text))
            yield Row(table, line.number, cells, indent)

    def _name_piece(self, table: Table, text: str) -> str:
        """The name in a row with the blanks around it; '' if the layout doesn't keep these."""
        layout, column = table.layout, table.name_column
        if isinstance(layout, (Spaces, Edges, Words)) and column == 0:
            cells = layout.split(text) or [""]
            return text[: text.find(cells[0]) + len(cells[0])] if cells[0] else ""
        if isinstance(layout, Spaces) and column == len(layout.spans) - 1:
            name = (layout.split(text) or [""])[-1]
            begin = text.rfind(name)
            gap = begin - len(text[:begin].rstrip()) - _GAP  # a longer number shifts the name
            return " " * min(begin - layout.spans[-1][0], gap) + name if name else ""
        pieces = layout.split(text) if isinstance(layout, (Pipes, Dashes, Delimited)) else None
        surplus = max(len(pieces or ()) - len(table.headings), 0)  # a name with pipes, such as `|- gemm`
        return layout.joint.join(pieces[column : column + surplus + 1]) if pieces else ""

    def _is_tree(self, table: Table, ahead: int) -> bool:
        """Whether the names of the first rows, from that line on, are indented as those of a tree."""
        names, times = [], []
        fields = table.fields or {}
        column = next((fields[field] for field in ("total", "value", "avg") if field in fields), None)
        for line in range(ahead, ahead + EXAMINED_ROWS):
            text = self._peek(line)
            if text is None or not (text.strip() or isinstance(table.layout, Pipes)):
                break
            pieces = None if is_rule(text) else table.layout.split(text)
            name = self._name_piece(table, text)
            if pieces and name.strip() and not is_total(name):
                names.append(name)
                read = figure(table.cells(pieces)[column]) if column is not None else None
                times.append(float(nanoseconds(read.number, read.unit) or read.number) if read else 0.0)
        return are_indented(names) and _holds([indented(name)[0] for name in names], times)

    def _open_behind_hash(self, line: Line) -> Table | None:
        """Opens a table whose headings begin with a `#`: as that of an index, or of a comment. It is no title then."""
        if line.text[:1] != "#" or not line.text[1:2].isspace() or not _FIGURE.search(self._peek() or ""):
            return None
        if is_rule(self._peek() or ""):
            return None
        return self._open(line) or self._open(Line(line.number, " " + line.text[1:]))

    def _open_framed(self, line: Line) -> Table | None:
        """Opens a table in a frame that has no sides between its cells."""
        bare = framed(line.text)
        if not bare or self._framed:
            return None
        self._framed = True
        table = self._open(Line(line.number, bare))
        self._framed = table is not None
        return table

    def _above(self, line: int) -> tuple[Title, ...]:
        """The titles above a table, and a line right above it that says of which run it is."""
        run = self._run
        return (*self._path, run) if run and line - run.line <= _MOST_TEXTS else self._path

    def _open_bare(self, line: int, text: str) -> Iterable[Table | Row] | None:
        """Opens a table without headings, whose first row is the line."""
        is_prefixed = not self._prefixed and without_prefix(text) != text
        bare = None if is_prefixed else bare_table(text, self._peek)
        table = self._alike(line, text) if bare is None and not is_prefixed else None
        if bare:
            table = Table(self._tables, line, self._above(line), bare.layout, bare.headings, bare.fields)
        if table is None:
            return None
        self._table, self._interrupted, self._is_open, self._strays = table, False, False, 0
        self._tables += 1
        whole = self._pieces(text)
        return (table, *self._row(table, Line(line, text), whole)) if whole else None

    def _alike(self, line: int, text: str) -> Table | None:
        """The table that lines of one form are; its rows add up only if one of them is said to be their sum."""
        alike = alike_table(text, self._peek)
        fields = self._recognise(alike[1], Below(lambda: iter(alike[2]))) if alike else None
        if alike is None or fields is None:
            return None
        layout, headings, rows = alike
        if fields.keys() <= {"name", "count"}:  # a number beside a time: nothing says that it is how often
            times = [index for index, cell in enumerate(rows[0]) if (read := figure(cell)) and is_time(read.unit)]
            last = [index for index in times if headings[index].key != STAMP]
            fields = {"name": fields["name"]} | ({"value": last[0]} if len(last) == 1 else {})
        has_sum = any(is_total(row[fields["name"]]) for row in rows)
        table = Table(self._tables, line, self._above(line), layout, headings, fields)
        return replace(table, adds_up=has_sum or bool(fields.keys() & {"count", "percent"}))

    def _open(self, line: Line) -> Table | None:
        """Opens the table whose headings are in the line."""
        refused, path = None, self._above(line.number)
        for candidate in candidates(line.text, self._peek):
            count, units = self._under(candidate)
            headings = with_units([heading(text) for text in candidate.texts], units)
            ahead, columns = candidate.lines + count, len(candidate.texts)
            is_drawn = isinstance(candidate.layout, Pipes)
            below = Below(partial(self._rows_below, candidate, ahead, columns), is_drawn=is_drawn)
            headings, fields = self._recognised(headings, below)
            is_boxed = bool(self._rule) and begins_with_edge(self._rule)
            table = Table(self._tables, line.number, path, candidate.layout, headings, fields, is_boxed)
            if fields is not None:
                lines = candidate.lines + count
                break
            is_title = self._peek(3) == self._peek(1)  # the rule is the one above the headings
            if candidate.ruled and isinstance(candidate.layout, (Pipes, Dashes)) and not is_title:
                refused = refused or table
        else:
            if refused is None:
                return None
            table, lines = refused, 1 + is_rule(self._peek() or "")
        if table.fields and isinstance(table.layout, Spaces):
            table = replace(table, layout=with_cut(table.layout, table.name_column, self._peek, lines))
        if table.fields and self._is_tree(table, lines):
            table = replace(table, is_tree=True)
        elif table.fields:
            rows = islice(self._rows_below(candidate, candidate.lines + count, columns, over=True), EXAMINED_ROWS)
            examined, table_fields = list(rows), table.fields
            sums, subtotals = sums_of(headings, table_fields, examined)
            adds_up = add_up(headings, table_fields, examined, sums | subtotals)
            table = replace(table, sums=sums, subtotals=subtotals, adds_up=adds_up)
        self._table, self._interrupted, self._is_open, self._strays = table, False, False, 0
        self._tables += 1
        self._pass_header(table, lines)
        return table

    def _recognised(
        self, headings: tuple[Heading, ...], below: Below
    ) -> tuple[tuple[Heading, ...], dict[str, int] | None]:
        """The headings and their fields, with the unit that the title or the text above states if they have none."""
        fields = self._recognise(headings, below)
        above = (*(title.text for title in self._path[-1:]), *self._texts, *(head.text for head in headings))
        unit = next(filter(None, map(unit_in, above)), self._unit) if fields is None else ""
        if fields is None and not unit and not any(is_time(head.unit) for head in headings):
            unit, columns = unit_of_shares(self._texts, headings, below)
            named = with_unit_of_all(headings, unit, columns)
            return (named, fields) if unit and (fields := self._recognise(named, below)) else (headings, None)
        if not unit or any(is_time(head.unit) for head in headings):
            return headings, fields
        named = with_unit_of_all(headings, unit)
        if (fields := self._recognise(named, below)) is None and (columns := bare_figures(headings, list(below))):
            named = with_unit_of_all(headings, unit, columns)
            fields = self._recognise(named, below)
        return (headings, None) if fields is None else (named, fields)

    def _under(self, candidate: Candidate) -> tuple[int, list[str]]:
        """How many lines below headings are rules, units or types of the columns; and the units."""
        units: list[str] = []
        for count in range(_MOST_BELOW):
            text = self._peek(candidate.lines + count) or ""
            pieces = candidate.layout.split(text) or []
            if is_rule(text) or are_types(pieces) or (count == 0 and is_rule_below(text)):
                continue
            if units or not are_units(pieces) or isinstance(candidate.layout, Words):
                return count, units
            units = [piece.strip() for piece in pieces]
        return _MOST_BELOW, units

    def _rows_below(self, head: Candidate, ahead: int, columns: int, *, over: bool = False) -> Iterator[list[str]]:
        """Yields the cells of the rows from a line on, up to one that isn't a row, or is the same headings.

        `over`: also of those below blank lines.
        """
        layout = head.layout
        while (text := self._peek(ahead)) is not None:
            if is_rule(text) or (over and not text.strip()):
                ahead += 1
                continue
            pieces, more = self._split(layout, text, ahead, columns)
            cells = [piece.strip() for piece in pieces or ()]
            if not cells or cells == head.texts:
                return
            yield self._with_points(cells)
            ahead += 1 + more

    def _pass_header(self, table: Table, lines: int) -> None:
        """Accounts for the lines of the headings and for those right below them that aren't rows."""
        for _ in range(lines - 1):
            self._account(table)
            next(self._coming)
        self._account(table)

    def _account(self, table: Table) -> None:
        if table.fields is None:
            self._lines.skip("unrecognised", REFUSED)
        else:
            self._lines.structure()


def _with_rest(layout: Delimited, text: str, peek: Callable[[int], str | None]) -> tuple[str, int]:
    """Joins the line with the following ones that its last, quoted cell extends over; and counts these."""
    if not layout.quoted or text.count('"') % 2 == 0:
        return text, 0
    whole = text
    for ahead in range(1, _LONGEST_CELL):
        more = peek(ahead)
        if more is None:
            break
        whole += "\n" + more
        if more.count('"') % 2:
            return whole, ahead
    return text, 0


def indented(piece: str) -> tuple[int, str]:
    """How far a name in a tree is indented, and the name without the branch that is drawn before it."""
    if match := _DEPTH.match(piece):
        return len(match["depth"]) * _LEAST_STEP, piece[match.end() :].strip()
    match = _BRANCH.match(piece)
    name = piece[match.end() :] if match else piece
    return len(piece) - len(name.lstrip()), name.strip()


def are_indented(pieces: Sequence[str]) -> bool:
    """Whether names are indented as in a tree: by even steps, the first one least, not aligned to the right or amid."""
    starts = [indented(piece)[0] for piece in pieces]
    if len(pieces) < 2 or len(set(starts)) < 2 or starts[0] != min(starts):
        return False
    steps = sorted({start - starts[0] for start in starts} - {0})
    if steps[0] < _LEAST_STEP or any(step % steps[0] for step in steps):
        return False
    if any(after - before > steps[0] for before, after in pairwise(starts)):
        return False
    ends = {len(piece.rstrip()) for piece in pieces}
    middles = {start + len(piece.rstrip()) for start, piece in zip(starts, pieces, strict=True)}
    return len(ends) > 1 and max(middles) - min(middles) > 2


def _holds(starts: Sequence[int], times: Sequence[float]) -> bool:
    """Whether nothing takes less time than what is right within it."""
    above: list[tuple[int, int]] = []  # indent and place of the rows that the next one is within
    within = [0.0] * len(times)
    for place, start in enumerate(starts):
        while above and above[-1][0] >= start:
            above.pop()
        if above:
            within[above[-1][1]] += times[place]
        above.append((start, place))
    return all(inner <= outer * 1.02 for inner, outer in zip(within, times, strict=True))


def _is_sentence(layout: Layout, text: str) -> bool:
    """Whether a line has single blanks only, where the columns of at least three are two blanks apart."""
    if not isinstance(layout, Dashes) or "  " in text.strip() or len(layout.runs) < _FEWEST_APART:
        return False
    return " " in text.strip() and all(after[0] - before[1] > 1 for before, after in pairwise(layout.runs))


def is_ellipsis(pieces: Sequence[str]) -> bool:
    """Whether a row stands for rows that were left out: it has nothing but dots."""
    words = [piece.strip() for piece in pieces if piece.strip()]
    return bool(words) and all(_DOTS.fullmatch(word) for word in words)


def _broke_off(table: Table, text: str, pieces: Sequence[str], lacking: int = 0) -> bool:
    """Whether a row lacks more cells than the one above, the pipe at its end, or a name in the last fixed column."""
    if len(table.headings) - len(pieces) > lacking:
        return True
    if lacking:
        return False
    if isinstance(table.layout, Dashes) and table.name_column == len(pieces) - 1:
        return len(text) < table.layout.runs[-1][0] and not pieces[-1].strip()
    return (
        isinstance(table.layout, Pipes) and table.layout.closed and not text.rstrip().endswith(tuple(table.layout.ends))
    )
