"""Reports of Nsight Systems: summaries of what they sum up, events of what they trace."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.converters._shared.text.headings import heading
from ktrace.converters._shared.text.line_account import LineAccount
from ktrace.converters._shared.text.lines import Lines
from ktrace.converters._shared.text.tables import Row, Table, Text, read_tables
from ktrace.input.source import Sample, Source
from ktrace.model.batch import Batch

from .csv_reader import is_csv, read_csv
from .html_tables import first_headings as html_headings
from .html_tables import html_tables
from .json_tables import first_headings as json_headings
from .json_tables import json_tables
from .reading import Reading
from .tables import fits, is_trace
from .traces import TraceTable

#: Bytes among which a trace must begin to be read in columns.
_HEAD = 1 << 16


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """A summary or an event a row. A report without data gives a note, other text is skipped and reported.

    Where the head has nothing but CSV, or a trace as such, the whole is read in columns, else row by row.
    """
    with source.open(quiet=True) as stream:
        head = Sample(source.name, stream.read(_HEAD), whole=False)
    for first, tables in ((json_headings, json_tables), (html_headings, html_tables)):
        keys = first(head.text or "")
        if keys and fits(tuple(map(heading, keys))) is not None:
            account = LineAccount(conversion.report, what="record")
            return _read(source, conversion, account, tables(source, account, conversion.report, fits))
    return read_csv(source, conversion) if is_csv(head.lines) else _read_text(source, conversion)


def _read_text(source: Source, conversion: Conversion) -> Iterator[Batch]:
    lines = Lines(source, conversion)
    return _read(source, conversion, lines, read_tables(lines, fits))


def _read(
    source: Source, conversion: Conversion, lines: LineAccount, items: Iterator[Table | Row | Text]
) -> Iterator[Batch]:
    reading = Reading(source, conversion, lines)
    trace: _Gathered | None = None
    for item in items:
        reading.seen(item.line)
        if isinstance(item, Text):
            reading.text(item.line, item.text)
        elif isinstance(item, Table):
            yield from trace.close() if trace else ()
            trace = None
            if is_trace(item.fields or {}):
                trace = _Gathered(reading.trace(item), lines, conversion.batch_rows)
            else:
                reading.opened(item)
        elif trace:
            yield from trace.take(item)
        elif problem := reading.row(item):
            lines.skip("bad-record", problem)
        else:
            lines.used()
        yield from reading.rows.ready()
    yield from trace.close() if trace else ()
    yield from reading.finish()


class _Gathered:
    """Rows of a trace in text, gathered until there are enough for a batch."""

    def __init__(self, table: TraceTable, lines: LineAccount, enough: int) -> None:
        self._table = table
        self._lines = lines
        self._enough = enough
        self._rows: list[Row] = []

    def take(self, row: Row) -> Iterator[Batch]:
        """Takes a row, whose line is decided on later."""
        self._lines.defer()
        self._rows.append(row)
        if len(self._rows) >= self._enough:
            yield from self._convert()

    def close(self) -> Iterator[Batch]:
        """What is left."""
        if self._rows:
            yield from self._convert()
        self._table.close()

    def _convert(self) -> Iterator[Batch]:
        numbers = np.array([row.line for row in self._rows], np.int64)
        cells = [pa.array(column, pa.string()) for column in zip(*(row.cells for row in self._rows), strict=True)]
        batches, skips = self._table.take(numbers, cells)
        for skip in skips:
            self._lines.skip_deferred(skip.kind, skip.first, skip.last, skip.detail)
        if good := len(numbers) - sum(skip.rows for skip in skips):
            self._lines.used(good)
        self._rows.clear()
        yield from batches
