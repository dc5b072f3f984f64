"""Reports of Nsight Systems: summaries of what they sum up, events of what they trace."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.model import Batch
from ktrace.rows import Rows
from ktrace.source import Source

from .._shared.lines import Lines
from .._shared.prefixes import bare
from .._shared.tables import Row, Table, Text, read_tables
from .block import IDS, Names
from .columns import report_of
from .memory import memory_row
from .summaries import summary_row
from .tables import columns_of, fits, is_memory, is_trace
from .traces import TraceTable

#: What nsys says while it works: the name of the report that follows, or nothing of interest.
_WORKING = re.compile(
    r"Processing \[.*\] with \[(?:.*/)?(?P<script>\w+)\.py.*|Running \[(?:.*/)?(?P<run>\w+)\.py.*"
    r"|\[\d+/\d+\] Executing '(?P<stats>[\w:,=-]+)' stats report.*"
    r"|(?:Generating|Generated|Using|Exporting|Importing|Processing|Loading|Saved|Report file).*"
    r"|(?:\[\d+/\d+\] )?\[[=\s\d%]+\].*"
    r"|NOTICE: Existing SQLite export found.*|It is assumed file was previously exported from.*"
    r"|Consider using --force-export=true.*|WARNING: .* will be profiled\.|.*\.(?:nsys-rep|sqlite|qdrep)"
)
_OLD_TITLE = re.compile(r"\s*((?:CUDA|NVTX|Operating System|OpenGL|MPI).* Statistics(?: \(.*\))?):?\s*")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """A summary or an event a row. A report without data gives a note, other text is skipped and reported."""
    reading = _Reading(source, conversion)
    for item in read_tables(reading.lines, fits):
        yield from reading.take(item)
    yield from reading.finish()


class _Reading:
    """What is known between the lines: the report that is worked on, the trace that is open."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        self.lines = Lines(source, conversion)
        self._conversion = conversion
        self._rows = Rows(conversion)
        self._report = report_of(source.name)
        self._names = Names()
        self._trace: _Gathered | None = None
        self._last = 0

    def take(self, item: Table | Row | Text) -> Iterator[Batch]:
        """The batches that are ready when the item has been taken."""
        self._last = item.line
        if isinstance(item, Table):
            yield from self._close_trace()
            self._open(item)
        elif isinstance(item, Text):
            self._text(item)
        elif self._trace:
            yield from self._trace.take(item)
        else:
            self._row(item)
        yield from self._rows.ready()

    def finish(self) -> Iterator[Batch]:
        """The last batches: what is left of a trace, names of devices and threads."""
        yield from self._close_trace()
        self.lines.finish()
        self._names.facts(self._rows, (self._last + 1) * IDS)
        yield from self._rows.rest()

    def _close_trace(self) -> Iterator[Batch]:
        if self._trace:
            yield from self._trace.close()
            self._trace = None

    def _open(self, table: Table) -> None:
        fields = table.fields or {}
        if is_trace(fields):
            trace = TraceTable(table.headings, fields, table.line, self._names, self._conversion)
            self._trace = _Gathered(trace, self.lines, self._conversion.batch_rows)
            return
        for heading in columns_of(fields).unknown(table.headings, fields):
            self._conversion.report.issue("unknown-column", f"line {table.line}", heading)

    def _row(self, row: Row) -> None:
        table = row.table
        scope = table.scope if table.path or not self._report else [self._report]
        if is_memory(table.fields or {}):
            problem = "" if memory_row(row, scope, self._rows) else "no figure"
        else:
            problem = summary_row(row, scope, self._report, self._rows)
        if problem:
            self.lines.skip("bad-record", problem)
        else:
            self.lines.used()

    def _text(self, text: Text) -> None:
        """Takes a line between the tables, and remembers the report that the next table belongs to."""
        words = bare(text.text).strip()
        if words.startswith("SKIPPED:"):
            scope = [self._report] if self._report else None
            self._rows.summary("note", words, id=text.line * IDS, metric="note", scope=scope)
            self.lines.used()
            self._report = ""
        elif found := _OLD_TITLE.fullmatch(words):
            self.lines.structure()
            self._report = found.group(1)
        elif found := _WORKING.fullmatch(words):
            self.lines.structure()
            self._report = next(filter(None, found.groups()), self._report)


class _Gathered:
    """Rows of a trace in text, gathered until there are enough for a batch."""

    def __init__(self, table: TraceTable, lines: Lines, enough: int) -> None:
        self._table = table
        self._lines = lines
        self._enough = enough
        self._rows: list[Row] = []

    def take(self, row: Row) -> Iterator[Batch]:
        """Takes a row, whose line is decided on later."""
        self._lines.hold()
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
            self._lines.skip_held(skip.kind, skip.first, skip.last, skip.detail)
        if good := len(numbers) - sum(skip.rows for skip in skips):
            self._lines.used(good)
        self._rows.clear()
        yield from batches
