"""Tables as CSV: figures as they are, under names that say their unit.

    operation,time_ns,share_percent           one table: its columns
    gemm,1200000,61.5

    table,operation,time_ns,kernel,count      several: the first column says which, a column that a table
    operation,gemm,1200000,,                  hasn't is empty
    kernel,,700000,sgemm,12

What a source doesn't say is an empty cell, as are NaN and the infinities. Lines end with a line feed. A text that a
spreadsheet would take for a formula (it begins with = + - @) begins with an apostrophe, and control characters are
escapes (`\\x1b`); JSON has every name as it is.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from ktrace.tables.figures import harmless, plain
from ktrace.tables.table import Cell, Table

_FORMULA = ("=", "+", "-", "@")


def as_csv(tables: Sequence[Table]) -> str:
    """The tables as one CSV document that pandas, DuckDB and spreadsheets read as a single table."""
    which = ["table"] if len(tables) > 1 else []
    keys = list(dict.fromkeys(column.key for table in tables for column in table.columns))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(which + keys)
    for table in tables:
        places = [keys.index(column.key) for column in table.columns]
        for row in table.rows:
            cells: list[Cell] = [None] * len(keys)
            for place, cell in zip(places, row, strict=True):
                cells[place] = _cell(plain(cell))
            writer.writerow([*([_cell(table.name)] if which else []), *cells])
    return out.getvalue()


def _cell(value: Cell) -> Cell:
    if not isinstance(value, str):
        return value
    text = harmless(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
