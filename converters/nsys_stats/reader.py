"""Reads reports of Nsight Systems: summary reports become summaries, trace reports become events.

Reads files that are entirely CSV, or that have a trace as CSV or TSV, in columns: millions of rows.

nsys puts quotes around a cell with a comma, and doesn't double those in the cell:
79.3,12344509,16,PushPop,"op<"a, b">(int, "x")"
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.input.source import Sample, Source
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows, CsvTable
from ktrace.kit.columnar.csv_headings import find_csv
from ktrace.kit.text.headings import Heading, heading
from ktrace.kit.text.layouts import Delimited
from ktrace.kit.text.lines import Line, LineAccount, Lines
from ktrace.kit.text.tables import Row, Table, Text, read_tables
from ktrace.model.batch import Batch
from ktrace.model.fitting import whole_text

from .columns import columns_of, is_trace
from .html_tables import first_headings as html_headings
from .html_tables import html_tables
from .json_tables import first_headings as json_headings
from .json_tables import json_tables
from .reading import ReportReader
from .traces import TraceTable

#: A recognised table: its headings, field -> index of the column.
_Known = tuple[tuple[Heading, ...], dict[str, int]]

#: Lines of tables that aren't CSV, and of titles: the rule of a table of fixed width, pipes, boxes, `**`, `#`.
_RULE = re.compile(r"\s*-+(?: +-+)+\s*")
_OTHER = re.compile(r"\s*-+(?: +-+)+\s*|\s*[|+>#│┃].*|\s*(?:\*\*|===).*")


def is_csv(lines: Sequence[str]) -> bool:
    """Whether the tables in the lines are CSV: all of them, or a trace, and none with columns of fixed width."""
    heads = [line for line in lines if "Start" in line or "," in line]
    tables = [(is_trace(known[1]), "\t" in heads[number - 1]) for number, known in find_csv(heads, _recognise)]
    if any(trace for trace, _ in tables) and not any(map(_RULE.fullmatch, lines)):
        return True
    return any(not tabs for _, tabs in tables) and not any(map(_OTHER.fullmatch, lines))


def _recognise(cells: Sequence[str]) -> _Known | None:
    headings = tuple(heading(cell) for cell in cells)
    fields = columns_of(headings)
    return None if fields is None else (headings, fields)


def read_csv(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Does the same as `read` for a file whose tables are all CSV."""
    lines = CsvBlocks(source, conversion, _recognise, units=lambda cells: False, bare_quotes=True)
    reading = ReportReader(source, conversion, lines)
    trace: TraceTable | None = None
    table: Table | None = None
    for item in lines:
        if isinstance(item, Line):
            reading.seen(item.number)
            reading.text(item.number, item.text)
        elif isinstance(item, CsvTable):
            if trace:
                trace.close()
            reading.seen(item.line)
            table = _table(item)
            trace = reading.trace(table) if is_trace(item.what[1]) else None
            if trace is None:
                reading.begin_summary(table)
        else:
            reading.seen(int(item.block.numbers[-1].as_py()))
            if trace:
                yield from _events(item, trace, conversion)
            elif table:
                _summaries(item, table, reading, conversion)
        yield from reading.rows.ready()
    if trace:
        trace.close()
    yield from reading.finish()


def _table(table: CsvTable) -> Table:
    """Returns a table for the rest of this package. Rows may end with a separator that the headings don't have."""
    known, fields = table.what
    headings = (*known, *map(heading, table.headings[len(known) :]))[: len(table.headings)]
    return Table(table.ordinal, table.line, (), Delimited("commas"), headings, fields)


def _events(rows: CsvRows, trace: TraceTable, conversion: Conversion) -> Iterator[Batch]:
    cells = [rows.block.get(name) for name in rows.table.headings]
    numbers = rows.block.numbers.to_numpy()
    batches, skips = trace.take(numbers, cells)
    for skip in skips:
        where = f"line {skip.first}" if skip.first == skip.last else f"lines {skip.first}-{skip.last}"
        conversion.report.issue(skip.kind, where, skip.detail, skip.rows)
    conversion.report.used(len(numbers) - sum(skip.rows for skip in skips))
    yield from batches


