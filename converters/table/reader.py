"""Turns rows of any table with names and times into summaries, and those of a table with starts into events.

Turns a row of a table with starts into an event.

Name,      Stream ID, Start Time(us),        Duration(us)
MatMul12,  16,        "1699529622790614.8",  607.98           a kernel on stream 16
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.device_names import device_work
from ktrace.kit.text.headings import as_int64, cell_quantity, is_total, own_key, plain
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import TIME_NS, is_missing, to_ns
from ktrace.kit.text.tables import Row, Table, read_tables
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from .columns import PLACES, recognise

_LIMIT = 1 << 62

#: Numbers that mean "no id": the greatest of 32 and of 64 bits.
_NONE = frozenset((0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF))


def add_event(row: Row, kind: str, copy_kind: str | None, rows: RowBuilder, report: Report) -> tuple[str, str] | None:
    """Adds the row as an event; returns the kind of issue and a detail if it can't be one."""
    table = row.table
    assert table.fields is not None
    times: dict[str, tuple[int, bool]] = {}
    for field in ("start", "dur", "end"):
        time = _time(row, field)
        if time is not None:
            times[field] = time
    if "start" not in times or not times.keys() & {"dur", "end"}:
        return "bad-record", "no start" if "start" not in times else "no duration"
    start = times["start"][0]
    dur = times["dur"][0] if "dur" in times else times["end"][0] - start
    if dur < 0:
        return "negative-duration", f"{dur} ns"
    if max(abs(start), abs(start + dur)) >= _LIMIT:
        return "time-range", f"{start} ns"
    columns: dict[str, Any] = {}
    shown = {table.fields["name"]}
    for field, (_, exact) in times.items():
        if exact and (field != "end" or "dur" not in times or times["end"][0] == start + dur):
            shown.add(table.fields[field])
        elif not exact:
            report.issue("rounded", f"line {row.line}")
    for field in PLACES:
        number = _number(row.text(field)) if field in table.fields else None
        if number is not None:
            shown.add(table.fields[field])
            columns[field] = number if number not in _NONE else None
    columns["args"] = _arguments(row, shown)
    if not any(columns.get(field) is not None for field in ("device", "stream", "pid", "tid")):
        columns["track"] = table.scope[-1]
    rows.event(kind, row.text("name"), ts=start, dur=dur, copy_kind=copy_kind, **columns)
    return None


def _time(row: Row, field: str) -> tuple[int, bool] | None:
    """The time of a field in ns and whether it is exact; None for no time."""
    assert row.table.fields is not None
    index = row.table.fields.get(field)
    figure = cell_quantity(row.cells[index]) if index is not None else None
    if index is None or figure is None:
        return None
    unit = figure.unit or row.table.headings[index].unit
    unit = unit if unit in TIME_NS else unit.lower()
    if unit not in TIME_NS or not figure.number.is_finite():
        return None
    return to_ns(figure.number, unit)


def _number(text: str) -> int | None:
    figure = cell_quantity(text)
    return as_int64(figure.number) if figure and not figure.unit else None


def _arguments(row: Row, shown: set[int]) -> dict[str, Any]:
    """The cells that aren't in columns, under their headings."""
    args: dict[str, Any] = {}
    for index, (head, cell) in enumerate(zip(row.table.headings, row.cells, strict=False)):
        if index not in shown and not is_missing(cell):
            args[own_key(args, head)] = plain(cell, head)
    return args


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a row for each row: device work if the table mentions kernels or streams, else an op or a total."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    for item in read_tables(lines, recognise):
        if isinstance(item, Row):
            if problem := _add(item, rows, conversion):
                lines.skip(*problem)
            else:
                lines.used()
        yield from rows.ready()
    yield from rows.rest()


def _add(row: Row, rows: RowBuilder, conversion: Conversion) -> tuple[str, str] | None:
    """Adds a row; returns the kind of issue and a detail if it isn't valid."""
    name, table = row.text("name"), row.table
    if not name:
        return "bad-record", "no name"
    kind, copy_kind = _kind(table, name)
    if "start" in (table.fields or {}):
        return add_event(row, kind, copy_kind, rows, conversion.report)
    figures = row.figures()
    if not figures:
        return "bad-record", "no figure"
    place: dict[str, Any] = {"table": table.ordinal, "scope": table.scope}
    rows.summary(kind, name, copy_kind=copy_kind, args=figures.args, **place, **figures.columns)
    return None


def _kind(table: Table, name: str) -> tuple[str, str | None]:
    """The kind of a row, and the direction of a copy."""
    assert table.fields is not None
    if is_total(name) and "start" not in table.fields:
        return "total", None
    words = [table.headings[table.fields["name"]].text, *(title.text for title in table.path[-1:])]
    on_device = "stream" in table.fields or any("kernel" in word.casefold() for word in words)
    return device_work(name) if on_device else ("op", None)
