"""Rows of any table with names and times as summaries."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.model import Batch
from ktrace.rows import Rows
from ktrace.source import Source

from .._shared.columns import is_total
from .._shared.lines import Lines
from .._shared.tables import Row, Table, read_tables
from .columns import fits


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """A summary a row: a kernel where the table speaks of kernels, else an op; a total for the sum of the others."""
    lines, rows = Lines(source, conversion), Rows(conversion)
    for item in read_tables(lines, fits):
        if isinstance(item, Row):
            name, figures = item.text("name"), item.figures()
            if not name or not figures:
                lines.skip("bad-record", "no figure" if name else "no name")
                continue
            table = item.table
            rows.summary(
                _kind(table, name), name, table=table.ordinal, scope=table.scope, args=figures.args, **figures.columns
            )
            lines.used()
        yield from rows.ready()
    yield from rows.rest()


def _kind(table: Table, name: str) -> str:
    if is_total(name):
        return "total"
    assert table.fields is not None
    words = [table.headings[table.fields["name"]].text, *(title.text for title in table.path[-1:])]
    return "kernel" if any("kernel" in word.casefold() for word in words) else "op"
