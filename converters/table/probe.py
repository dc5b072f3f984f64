"""Recognises a table with a column of names and one of times, wherever it stands in a text."""

from __future__ import annotations

from ktrace.format import Match, Score
from ktrace.source import Sample

from .._shared.tables import find_tables
from .columns import COLUMNS, fits


def probe(sample: Sample) -> Match | None:
    """SHAPE for a table that fits, NEAR for one with names in which no unit of time stands."""
    for table in find_tables(sample, fits):
        words = ", ".join(f"'{head.text}'" for head in table.headings[:4])
        return Match(Score.SHAPE, f"has a table with the columns {words} (line {table.line})")
    for table in find_tables(sample, COLUMNS.bind):
        if len(table.headings) > 2:
            return Match(Score.NEAR, f"the table in line {table.line} has names, but no unit of time")
    return None
