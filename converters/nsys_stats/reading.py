"""Keeps the state between the lines of a file: the current report, names of devices. Reads all but traces."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.line_account import LineAccount
from ktrace.kit.text.prefixes import without_prefix
from ktrace.kit.text.tables import Row, Table
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .block import IDS, Names
from .columns import report_of
from .memory import memory_row
from .summaries import summary_row
from .tables import is_memory, known_columns
from .traces import TraceTable
from .units import ImpliedUnit

#: Progress messages of nsys; some name the report that follows.
_WORKING = re.compile(
    r"Processing \[[^\[]*\] with \[(?:.*/)?(?P<script>\w+)\.py.*|Running \[(?:.*/)?(?P<run>\w+)\.py.*"
    r"|\[\d+/\d+\] Executing '(?P<stats>[\w:,=-]+)' stats report.*"
    r"|(?:Generating|Generated|Using|Exporting|Importing|Processing|Loading|Saved|Report file).*"
    r"|(?:\[\d+/\d+\] )?\[[=\s\d%]+\].*|\*\* .+ \((?P<title>\w+)\):"
    r"|NOTICE: Existing SQLite export found.*|It is assumed file was previously exported from.*"
    r"|Consider using --force-export=true.*|WARNING: .* will be profiled\.|.*\.(?:nsys-rep|sqlite|qdrep)"
    r"|Note: The shown averages.*|\[\w+\]\s+@\S*",
    re.DOTALL,
)
#: The start of messages that explain why a report has no table.
_NO_DATA = ("SKIPPED:", "Report was successfully run, but no data was returned")
_OLD_TITLE = re.compile(r"\s*((?:CUDA|NVTX|Operating System|OpenGL|MPI)[^()]* Statistics(?: \([^()]*\))?):?\s*")


class Reading:
    """The reading of one file; `account` counts the outcomes of its lines."""

    def __init__(self, source: Source, conversion: Conversion, account: LineAccount) -> None:
        self.rows = RowBuilder(conversion)
        self._conversion = conversion
        self._account = account
        self._report = report_of(source.name)
        self._names = Names()
        self._last = 0
        self._path = source.path
        self._implied = ImpliedUnit(source.path, "")

    def seen(self, line: int) -> None:
        """Notes the number of the last line that was read."""
        self._last = line

    def trace(self, table: Table) -> TraceTable:
        """Begins a trace."""
        implied = ImpliedUnit(self._path, self._place(table))
        return TraceTable(table.headings, table.fields or {}, table.line, self._names, implied, self._conversion)

    def begin_summary(self, table: Table) -> None:
        """Begins a table without times, and reports its unknown headings."""
        fields = table.fields or {}
        self._implied = ImpliedUnit(self._path, self._place(table))
        for heading in known_columns(fields).unknown(table.headings, fields):
            self._conversion.report.issue("unknown-column", f"line {table.line}", heading)

    def row(self, row: Row) -> str:
        """Adds the summaries of a row; returns what is wrong with it, "" if nothing is."""
        table = row.table
        scope = table.scope if table.path or not self._report else [self._report]
        if is_memory(table.fields or {}):
            return "" if memory_row(row, scope, self.rows) else "no figure"
        return summary_row(row, scope, self._report, self._implied, self.rows)

    def text(self, line: int, text: str) -> None:
        """Reads a line between tables, and notes the report that the next table belongs to."""
        words = without_prefix(text).strip()
        if words.startswith(_NO_DATA):
            scope = [self._report] if self._report else None
            self.rows.summary("note", words, id=line * IDS, metric="note", scope=scope)
            self._account.used()
            self._report = ""
        elif found := _OLD_TITLE.fullmatch(words):
            self._account.structure()
            self._report = found.group(1)
        elif found := _WORKING.fullmatch(words):
            self._account.structure()
            self._report = next(filter(None, found.groups()), self._report)

    def _place(self, table: Table) -> str:
        return f"line {table.line}"

    def finish(self) -> Iterator[Batch]:
        """Yields the last batches, with the names of devices and threads."""
        self._account.finish()
        self._names.facts(self.rows, (self._last + 1) * IDS)
        yield from self.rows.rest()
