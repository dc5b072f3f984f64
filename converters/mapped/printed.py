"""Tables that are printed rather than separated: Markdown, boxes, columns of fixed width, as blocks of text columns.

| op   | layer | t     |
|------|-------|-------|
| gemm | 0     | 12.5  |      a row of the block: op gemm, layer 0, t 12.5
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.input.source import Sample, Source
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.csv_blocks import distinct_headings
from ktrace.kit.text.headings import FIGURES, Heading, cell_quantity, figure
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.tables import Below, Row, SampleLines, Table, may_have_tables, read_tables

#: Rows whose cells are looked at for a guess.
_ROWS = 200


def columns_of(headings: Sequence[Heading]) -> tuple[str, ...]:
    """The names of columns, with '#2' and so on where several have the same heading."""
    return distinct_headings([head.text for head in headings])


def any_table(headings: Sequence[Heading], below: Below) -> dict[str, int] | None:
    """Recognises a table of anything: headings that aren't numbers, above a row with texts and numbers."""
    cells = below.first
    if len(headings) < 2 or len(cells) != len(headings) or any(cell_quantity(head.text) for head in headings):
        return None
    numbers = [index for index, cell in enumerate(cells) if figure(cell)]
    name = next((index for index, cell in enumerate(cells) if cell and index not in numbers), None)
    if name is None or not numbers or sum(not head.text for head in headings) > 1:
        return None
    return {"name": name} | dict(zip(FIGURES, numbers, strict=False))


def first_printed(sample: Sample) -> tuple[Table, list[list[str]]] | None:
    """The first table of a sample and its first rows; None without a table."""
    if not may_have_tables(sample):
        return None
    table: Table | None = None
    rows: list[list[str]] = []
    for item in read_tables(SampleLines(sample.lines), any_table):
        if isinstance(item, Table):
            if table:
                break
            table = item
        elif isinstance(item, Row):
            rows.append(item.cells)
            if len(rows) >= _ROWS:
                break
    return (table, rows) if table and rows else None


def printed_blocks(
    source: Source, conversion: Conversion, has_columns: Callable[[Sequence[str]], bool]
) -> Iterator[tuple[Table, Block]]:
    """Yields the rows of the tables that have the columns of a mapping, in blocks."""

    def recognise(headings: Sequence[Heading], below: Below) -> dict[str, int] | None:
        if not has_columns(columns_of(headings)):
            return None
        return any_table(headings, below) or {"name": 0}

    lines = Lines(source, conversion)
    waiting: list[Row] = []
    for item in read_tables(lines, recognise):
        if isinstance(item, Row):
            lines.read()
            if waiting and waiting[0].table is not item.table:
                yield _block(waiting)
                waiting = []
            waiting.append(item)
        if len(waiting) >= conversion.batch_rows:
            yield _block(waiting)
            waiting = []
    if waiting:
        yield _block(waiting)


def _block(rows: Sequence[Row]) -> tuple[Table, Block]:
    table = rows[0].table
    names = columns_of(table.headings)
    columns = {name: pa.array([row.cells[index] for row in rows]) for index, name in enumerate(names) if name}
    return table, Block("line", pa.array([row.line for row in rows], pa.int64()), columns)


def head_cells(table_and_rows: tuple[Table, list[list[str]]]) -> list[tuple[str, ...]]:
    """The cells of the first rows by columns."""
    table, rows = table_and_rows
    return [tuple(row[index] for row in islice(rows, _ROWS)) for index in range(len(table.headings))]
