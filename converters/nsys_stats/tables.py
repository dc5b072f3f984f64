"""Which tables are reports of nsys: summaries, traces, those of unified memory."""

from __future__ import annotations

from collections.abc import Sequence

from ktrace.converters._shared.text.headings import Columns, Heading

from .columns import COLUMNS
from .memory import MEMORY, fits_memory
from .trace_columns import fits_trace


def fits(headings: Sequence[Heading], first: Sequence[str] = ()) -> dict[str, int] | None:
    """Field -> index of its column, None where it is no report. The `first` row has no say."""
    found = fits_trace(headings) or COLUMNS.match(headings)
    if found is None:
        found = fits_memory(headings)
    return None if found is None else dict(found)


def is_trace(fields: dict[str, int]) -> bool:
    """Whether a row is something that happened at a time."""
    return "start" in fields


def is_memory(fields: dict[str, int]) -> bool:
    """Whether it is a report of unified memory."""
    return not fields.keys() - {"name"}


def columns_of(fields: dict[str, int]) -> Columns:
    """What the headings of a table without times mean."""
    return MEMORY if is_memory(fields) else COLUMNS
