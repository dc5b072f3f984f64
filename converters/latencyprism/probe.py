"""Recognises LatencyPrism's comparison by its title or by the headings of its tables."""

from __future__ import annotations

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_TITLE = "Performance Comparison"


def probe(sample: Sample) -> Match | None:
    """DIALECT for the title with a table, or for a table of functions or cycles without the title."""
    text = sample.text
    if not text or ("|" not in text and "," not in text):
        return None
    from ktrace.converters._shared.text.tables import find_tables

    from .columns import columns_of

    for table in find_tables(sample, columns_of):
        for title in table.path:
            if _TITLE in title.text:
                return Match(Score.DIALECT, f"has the title '{title.text.partition(':')[0]}'")
        if table.fields and table.fields.keys() & {"name", "rank"}:
            return Match(Score.DIALECT, f"has a comparison of runs as LatencyPrism writes it (line {table.line})")
    return None
