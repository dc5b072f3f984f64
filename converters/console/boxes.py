"""Tables of console.table: drawn, as Node.js prints them, or with tabs, as Chrome copies them.

┌─────────┬──────────┬──────┐        (index)  name    ms
│ (index) │ name     │ ms   │        0        matmul  1.25
├─────────┼──────────┼──────┤
│ 0       │ 'matmul' │ 1.25 │
└─────────┴──────────┴──────┘
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ktrace.kit.text.headings import (
    FIGURES,
    STATISTICS,
    Columns,
    Figures,
    Heading,
    cell_quantity,
    heading,
    is_time,
    read_figures,
)

INDEX = "(index)"
RULE = re.compile(r"\s*[┌├└╔╠╚][─┬┼┴┐┤┘═╦╬╩╗╣╝]+\s*")

_HEADINGS = (
    "kernel",
    "name",
    "op",
    "label",
    "pass",
    "shader",
    "pipeline",
    "stage",
    "operation",
    "operator",
    "kernel name",
)
_COLUMNS = Columns({"name": _HEADINGS, **STATISTICS}, ())


@dataclass(frozen=True)
class Box:
    """An open table: its headings, and field -> index of its column; None for a table without times."""

    headings: tuple[Heading, ...]
    fields: dict[str, int] | None

    def row(self, text: str) -> tuple[str, Figures] | None:
        """Returns the name and the figures of a row; None if the line isn't one or has no figures."""
        cells = cells_of(text)
        if cells is None or len(cells) != len(self.headings) or self.fields is None:
            return None
        name = cells[self.fields["name"]]
        fields = {field: index for field, index in self.fields.items() if field != "name"}
        shown = [cell if index != self.fields["name"] else "" for index, cell in enumerate(cells)]
        figures = read_figures(self.headings, shown, fields)
        times = figures.columns.get("unit") == "ns" and any(field in figures.columns for field in FIGURES)
        return (name, figures) if times and name else None


def cells_of(text: str) -> list[str] | None:
    """Returns the cells of a line of a table, without quotes; None for any other line."""
    text = text.strip("\r\n")
    if text.lstrip().startswith("│") and text.rstrip().endswith("│"):
        cells = text.strip()[1:-1].split("│")
    elif "\t" in text:
        cells = text.split("\t")
    else:
        return None
    return [_unquoted(cell.strip()) for cell in cells]


def _unquoted(cell: str) -> str:
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] and cell[0] in "'\"" else cell


def box_of(text: str, below: str) -> Box | None:
    """Returns the table whose headings are on a line; `below` is its first row. None for any other line."""
    cells = cells_of(text) if INDEX in text else None
    if not cells or cells[0] != INDEX:
        return None
    first = cells_of(below) or []
    headings = tuple(_with_unit(heading(cell)) for cell in cells)
    fields = _COLUMNS.match(headings[1:]) or {}
    fields = {field: index + 1 for field, index in fields.items()}
    times = [index for index, head in enumerate(headings) if is_time(head.unit) or _is_time(first, index)]
    if not any(fields.get(field) in times for field in FIGURES):
        free = [index for index in times if index not in fields.values()]
        if not free:
            return Box(headings, None)
        fields = {field: index for field, index in fields.items() if field not in FIGURES} | {"total": free[0]}
    return Box(headings, {"name": 0} | fields)


def _with_unit(head: Heading) -> Heading:
    """A column that is called ms has ms."""
    return replace(head, unit=head.name) if not head.unit and head.name in ("ns", "us", "ms") else head


def _is_time(cells: list[str], index: int) -> bool:
    quantity = cell_quantity(cells[index]) if index < len(cells) else None
    return quantity is not None and is_time(quantity.unit)
