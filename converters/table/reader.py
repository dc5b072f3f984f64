"""Turns rows of any table with names and times into summaries, and those of a table with starts into events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.device_names import device_work
from ktrace.kit.text.headings import is_total
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.tables import Row, Table, read_tables
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .columns import recognise
from .events import add_event


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
