"""Converts blocks of text cells to blocks of typed columns, by a table from the model's columns to headings.

    FIELDS = {
        "ts": Time("Start"),                     "<ts>"      int64 ns
        "bytes": Size("Size"),                   "<bytes>"   int64 B
        "grid_x": Whole("Grid X"),               "<grid_x>"  int64
        "name": Text("Name"),                    "<name>"    text, blank where the source has a blank one
        "grid": Field(function, "Grid")          "<grid>"    what the function makes of cells and their unit
    }
    block = typed(rows, FIELDS)
    batches.events(block, ids, ts=block.take("<ts>"), name=block.take("<name>"), ...)

Cells that a field can't represent, and columns without a field, stay under the source's heading ("Size (MB)" if a row
of units names one) and become arguments: each cell a number, or else its text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.kit.text.headings import heading
from ktrace.model.arrays import Bools
from ktrace.model.json_text import dump_json
from ktrace.model.masks import present
from ktrace.report import Report

from .blocks import Block
from .csv_blocks import CsvRows, CsvTable
from .text_cells import BINARY_BYTES, argument, floats, has_text, integers, only, sizes, stripped, times

#: A column, and the rows whose cells stay arguments, None for none.
Cells = tuple[pa.Array, Bools | None]


class Field:
    """How a column of the model is read: by a function of cells and their unit.

    `spellings` are its possible headings; the first one in the table wins.
    """

    def __init__(self, read: Callable[[pa.StringArray, str], Cells], *spellings: str) -> None:
        self.read, self.spellings = read, spellings


def _with_misfits(cells: pa.StringArray, column: pa.Array) -> Cells:
    if not column.null_count:
        return column, None
    misfits = has_text(stripped(cells)) & ~present(column)
    return column, misfits if misfits.any() else None


def _time(cells: pa.StringArray, unit: str) -> Cells:
    return _with_misfits(cells, times(cells, unit or "ns").ns)


def read_sizes(cells: pa.StringArray, unit: str, factors: Mapping[str, int] = BINARY_BYTES) -> Cells:
    """Cells as bytes, `factors` for a unit; those that were rounded or aren't sizes stay."""
    parsed = sizes(cells, unit or "B", factors)
    return parsed.bytes, parsed.rounded if parsed.rounded.any() else None


#: A text without the blanks around it; the same, null for a cell without a value.
Text = partial(Field, lambda cells, unit: (pc.utf8_trim_whitespace(cells), None))
Word = partial(Field, lambda cells, unit: (stripped(cells), None))

#: A whole number, a float64; other cells stay.
Whole = partial(Field, lambda cells, unit: _with_misfits(cells, integers(cells)))
Number = partial(Field, lambda cells, unit: _with_misfits(cells, floats(cells)))

#: A time in ns, whose unit is below the heading or in it, else ns. A size in bytes, K is 1024.
Time = partial(Field, _time)
Size = partial(Field, read_sizes)


def typed(rows: CsvRows, fields: Mapping[str, Field], report: Report, units: Mapping[str, str] | None = None) -> Block:
    """Returns the rows with a column `<field>` for each field of the table, and the rest under the headings.

    `$ts` and `$dur` keep the source's own number of a time that was rounded. `units` are the format's units for fields
    without a unit in table or heading.
    """
    source, table = rows.block, rows.table
    columns: dict[str, pa.Array] = {}
    left: dict[str, pa.Array] = {}
    headings: dict[str, str] = {}
    for name, field in fields.items():
        name_in_file = own_heading(table, field)
        cells = None if name_in_file is None else source.take(name_in_file)
        if name_in_file is None or cells is None:
            continue
        unit = table.unit(name_in_file) or heading(name_in_file).unit or (units or {}).get(name, "")
        column, kept = field.read(cells, unit)
        columns[f"<{name}>"], headings[f"<{name}>"] = column, name_in_file
        if kept is not None:
            left[_with_unit(name_in_file, unit)] = argument(only(cells, kept))
            if name not in ("ts", "end", "dur"):  # rows without which are refused
                note_misfits(report, source, name_in_file, cells, kept & ~present(column))
        if field.read is _time and unit not in ("", "ns") and (rounded := times(cells, unit).rounded).any():
            left[f"${name}"] = argument(only(cells, rounded))
            for row in np.flatnonzero(rounded).tolist():
                report.issue("rounded", source.where(row), f"${name}")
    for heading_, cells in source.rest().items():
        if has_text(cells).any():
            name_in_file = heading_.removeprefix("args.")
            left[_with_unit(name_in_file, table.unit(name_in_file))] = argument(cells, heading(name_in_file))
    return Block(source.place, source.numbers, columns | left, headings)


def note_misfits(report: Report, block: Block, name: str, cells: pa.StringArray, rows: Bools) -> None:
    """Reports the cells of these rows, which the column's field can't represent: how many, and the first."""
    if rows.any():
        first = int(np.argmax(rows))
        report.issue("misfit", block.where(first), f"{name}: {cells[first].as_py().strip()[:40]}", int(rows.sum()))


def joined(block: Block, columns: dict[str, Any]) -> dict[str, Any]:
    """Merges arguments that the block still has into those of `columns` with the same heading; each has some rows."""
    merged = dict(columns)
    for key, column in columns.items():
        name = key.removeprefix("args.")
        if key.startswith("args.") and (left := block.take(name)) is not None:
            merged[key] = left if column is None else pc.coalesce(_as_json(column), _as_json(left))
    return merged


def _as_json(column: pa.Array) -> pa.Array:
    """An argument of any type as JSON text; null stays null."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_binary(column.type):
        return column
    return by_distinct(column, lambda value: dump_json(value).encode(), pa.binary())


def own_heading(table: CsvTable, field: Field) -> str | None:
    """The table's heading for a field: one of its spellings, in any case and with any unit."""
    names: dict[str, str] = {}
    for name in table.headings:
        names.setdefault(heading(name).name.casefold(), name)
    names |= {name.casefold(): name for name in reversed(table.headings)}
    return next((names[name.casefold()] for name in field.spellings if name.casefold() in names), None)


def _with_unit(name_in_file: str, unit: str) -> str:
    """The heading with the unit below it, spelled as in other tables: "Size (MB)"."""
    return f"{name_in_file} ({unit})" if unit and not heading(name_in_file).unit else name_in_file
