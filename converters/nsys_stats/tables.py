"""Recognises tables that are reports of nsys: summaries, traces, those of unified memory."""

from __future__ import annotations

from collections.abc import Sequence

from ktrace.kit.text.headings import Columns, Heading

from .columns import COLUMNS, MEMORY, memory_columns_of
from .trace_columns import trace_columns_of


def columns_of(headings: Sequence[Heading], first: Sequence[str] = ()) -> dict[str, int] | None:
    """Returns field -> index of its column, None if the table isn't a report. The `first` row doesn't matter."""
    fields = trace_columns_of(headings) or COLUMNS.match(headings)
    if fields is None:
        fields = memory_columns_of(headings)
    return None if fields is None else dict(fields)


def is_trace(fields: dict[str, int]) -> bool:
    """Whether a table is a trace: its rows have a start."""
    return "start" in fields


def is_memory(fields: dict[str, int]) -> bool:
    """Whether a table is a report of unified memory."""
    return not fields.keys() - {"name"}


def known_columns(fields: dict[str, int]) -> Columns:
    """Returns the known columns of a table without times."""
    return MEMORY if is_memory(fields) else COLUMNS
