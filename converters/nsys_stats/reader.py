"""Reads reports of Nsight Systems: rows of summary tables become summaries, those of traces become events (`traces`).

A file of lines is read line by line, with the current report and the names of devices as its state. A file that is
entirely CSV, or that has a trace as CSV or TSV, is read in columns: millions of rows. nsys puts quotes around a cell
with a comma, and doesn't double those in the cell:

    79.3,12344509,16,PushPop,"op<"a, b">(int, "x")"

Reports of unified memory have several measures in a row and no time:

    Virtual Address  HtoD Migration Size (MB)  DtoH Migration Size (MB)  CPU Page Faults  ...  um_sum
    0x7F9C80000000                      2.097                     0.066               32
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.input.source import Sample, Source
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows, CsvTable
from ktrace.kit.text.headings import (
    FIGURES,
    Heading,
    as_int64,
    cell_quantity,
    find_csv,
    heading,
    own_key,
    plain,
    to_base,
)
from ktrace.kit.text.layouts import Delimited
from ktrace.kit.text.lines import Line, LineAccount, Lines
from ktrace.kit.text.numbers import is_missing
from ktrace.kit.text.tables import Row, Table, Text, read_tables
from ktrace.kit.text.titles import without_prefix
from ktrace.model.batch import Batch
from ktrace.model.fitting import whole_text
from ktrace.model.row_builder import RowBuilder

from .block import IDS, NO_NAME, ImpliedUnit, Names, copy_kind, kind_of
from .documents import html_headings, html_tables, json_headings, json_tables
from .reports import (
    CERTAIN,
    FAULTS,
    MEASURES,
    REPORTS,
    UNTITLED,
    Report,
    columns_of,
    is_memory,
    is_trace,
    known_columns,
    report_in_title,
    report_of,
)
from .traces import TraceTable

#: A recognised table: its headings, field -> index of the column.
_Known = tuple[tuple[Heading, ...], dict[str, int]]

#: Lines of tables that aren't CSV, and of titles: the rule of a table of fixed width, pipes, boxes, `**`, `#`.
_RULE = re.compile(r"\s*-+(?: +-+)+\s*")
_OTHER = re.compile(r"\s*-+(?: +-+)+\s*|\s*[|+>#│┃].*|\s*(?:\*\*|===).*")


def is_csv(lines: Sequence[str]) -> bool:
    """Whether the tables in the lines are CSV: all of them, or a trace, and none with columns of fixed width."""
    heads = [line for line in lines if "Start" in line or "," in line]
    tables = [(is_trace(head[1]), "\t" in heads[number - 1]) for number, head in find_csv(heads, _recognise)]
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
    reading = _ReportReader(source, conversion, lines)
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
    head, fields = table.what
    headings = (*head, *map(heading, table.headings[len(head) :]))[: len(table.headings)]
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


def _summaries(rows: CsvRows, table: Table, reading: _ReportReader, conversion: Conversion) -> None:
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
    head = Sample(source.name, source.beginning(_HEAD), whole=False)
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
    reading = _ReportReader(source, conversion, lines)
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


_TITLE_UNIT = re.compile(r"\((?:by size in )?(bytes|[KMG]i?B)\)")
_XYZ = re.compile(r"\s*(\d{1,18})[\s,]+(\d{1,18})[\s,]+(\d{1,18})\s*")

#: Fields whose figures are whole numbers if times are in ns.
_WHOLE = ("total", "min", "max")


def summary_row(row: Row, scope: list[str], report: str, implied: ImpliedUnit, rows: RowBuilder) -> str:
    """Adds a summary; returns what is wrong with the row, "" if nothing is.

    Raises DamagedInput if the unit of its times can't be determined.
    """
    table = row.table
    title = table.path[-1].text if table.path else ""
    contents = _contents(title, report, frozenset(head.key for head in table.headings))
    name = row.text("name") or (NO_NAME if contents.kind == "range" else "")
    figures = row.figures(unit=_unit(scope[-1], contents) or _implied(row, contents, implied))
    if not name or not figures:
        return "no figure" if name else "no name"
    kind = contents.kind or kind_of(name, row.text("category"))
    columns = figures.columns | _launch(row, figures.args) | _place(row)
    if kind == "memcpy":
        columns["copy_kind"] = copy_kind(name)
    identity = row.line * IDS
    rows.summary(
        kind, name, id=identity, metric=contents.metric, table=table.ordinal, scope=scope, args=figures.args, **columns
    )
    return ""


@lru_cache(maxsize=64)
def _contents(title: str, report: str, keys: frozenset[str]) -> Report:
    """Returns the contents of a table, by the first of these that decides them.

    The report that its title names, unambiguous headings, the report that nsys was processing, other headings, and
    the words of the title, which may not be from nsys.
    """
    by_headings = next((contents for signature, contents in CERTAIN if signature <= keys), None)
    likely = next((contents for key, contents in UNTITLED if key in keys), None)
    by_title = _by_words(report_in_title(title))
    return by_title or by_headings or _by_words(report) or likely or _by_words(title) or Report("op")


def _by_words(text: str) -> Report | None:
    words = text.casefold()
    return next((contents for spellings, contents in REPORTS if any(word in words for word in spellings)), None)


def _unit(title: str, contents: Report) -> str:
    """Returns the unit of sizes if neither cells nor headings have one: the title's, "" if that has none."""
    match = _TITLE_UNIT.search(title)
    if match and contents.metric == "bytes":
        return "B" if match.group(1) == "bytes" else match.group(1)
    return "B" if contents.kind == "api" and contents.metric == "bytes" else ""


