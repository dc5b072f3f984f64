"""Recognises LatencyPrism's comparison by its title or by the headings of its tables."""

from __future__ import annotations

from ktrace.converters._shared.text.tables import find_tables
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

from .columns import fits

_TITLE = "Performance Comparison"

#: One of these is in every file: a look that spares others the search for tables.
_WORDS = (_TITLE.casefold(), "β", "rank", "suspicion")


def probe(sample: Sample) -> Match | None:
    """DIALECT for the title with a table, or a table of functions or cycles without it."""
    text = sample.text
    if not text or ("|" not in text and "," not in text) or not any(word in text.casefold() for word in _WORDS):
        return None
    for table in find_tables(sample, fits):
        for title in table.path:
            if _TITLE in title.text:
                return Match(Score.DIALECT, f"has the title '{title.text.partition(':')[0]}'")
        if table.fields and table.fields.keys() & {"name", "rank"}:
            return Match(Score.DIALECT, f"has a comparison of runs as LatencyPrism writes it (line {table.line})")
    return None
