"""What pages are put together from: key figures, lists of bars, legends, tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ktrace.page.markup import LONGEST, Markup, tag
from ktrace.tables.figures import harmless, plain, shown
from ktrace.tables.table import Cell, Column, Table

#: Rows of a table that a page shows at most.
_ROWS = 1000
#: Letters at the end of a name that stay where it is too long for its place: they tell layers and tiles apart.
_END = 10


def section(anchor: str, title: str, hint: str, *content: object) -> Markup:
    """A part of the page under a heading; `hint` says how to read it."""
    heading = tag("h2", title)
    return tag("section", heading, tag("p", hint, class_="hint") if hint else None, *content, id=anchor)


def keys(figures: Iterable[tuple[str, str, str]]) -> Markup:
    """The key figures: what it is, the figure, what belongs to it."""
    boxes = [
        tag("div", tag("dt", name), tag("dd", tag("span", big, class_="big"), tag("span", small, class_="small")))
        for name, big, small in figures
    ]
    return tag("dl", boxes, class_="keys")


def row(name: str, chart: Markup, *value: object, rest: bool = False) -> Markup:
    """A line of a list of bars: the name, the bar, its figures."""
    return tag("li", named(name), chart, tag("span", *value, class_="value"), class_="rest" if rest else None)


def named(name: str, *tags: str, title: str | None = None) -> Markup:
    """A name that may be too long for its place; `title` (else the name) is its tooltip, a click shows it whole.

    Where it is too long its middle is left out.
    """
    marks = [tag("span", text, class_="tag") for text in tags]
    shown = harmless(name)[:LONGEST] or "(no name)"
    end = len(shown) - (_END if len(shown) > 2 * _END else 0)
    parts = (tag("span", shown[:end], class_="begin"), tag("span", shown[end:], class_="end") if shown[end:] else None)
    return tag("span", parts, marks, class_="name", title=harmless(title or name))


def share(value: float, whole: float) -> str:
    """The value as a part of the whole: 61.5%; "" of nothing."""
    return f"{100 * value / whole:.1f}%" if whole else ""


def bars(rows: Sequence[object], kind: str = "") -> Markup:
    """A list of `row`s."""
    return tag("ul", rows, class_=f"bars {kind}".strip())


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """What the colours mean: names and classes."""
    items = []
    for name, colour in entries:
        box = tag("rect", class_=colour, width="100%", height="100%", rx=2)
        items.append(tag("li", tag("svg", box, aria_hidden="true"), name))
    return tag("ul", items, class_="legend")


def figures_table(table: Table, *, opened: bool, said: Sequence[str] = ()) -> Markup:
    """The table whole, folded behind its title; headings sort it where there is a script.

    Notes that the page has `said` already are left out.
    """
    heads = [tag("th", column.name, class_="figure" if column.unit else None, scope="col") for column in table.columns]
    rows = [
        tag("tr", [_cell(cell, column) for cell, column in zip(cells, table.columns, strict=True)])
        for cells in table.rows[:_ROWS]
    ]
    left_out = table.more + max(len(table.rows) - _ROWS, 0)
    count = f"{len(rows):,} of {len(rows) + left_out:,}" if left_out else f"{len(rows):,}"
    whole = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="figures", data_name=table.name)
    notes = [tag("p", harmless(note), class_="hint") for note in table.notes if note not in said]
    title = tag("summary", table.title or table.name, " ", tag("span", count, class_="count"))
    return tag("details", title, tag("div", whole, class_="wide"), notes, open=True if opened else None)


def _cell(cell: Cell, column: Column) -> Markup:
    value = plain(cell)
    if not column.unit:
        text = shown(value, column)
        number = None if isinstance(value, str) else value
        return tag("td", tag("span", text[:LONGEST], class_="name"), data_value=number)
    sign = _sign(value) if column.signed else ""
    return tag("td", shown(value, column), class_=f"figure {sign}".strip(), data_value=value)


def _sign(value: Cell) -> str:
    if not isinstance(value, (int, float)) or value == 0:
        return ""
    return "up" if value > 0 else "down"
