"""Tables as CSV: exact figures, under names that state their unit.

    operation,time_ns,share_percent           one table: its columns
    gemm,1200000,61.5

    table,operation,time_ns,kernel,count      several: the first column names the table; a column that
    operation,gemm,1200000,,                  a table doesn't have is empty
    kernel,,700000,sgemm,12

Unknown figures, NaN and infinities are empty cells. Lines end with a line feed. A text that a spreadsheet would read
as a formula (it begins with = + - @) gets a leading apostrophe, and control characters become escapes (`\\x1b`);
JSON has every name unchanged. Sentences aren't figures, so they are left out.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from ktrace.tables.figures import harmless, plain
from ktrace.tables.table import Cell, Table

_FORMULA = ("=", "+", "-", "@")


def as_csv(tables: Sequence[Table]) -> str:
    """Returns the tables as one CSV document, which pandas, DuckDB and spreadsheets read as a single table."""
    tables = [table for table in tables if not table.sentences]
    table_column = ["table"] if len(tables) > 1 else []
    keys = list(dict.fromkeys(column.key for table in tables for column in table.columns))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table_column + keys)
    for table in tables:
        places = [keys.index(column.key) for column in table.columns]
        for row in table.rows:
            cells: list[Cell] = [None] * len(keys)
            for place, cell in zip(places, row, strict=True):
                cells[place] = csv_cell(plain(cell))
            writer.writerow([*([csv_cell(table.name)] if table_column else []), *cells])
    return out.getvalue()


def csv_cell(value: Cell) -> Cell:
    """The cell as CSV contains it: a text that can't be read as a formula, without control characters."""
    if not isinstance(value, str):
        return value
    text = harmless(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
