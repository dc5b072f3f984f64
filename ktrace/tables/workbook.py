"""Tables as a workbook of Excel (.xlsx): a sheet for each table, exact figures.

    operation | time (ns) | share (%)       bold, stays in view
    gemm      | 1,200,000 |      61.5       the cell contains 1200000 and 61.5...

A figure is a number with a format; an unknown one is an empty cell. A text is a text, also where it begins with "=":
it never becomes a formula. Notes, and the number of rows left out, are on a sheet of their own.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from ktrace.errors import OutputError, import_extra
from ktrace.tables import Cell, Column, Table, escape_controls, plain, shortened

#: Limits of the format: characters of a cell and of a sheet's name, rows of a sheet.
_TEXT, _NAME, _ROWS = 32_000, 31, 1_048_576

#: The widest column of text, in characters.
_WIDE = 60

#: Unit -> (its name in a heading, the format of its whole numbers, of others).
_UNITS = {
    "": ("", "0", "General"),
    "ns": (" (ns)", "#,##0", "#,##0.0"),
    "%": (" (%)", "0.0", "0.0"),
    "B": (" (bytes)", "#,##0", "#,##0"),
    "count": ("", "#,##0", "#,##0.0"),
    "x": (" (x)", "0.00", "0.00"),
}

#: Not allowed in the name of a sheet; and in a cell: what XML can't contain, what Excel reads as an escaped character.
_NOT_IN_NAMES = re.compile(r"[\[\]:*?/\\']")
_NOT_IN_XML, _ESCAPED = re.compile("[\ufffe\uffff]"), re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")


def as_workbook(tables: Sequence[Table], *, title: str = "", path: str | None = None) -> bytes:
    """Returns the tables as the bytes of an .xlsx file. `path` is its name, for errors.

    Raises OutputError if openpyxl (the extra `xlsx`) isn't installed.
    """
    openpyxl = import_extra("openpyxl", "xlsx", "a workbook (.xlsx)", path=path, error=OutputError)
    book = openpyxl.Workbook(write_only=True)
    book.properties.creator, book.properties.title = "ktrace", _text(title)
    names: set[str] = {"history"}  # Excel's own
    notes: list[str] = []
    for table in tables:
        _sheet(book, table, _sheet_name(table.name, names))
        cut = max(len(table.rows) - _ROWS + 1, 0) + table.more
        notes += [f"{table.name}: ... and {cut:,} more rows"] if cut else []
        notes += table.notes
    if notes or not tables:
        rows: list[tuple[Cell, ...]] = [(note,) for note in dict.fromkeys(notes)]
        _sheet(book, Table("notes", "", (Column("note"),), rows), _sheet_name("notes", names))
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()


def _sheet_name(name: str, names: set[str]) -> str:
    """The name of a sheet: no character that isn't allowed, short enough, and not that of another one."""
    plain_name = _NOT_IN_NAMES.sub("_", _text(name))[:_NAME] or "table"
    if plain_name.lower() in names:
        plain_name = plain_name[: _NAME - 4]
    number, sheet = 1, plain_name
    while sheet.lower() in names:
        number += 1
        sheet = f"{plain_name}#{number}"
    names.add(sheet.lower())
    return sheet


def _sheet(book: Any, table: Table, name: str) -> None:
    """Adds the sheet of a table."""
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter

    sheet = book.create_sheet(name)
    sheet.freeze_panes = "A2"
    headings = [column.name + _UNITS[column.unit][0] for column in table.columns]
    rows = table.rows[: _ROWS - 1]
    for place, column in enumerate(table.columns):
        texts = [headings[place], *(str(row[place]) for row in rows[:100] if row[place] is not None)]
        widest = max(map(len, texts)) if column.unit == "" else max(len(headings[place]), 12)
        sheet.column_dimensions[get_column_letter(place + 1)].width = min(widest, _WIDE) + 2
    if table.columns:
        sheet.auto_filter.ref = f"A1:{get_column_letter(len(headings))}{len(rows) + 1}"
    bold = Font(bold=True)
    sheet.append([_cell(sheet, heading, Column(heading), bold) for heading in headings])
    for row in rows:
        sheet.append([_cell(sheet, cell, column) for cell, column in zip(row, table.columns, strict=True)])


def _cell(sheet: Any, value: object, column: Column, font: Any = None) -> Any:
    """A cell: a number with a format, a text that is never a formula, or nothing."""
    from openpyxl.cell import WriteOnlyCell

    figure = plain(value)
    if figure is None:
        return None
    if isinstance(figure, str):
        cell = WriteOnlyCell(sheet, _text(figure))
        cell.data_type = "s"  # openpyxl makes formulas and errors of texts that look like them
        cell.quotePrefix = figure.startswith("=")  # so does Excel where a cell is edited
    else:
        cell = WriteOnlyCell(sheet, repr(figure))
        cell.data_type = "n"  # as text, since openpyxl writes only 16 digits of a number
        whole, other = _UNITS[column.unit][1:]
        form = whole if isinstance(figure, int) else other
        cell.number_format = f"+{form};-{form};{form}" if column.signed else form
    if font is not None:
        cell.font = font
    return cell


def _text(text: str) -> str:
    """The text without characters that the format can't contain, short enough for a cell."""
    seen = _NOT_IN_XML.sub(lambda match: f"\\u{ord(match.group()):04x}", escape_controls(text))
    return shortened(_ESCAPED.sub("_x005F_", seen), _TEXT)
