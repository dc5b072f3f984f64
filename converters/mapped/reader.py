"""Reads a table by its mapping: that of the option `map`, else the one kept next to the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.errors import InputError
from ktrace.input.mapping import ColumnMap, mapping_of, mapping_path, read_mapping
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows, CsvTable
from ktrace.kit.text.tables import Row, Table
from ktrace.kit.text.variants import add_variants
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .guess import stated
from .guess_lines import stated_lines
from .heads import Fields, Head, first_table, head_for, no_column, resolved
from .json_lines import JsonLines, element_blocks
from .line_blocks import line_blocks
from .printed import columns_of, printed_blocks
from .rows import MappedRows


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields an event for each row if the mapping has a start, else a summary. Raises InputError."""
    mapping = _mapping(source, conversion)
    if isinstance(mapping, Table):
        yield from _figures(source, conversion, mapping)
        return
    if mapping.lines:
        yield from _lines(source, conversion, mapping)
        return
    head = head_for(mapping, source.sample(), source.path)
    missing = resolved(mapping, head.columns)
    if isinstance(missing, str):
        raise no_column(mapping, missing, head.columns, source.path, head.where)
    rows = MappedRows(mapping, conversion, source.path)
    if head.dialect:
        yield from _tables(source, conversion, mapping, rows)
    elif head.printed:
        yield from _printed(source, conversion, mapping, rows)
    else:
        yield from _objects(source, conversion, head, missing, rows)
    yield from rows.facts()


def _mapping(source: Source, conversion: Conversion) -> ColumnMap | Table:
    if text := conversion.options.get("map"):
        return mapping_of(text)
    if source.mapping is None:
        sample = source.sample()
        stated_here = stated(sample) if sample.is_json else None
        if stated_here and isinstance(stated_here[1], Table):
            return stated_here[1]
        guessed = stated_here[1] if stated_here else None if sample.is_json else stated_lines(sample, source.path)
        if isinstance(guessed, ColumnMap):
            conversion.report.issue("guessed", source.path, guessed.text(), 0)
            return guessed
        raise InputError(
            "has no mapping of its columns",
            path=source.path,
            expected=f"--map FIELD=COLUMN,..., or the file {mapping_path(source.path).name} next to it",
            remedy="ktrace map FILE shows a guess, and --write keeps it",
        )
    conversion.report.issue("mapped", str(source.mapping), rows=0)
    return read_mapping(source.mapping)


def _tables(source: Source, conversion: Conversion, mapping: ColumnMap, rows: MappedRows) -> Iterator[Batch]:
    """Yields the rows of all tables that have the columns of the mapping."""

    def recognise(cells: Sequence[str]) -> Fields | None:
        resolution = resolved(mapping, cells)
        return resolution if isinstance(resolution, Fields) else None

    blocks = CsvBlocks(source, conversion, recognise)
    fields: Fields | None = None
    for item in blocks:
        if isinstance(item, CsvTable):
            resolution = resolved(mapping, item.headings, item.units)
            fields = resolution if isinstance(resolution, Fields) else item.what
        elif isinstance(item, CsvRows):
            assert fields is not None  # rows come after their table
            if batch := rows.batch(item.block, fields, item.table.ordinal):
                yield batch
        elif fields is not None:
            blocks.skip("bad-record", "doesn't have a cell for each heading")


def _printed(source: Source, conversion: Conversion, mapping: ColumnMap, rows: MappedRows) -> Iterator[Batch]:
    """Yields the rows of all printed tables that have the columns of the mapping."""

    def has_columns(names: Sequence[str]) -> bool:
        return not isinstance(resolved(mapping, names), str)

    for table, block in printed_blocks(source, conversion, has_columns):
        fields = resolved(mapping, columns_of(table.headings), [head.unit for head in table.headings])
        if isinstance(fields, Fields) and (batch := rows.batch(block, fields, table.ordinal)):
            yield batch


def _objects(source: Source, conversion: Conversion, head: Head, fields: Fields, rows: MappedRows) -> Iterator[Batch]:
    """Yields the rows of JSON objects."""
    columns = [column.own for column in fields.columns.values()]
    for block in _blocks(source, conversion, columns, head.listed):
        if batch := rows.batch(block, fields, 0):
            yield batch


def _blocks(source: Source, conversion: Conversion, columns: Sequence[str], listed: str | None) -> Iterable[Block]:
    """The JSON objects in lines, or of a list, as blocks."""
    if listed is None:
        return JsonLines(source, conversion, columns)
    return element_blocks(source, conversion, columns, listed)


def _figures(source: Source, conversion: Conversion, table: Table) -> Iterator[Batch]:
    """Yields figures for the times of variants that JSON objects have."""
    head = first_table(source.sample())
    assert head is not None  # the table is of it
    rows = RowBuilder(conversion)
    for block in _blocks(source, conversion, head.columns, head.listed):
        columns = [block.or_nulls(name, pa.string()).to_pylist() for name in head.columns]
        for place, cells in enumerate(zip(*columns, strict=True)):
            if problem := add_variants(Row(table, place, [cell or "" for cell in cells]), rows):
                conversion.report.issue(problem[0], block.where(place), problem[1])
            else:
                conversion.report.used()
        yield from rows.ready()
    yield from rows.rest()


def _lines(source: Source, conversion: Conversion, mapping: ColumnMap) -> Iterator[Batch]:
    """Yields the rows of the lines that have one of the mapping's patterns. Raises InputError if none has."""
    by_name, patterns = mapping.of_lines().check(), mapping.patterns()
    columns = list(dict.fromkeys(name for pattern in patterns for name in pattern.fields))
    columns += ["count"] if "count" in by_name.cells and "count" not in columns else []
    fields = resolved(by_name, columns)
    if isinstance(fields, str):
        raise no_column(by_name, fields, columns, source.path, "the braces of its lines")
    rows, matched = MappedRows(by_name, conversion, source.path), False
    for block in line_blocks(source, conversion, patterns, columns):
        matched = True
        if batch := rows.batch(block, fields, 0):
            yield batch
    if not matched:
        raise InputError(
            f"has no line of a form in {mapping.where}",
            path=source.path,
            expected=f"lines such as {mapping.lines[0]}",
            remedy="{} stands for what differs and isn't needed; ktrace map FILE --line NUMBER,NUMBER makes a pattern",
        )
    yield from rows.facts()
