"""The parts of a page as data, which `page.html` and `blocks.html` turn into HTML, and elements of SVG.

Each block names, as `macro`, the macro of `blocks.html` that draws it. The rule for every text on a page: it can only
be a text.

    tag("rect", tag("title", "a < b"), class_="bar", width=3)
    ──►  <rect class="bar" width="3"><title>a &lt; b</title></rect>

Names come from other people's files. Whatever isn't `Markup` is made harmless, limited in length and escaped: here
and, by `bounded` as the templates' finalize function, in every expression of a template.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup, escape

from ktrace.tables import Cell, Column, Table, escape_controls, plain, shown, without_empty

#: The longest text on a page, in characters.
LONGEST = 2000


def bounded(value: object) -> object:
    """Markup as it is; anything else as text of at most `LONGEST` characters without control characters."""
    if isinstance(value, Markup):
        return value
    text = "" if value is None else str(value)
    lines = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return "\n".join(map(escape_controls, lines.split("\n")))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element; a child may be a list of children. In names of attributes `_` becomes `-`."""
    opening = "".join(
        f' {key.removesuffix("_").replace("_", "-")}="{escape(bounded(value))}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{opening}>{_joined(children)}</{name}>")


def _joined(children: object) -> Markup:
    if isinstance(children, (list, tuple)):
        return Markup("").join(map(_joined, children))
    return escape(bounded(children))


#: Rows of a table that a page shows at most.
_ROWS = 1000
#: Characters at the end of a name that stay visible where the name is too long for its place: they tell layers apart.
_END = 10

#: A key figure: its name, the figure, and what explains it.
KeyFigure = tuple[str, str, str]


@dataclass(frozen=True)
class ChartName:
    """A name in two pieces: the end stays visible where the beginning is cut off. `title` is its tooltip."""

    begin: str
    end: str
    title: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class BarRow:
    """A line of a list of bars: the name, the bar, a figure in bold and what follows it, a second chart.

    A row without a figure is a name alone. `rest` marks the row for everything that has no row.
    """

    name: ChartName
    chart: Markup | None = None
    figure: str | None = None
    detail: str = ""
    second: Markup | None = None
    rest: bool = False


@dataclass(frozen=True)
class Bars:
    """A list of rows; `head` is an axis above the second charts, `scale` one below the bars."""

    macro: ClassVar[str] = "bars"

    rows: Sequence[BarRow]
    kind: str = ""
    head: Markup | None = None
    scale: Markup | None = None


@dataclass(frozen=True)
class Legend:
    """The meaning of colours: (text, class of the colour)."""

    macro: ClassVar[str] = "legend"

    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Plot:
    """A chart of columns above the names of the first and the last column."""

    macro: ClassVar[str] = "plot"

    chart: Markup
    first: str
    last: str


@dataclass(frozen=True)
class Lists:
    """Lists of bars next to each other, each under its title."""

    macro: ClassVar[str] = "lists"

    lists: Sequence[tuple[str, Bars]]


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading; `hint` explains how to read it."""

    anchor: str
    title: str
    hint: str
    blocks: Sequence[Bars | Legend | Plot | Lists]


@dataclass(frozen=True)
class ShownCell:
    """A cell of a table: its text, the number to sort by, and the class of a figure (None: a text)."""

    text: str
    value: Cell
    kind: str | None


@dataclass(frozen=True)
class FigureTable:
    """A table in full, folded under its title; clicking a heading sorts it."""

    name: str
    title: str
    count: str
    opened: bool
    columns: Sequence[Column]
    rows: Sequence[Sequence[ShownCell]]
    notes: Sequence[str]


def named(name: str, *tags: str, title: str | None = None) -> ChartName:
    """The name, with its middle left out where it is too long for its place; `title` defaults to the whole name."""
    text = escape_controls(name)[:LONGEST] or "(no name)"
    end = len(text) - (_END if len(text) > 2 * _END else 0)
    return ChartName(text[:end], text[end:], escape_controls(title or name), tags)


def share(value: float, whole: float) -> str:
    """The value as a part of the whole: 61.5%; "" where the whole is 0."""
    return f"{100 * value / whole:.1f}%" if whole else ""


def figure_table(table: Table, *, opened: bool, shown_notes: Sequence[str] = ()) -> FigureTable:
    """The table with at most `_ROWS` rows, without empty columns and notes that the page shows elsewhere."""
    table = without_empty(table)
    rows = [
        [_cell(cell, column) for cell, column in zip(cells, table.columns, strict=True)] for cells in table.rows[:_ROWS]
    ]
    left_out = table.more + max(len(table.rows) - _ROWS, 0)
    count = f"{len(rows):,} of {len(rows) + left_out:,}" if left_out else f"{len(rows):,}"
    notes = [escape_controls(note) for note in table.notes if note not in shown_notes]
    return FigureTable(table.name, table.title or table.name, count, opened, table.columns, rows, notes)


def _cell(cell: Cell, column: Column) -> ShownCell:
    value = plain(cell)
    if not column.unit:
        return ShownCell(shown(value, column)[:LONGEST], None if isinstance(value, str) else value, None)
    sign = _sign(value) if column.signed else ""
    return ShownCell(shown(value, column), value, f"figure {sign}".strip())


def _sign(value: Cell) -> str:
    if not isinstance(value, (int, float)) or value == 0:
        return ""
    return "up" if value > 0 else "down"
