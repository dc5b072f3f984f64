"""Reads files that are entirely CSV, or that have a trace as CSV or TSV, in columns: millions of rows.

nsys puts quotes around a cell with a comma, and doesn't double those in the cell:
79.3,12344509,16,PushPop,"op<"a, b">(int, "x")"
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows, CsvTable
from ktrace.kit.columnar.csv_headings import find_csv
from ktrace.kit.text.headings import Heading, heading
from ktrace.kit.text.layouts import Delimited
from ktrace.kit.text.lines import Line
from ktrace.kit.text.tables import Row, Table
from ktrace.model.batch import Batch

from .reading import Reading
from .tables import columns_of, is_trace
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
    reading = Reading(source, conversion, lines)
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


def _summaries(rows: CsvRows, table: Table, reading: Reading, conversion: Conversion) -> None:
    columns = [rows.block.get(name).to_pylist() for name in rows.table.headings]  # type: ignore[union-attr]
    for number, *cells in zip(rows.block.numbers.to_pylist(), *columns, strict=True):
        if problem := reading.row(Row(table, number, [cell.strip() for cell in cells])):
            conversion.report.issue("bad-record", f"line {number}", problem)
        else:
            conversion.report.used()