def _implied(row: Row, contents: Report, implied: ImpliedUnit) -> str:
    """Returns the unit of times if no heading has one, "" for anything else."""
    fields = row.table.fields or {}
    if contents.metric != "duration" or any(
        row.table.headings[fields[field]].unit for field in FIGURES if field in fields
    ):
        return ""
    return implied.of(row.text(field) for field in _WHOLE)


def _place(row: Row) -> dict[str, Any]:
    """Returns process, thread, device and context, for reports that have them."""
    figures = {field: cell_quantity(row.text(field)) for field in ("pid", "tid", "device", "context")}
    return {field: as_int64(figure.number) for field, figure in figures.items() if figure}


def _launch(row: Row, args: dict[str, Any]) -> dict[str, Any]:
    """Returns grid and block of `cuda_gpu_kern_gb_sum`; a cell without three numbers is kept in args."""
    columns: dict[str, Any] = {"cat": row.text("category") or None}
    for field in ("grid", "block"):
        match = _XYZ.fullmatch(row.text(field))
        if match:
            columns |= {f"{field}_{axis}": int(text) for axis, text in zip("xyz", match.groups(), strict=True)}
        elif row.text(field):
            args["GridXYZ" if field == "grid" else "BlockXYZ"] = row.text(field)
    return columns


def memory_row(row: Row, scope: list[str], rows: RowBuilder) -> bool:
    """Adds a summary for each measure of a row, the later ones as children of the first; returns False without any."""
    args: dict[str, Any] = {}
    measures: list[tuple[str, str, float]] = []
    for index, (head, cell) in enumerate(zip(row.table.headings, row.cells, strict=True)):
        figure = cell_quantity(cell) if head.key in MEASURES else None
        if figure and figure.number.is_finite():
            unit = figure.unit or head.unit or ("count" if head.key in FAULTS else "B")
            base, exact = to_base(figure.number, unit)
            measures.append((head.name, base, float(exact)))
        elif index != (row.table.fields or {}).get("name") and not is_missing(cell):
            args[own_key(args, head)] = plain(cell, head)
    first = None
    name = row.text("name") or scope[-1]
    for offset, (metric, unit, value) in enumerate(measures):
        columns: dict[str, Any] = {"metric": metric, "unit": unit, "value": value, "parent": first}
        args_shown = args if first is None else None
        identity = row.line * IDS + offset
        rows.summary("metric", name, id=identity, table=row.table.ordinal, scope=scope, args=args_shown, **columns)
        first = first or identity
    return bool(measures)


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
#: What nsys says of its own run.
_SAID = re.compile(r"(ERROR|FATAL ERROR|WARNING): .+", re.DOTALL)
_OLD_TITLE = re.compile(r"\s*((?:CUDA|NVTX|Operating System|OpenGL|MPI)[^()]* Statistics(?: \([^()]*\))?):?\s*")


class _ReportReader:
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
        implied = ImpliedUnit(self._path, f"line {table.line}")
        return TraceTable(table.headings, table.fields or {}, table.line, self._names, implied, self._conversion)

    def begin_summary(self, table: Table) -> None:
        """Begins a table without times, and reports its unknown headings."""
        fields = table.fields or {}
        self._implied = ImpliedUnit(self._path, f"line {table.line}")
        for unknown in known_columns(fields).unknown(table.headings, fields):
            self._conversion.report.issue("unknown-column", f"line {table.line}", unknown)

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
        elif match := _OLD_TITLE.fullmatch(words):
            self._account.structure()
            self._report = match.group(1)
        elif match := _WORKING.fullmatch(words):
            self._account.structure()
            self._report = next(filter(None, match.groups()), self._report)
        elif match := _SAID.fullmatch(words):
            kind = "WARNING" if match[1] == "WARNING" else "ERROR"
            self.rows.summary("note", words, id=line * IDS, metric="note", args={"type": kind})
            self._account.used()

    def finish(self) -> Iterator[Batch]:
        """Yields the last batches, with the names of devices and threads."""
        self._account.finish()
        self._names.facts(self.rows, (self._last + 1) * IDS)
        yield from self.rows.rest()
