"""Keeps the state between the lines of a file: the current report, names of devices. Reads all but traces.

Reads reports of unified memory, which have several measures in a row and no time.

Virtual Address  HtoD Migration Size (MB)  DtoH Migration Size (MB)  CPU Page Faults  ...  um_sum
0x7F9C80000000                      2.097                     0.066               32

Reads rows of summary tables as summaries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.headings import FIGURES, as_int64, cell_quantity, own_key, plain, to_base
from ktrace.kit.text.lines import LineAccount
from ktrace.kit.text.numbers import is_missing
from ktrace.kit.text.tables import Row, Table
from ktrace.kit.text.titles import without_prefix
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .block import IDS, NO_NAME, ImpliedUnit, Names, copy_kind, kind_of
from .columns import (
    CERTAIN,
    FAULTS,
    MEASURES,
    REPORTS,
    UNTITLED,
    Report,
    is_memory,
    known_columns,
    report_in_title,
    report_of,
)
from .traces import TraceTable

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
    found = _TITLE_UNIT.search(title)
    if found and contents.metric == "bytes":
        return "B" if found.group(1) == "bytes" else found.group(1)
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
        found = _XYZ.fullmatch(row.text(field))
        if found:
            columns |= {f"{field}_{axis}": int(text) for axis, text in zip("xyz", found.groups(), strict=True)}
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
        own = args if first is None else None
        identity = row.line * IDS + offset
        rows.summary("metric", name, id=identity, table=row.table.ordinal, scope=scope, args=own, **columns)
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
_OLD_TITLE = re.compile(r"\s*((?:CUDA|NVTX|Operating System|OpenGL|MPI)[^()]* Statistics(?: \([^()]*\))?):?\s*")


class ReportReader:
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
