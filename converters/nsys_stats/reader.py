"""Reads reports of Nsight Systems: summary reports become summaries, trace reports become events."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.input.source import Sample, Source
from ktrace.kit.text.headings import heading
from ktrace.kit.text.line_account import LineAccount
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.tables import Row, Table, Text, read_tables
from ktrace.model.batch import Batch
from ktrace.model.fitting import whole_text

from .csv_reader import is_csv, read_csv
from .html_tables import first_headings as html_headings
from .html_tables import html_tables
from .json_tables import first_headings as json_headings
from .json_tables import json_tables
from .reading import Reading
from .tables import columns_of, is_trace
from .traces import TraceTable

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
    reading = Reading(source, conversion, lines)
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
