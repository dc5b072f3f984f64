"""Converts blocks of text cells to blocks of typed columns, by a table from the model's columns to headings.

    FIELDS = {
        "ts": Time("Start"),                     "<ts>"      int64 ns
        "bytes": Size("Size"),                   "<bytes>"   int64 B
        "grid_x": Whole("Grid X"),               "<grid_x>"  int64
        "name": Text("Name"),                    "<name>"    text, blank where the source has a blank one
    }
    block = typed(rows, FIELDS)
    batches.events(block, ids, ts=block.take("<ts>"), name=block.take("<name>"), ...)

Cells that a field can't represent, and columns without a field, stay under the source's heading ("Size (MB)" if a row
of units names one) and become arguments: each cell a number, or else its text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

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


@dataclass(frozen=True)
class Field(ABC):
    """How a column of the model is read. `spellings` are its possible headings; the first one in the table wins."""

    spellings: tuple[str, ...]

    def __init__(self, *spellings: str) -> None:
        object.__setattr__(self, "spellings", spellings)

    @abstractmethod
    def read(self, cells: pa.StringArray, unit: str) -> tuple[pa.Array, Bools | None]:
        """Returns the column, and the rows whose cells stay arguments."""


class Text(Field):
    """A text without the blanks around it."""

    def read(self, cells: pa.StringArray, unit: str) -> tuple[pa.Array, Bools | None]:
        """No cell stays."""
        return pc.utf8_trim_whitespace(cells), None


class Word(Field):
    """A text; null for a cell without a value."""

    def read(self, cells: pa.StringArray, unit: str) -> tuple[pa.Array, Bools | None]:
        """No cell stays."""
        return stripped(cells), None


class Whole(Field):
    """A whole number; other cells stay."""

    def read(self, cells: pa.StringArray, unit: str) -> tuple[pa.Array, Bools | None]:
        """Cells that aren't whole numbers stay."""
        return _with_misfits(cells, integers(cells))


class Number(Field):
    """A float64; other cells stay."""

    def read(self, cells: pa.StringArray, unit: str) -> tuple[pa.Array, Bools | None]:
        """Cells that aren't numbers stay."""
        return _with_misfits(cells, floats(cells))


class Time(Field):
    """A time in ns. Its unit is below the heading or in it, else ns. Other cells stay."""

    def read(self, cells: pa.StringArray, unit: str) -> tuple[pa.Array, Bools | None]:
        """Cells that aren't times stay."""
        return _with_misfits(cells, times(cells, unit or "ns").ns)


class Size(Field):
    """A size in bytes; K is 1024 unless `factors` differ. Rounded sizes stay."""

    factors: ClassVar[Mapping[str, int]] = BINARY_BYTES

    def read(self, cells: pa.StringArray, unit: str) -> tuple[pa.Array, Bools | None]:
        """Cells that were rounded or aren't sizes stay."""
        found = sizes(cells, unit or "B", self.factors)
        return found.bytes, found.rounded if found.rounded.any() else None


def _with_misfits(cells: pa.StringArray, column: pa.Array) -> tuple[pa.Array, Bools | None]:
    if not column.null_count:
        return column, None
    misfits = has_text(stripped(cells)) & ~present(column)
    return column, misfits if misfits.any() else None


def typed(rows: CsvRows, fields: Mapping[str, Field], report: Report, units: Mapping[str, str] | None = None) -> Block:
    """Returns the rows with a column `<field>` for each field of the table, and the rest under the headings.

    `$ts` and `$dur` keep the source's own number of a time that was rounded. `units` are the format's units for fields
    without a unit in table or heading.
    """
    source, table = rows.block, rows.table
    columns: dict[str, pa.Array] = {}
    left: dict[str, pa.Array] = {}
    for name, field in fields.items():
        own = own_heading(table, field)
        cells = None if own is None else source.take(own)
        if own is None or cells is None:
            continue
        unit = table.unit(own) or heading(own).unit or (units or {}).get(name, "")
        column, kept = field.read(cells, unit)
        columns[f"<{name}>"] = column
        if kept is not None:
            left[_with_unit(own, unit)] = argument(only(cells, kept))
        if isinstance(field, Time) and unit not in ("", "ns") and (rounded := times(cells, unit).rounded).any():
            left[f"${name}"] = argument(only(cells, rounded))
            for row in np.flatnonzero(rounded).tolist():
                report.issue("rounded", source.where(row), f"${name}")
    for heading_, cells in source.rest().items():
        if has_text(cells).any():
            own = heading_.removeprefix("args.")
            left[_with_unit(own, table.unit(own))] = argument(cells, heading(own))
    return Block(source.place, source.numbers, columns | left)


def joined(block: Block, columns: dict[str, Any]) -> dict[str, Any]:
    """Merges arguments that the block still has into those of `columns` with the same heading; each has some rows."""
    found = dict(columns)
    for key, column in columns.items():
        name = key.removeprefix("args.")
        if key.startswith("args.") and (left := block.take(name)) is not None:
            found[key] = left if column is None else pc.coalesce(_as_json(column), _as_json(left))
    return found


def _as_json(column: pa.Array) -> pa.Array:
    """An argument of any type as JSON text; null stays null."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_binary(column.type):
        return column
    return by_distinct(column, lambda value: dump_json(value).encode(), pa.binary())


def own_heading(table: CsvTable, field: Field) -> str | None:
    """The table's heading for a field: one of its spellings, in any case and with any unit."""
    own: dict[str, str] = {}
    for name in table.headings:
        own.setdefault(heading(name).name.casefold(), name)
    own |= {name.casefold(): name for name in reversed(table.headings)}
    return next((own[name.casefold()] for name in field.spellings if name.casefold() in own), None)


def _with_unit(own: str, unit: str) -> str:
    """The heading with the unit below it, spelled as in other tables: "Size (MB)"."""
    return f"{own} ({unit})" if unit and not heading(own).unit else own