def _summaries(rows: CsvRows, table: Table, reading: ReportReader, conversion: Conversion) -> None:
    columns = [rows.block.get(name).to_pylist() for name in rows.table.headings]  # type: ignore[union-attr]
    for number, *cells in zip(rows.block.numbers.to_pylist(), *columns, strict=True):
        if problem := reading.row(Row(table, number, [cell.strip() for cell in cells])):
            conversion.report.issue("bad-record", f"line {number}", problem)
        else:
            conversion.report.used()


#: A file is read in columns if a trace begins within this many bytes.
_HEAD = 1 << 16


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary or an event for each row, and a note for a report without data; skips and reports other text.

    If the head contains only CSV, or a trace as CSV, the whole file is read in columns, else row by row.
    """
    with source.open(quiet=True) as stream:
        head = Sample(source.name, stream.read(_HEAD), whole=False)
    for first, tables in ((json_headings, json_tables), (html_headings, html_tables)):
        keys = first(head.text or "")
        if keys and columns_of(tuple(map(heading, keys))) is not None:
            account = LineAccount(conversion.report, what="record")
            return _read(source, conversion, account, tables(source, account, conversion.report, columns_of))
    return read_csv(source, conversion) if is_csv(head.lines) else _read_text(source, conversion)


def _read_text(source: Source, conversion: Conversion) -> Iterator[Batch]:
    lines = Lines(source, conversion)
    return _read(source, conversion, lines, read_tables(lines, columns_of))


def _read(
    source: Source, conversion: Conversion, lines: LineAccount, items: Iterator[Table | Row | Text]
) -> Iterator[Batch]:
    reading = ReportReader(source, conversion, lines)
    trace: _TraceRows | None = None
    for item in items:
        reading.seen(item.line)
        if isinstance(item, Text):
            reading.text(item.line, item.text)
        elif isinstance(item, Table):
            yield from trace.close() if trace else ()
            trace = None
            if is_trace(item.fields or {}):
                trace = _TraceRows(reading.trace(item), lines, conversion.batch_rows)
            else:
                reading.begin_summary(item)
        elif trace:
            yield from trace.take(item)
        elif problem := reading.row(item):
            lines.skip("bad-record", problem)
        else:
            lines.used()
        yield from reading.rows.ready()
    yield from trace.close() if trace else ()
    yield from reading.finish()


class _TraceRows:
    """Collects rows of a trace in text until there are enough for a batch."""

    def __init__(self, table: TraceTable, lines: LineAccount, batch_rows: int) -> None:
        self._table = table
        self._lines = lines
        self._batch_rows = batch_rows
        self._rows: list[Row] = []

    def take(self, row: Row) -> Iterator[Batch]:
        """Adds a row and defers its line."""
        self._lines.defer()
        self._rows.append(row)
        if len(self._rows) >= self._batch_rows:
            yield from self._convert()

    def close(self) -> Iterator[Batch]:
        """Converts the remaining rows."""
        if self._rows:
            yield from self._convert()
        self._table.close()

    def _convert(self) -> Iterator[Batch]:
        numbers = np.array([row.line for row in self._rows], np.int64)
        columns = zip(*(row.cells for row in self._rows), strict=True)
        cells = [pa.array(map(whole_text, column), pa.string()) for column in columns]
        batches, skips = self._table.take(numbers, cells)
        for skip in skips:
            self._lines.skip_deferred(skip.kind, skip.first, skip.last, skip.detail)
        if good := len(numbers) - sum(skip.rows for skip in skips):
            self._lines.used(good)
        self._rows.clear()
        yield from batches
